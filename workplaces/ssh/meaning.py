"""What a machine's name means, as ``ssh -G`` says it.

Asked only for a machine that is being reached: it reads the person's settings whole, and runs what ``Match exec``
names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?P<host>\[[^\]]+\]|[^:]+)(?::(?P<port>\d+))?/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """``said`` holds every value of every option, by its name in small letters, in order."""

    host: str
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def first(self, name: str, default: str = "") -> str:
        """The option's value, ``default`` where it has none or ``none``."""
        value = self.said.get(name, (default,))[0]
        return default if value.lower() == "none" else value

    def words(self, name: str) -> tuple[str, ...]:
        """All the words of all its lines."""
        return tuple(word for value in self.said.get(name, ()) for word in value.split())

    @property
    def hostname(self) -> str:
        return self.first("hostname", self.host)

    @property
    def user(self) -> str:
        return self.said.get("user", ("",))[0]  # somebody may be called "none"

    @property
    def port(self) -> int:
        port = self.first("port", "22")
        return int(port) if port.isdecimal() else 22

    @property
    def jumps(self) -> tuple[Jump, ...]:
        """The machines on the way, the nearest first."""
        return tuple(jump for text in self.first("proxyjump").split(",") if (jump := _jump(text)))

    def short(self) -> str:
        """``user@name:port``, as a person writes it."""
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{name}" + ("" if self.port == 22 else f":{self.port}")


@dataclass(frozen=True, slots=True)
class Jump:
    """A machine on the way. ``user`` and ``port`` are empty where its own settings say."""

    host: str
    user: str = ""
    port: str = ""


def meaning(host: str, printed: str) -> Meaning:
    """Reads what ``ssh -G`` printed: one option a line, its name first."""
    said: dict[str, tuple[str, ...]] = {}
    for line in printed.splitlines():
        name, _, value = line.strip().partition(" ")
        if name:
            said[name.lower()] = (*said.get(name.lower(), ()), value)
    return Meaning(host=host, said=said)


def _jump(text: str) -> Jump | None:
    found = _JUMP.fullmatch(text.strip())
    if found is None or found["host"].startswith("-"):
        return None
    return Jump(found["host"].strip("[]"), found["user"] or "", found["port"] or "")
