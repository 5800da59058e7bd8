"""What a machine said of itself when it was reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workplaces.ssh.lines import Line, Way

LONGEST: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a machine said of itself, and how it was reached. ``boot`` is the line its login shell takes.

    ``answer`` is how long (seconds) a program took there from asking to its first word.
    """

    meaning: str
    kind: str
    fingerprint: str
    boot: str
    answer: float
    user: str = ""
    uid: str = ""
    name: str = ""
    system: str = ""
    home: str = ""
    login: str = ""
    has: frozenset[str] = frozenset()
    writable: bool = False


def read_facts(heard: bytes, line: Line, way: Way, boot: str, answer: float) -> Facts:
    """What ``script.look`` printed there, over ``line``. What makes no sense is left out."""
    said: dict[str, str] = {}
    has: set[str] = set()
    for text in heard.decode(errors="replace").splitlines():
        name, _, value = text.partition("=")
        if name == "has":
            has.add(value)
        else:
            said.setdefault(name, value[:LONGEST])
    return Facts(
        meaning=way.meaning.short(),
        kind=line.kind,
        fingerprint=line.fingerprint,
        boot=boot,
        answer=answer,
        user=said.get("user", ""),
        uid=said.get("uid", ""),
        name=said.get("name", ""),
        system=said.get("system", ""),
        home=said.get("home", ""),
        login=said.get("login", ""),
        has=frozenset(has),
        writable=said.get("writable") == "yes",
    )
