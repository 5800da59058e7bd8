"""Chats in SQLite: events appended as they happen, searched in full text.

WAL, one writer thread; readers never wait for it. ``user_version`` numbers the schema; each migration runs in one
transaction after a copy of the file is kept. A database from a newer version, or a damaged one, is never written to:
it is kept aside and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.chats.events import ChatEvent, Mode


class StoreTrouble(Exception):
    """``words`` is one sentence for the person, ``kept`` where the old file lies."""

    def __init__(self, words: str, kept: Path | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.kept = kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat as the sidebar shows it. ``changed`` is seconds since 1970."""

    id: str
    title: str
    folder: Path
    place: str
    mode: Mode
    engine: str
    made: float
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One search hit: ``seq`` is the event to scroll to, ``snippet`` plain text with the match between ``[[ ]]``."""

    chat: Chat
    seq: int
    snippet: str


class ChatStore:
    trouble: StoreTrouble | None = None
    """Set by ``open`` when the file could not be used and a fresh one was begun."""

    def __init__(self, path: Path) -> None: ...

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def make(self, *, folder: Path, place: str, mode: Mode, engine: str, title: str = "") -> Chat: ...
    async def chats(self) -> list[Chat]:
        """Newest change first."""
    async def chat(self, chat: str) -> Chat: ...
    async def append(self, chat: str, *events: ChatEvent) -> list[ChatEvent]:
        """Writes the events, in one transaction, and gives them back with their ``seq`` and ``at``."""
    async def events(self, chat: str, *, after: int = 0) -> list[ChatEvent]: ...
    async def search(self, text: str, *, most: int = 50) -> list[Hit]: ...
    async def remove(self, chat: str) -> None: ...
