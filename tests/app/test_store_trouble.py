"""A file that is damaged, from a newer version, of another make or on a full disk: nothing is lost, and it is said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from app.chats import schema
from app.chats.events import UserMessage
from app.chats.schema import MIGRATIONS
from app.chats.store import Chat, ChatStore, StoreTrouble


async def filled(path: Path, messages: int = 300) -> Chat:
    store = ChatStore(path)
    await store.open()
    chat = await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")
    await store.append(chat.id, *(UserMessage(text=f"message {n} {'x' * 100}") for n in range(messages)))
    await store.close()
    return chat


async def opened(path: Path) -> ChatStore:
    store = ChatStore(path)
    await store.open()
    return store


def sql(path: Path, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


async def test_a_file_from_a_newer_version_is_kept_aside_untouched(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    await filled(path)
    sql(path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    store = await opened(path)
    trouble = store.trouble
    assert trouble is not None
    assert "newer version" in trouble.words
    assert trouble.kept is not None
    assert str(trouble.kept) in trouble.words
    assert trouble.kept.read_bytes() == before
    assert await store.chats() == []
    await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")
    await store.close()
    assert trouble.kept.read_bytes() == before
    again = await opened(path)
    assert again.trouble is None
    assert len(await again.chats()) == 1
    await again.close()


async def test_a_newer_version_that_is_only_in_the_write_ahead_log_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    await filled(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        with other:
            other.execute("PRAGMA user_version = 99")
        # A copy as a kill would leave it: the log not taken in.
        killed = tmp_path / "killed"
        killed.mkdir()
        for side in ("", "-wal"):
            (killed / f"chats.sqlite3{side}").write_bytes(Path(f"{path}{side}").read_bytes())
    before = (killed / "chats.sqlite3").read_bytes()
    store = await opened(killed / "chats.sqlite3")
    await store.close()
    assert store.trouble is not None
    assert store.trouble.kept is not None
    assert store.trouble.kept.read_bytes() == before
    assert sql(store.trouble.kept, "PRAGMA user_version") == [(99,)]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def scribbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096, 2):
        data[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(bytes(data))


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database at all\n" * 500)


def of_another_program(path: Path) -> None:
    path.unlink()
    sql(path, "CREATE TABLE theirs (x)")


@pytest.mark.parametrize("spoil", [cut, scribbled, no_database, of_another_program])
async def test_a_damaged_file_is_kept_aside_untouched(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "chats.sqlite3"
    await filled(path)
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    store = await opened(path)
    assert store.trouble is not None
    assert "damaged" in store.trouble.words
    assert store.trouble.kept is not None
    chat = await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")
    assert [one.id for one in await store.chats()] == [chat.id]
    await store.close()
    assert store.trouble.kept.read_bytes() == before


async def test_twice_damaged_keeps_both(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    kept = []
    for word in (b"first ", b"second "):
        path.write_bytes(word * 1000)
        store = await opened(path)
        await store.close()
        assert store.trouble is not None
        kept.append(store.trouble.kept)
    assert [one.read_bytes()[:6] for one in kept if one] == [b"first ", b"second"]


async def test_a_large_file_is_looked_through_while_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chats.sqlite3"
    await filled(path)
    scribbled(path)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "CHECKED_AT_ONCE", 1000)
    said: asyncio.Queue[StoreTrouble] = asyncio.Queue()
    store = ChatStore(path)
    store.subscribe(said.put_nowait)
    await store.open()
    trouble = await asyncio.wait_for(said.get(), 10)
    assert trouble is store.trouble
    assert trouble.kept is not None
    assert trouble.kept.read_bytes() == before
    assert await store.chats() == []
    await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")
    assert len(await store.chats()) == 1
    await store.close()


async def test_a_whole_large_file_is_nobodys_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chats.sqlite3"
    chat = await filled(path)
    monkeypatch.setattr(schema, "CHECKED_AT_ONCE", 1000)
    store = await opened(path)
    assert store._check is not None
    await store._check
    assert store.trouble is None
    assert len(await store.events(chat.id)) == 301
    await store.close()


NEXT = (*MIGRATIONS, ("ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",))


async def test_an_older_file_is_brought_up_to_date_after_a_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    chat = await filled(path)
    store = ChatStore(path, migrations=NEXT)
    await store.open()
    assert store.trouble is None
    assert len(await store.events(chat.id)) == 301
    await store.close()
    assert sql(path, "PRAGMA user_version") == [(len(NEXT),)]
    assert sql(path, "SELECT pinned FROM chats") == [(0,)]
    kept = tmp_path / f"chats.before-version-{len(NEXT)}.sqlite3"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sql(kept, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert sql(kept, "SELECT count(*) FROM events") == [(301,)]


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    await filled(path)
    half = (*MIGRATIONS, ("ALTER TABLE chats ADD COLUMN pinned INTEGER", "CREATE TABLE events (no)"))
    store = ChatStore(path, migrations=half)
    with pytest.raises(StoreTrouble):
        await store.open()
    assert sql(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    again = await opened(path)
    assert again.trouble is None
    assert len(await again.chats()) == 1
    await again.close()


async def test_no_room_left_is_said_and_costs_nothing_that_was_there(tmp_path: Path) -> None:
    """The real error of SQLite, by the file's own limit; tests/real has it with a full disk."""
    store = await opened(tmp_path / "chats.sqlite3")
    chat = await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")
    connection = store._connection
    assert connection is not None
    await store._write(lambda: connection.execute("PRAGMA max_page_count = 40"))

    async def fill() -> None:
        for _ in range(100):
            await store.append(chat.id, UserMessage(text="small"), UserMessage(text="y" * 50_000))

    with pytest.raises(StoreTrouble, match="no room"):
        await fill()
    kept = await store.events(chat.id)
    assert len(kept) % 2 == 1  # each append was kept whole or not at all
    await store._write(lambda: connection.execute("PRAGMA max_page_count = 100000"))
    (next_one,) = await store.append(chat.id, UserMessage(text="room again"))
    assert next_one.seq == len(kept) + 1
    await store.close()


@pytest.mark.skipif(os.name == "nt", reason="a folder's rights are another thing on Windows")
async def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "not there" / "chats.sqlite3")
    with pytest.raises(StoreTrouble, match="cannot be written"):
        await store.open()
    with pytest.raises(StoreTrouble, match="closed"):
        await store.chats()
