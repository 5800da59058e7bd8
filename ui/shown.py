"""The chat that is open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.chats.events import Mode

NEW_CHAT = "New chat"


@dataclass(frozen=True, slots=True)
class Shown:
    """The chat that is open: one from the store, or a new one (``id`` empty) that its first message will make."""

    id: str = ""
    title: str = ""
    folder: Path | None = None
    place: str = "computer"
    mode: Mode = "ask"
    engine: str = "commands"
