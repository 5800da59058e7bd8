"""Chats in SQLite: events appended as they happen, searched in full text.

WAL, one writer thread; readers never wait for it. ``user_version`` numbers the schema; each migration runs in one
transaction after a copy of the file is kept. A database from a newer version, or a damaged one, is never written to:
it is kept aside and said.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from app.chats import schema, tables
from app.chats.events import ChatChanged, ChatEvent, Mode
from app.chats.schema import MIGRATIONS, Damaged, Migrations, Newer
from app.chats.search import query
from app.chats.tables import Chat, Finish, Hit, NoChat

__all__ = ["Chat", "ChatStore", "Hit", "NoSuchChat", "StoreTrouble"]

log = logging.getLogger(__name__)
T = TypeVar("T")

BIN_DAYS = 30
_READERS = 2


class StoreTrouble(Exception):
    """``words`` is one sentence for the person, ``kept`` where the old file lies."""

    def __init__(self, words: str, kept: Path | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.kept = kept


class NoSuchChat(StoreTrouble):
    """The chat is not there, or it is in the bin."""


class ChatStore:
    """``owner`` names this process in the turns it begins, so that another can tell whether they still go on.

    Everything but ``subscribe`` and ``trouble`` waits for ``open``. Every call may raise StoreTrouble; what was asked
    for was then not done at all.
    """

    trouble: StoreTrouble | None = None
    """Set by ``open`` when the file could not be used and a fresh one was begun; for a large file, some time later."""

    def __init__(self, path: Path, *, owner: str = "", migrations: Migrations = MIGRATIONS) -> None:
        self.path = path.absolute()
        self._owner = owner
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._reading = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._file = 0  # which file the readers' connections belong to: it changes when a fresh one is begun
        self._listeners: list[Callable[[StoreTrouble], None]] = []
        self._check: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Opens the file, made or brought to today's version. Raises StoreTrouble when nothing can be kept at all."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="chats-writer")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="chats-reader")
        try:
            await self._write(self._open)
        except BaseException:
            await self.close()
            raise
        if self.path.stat().st_size > schema.CHECKED_AT_ONCE:
            loop = asyncio.get_running_loop()
            self._check = loop.run_in_executor(self._readers, self._look_through, loop)

    async def close(self) -> None:
        """Ends the threads once what was given to them is written."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if writer is None or readers is None:
            return
        loop = asyncio.get_running_loop()
        readers.shutdown(wait=False, cancel_futures=True)
        for opened in list(self._opened):
            opened.interrupt()  # a long look through the file does not hold up the quit

        def shut() -> None:
            readers.shutdown(wait=True)  # a connection is closed only when no thread uses it
            for connection in (*self._opened, *([self._connection] if self._connection else [])):
                connection.close()
            self._opened.clear()
            self._connection = None

        await loop.run_in_executor(writer, shut)
        writer.shutdown(wait=False)

    def subscribe(self, on_trouble: Callable[[StoreTrouble], None]) -> Callable[[], None]:
        """Calls ``on_trouble`` on the loop when the file turns out to be damaged later. Gives back how to end that."""
        self._listeners.append(on_trouble)
        return lambda: self._listeners.remove(on_trouble) if on_trouble in self._listeners else None

    async def make(self, *, folder: Path, place: str, mode: Mode, engine: str, title: str = "") -> Chat:
        now = time.time()
        chat = Chat(
            id=secrets.token_hex(8),
            title=title.strip(),
            folder=folder,
            place=place,
            mode=mode,
            engine=engine,
            made=now,
            changed=now,
        )
        await self._write(lambda: tables.make(self._open_one(), chat))
        return chat

    async def chats(self) -> list[Chat]:
        """Newest change first."""
        return await self._read(tables.chats)

    async def chat(self, chat: str) -> Chat:
        """Raises NoSuchChat."""
        return await self._read(lambda connection: tables.chat_of(connection, chat))

    async def append(self, chat: str, *events: ChatEvent) -> list[ChatEvent]:
        """Writes the events, in one transaction, and gives them back with their ``seq`` and ``at``.

        What is only ever shown (StepProgress) is given back with the time and ``seq`` 0.
        """
        return await self._write(lambda: tables.append(self._open_one(), chat, events, self._owner))

    async def rename(self, chat: str, title: str) -> list[ChatEvent]:
        """Gives the chat a title of the person's. An empty one is none: the first message names it again."""
        return await self.append(chat, ChatChanged(title=title))

    async def events(self, chat: str, *, after: int = 0) -> list[ChatEvent]:
        """What happened, in order. What a newer version wrote there is left out."""
        return await self._read(lambda connection: tables.events(connection, chat, after))

    async def search(self, text: str, *, most: int = 50) -> list[Hit]:
        """Chats by their titles, then by what was said, newest first. Every word typed must be there, as it stands."""
        if not await self._read(tables.all_searched):
            await self._write(lambda: tables.search_all(self._open_one()))

        def find(connection: sqlite3.Connection) -> list[Hit]:
            asked = query(text, trigram=tables.has_trigrams(connection))
            return tables.search(connection, asked, most) if asked else []

        return await self._read(find)

    async def drafts(self) -> dict[str, str]:
        """What is written and not sent, by the chat's id; for a chat that is yet to be made under an empty one."""
        return await self._read(tables.drafts)

    async def keep_draft(self, chat: str, text: str) -> None:
        """Keeps what is written and not sent in a chat, until it is another text, an empty one, or the chat goes."""
        await self._write(lambda: tables.keep_draft(self._open_one(), chat, text))

    async def remove(self, chat: str) -> None:
        """Puts the chat in the bin, where it stays for 30 days. Raises NoSuchChat."""
        await self._write(lambda: tables.remove(self._open_one(), chat))

    async def restore(self, chat: str) -> None:
        """Takes the chat out of the bin. Raises NoSuchChat."""
        await self._write(lambda: tables.restore(self._open_one(), chat))

    async def removed(self) -> list[Chat]:
        """What is in the bin, what went there last first."""
        return await self._read(lambda connection: tables.chats(connection, removed=True))

    async def empty_bin(self, *, days: float = BIN_DAYS) -> list[str]:
        """Deletes for good what has been in the bin longer than that, and gives the ids."""
        return await self._write(lambda: tables.empty_bin(self._open_one(), time.time() - days * 86400))

    async def end_turns(self, alive: Callable[[str], bool], finish: Finish) -> list[str]:
        """Ends each turn whose owner is not alive with the events that ``finish`` gives. Gives the chats' ids.

        Both are called in the writer's thread.
        """
        return await self._write(lambda: tables.end_turns(self._open_one(), alive, finish))

    # -- in the writer's thread

    def _open(self) -> None:
        try:
            self._connection = schema.ready(self.path, self._migrations)
        except Newer as error:
            log.warning("chats are from a newer version: %s", error)
            self._begin_anew("newer", "Your chats were written by a newer version of Conch, which this one cannot read")
        except Damaged as error:
            log.error("chats are damaged: %s", error)
            self._begin_anew("damaged", "The file with your chats is damaged")

    def _begin_anew(self, why: str, words: str) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        kept = schema.keep_aside(self.path, why)
        self._connection = schema.ready(self.path, self._migrations)
        self._file += 1
        words = f"{words}. It is kept, unchanged, as {kept}; Conch goes on with an empty one."
        self.trouble = StoreTrouble(words, kept)

    def _open_one(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreTrouble("The chats are closed.")
        return self._connection

    # -- in the readers' threads

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._reading, "connection", None)
        if connection is not None and self._reading.file != self._file:
            self._opened.remove(connection)
            connection.close()
            connection = None
        if connection is None:
            self._reading.file = self._file
            connection = self._reading.connection = schema.connect(self.path, reading=True)
            self._opened.append(connection)
        return connection

    def _look_through(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            schema.check(self._reader())
        except sqlite3.OperationalError:  # interrupted: Conch is closing
            return
        except (Damaged, sqlite3.DatabaseError) as error:
            log.error("chats are damaged: %s", error)
            writer = self._writer
            if writer is not None:
                writer.submit(self._found_damaged, loop)

    def _found_damaged(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begin_anew("damaged", "The file with your chats is damaged")
        loop.call_soon_threadsafe(self._tell)

    # -- on the loop

    def _tell(self) -> None:
        for listener in list(self._listeners):
            if self.trouble is not None:
                listener(self.trouble)

    async def _write(self, work: Callable[[], T]) -> T:
        return await self._run(self._writer, work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._readers, lambda: work(self._reader()))

    async def _run(self, threads: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
        if threads is None:
            raise StoreTrouble("The chats are closed.")
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except NoChat:
            raise NoSuchChat("That chat is not there any more.") from None
        except (sqlite3.Error, OSError) as error:
            log.error("chats: %s", error, exc_info=error)
            raise StoreTrouble(_words(error)) from error


def _words(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == 28:  # ENOSPC
        return "There is no room left on the disk, so the chat could not be kept. Make some room, then try again."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN) or isinstance(error, OSError):
        return "The chats cannot be written where they are kept. Look at the rights of Conch's folder, then try again."
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "Another program holds the file with the chats. Close it, then try again."
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "The file with the chats is damaged. Start Conch again: it keeps the file aside and begins a fresh one."
    return "The chats could not be read or written. The details are in Conch's log."
