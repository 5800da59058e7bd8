"""Finding what was said, by any part of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.chats.events import AnswerText, StepFinished, StepStarted, TurnFinished, UserMessage
from app.chats.search import query, snippet
from app.chats.store import ChatStore, Hit


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ChatStore]:
    store = ChatStore(tmp_path / "chats.sqlite3")
    await store.open()
    yield store
    await store.close()


async def made(store: ChatStore) -> str:
    return (await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands", title="Untitled")).id


async def found(store: ChatStore, text: str) -> list[tuple[str, int]]:
    return [(hit.chat.id, hit.seq) for hit in await store.search(text)]


async def test_messages_commands_outputs_and_answers_are_found(store: ChatStore) -> None:
    chat = await made(store)
    await store.append(
        chat,
        UserMessage(turn="t", text="Please count the wombats"),
        StepStarted(turn="t", step="s", tool="run_command", words="Ran it", command="grep -c wombat zoo.txt"),
        StepFinished(turn="t", step="s", outcome="ok", text="117 wombats\n"),
        AnswerText(turn="t", answer="a", text="There are 117 wom"),
        AnswerText(turn="t", answer="a", text="bats in the zoo."),
        TurnFinished(turn="t", outcome="done"),
    )
    assert {seq for _, seq in await found(store, "wombat")} == {2, 3, 4, 5}
    assert await found(store, "ombats in the z") == [(chat, 5)]
    assert await found(store, "WOMBATS zoo.") == [(chat, 5)]
    assert await found(store, "koala") == []


async def test_an_answer_that_is_still_coming_is_found_once(store: ChatStore) -> None:
    chat = await made(store)
    await store.append(chat, AnswerText(turn="t", answer="a", text="The cro"))
    assert await found(store, "crocodile") == []
    await store.append(
        chat, AnswerText(turn="t", answer="a", text="codile"), AnswerText(turn="t", answer="b", text="crocodile")
    )
    assert await found(store, "crocodile") == [(chat, 4), (chat, 2)]
    await store.append(chat, AnswerText(turn="t", answer="a", text=" sleeps"), TurnFinished(turn="t", outcome="done"))
    assert await found(store, "crocodile sleeps") == [(chat, 2)]
    assert await found(store, "crocodile") == [(chat, 4), (chat, 2)]


@pytest.mark.parametrize(
    "said",
    [
        'say "quoted" AND NOT* (this) OR', "100% of a_b \\ c", "naïve façade ÜBER", "数据库连接失败", "emoji 🤣 laughs",
        "[[ -f x ]] && echo", "a", "it's --hard", "NEAR(x y)", "col:umn {text}: ^first",
    ],
)  # fmt: skip
async def test_whatever_was_typed_is_looked_for_as_it_stands(store: ChatStore, said: str) -> None:
    chat = await made(store)
    await store.append(chat, UserMessage(text=f"before {said} after"))
    assert await found(store, said) == [(chat, 2)]
    for word in said.split():
        assert await found(store, word) == [(chat, 2)]
    assert await found(store, said + " zzz") == []


@pytest.mark.parametrize("short", ["败", "接失", "b_", "_", "%", "c%"])
async def test_one_or_two_letters_are_found_too_and_are_no_pattern(store: ChatStore, short: str) -> None:
    chat = await made(store)
    await store.append(chat, UserMessage(text="nothing here to see"))
    await store.append(chat, UserMessage(text="数据库连接失败 ab_c% d"))
    expected = [(chat, 3)] if short in "数据库连接失败 ab_c% d" else []
    assert await found(store, short) == expected
    assert await found(store, f"{short} 数据库") == expected


@pytest.mark.parametrize("empty", ["", "  \n", "\0"])
async def test_nothing_typed_finds_nothing(store: ChatStore, empty: str) -> None:
    chat = await made(store)
    await store.append(chat, UserMessage(text="x"))
    assert await store.search(empty) == []


async def test_titles_come_first_and_the_newest_of_what_was_said_next(store: ChatStore) -> None:
    old, new = await made(store), await made(store)
    await store.append(old, UserMessage(text="about ferrets"))
    await store.append(new, UserMessage(text="ferrets again"))
    titled = await made(store)
    await store.rename(titled, "Ferrets & more")
    hits = await store.search("ferrets")
    assert [(hit.chat.id, hit.seq) for hit in hits] == [(titled, 1), (new, 2), (old, 2)]
    assert hits[0].snippet == "[[Ferrets]] & more"
    assert [hit.chat.id for hit in await store.search("ferrets", most=2)] == [titled, new]


async def test_a_long_output_is_found_at_both_its_ends(store: ChatStore) -> None:
    chat = await made(store)
    middle = "x" * 200_000
    await store.append(chat, StepFinished(step="s", outcome="ok", text=f"first-line {middle} last-line"))
    assert await found(store, "first-line") == await found(store, "last-line") == [(chat, 2)]


async def test_a_snippet_shows_the_words_round_the_match_on_one_line(store: ChatStore) -> None:
    chat = await made(store)
    await store.append(chat, UserMessage(text=f"{'far ' * 50}\nthe needle\tin\x1b[31m the hay {'more ' * 50}"))
    (hit,) = await store.search("needle")
    assert isinstance(hit, Hit)
    assert "the [[needle]] in [31m the hay" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 130


@pytest.mark.parametrize("text", ["[[ -f x ]] then x", "[x]", "a[x]b", "]x[ [[x]]"])
def test_brackets_of_the_text_are_not_taken_for_marks(text: str) -> None:
    marked = re.findall(r"\[\[(.*?)\]\]", snippet(text, ("x",)))
    assert marked == ["x"] * text.count("x")


def test_without_trigrams_the_beginnings_of_words_are_asked_for() -> None:
    asked = query('two "words"', trigram=False)
    assert asked is not None
    assert asked.match == '"two" * """words""" *'
    assert asked.likes == ()
