"""How much goes ahead without asking, and the one question every step is put to.

``judge`` has its final shape for all five modes. Until the risk policy comes, *Ask first* asks about everything that
changes something, *Full trust* asks about nothing, and the other three are not offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from app.chats.events import Mode

MODE_WORDS: Final[dict[Mode, tuple[str, str]]] = {
    "plan": ("Plan only", "Reads and plans. Changes nothing."),
    "ask": ("Ask first", "Asks before each command and each change."),
    "edit": ("Edit freely", "Edits files without asking. Asks before commands that leave the box."),
    "auto": ("Auto", "Asks about what matters."),
    "full": ("Full trust", "Asks about nothing."),
}
OFFERED: Final[tuple[Mode, ...]] = ("ask", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing an engine wants to do. ``open`` is True when it asks to leave the box *or* the place cannot seal."""

    tool: str
    arguments: dict[str, Any]
    command: str = ""
    folder: Path
    place: str = ""
    open: bool = False
    reason: str = ""
    changes: bool = True
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    title: str
    why: str
    can_always: bool = True
    key: str = ""  # what "always in this chat" remembers


@dataclass(frozen=True, slots=True)
class Refuse:
    words: str


Verdict = Allow | Ask | Refuse
Answered = Literal["once", "chat", "no"]
