"""The one place where everything is built and joined. The window and the command line both start here.

Everything public is async or quick: nothing here touches a file, a socket, a program or the keychain on the caller's
thread for longer than a few hundred microseconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.chats.events import ChatEvent, TurnStarted
from app.health.fixed import FixedLog
from app.home import Home, Presence, protected_places
from app.power import Power
from app.preferences import Preferences
from app.preferred import names_in
from workplaces.service import PlaceSettings, WorkPlaces

if TYPE_CHECKING:
    from app.changes.recorder import Recorder
    from app.chats.store import ChatStore
    from app.chats.turns import Turns
    from app.engines.catalog import Catalog, ModelSettings
    from app.keys.keychain import Keychain
    from app.keys.secret import Secret
    from app.tasks import Tasks

log = logging.getLogger(__name__)


class PlaceServices:
    """The part that knows no chats: what `conch run` and `conch places` are made of."""

    def __init__(self, home: Home) -> None:
        """Builds and joins; opens nothing yet."""
        self.home = home
        self.preferences = Preferences(home.preferences)
        self.fixed = FixedLog(home.fixed)
        self.places = WorkPlaces(
            home.places,
            settings=self._settings,
            protected=self.protected,
            on_fixed=self.fixed.note,
            output=home.output,
            saving=Power().saving,
            ssh_settings=_ssh_settings(),
        )

    def _settings(self) -> PlaceSettings:
        get = self.preferences.get
        return PlaceSettings(
            image=get("container.image"),
            memory=get("container.memory"),
            cpus=get("container.cpus"),
            runtime=get("container.runtime"),
            gpus=get("container.gpus"),
            spares=get("container.spares"),
            # as it is in the file: a list that cannot be used is refused with words, and is not the same as no list
            hosts=self.preferences.written("container.hosts"),
            ssh_hosts=names_in(get("ssh.hosts")),
            leave=names_in(get("mirror.leave")),
            carry=names_in(get("mirror.carry")),
        )

    def protected(self) -> tuple[Path, ...]:
        return protected_places(self.home)

    async def close(self) -> None:
        await _each(self.places.close(), self.fixed.close())


class Services:
    """``already_open`` is True after ``start`` when another Conch works on the same home. Both may go on: each ends
    only the turns that a dead one left, and a setting changed in one is taken in by the other."""

    home: Home
    preferences: Preferences
    places: WorkPlaces
    store: ChatStore
    turns: Turns
    changes: Recorder
    engines: Catalog
    fixed: FixedLog
    keychain: Keychain

    def __init__(self, home: Home) -> None:
        """Builds and joins; opens nothing yet."""
        from app.changes.recorder import Recorder
        from app.chats.store import ChatStore
        from app.chats.turns import Turns
        from app.engines.catalog import Catalog
        from app.keys.keychain import Keychain
        from app.tasks import Tasks

        base = PlaceServices(home)
        self.home, self.preferences, self.fixed, self.places = home, base.preferences, base.fixed, base.places
        self.already_open = False
        self._base = base
        self._tasks: Tasks = Tasks()
        self._presence = Presence(home)
        self.keychain = Keychain()
        self.store = ChatStore(home.chats, owner=self._presence.id)
        self.engines = Catalog(self._model, key=self._model_key)
        # What another Conch set (`conch set`) holds from the next turn on.
        self.changes = Recorder(base.protected)
        self.turns = Turns(
            self.store,
            self.places,
            self.engines,
            changes=self.changes,
            protected=base.protected,
            output=home.output,
        )
        self.turns.subscribe(self._on_event)

    async def start(self) -> None:
        """Opens the store, marks turns a crash cut off, and starts the places' housekeeping in the background.

        Raises HomeTrouble or StoreTrouble, with words, when Conch has nowhere to keep things.
        """
        from app.chats.cutoff import end_cut_off

        await asyncio.to_thread(self._arrive)
        await self.store.open()
        await self.store.end_turns(self._presence.alive, partial(end_cut_off, output=self.home.output))
        await self.fixed.open()
        self._tasks.start(self.places.start(), "the places' housekeeping")
        self._tasks.start(self._empty_bin(), "emptying the bin")

    async def close(self) -> None:
        """Stops every turn (waiting until its command is dead), closes the places and the store."""
        await _each(self.turns.close(), self._tasks.close(), self._base.close(), self.store.close())
        self.changes.close()
        await asyncio.to_thread(self._presence.end)

    def _arrive(self) -> None:
        self.home.prepare()
        self._presence.begin()
        self.already_open = bool(self._presence.others())

    def _on_event(self, _: str, event: ChatEvent) -> None:
        if isinstance(event, TurnStarted):
            self._tasks.start(self.preferences.refresh(), "taking in the preferences")

    async def _empty_bin(self) -> None:
        await self.store.empty_bin()

    def _model(self) -> ModelSettings:
        from app.engines.catalog import ModelSettings

        return ModelSettings(base_url=self.preferences.get("model.base_url"), model=self.preferences.get("model.name"))

    async def _model_key(self, base_url: str) -> Secret | None:
        from app.keys.keychain import model_key

        return await self.keychain.get(model_key(base_url))


def _ssh_settings() -> Path | None:
    """Another settings file than ~/.ssh/config, as ``ssh -F`` takes one, when CONCH_SSH_CONFIG names it."""
    named = os.environ.get("CONCH_SSH_CONFIG", "")
    return Path(named).expanduser().absolute() if named else None


async def _each(*ends: Awaitable[None]) -> None:
    """Ends one after the other; one that fails is logged and does not keep the next from ending."""
    for end in ends:
        try:
            await end
        except Exception as error:
            log.error("not everything could be closed", exc_info=error)
