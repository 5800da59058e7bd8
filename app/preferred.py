"""What can be preferred: each name with its type, default, sentence and what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.guard.modes import OFFERED
from workplaces.place import BadPlace, WorkPlaceId
from workplaces.service import DEFAULT_IMAGE

Value = str | int | bool


class BadPreference(ValueError):
    """A name or a value that is none. ``str(error)`` is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Preference:
    """``words`` is one sentence, for `conch get` and Settings' search; ``choices`` is empty when any text will do."""

    name: str
    default: Value
    words: str
    takes: Callable[[str], str | None]
    """Gives what is wrong with a text ("is not a colour"), or None."""
    choices: tuple[str, ...] = ()
    internal: bool = False
    """Kept by Conch for itself: not offered, though it can be read."""

    def check(self, value: object) -> Value:
        """The value as this preference's type. A text is read as `conch set` gives it. Raises BadPreference."""
        read: Value
        if isinstance(self.default, bool):
            read = self._switch(value)
        elif isinstance(self.default, int):
            read = self._number(value)
        elif isinstance(value, str):
            read = value.strip()
        else:
            raise BadPreference(f"“{self.name}” takes text.")
        if self.choices and read not in self.choices:
            raise BadPreference(f"“{read}” is not one of the choices for “{self.name}”: {', '.join(self.choices)}.")
        if (wrong := self.takes(str(read))) is not None:
            raise BadPreference(wrong)
        return read

    def _number(self, value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value):
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise BadPreference(f"“{value}” is not a whole number, which “{self.name}” takes.")

    def _switch(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("on", "off"):
            return value.strip().lower() == "on"
        raise BadPreference(f"“{value}” is neither on nor off, which “{self.name}” takes.")


def _anything(_: str) -> None:
    return None


def _place(text: str) -> str | None:
    try:
        WorkPlaceId.parse(text)
    except BadPlace as error:
        return str(error)
    return None


# What the engines take: host[:port]/path:tag@digest, the path in small letters (the distribution spec's grammar).
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = rf"(?:localhost|{_HOST}(?:\.{_HOST})+|{_HOST}(?=:)|\[[0-9a-fA-F:]+\])(?::\d{{1,5}})?"
_IMAGE = re.compile(
    rf"(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@[A-Za-z0-9+._-]+:[0-9a-fA-F]{{32,}})?"
)


def _image(text: str) -> str | None:
    if len(text) <= 512 and _IMAGE.fullmatch(text):
        return None
    return f"“{text}” is not the name of an image. One looks like docker.io/library/node:24-bookworm."


def _hosts(text: str) -> str | None:
    from workplaces.container.hosts import BadHosts, HostList

    try:
        HostList.parse(text)
    except BadHosts as error:
        return str(error)
    return None


def _web(text: str) -> str | None:
    if not text:
        return None
    from app.engines.address import BadAddress, endpoint

    try:
        endpoint(text)
    except BadAddress as error:
        return str(error)
    return None


def _name(text: str) -> str | None:
    if re.fullmatch(r"[a-z0-9][a-z0-9._:-]{0,63}", text):
        return None
    return f"“{text}” is not the name of an engine. Use commands, or one that Settings lists."


def _line(text: str) -> str | None:
    return "It takes one line of at most 500 characters." if len(text) > 500 or not text.isprintable() else None


_MOST_NAMES = 100


def names_in(text: object) -> tuple[str, ...]:
    """A list as a preference holds it: names with commas or spaces between them."""
    return tuple(str(text).replace(",", " ").split())


def _folder_names(text: str) -> str | None:
    names = names_in(text)
    bad = next((name for name in names if "/" in name or "\\" in name or name in (".", "..") or len(name) > 255), "")
    if bad or not text.isprintable():
        return f"“{bad or text}” is not the name of a folder. It is a name alone, without a path: data, .cache."
    return f"At most {_MOST_NAMES} names." if len(names) > _MOST_NAMES else None


def _between(least: int, most: int) -> Callable[[str], str | None]:
    def takes(text: str) -> str | None:
        return None if least <= int(text) <= most else f"“{text}” is not between {least} and {most}."

    return takes


def _runtime(text: str) -> str | None:
    return None if re.fullmatch(r"[A-Za-z0-9._-]{0,64}", text) else f"“{text}” is not the name of a runtime."


_ALL = (
    Preference("place", "computer", "Where new chats run their commands.", _place),
    Preference("mode", "ask", "How much goes ahead without asking, in new chats.", _anything, choices=OFFERED),
    Preference("engine", "commands", "What answers new chats.", _name),
    Preference("container.image", DEFAULT_IMAGE, "The image that a container's boxes are made from.", _image),
    Preference(
        "container.hosts", "", "The only hosts that an open command in a container reaches, or all if empty.", _hosts
    ),
    Preference("container.memory", 4, "How much memory a box may use, in GB (1 to 512).", _between(1, 512)),
    Preference("container.cpus", 2, "How many processors a box may use (1 to 128).", _between(1, 128)),
    Preference("container.runtime", "", "A stronger runtime for boxes, by the engine's name for it (runsc).", _runtime),
    Preference("container.gpus", False, "Whether boxes may use the graphics processors (on or off).", _anything),
    Preference("container.spares", 4, "How many boxes are made ahead, in all (0 to 16).", _between(0, 16)),
    Preference("mirror.leave", "", "Names of folders that copies on your machines are without.", _folder_names),
    Preference("mirror.carry", "", "Of the folders that copies are without, those that they get.", _folder_names),
    Preference("ssh.hosts", "", "The machines of your SSH settings that are offered, by name; all when empty.", _line),
    Preference("model.base_url", "", "The address of the model's API (OpenAI-compatible), up to and with /v1.", _web),
    Preference("model.name", "", "The model that answers, by the name its API gives it.", _line),
    Preference("theme", "system", "Light or dark, or as the system is.", _anything, ("system", "light", "dark")),
    Preference("motion", "system", "Whether things move, or as the system says.", _anything, ("system", "on", "off")),
    Preference("text.size", 100, "How large the text is, in percent (80 to 200).", _between(80, 200)),
    Preference("folder.last", "", "The folder that was chosen last.", _anything, internal=True),
    Preference("window.geometry", "", "Where the window was.", _line, internal=True),
)
TABLE: Final[dict[str, Preference]] = {one.name: one for one in _ALL}


def preference(name: str) -> Preference:
    """The preference of that name. Raises BadPreference, which lists the names."""
    if (known := TABLE.get(name)) is not None:
        return known
    offered = ", ".join(one.name for one in _ALL if not one.internal)
    raise BadPreference(f"“{name}” is not a preference. The names are: {offered}.")
