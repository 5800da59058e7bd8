"""Chats on the disk: what is appended is there, whatever happens to the process, and is found again."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from app.chats.events import (
    AnswerText,
    ChatChanged,
    ChatEvent,
    ChatMade,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.chats.schema import MIGRATIONS
from app.chats.store import Chat, ChatStore, NoSuchChat, StoreTrouble


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ChatStore]:
    store = ChatStore(tmp_path / "chats.sqlite3")
    await store.open()
    yield store
    await store.close()


async def made(store: ChatStore, folder: Path = Path("/work folder"), title: str = "") -> Chat:
    return await store.make(folder=folder, place="container", mode="ask", engine="commands", title=title)


async def test_a_chat_begins_with_how_it_was_made(store: ChatStore) -> None:
    chat = await made(store)
    assert await store.chat(chat.id) == chat
    (first,) = await store.events(chat.id)
    assert isinstance(first, ChatMade)
    assert (first.seq, first.folder, first.place) == (1, "/work folder", "container")
    assert first.at == pytest.approx(time.time(), abs=5)


async def test_events_come_back_as_they_were_in_order_with_their_numbers(store: ChatStore) -> None:
    chat = await made(store)
    given: list[ChatEvent] = [
        UserMessage(turn="t", text="hello\n🤣", sealed=False),
        StepStarted(
            turn="t", step="s", tool="run_command", words="Ran", command="ls", arguments={"a": [1, {"b": None}]}
        ),
        StepFinished(turn="t", step="s", outcome="ok", code=0, proof={"target": "box", "network": False}, file="/x"),
        TurnFinished(turn="t", outcome="done", tokens_in=3),
    ]
    kept = await store.append(chat.id, *given)
    assert [event.seq for event in kept] == [2, 3, 4, 5]
    assert (await store.events(chat.id))[1:] == kept
    assert [msgspec.structs.replace(event, seq=0, at=0.0) for event in kept] == given
    assert await store.events(chat.id, after=4) == kept[-1:]


async def test_progress_is_shown_and_not_kept(store: ChatStore) -> None:
    chat = await made(store)
    shown, kept = await store.append(chat.id, StepProgress(step="s", words="Getting"), UserMessage(text="x"))
    assert shown.seq == 0
    assert shown.at > 0
    assert kept.seq == 2
    assert [type(event) for event in await store.events(chat.id)] == [ChatMade, UserMessage]


async def test_text_that_is_not_unicode_is_kept_as_far_as_it_is(store: ChatStore) -> None:
    chat = await made(store)
    (kept,) = await store.append(chat.id, StepOutput(step="s", stream="out", text="a\udcffb\0c"))
    assert kept == (await store.events(chat.id))[-1]
    assert isinstance(kept, StepOutput)
    assert kept.text == "a?b\0c"


async def test_what_a_newer_version_wrote_is_left_out_and_stays(store: ChatStore, tmp_path: Path) -> None:
    import sqlite3

    chat = await made(store)
    with sqlite3.connect(store.path) as other:
        for seq, body in ((2, b'{"kind":"from.the.future","x":1}'), (3, b"not json"), (4, b'{"kind":"message.user"}')):
            other.execute("INSERT INTO events VALUES (?, ?, 'k', '', ?)", (chat.id, seq, body))
        other.execute(
            "INSERT INTO events VALUES (?, 5, 'k', '', ?)",
            (chat.id, b'{"kind":"message.user","text":"x","new":1,"seq":5}'),
        )
    other.close()
    assert [event.seq for event in await store.events(chat.id)] == [1, 5]
    (kept,) = await store.append(chat.id, UserMessage(text="next"))
    assert kept.seq == 6


async def test_a_chat_is_named_by_its_first_message_until_it_is_renamed(store: ChatStore) -> None:
    chat = await made(store)
    assert chat.title == ""
    await store.append(chat.id, UserMessage(text="\n \n  Fix the\tbuild \x1b[31mnow\n and more"))
    assert (await store.chat(chat.id)).title == "Fix the build [31mnow"
    await store.append(chat.id, UserMessage(text="another"))
    assert (await store.chat(chat.id)).title == "Fix the build [31mnow"
    await store.rename(chat.id, " Mine ")
    await store.append(chat.id, UserMessage(text="third"))
    assert (await store.chat(chat.id)).title == "Mine"
    long = await made(store)
    await store.append(long.id, UserMessage(text="word " * 40))
    title = (await store.chat(long.id)).title
    assert len(title) <= 60
    assert title.endswith("word…")


async def test_what_the_person_changed_of_a_chat_is_how_it_is(store: ChatStore, tmp_path: Path) -> None:
    chat = await made(store)
    await store.append(chat.id, ChatChanged(place="computer", mode="full", engine="openai", folder=str(tmp_path)))
    now = await store.chat(chat.id)
    assert (now.place, now.mode, now.engine, now.folder) == ("computer", "full", "openai", tmp_path)
    await store.append(chat.id, ChatChanged(place="container"))
    assert (await store.chat(chat.id)).mode == "full"


async def test_the_chat_that_changed_last_is_first(store: ChatStore) -> None:
    one, two = await made(store), await made(store)
    assert [chat.id for chat in await store.chats()] == [two.id, one.id]
    await store.append(one.id, UserMessage(text="again"))
    assert [chat.id for chat in await store.chats()] == [one.id, two.id]


async def test_a_folder_whose_name_is_not_unicode_is_kept(store: ChatStore) -> None:
    folder = Path(os.fsdecode(b"/tmp/\xff\xfe"))
    chat = await made(store, folder)
    assert (await store.chat(chat.id)).folder == folder


async def test_several_at_once_never_share_a_number(store: ChatStore) -> None:
    chats = [await made(store) for _ in range(3)]

    async def talk(chat: str) -> None:
        for number in range(40):
            await store.append(chat, UserMessage(text=f"{number}"), AnswerText(answer="a", text="x"))

    await asyncio.gather(*(talk(chat.id) for chat in chats for _ in range(3)))
    for chat in chats:
        assert [event.seq for event in await store.events(chat.id)] == list(range(1, 242))


async def test_ten_thousand_events_are_there_in_a_moment(store: ChatStore) -> None:
    chat = await made(store)
    for first in range(0, 10_000, 500):
        await store.append(
            chat.id,
            *(StepOutput(turn="t", step=f"s{n}", stream="out", text="x" * 200) for n in range(first, first + 500)),
        )
    times = []
    for _ in range(3):
        began = time.perf_counter()
        events = await store.events(chat.id)
        times.append(time.perf_counter() - began)
    assert len(events) == 10_001
    assert min(times) < 0.2


async def test_a_chat_in_the_bin_is_gone_and_can_come_back(store: ChatStore) -> None:
    chat = await made(store)
    await store.append(chat.id, UserMessage(text="a treasure"))
    await store.remove(chat.id)
    assert await store.chats() == []
    assert await store.search("treasure") == []
    with pytest.raises(NoSuchChat):
        await store.chat(chat.id)
    with pytest.raises(NoSuchChat):
        await store.remove(chat.id)
    assert [one.id for one in await store.removed()] == [chat.id]
    assert await store.empty_bin() == []
    await store.restore(chat.id)
    assert [hit.chat.id for hit in await store.search("treasure")] == [chat.id, chat.id]
    assert len(await store.events(chat.id)) == 2


async def test_the_bin_is_emptied_for_good(store: ChatStore) -> None:
    gone, stays = await made(store), await made(store)
    for chat in (gone, stays):
        await store.append(
            chat.id, UserMessage(text="a treasure"), TurnStarted(turn="t", engine="e", place="p", mode="ask")
        )
    await store.remove(gone.id)
    assert await store.empty_bin(days=-1) == [gone.id]
    assert await store.removed() == []
    with pytest.raises(NoSuchChat):
        await store.restore(gone.id)
    assert {hit.chat.id for hit in await store.search("treasure")} == {stays.id}
    assert len(await store.events(stays.id)) == 3


async def test_a_draft_is_kept_until_it_is_sent_or_its_chat_is_gone(store: ChatStore, tmp_path: Path) -> None:
    chat, gone = await made(store), await made(store)
    for id, text in ((chat.id, "half"), (chat.id, "half a thought\n\ud83d"), ("", "a new one"), (gone.id, "x")):
        await store.keep_draft(id, text)
    await store.keep_draft("never was", "x")
    other = ChatStore(tmp_path / "chats.sqlite3")
    await other.open()
    assert await other.drafts() == {chat.id: "half a thought\n?", "": "a new one", gone.id: "x"}
    await other.close()
    await store.remove(gone.id)
    await store.keep_draft("", "")
    await store.empty_bin(days=-1)
    assert await store.drafts() == {chat.id: "half a thought\n?"}
    assert await store.search("thought") == [], "what is not sent is not found"


async def test_a_file_of_before_there_were_drafts_has_them_now(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite3"
    before = ChatStore(path, migrations=MIGRATIONS[:1])
    await before.open()
    chat = await made(before)
    await before.close()
    store = ChatStore(path)
    await store.open()
    assert await store.drafts() == {}
    await store.keep_draft(chat.id, "x")
    assert await store.drafts() == {chat.id: "x"}
    await store.close()


async def test_a_chat_that_never_was_is_said(store: ChatStore) -> None:
    with pytest.raises(NoSuchChat, match="not there"):
        await store.append("nope", UserMessage(text="x"))
    assert await store.events("nope") == []


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite3")
    with pytest.raises(StoreTrouble, match="closed"):
        await store.chats()
    await store.open()
    await store.close()
    await store.close()
    with pytest.raises(StoreTrouble, match="closed"):
        await store.chats()


async def test_it_is_the_owners_alone(store: ChatStore, tmp_path: Path) -> None:
    await made(store)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) >= 2  # the file and its write-ahead log
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept} == {0o600}


async def test_another_connection_sees_what_was_appended_at_once(store: ChatStore) -> None:
    other = ChatStore(store.path)
    await other.open()
    chat = await made(store)
    assert [one.id for one in await other.chats()] == [chat.id]
    (kept,) = await other.append(chat.id, UserMessage(text="from the other"))
    assert kept.seq == 2
    await other.close()
    assert len(await store.events(chat.id)) == 2
