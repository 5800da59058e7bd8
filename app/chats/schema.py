"""The chats' file: its tables, how an older one becomes today's, and when it may not be used at all."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# An answer or a command is in `texts` once (which event) and in `words` under the same rowid (what it says).
# `open_turns` are turns that began and did not end, each with the process that began it; `unsearched` those with
# pieces of an answer that are not among the words yet.
_FIRST = (
    """CREATE TABLE chats (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        renamed INTEGER NOT NULL DEFAULT 0,
        folder TEXT NOT NULL,
        place TEXT NOT NULL,
        mode TEXT NOT NULL,
        engine TEXT NOT NULL,
        made REAL NOT NULL,
        changed REAL NOT NULL,
        removed REAL
    ) WITHOUT ROWID""",
    """CREATE TABLE events (
        chat TEXT NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        turn TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (chat, seq)
    )""",
    "CREATE INDEX events_by_turn ON events (chat, turn, seq)",
    """CREATE TABLE open_turns (
        chat TEXT NOT NULL,
        turn TEXT NOT NULL,
        owner TEXT NOT NULL,
        PRIMARY KEY (chat, turn)
    ) WITHOUT ROWID""",
    "CREATE TABLE unsearched (chat TEXT NOT NULL, turn TEXT NOT NULL, PRIMARY KEY (chat, turn)) WITHOUT ROWID",
    "CREATE TABLE texts (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, seq INTEGER NOT NULL)",
    "CREATE INDEX texts_by_event ON texts (chat, seq)",
    "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = '{tokenizer}')",
)

# What is written in a chat and not sent; that of the chat which its first message will make is under an empty id.
_DRAFTS = ("CREATE TABLE drafts (chat TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",)

Migrations = Sequence[Sequence[str]]
MIGRATIONS: Final[Migrations] = (_FIRST, _DRAFTS)
"""The n-th makes version n of version n-1. Add one at the end; never change one that was shipped."""

CHECKED_AT_ONCE = 32 * 1024 * 1024
"""A file up to this size is looked through before it is used; a larger one while it is used."""

_SIDES = ("", "-wal", "-shm", "-journal")


class Newer(Exception):
    """The file was written by a newer version of Conch."""


class Damaged(Exception):
    """The file does not hold what it should. ``str(error)`` is for the log."""


def connect(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """A connection in its own hands: no transaction begins by itself. It may be closed from another thread."""
    # mode=rw: a file that is not there is never made by looking for it.
    uri = f"{path.as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        if reading:
            connection.execute("PRAGMA query_only = 1")
        else:
            # NORMAL with WAL: what was committed outlives this process however it ends; a power cut may cost the last.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_size_limit = 16777216")
    except BaseException:
        connection.close()
        raise
    return connection


def ready(path: Path, migrations: Migrations = MIGRATIONS) -> sqlite3.Connection:
    """Opens the file for writing, made or brought to today's version. Raises Newer or Damaged, file untouched."""
    if path.exists() and path.stat().st_size:
        version = _look(path, len(migrations))
    else:
        # Made by hand: the owner's alone from its first moment. SQLite gives its side files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        version = 0
    connection = connect(path)
    try:
        if 0 < version < len(migrations):
            _keep_copy(connection, path.with_name(f"{path.stem}.before-version-{len(migrations)}{path.suffix}"))
        for number in range(version + 1, len(migrations) + 1):
            _migrate(connection, migrations[number - 1], number)
    except BaseException:
        connection.close()
        raise
    return connection


def _look(path: Path, newest: int) -> int:
    """The version of the file. Reads only: not even the write-ahead log is taken in before we know that it is ours."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > newest:
                raise Newer(f"version {version}, and this Conch knows {newest}")
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if (version > 0) != bool(tables):  # a file of something else is not ours to write to
                raise Damaged(f"version {version} with tables {sorted(tables)}")
            if path.stat().st_size <= CHECKED_AT_ONCE:
                check(connection)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(str(error)) from error
        raise
    return int(version)


def check(connection: sqlite3.Connection) -> None:
    """Looks through the whole file. Raises Damaged."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise Damaged(str(found))


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _keep_copy(connection: sqlite3.Connection, aside: Path) -> None:
    aside.unlink(missing_ok=True)
    os.close(os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(aside)) as copy:
        connection.backup(copy)


def _migrate(connection: sqlite3.Connection, statements: Sequence[str], number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while we waited.
        if connection.execute("PRAGMA user_version").fetchone()[0] < number:
            for statement in statements:
                connection.execute(statement.replace("{tokenizer}", _tokenizer(connection)))
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _tokenizer(connection: sqlite3.Connection) -> str:
    """Trigrams find any part of a word, in every script; SQLite has them from 3.34 on."""
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.try USING fts5 (text, tokenize = 'trigram')")
    except sqlite3.OperationalError:
        return "unicode61"
    connection.execute("DROP TABLE temp.try")
    return "trigram"


def keep_aside(path: Path, why: str) -> Path:
    """Moves the file and what belongs to it out of the way, unchanged, and gives where it lies now."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 0
    while (aside := path.with_name(f"{path.stem}.{why}-{stamp}{f'-{number}' if number else ''}{path.suffix}")).exists():
        number += 1
    for side in _SIDES:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{side}").rename(f"{aside}{side}")
    return aside
