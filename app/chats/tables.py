"""Every statement on the chats' file. Plain functions of a connection, called in the store's threads."""

# ruff: noqa: S608 - what is put into a statement are names of columns and tables from here; every value is bound

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from app.chats.events import (
    AnswerText,
    ChatChanged,
    ChatEvent,
    ChatMade,
    Mode,
    StepProgress,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.chats.search import Query, like, snippet
from app.chats.written import answers, kind_of, numbered, packed, title_of, unpacked, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat as the sidebar shows it. ``changed`` is seconds since 1970; ``title`` is empty until something is said."""

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


class NoChat(Exception):
    """There is no chat of that id, or it is in the bin."""


_COLUMNS = "id, title, folder, place, mode, engine, made, changed"


def _chat(row: Sequence[object]) -> Chat:
    id_, title, folder, place, mode, engine, made, changed = row
    return Chat(
        id=str(id_),
        title=str(title),
        folder=Path(os.fsdecode(cast("bytes | str", folder))),
        place=str(place),
        mode=cast(Mode, mode),
        engine=str(engine),
        made=cast(float, made),
        changed=cast(float, changed),
    )


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction, whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def make(connection: sqlite3.Connection, chat: Chat) -> None:
    made = ChatMade(folder=str(chat.folder), place=chat.place, mode=chat.mode, engine=chat.engine)
    with writing(connection):
        connection.execute(
            f"INSERT INTO chats ({_COLUMNS}, renamed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(chat.id, chat.title, os.fsencode(chat.folder), chat.place, chat.mode, chat.engine),
                *(chat.made, chat.changed, bool(chat.title)),
            ),
        )
        _write(connection, chat.id, [made], chat.made, "")


def append(connection: sqlite3.Connection, chat: str, events: Sequence[ChatEvent], owner: str) -> list[ChatEvent]:
    """Writes the events in one transaction. Raises NoChat."""
    with writing(connection):
        return _write(connection, chat, events, time.time(), owner)


def _write(
    connection: sqlite3.Connection, chat: str, events: Sequence[ChatEvent], at: float, owner: str
) -> list[ChatEvent]:
    found = connection.execute(
        "SELECT title, (SELECT max(seq) FROM events WHERE chat = id) FROM chats WHERE id = ?", (chat,)
    ).fetchone()
    if found is None:
        raise NoChat(chat)
    title, seq = found[0], found[1] or 0
    written: list[ChatEvent] = []
    for event in events:
        if isinstance(event, StepProgress):  # only ever shown
            written.append(numbered(event, 0, at))
            continue
        seq += 1
        whole, body = packed(numbered(event, seq, at))
        written.append(whole)
        connection.execute(
            "INSERT INTO events (chat, seq, kind, turn, body) VALUES (?, ?, ?, ?, ?)",
            (chat, seq, kind_of(whole), whole.turn, body),
        )
        if words := words_of(whole):
            _index(connection, chat, seq, words)
        match whole:
            case UserMessage():
                title = title or title_of(whole.text)
                _begin_turn(connection, chat, whole.turn, owner)
            case AnswerText():
                connection.execute("INSERT OR IGNORE INTO unsearched VALUES (?, ?)", (chat, whole.turn))
            case TurnStarted():
                _begin_turn(connection, chat, whole.turn, owner)
            case TurnFinished():
                connection.execute("DELETE FROM open_turns WHERE chat = ? AND turn = ?", (chat, whole.turn))
                _index_answers(connection, chat, whole.turn)
            case ChatChanged():
                title = _change(connection, chat, whole, title)
    connection.execute("UPDATE chats SET title = ?, changed = max(changed, ?) WHERE id = ?", (title, at, chat))
    return written


def _begin_turn(connection: sqlite3.Connection, chat: str, turn: str, owner: str) -> None:
    if turn:
        connection.execute("INSERT OR REPLACE INTO open_turns VALUES (?, ?, ?)", (chat, turn, owner))


def _change(connection: sqlite3.Connection, chat: str, event: ChatChanged, title: str) -> str:
    for column in ("place", "mode", "engine", "folder"):
        if (value := getattr(event, column)) is not None:
            value = os.fsencode(value) if column == "folder" else value
            connection.execute(f"UPDATE chats SET {column} = ? WHERE id = ?", (value, chat))
    return title if event.title is None else event.title.strip()


def _index(connection: sqlite3.Connection, chat: str, seq: int, words: str) -> None:
    row = connection.execute("INSERT INTO texts (chat, seq) VALUES (?, ?)", (chat, seq)).lastrowid
    connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, words))


def _forget_words(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> None:
    connection.execute(f"DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE {where})", values)
    connection.execute(f"DELETE FROM texts WHERE {where}", values)


def _index_answers(connection: sqlite3.Connection, chat: str, turn: str) -> None:
    rows = connection.execute(
        "SELECT body FROM events WHERE chat = ? AND turn = ? AND kind = 'answer.text' ORDER BY seq", (chat, turn)
    )
    for seq, words in answers(unpacked(body for (body,) in rows.fetchall())):
        _forget_words(connection, "chat = ? AND seq = ?", (chat, seq))
        _index(connection, chat, seq, words)
    connection.execute("DELETE FROM unsearched WHERE chat = ? AND turn = ?", (chat, turn))


def all_searched(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM unsearched LIMIT 1").fetchone() is None


def search_all(connection: sqlite3.Connection) -> None:
    """Takes the answers that are still coming among the words."""
    with writing(connection):
        for chat, turn in connection.execute("SELECT chat, turn FROM unsearched").fetchall():
            _index_answers(connection, chat, turn)


def chats(connection: sqlite3.Connection, *, removed: bool = False) -> list[Chat]:
    known = "NOT NULL ORDER BY removed" if removed else "NULL ORDER BY changed"
    return [_chat(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM chats WHERE removed IS {known} DESC, id")]


def chat_of(connection: sqlite3.Connection, chat: str) -> Chat:
    """Raises NoChat."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM chats WHERE id = ? AND removed IS NULL", (chat,)).fetchone()
    if row is None:
        raise NoChat(chat)
    return _chat(row)


def events(connection: sqlite3.Connection, chat: str, after: int) -> list[ChatEvent]:
    rows = connection.execute("SELECT body FROM events WHERE chat = ? AND seq > ? ORDER BY seq", (chat, after))
    return unpacked([body for (body,) in rows.fetchall()])


def turn_events(connection: sqlite3.Connection, chat: str, turn: str) -> list[ChatEvent]:
    rows = connection.execute("SELECT body FROM events WHERE chat = ? AND turn = ? ORDER BY seq", (chat, turn))
    return unpacked([body for (body,) in rows.fetchall()])


def open_turns(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """(chat, turn, owner) of every turn that began and did not end."""
    return connection.execute("SELECT chat, turn, owner FROM open_turns ORDER BY chat, turn").fetchall()


def has_trigrams(connection: sqlite3.Connection) -> bool:
    return "trigram" in connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'words'").fetchone()[0]


def search(connection: sqlite3.Connection, asked: Query, most: int) -> list[Hit]:
    """Chats whose title holds every term first, then what was said, newest first."""
    every = " AND ".join("title LIKE ? ESCAPE '\\'" for _ in asked.terms)
    titled = connection.execute(
        f"SELECT {_COLUMNS} FROM chats WHERE removed IS NULL AND {every} ORDER BY changed DESC LIMIT ?",
        (*map(like, asked.terms), most),
    )
    hits = [Hit(chat=(chat := _chat(row)), seq=1, snippet=snippet(chat.title, asked.terms)) for row in titled]
    said = ["words MATCH ?"] if asked.match else []
    said += ["text LIKE ? ESCAPE '\\'"] * len(asked.likes)
    columns = ", ".join(f"chats.{name.strip()}" for name in _COLUMNS.split(","))
    rows = connection.execute(
        f"SELECT {columns}, texts.seq, words.text FROM words CROSS JOIN texts ON texts.id = words.rowid "
        f"CROSS JOIN chats ON chats.id = texts.chat WHERE {' AND '.join(said)} AND chats.removed IS NULL "
        "ORDER BY words.rowid DESC LIMIT ?",
        (*([asked.match] if asked.match else []), *asked.likes, most - len(hits)),
    )
    return hits + [Hit(chat=_chat(row[:-2]), seq=row[-2], snippet=snippet(row[-1], asked.terms)) for row in rows]


def remove(connection: sqlite3.Connection, chat: str) -> None:
    """Puts the chat in the bin. Raises NoChat."""
    with writing(connection):
        if not connection.execute(
            "UPDATE chats SET removed = ? WHERE id = ? AND removed IS NULL", (time.time(), chat)
        ).rowcount:
            raise NoChat(chat)


def restore(connection: sqlite3.Connection, chat: str) -> None:
    """Takes the chat out of the bin. Raises NoChat."""
    with writing(connection):
        if not connection.execute("UPDATE chats SET removed = NULL WHERE id = ?", (chat,)).rowcount:
            raise NoChat(chat)


def empty_bin(connection: sqlite3.Connection, before: float) -> list[str]:
    """Deletes for good what went into the bin before that time, and gives the chats' ids."""
    with writing(connection):
        old = [id_ for (id_,) in connection.execute("SELECT id FROM chats WHERE removed < ?", (before,)).fetchall()]
        for chat in old:
            _forget_words(connection, "chat = ?", (chat,))
            for table in ("events", "open_turns", "unsearched", "drafts"):
                connection.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
            connection.execute("DELETE FROM chats WHERE id = ?", (chat,))
    return old


def drafts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT chat, text FROM drafts").fetchall())


def keep_draft(connection: sqlite3.Connection, chat: str, text: str) -> None:
    """Keeps what is written and not sent in a chat; nothing is written when it is empty, or the chat is no more."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    with writing(connection):
        connection.execute("DELETE FROM drafts WHERE chat = ?", (chat,))
        if text:
            connection.execute(
                "INSERT INTO drafts SELECT ?1, ?2 WHERE ?1 = '' OR EXISTS (SELECT 1 FROM chats WHERE id = ?1)",
                (chat, text),
            )


Finish = Callable[[str, list[ChatEvent]], list[ChatEvent]]
"""Given a turn and its events, the events that end it."""


def end_turns(connection: sqlite3.Connection, alive: Callable[[str], bool], finish: Finish) -> list[str]:
    """Ends every turn whose owner is not alive, and gives the chats they were in."""
    ended = []
    for chat, turn, owner in open_turns(connection):
        if not alive(owner):
            append(connection, chat, finish(turn, turn_events(connection, chat, turn)), owner)
            ended.append(chat)
    return list(dict.fromkeys(ended))
