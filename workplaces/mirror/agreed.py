"""What both sides agreed on last, kept in Conch's home so that a restart sends nothing again.

Losing it loses no file: without an agreement everything that differs is compared by content and kept twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries(
  path BLOB PRIMARY KEY, here BLOB, there BLOB, digest BLOB NOT NULL, fresh INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent(path BLOB, size INTEGER, mtime INTEGER, PRIMARY KEY(path, size, mtime)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS said(path BLOB, key TEXT, PRIMARY KEY(path, key)) WITHOUT ROWID;
"""
_ALL: Final = "SELECT path, here, there, digest, fresh FROM entries"
FRESH_HERE: Final = 1
FRESH_THERE: Final = 2


class Entry:
    """One path that both sides had. ``here`` and ``there`` are its signatures (None: not there, or not agreed),
    ``digest`` the hash of its content (empty for a folder, or when it is not known)."""

    __slots__ = ("digest", "fresh", "here", "there")

    def __init__(self, here: bytes | None, there: bytes | None, digest: bytes = b"", fresh: int = 0) -> None:
        self.here = here
        self.there = there
        self.digest = digest
        self.fresh = fresh


class Agreed:
    """The agreement of one copy. Used by one thread at a time; ``save`` is one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: dict[str, Entry] = {}
        self.meta: dict[str, str] = {}
        self.said: set[tuple[str, str]] = set()
        self.sent: set[tuple[str, int, int]] = set()
        self._newly_sent: set[tuple[str, int, int]] = set()
        self._arrived = False
        self._touched: set[str] = set()
        self._newly_said: set[tuple[str, str]] = set()
        self._meta_saved: dict[str, str] = {}
        self._cleared = False
        self._made = False
        self.version = 0  # another one whenever an entry is

    def load(self) -> None:
        """Reads it, unless what is in memory is what is in the file. One that cannot be read is put aside."""
        try:
            with self._open() as store:
                meta = dict(store.execute("SELECT key, value FROM meta"))
                if meta and meta == self._meta_saved and not self._touched:
                    return
                self._read(store, meta)
        except sqlite3.DatabaseError:
            self._made = False
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".broken"))
            with self._open() as store:
                self._read(store, {})

    def _read(self, store: sqlite3.Connection, meta: dict[str, str]) -> None:
        self.entries = {
            _text(path): Entry(here, there, digest, fresh)
            for path, here, there, digest, fresh in store.execute(
                "SELECT path, here, there, digest, fresh FROM entries"
            )
        }
        self.said = {(_text(path), key) for path, key in store.execute("SELECT path, key FROM said")}
        self.sent = {(_text(path), size, mtime) for path, size, mtime in store.execute("SELECT * FROM sent")}
        self.version += 1
        self._newly_sent.clear()
        self._arrived = False
        self.meta, self._meta_saved = dict(meta), meta
        self._touched.clear()
        self._newly_said.clear()
        self._cleared = False

    def put(self, path: str, entry: Entry) -> None:
        self.entries[path] = entry
        self._touched.add(path)
        self.version += 1

    def drop(self, path: str) -> None:
        if self.entries.pop(path, None) is not None:
            self._touched.add(path)
            self.version += 1

    def clear(self) -> None:
        """Forgets all that was agreed; what was said stays said."""
        self.entries.clear()
        self._touched.clear()
        self._cleared = True
        self.version += 1

    def sends(self, files: Iterable[tuple[str, int, int]]) -> None:
        """Notes what is about to be sent (path, size, time in whole seconds there).

        Should Conch end before it sees what became of it, a file there that looks so is known as ours.
        """
        self._newly_sent.update(files)
        self.sent.update(self._newly_sent)

    def arrived(self) -> None:
        """What was sent was seen there."""
        if self.sent:
            self.sent.clear()
            self._newly_sent.clear()
            self._arrived = True

    def tell(self, path: str, key: str) -> bool:
        """Whether this is to be said now: it was not before. From here on it was."""
        if (path, key) in self.said:
            return False
        self.said.add((path, key))
        self._newly_said.add((path, key))
        return True

    def save(self) -> None:
        """Writes what is new. Raises sqlite3.Error (a full disk), and then nothing was written."""
        new = self._touched or self._newly_said or self._newly_sent or self._cleared or self._arrived
        if not new and self.meta == self._meta_saved:
            return
        self.meta["generation"] = str(int(self.meta.get("generation", "0")) + 1)
        with self._open() as store, store:
            if self._cleared:
                store.execute("DELETE FROM entries")
            store.executemany("DELETE FROM entries WHERE path = ?", self._gone())
            store.executemany("INSERT OR REPLACE INTO entries VALUES(?, ?, ?, ?, ?)", self._rows())
            if self._arrived:
                store.execute("DELETE FROM sent")
            sent = ((_blob(path), size, mtime) for path, size, mtime in self._newly_sent)
            store.executemany("INSERT OR IGNORE INTO sent VALUES(?, ?, ?)", sent)
            store.executemany("INSERT OR IGNORE INTO said VALUES(?, ?)", ((_blob(p), k) for p, k in self._newly_said))
            store.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", self.meta.items())
        self._touched.clear()
        self._newly_said.clear()
        self._newly_sent.clear()
        self._arrived = self._cleared = False
        self._meta_saved = dict(self.meta)

    def _gone(self) -> Iterable[tuple[bytes]]:
        return ((_blob(path),) for path in self._touched if path not in self.entries)

    def _rows(self) -> Iterator[tuple[bytes, bytes | None, bytes | None, bytes, int]]:
        for path in self._touched:
            if (entry := self.entries.get(path)) is not None:
                yield _blob(path), entry.here, entry.there, entry.digest, entry.fresh

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        store = sqlite3.connect(self._path, timeout=30)
        try:
            # A killed Conch leaves it whole. After a power cut it may be broken, and then it is put aside.
            store.execute("PRAGMA synchronous=OFF")
            if not self._made:
                store.executescript(_SCHEMA)
                self._made = True
            yield store
        finally:
            store.close()


def _blob(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
