"""``conch get``, ``set``, ``default`` and ``places``."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from app.cli.arguments import options_of
from app.cli.screen import FAILED, BadUse, answer, complain
from app.home import Home
from app.preferences import BadPreference, Preferences, PreferenceTrouble
from app.preferred import TABLE
from app.services import PlaceServices
from workplaces.place import BadPlace, PlaceStatus, WorkPlaceId
from workplaces.words import PLACE_WORDS

_STANDINGS = {
    "ready": "ready",
    "needs": "needs something",
    "down": "not answering",
    "checking": "not looked at yet",
    "later": "not in this version",
}


def get(given: list[str], home: Home) -> int:
    """One value; without a name, each with its sentence."""
    _, names = options_of("conch get", given)
    if len(names) > 1:
        raise BadUse("conch get takes one name.")
    preferences = Preferences(home.preferences)
    if names:
        try:
            value = preferences.get(names[0])
        except BadPreference as error:
            raise BadUse(str(error)) from None
        answer(_shown(value))
    else:
        for one in TABLE.values():
            if not one.internal:
                answer(f"{one.name} = {_shown(preferences.get(one.name))}\n    {one.words}")
    _say_troubles(preferences)
    return 0


def set_(given: list[str], home: Home) -> int:
    if len(given) != 2:
        raise BadUse("conch set takes a name and a value, as in: conch set theme dark")
    return _keep(Preferences(home.preferences), *given)


def default(given: list[str], home: Home) -> int:
    """The place for new chats: asked for, or chosen."""
    _, places = options_of("conch default", given)
    preferences = Preferences(home.preferences)
    if not places:
        answer(str(preferences.get("place")))
        _say_troubles(preferences)
        return 0
    if len(places) > 1:
        raise BadUse("conch default takes one place.")
    return _keep(preferences, "place", places[0])


def _keep(preferences: Preferences, name: str, value: str) -> int:
    if name == "place":
        _refuse_later(value)
    try:
        kept = asyncio.run(preferences.set(name, value))
    except BadPreference as error:
        raise BadUse(str(error)) from None
    except PreferenceTrouble as error:
        complain(error.words)
        return FAILED
    _say_troubles(preferences)
    answer(f"New chats run their commands in: {kept}" if name == "place" else f"{name} = {_shown(kept)}")
    return 0


def _refuse_later(place: str) -> None:
    """A place that this version cannot give would make each new chat fail."""
    try:
        named = WorkPlaceId.parse(place)
    except BadPlace as error:
        raise BadUse(str(error)) from None
    if named.kind == "cloud":
        raise BadUse(PLACE_WORDS["later"].format(name=PLACE_WORDS["cloud.name"]))


def _say_troubles(preferences: Preferences) -> None:
    for words in preferences.troubles:
        complain(words)


def _shown(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def places(given: list[str], home: Home) -> int:
    """What places there are and how each stands."""
    options, rest = options_of("conch places", given, flags=("--look", "--json"))
    if rest:
        raise BadUse(f"conch places takes no “{rest[0]}”.")
    statuses, chosen = asyncio.run(_places(home, look="--look" in options))
    if "--json" in options:
        answer(json.dumps({"default": chosen, "places": [_plain(one) for one in statuses]}))
        return 0
    wide = max((len(str(one.id)) for one in statuses), default=0)
    for one in statuses:
        mark = "*" if str(one.id) == chosen else " "
        answer(f"{mark} {one.id!s:{wide}}  {one.name}, {_STANDINGS[one.standing]}. {one.line}")
        if one.next_step is not None:
            step = ": ".join(part for part in (one.next_step.label, one.next_step.command) if part)
            answer(f"  {'':{wide}}  Next: {step}")
    answer("* where new chats run their commands")
    return 0


async def _places(home: Home, *, look: bool) -> tuple[list[PlaceStatus], str]:
    services = PlaceServices(home)
    try:
        statuses = await services.places.status()
        # A fresh process knows nothing yet: what is not known is looked at.
        if look or any(one.standing == "checking" for one in statuses):
            reach = [one.id for one in statuses if one.id.kind == "ssh"] if look else []
            statuses = await services.places.status(look=True, reach=reach)
        return statuses, services.preferences.get("place")
    finally:
        await services.close()


def _plain(status: PlaceStatus) -> dict[str, object]:
    return {
        "id": str(status.id),
        "name": status.name,
        "line": status.line,
        "standing": status.standing,
        "ready": status.ready,
        "seals": status.seals,
        "need": status.need,
        "next": asdict(status.next_step) if status.next_step else None,
        "details": dict(status.details),
    }
