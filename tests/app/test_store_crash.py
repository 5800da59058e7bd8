"""A process that is killed in mid-turn loses nothing that it was told was kept, and the turn says so."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.chats.cutoff import ASKED_WORDS, STEP_WORDS, TURN_WORDS, end_cut_off
from app.chats.events import (
    ChatEvent,
    StepAnswered,
    StepAsked,
    StepFinished,
    StepOutput,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.chats.store import Chat, ChatStore
from app.home import Home, Presence
from workplaces.output import OutputKeeper

WRITER = """
import asyncio, sys
from pathlib import Path
from app.chats.events import StepOutput, StepStarted, TurnStarted, UserMessage
from app.chats.store import ChatStore
from app.home import Home, Presence

async def main():
    home = Home(Path(sys.argv[1]))
    home.prepare()
    presence = Presence(home)
    presence.begin()
    store = ChatStore(home.chats, owner=presence.id)
    await store.open()
    chat = await store.make(folder=Path("/f"), place="container", mode="ask", engine="commands")
    await store.append(
        chat.id,
        UserMessage(turn="t", text="go"),
        TurnStarted(turn="t", engine="commands", place="container", mode="ask"),
        StepStarted(turn="t", step="s", tool="run_command", words="Ran", command="yes", place="container"),
    )
    print(chat.id, flush=True)
    number = 0
    while True:
        (kept,) = await store.append(chat.id, StepOutput(turn="t", step="s", stream="out", text=f"line {number}\\n"))
        print(kept.seq, flush=True)
        number += 1

asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


async def opened(home: Home, owner: str = "") -> ChatStore:
    store = ChatStore(home.chats, owner=owner)
    await store.open()
    return store


@pytest.mark.parametrize("after", [1, 250])
async def test_kill_in_mid_turn(home: Home, after: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(home.path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    try:
        chat = writer.stdout.readline().strip()
        shown = [writer.stdout.readline().strip() for _ in range(after)]
        # While it lives its turn is its own.
        store = await opened(home)
        assert await store.end_turns(Presence(home).alive, end_cut_off) == []
        await store.close()
    finally:
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
    last = int([*shown, *rest][-1])

    store = await opened(home)
    assert store.trouble is None
    before = await store.events(chat)
    assert [event.seq for event in before] == list(range(1, len(before) + 1))
    assert len(before) >= last
    assert await store.end_turns(Presence(home).alive, end_cut_off) == [chat]
    step, turn = (await store.events(chat))[len(before) :]
    assert isinstance(step, StepFinished)
    assert (step.outcome, step.turn, step.step, step.where) == ("cut_off", "t", "s", "container")
    assert step.text.startswith("line 0\n")
    assert f"line {last - 5}\n" in step.text
    assert step.words == STEP_WORDS
    assert isinstance(turn, TurnFinished)
    assert (turn.outcome, turn.turn, turn.words) == ("cut_off", "t", TURN_WORDS)
    assert await store.end_turns(Presence(home).alive, end_cut_off) == []
    assert [hit.seq for hit in await store.search("line 0")] == [step.seq]
    await store.close()
    assert list(home.running.iterdir()) == []


async def test_a_turn_that_ended_is_not_cut_off(home: Home) -> None:
    store = await opened(home, "gone")
    chat = await made(store)
    await store.append(chat.id, *begun("t"), TurnFinished(turn="t", outcome="done"))
    assert await store.end_turns(lambda _: False, end_cut_off) == []
    await store.close()


async def test_only_turns_of_the_dead_are_ended(home: Home) -> None:
    presence = Presence(home)
    presence.begin()
    mine, theirs = await opened(home, presence.id), await opened(home, "5f-0123")
    one, two = await made(mine), await made(theirs)
    await mine.append(one.id, *begun("t"))
    await theirs.append(two.id, *begun("t"))
    assert await mine.end_turns(presence.alive, end_cut_off) == [two.id]
    await asyncio.gather(mine.close(), theirs.close())
    presence.end()


async def made(store: ChatStore) -> Chat:
    return await store.make(folder=Path("/f"), place="computer", mode="ask", engine="commands")


def begun(turn: str) -> list[ChatEvent]:
    return [UserMessage(turn=turn, text="go"), TurnStarted(turn=turn, engine="commands", place="computer", mode="ask")]


def step(name: str, place: str = "") -> StepStarted:
    return StepStarted(turn="t", step=name, tool="run_command", words="Ran", place=place)


def test_each_step_ends_as_far_as_is_known() -> None:
    ended = end_cut_off(
        "t",
        [
            *begun("t"),
            step("done"),
            StepFinished(turn="t", step="done", outcome="ok"),
            step("asked", "container"),
            StepAsked(turn="t", step="asked", title="?", why="."),
            step("answered", "ssh:build-box"),
            StepAsked(turn="t", step="answered", title="?", why="."),
            StepAnswered(turn="t", step="answered", answer="once"),
            StepOutput(turn="t", step="answered", stream="out", text="10%\r20%"),
            StepOutput(turn="t", step="answered", stream="err", text="\rdone\n"),
        ],
    )
    asked, answered, turn = ended
    assert isinstance(asked, StepFinished)
    assert (asked.step, asked.outcome, asked.words) == ("asked", "not_run", ASKED_WORDS)
    assert isinstance(answered, StepFinished)
    assert (answered.step, answered.outcome, answered.where) == ("answered", "cut_off", "build-box")
    assert answered.text == "done\n"
    assert isinstance(turn, TurnFinished)


def test_a_turn_of_which_nothing_was_understood_ends_too() -> None:
    (turn,) = end_cut_off("t", [])
    assert isinstance(turn, TurnFinished)
    assert turn.turn == "t"


def long_step(output: Path, shown: str) -> StepFinished:
    pieces: list[ChatEvent] = [
        StepOutput(turn="t", step="s", stream="out", text=shown[n : n + 4096]) for n in range(0, len(shown), 4096)
    ]
    ended, _ = end_cut_off("t", [*begun("t"), step("s"), *pieces], output=output)
    assert isinstance(ended, StepFinished)
    return ended


def test_the_rest_of_a_long_output_is_read_where_it_was_spilled(tmp_path: Path) -> None:
    whole = "".join(f"line {number}\n" for number in range(50_000))
    keeper = OutputKeeper(spill_folder=tmp_path)
    for at in range(0, len(whole), 10_000):
        keeper.feed("out", whole[at : at + 10_000].encode())
    spilled = keeper.finish().file
    (tmp_path / "another.output").write_text("another\n" * 50_000)
    ended = long_step(tmp_path, whole[: 64 * 1024])
    assert ended.file == str(spilled)
    assert ended.size == len(whole)
    assert 0 < ended.left_out < len(whole)
    assert ended.text.startswith("line 0\n")
    assert ended.text.endswith("line 49999\n")


def test_an_output_that_cannot_be_told_from_another_is_not_taken(tmp_path: Path) -> None:
    shown = "y\n" * 32 * 1024
    for name in ("one", "two"):
        (tmp_path / f"{name}.output").write_text("y\n" * 100_000)
    ended = long_step(tmp_path, shown)
    assert (ended.file, ended.text, ended.size) == ("", shown, len(shown))
    assert long_step(tmp_path / "gone", shown).text == shown
