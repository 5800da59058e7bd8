"""What a command changed: said behind its result, kept, and told by the place where that knows it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from app.changes.told import MOST_NAMED, event_of
from app.chats.events import StepChanged, StepFinished, TurnFinished
from app.chats.written import packed, unpacked
from tests.app.rig import PlaceDouble, Rig, rig
from workplaces.mirror import watch
from workplaces.place import Changes, RunRequest, RunResult, Stopped, WorkPlaceId


async def changes(conch: Rig, chat: str) -> list[tuple[int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    told = [event for event in await conch.store.events(chat) if isinstance(event, StepChanged)]
    return [(event.count, event.added, event.changed, event.deleted) for event in told]


async def test_what_a_command_changed_is_said_after_its_result_and_before_the_turns_end(tmp_path: Path) -> None:
    async def work(request: RunRequest) -> int:
        (request.folder / "new").write_text("x")
        (request.folder / "kept").write_text("another")
        (request.folder / "old").unlink()
        return 1

    async with rig(tmp_path) as conch:
        (conch.folder / "kept").write_text("x")
        (conch.folder / "old").write_text("x")
        await asyncio.sleep(0.05)  # a file's time is no finer: the first command would be told to have made them
        chat = await conch.chat(engine="commands", mode="ask")
        conch.turns.send(chat, "true")
        await conch.ended(chat)
        assert await changes(conch, chat) == []
        conch.container.work = work
        conch.turns.send(chat, "change things")
        await conch.ended(chat, turns=2)
        assert await changes(conch, chat) == [(3, ("new",), ("kept",), ("old",))]
        kinds = [type(event) for event in await conch.store.events(chat)]
        assert kinds[-3:] == [StepFinished, StepChanged, TurnFinished]
        [told] = conch.shown(chat, StepChanged)
        assert told.step == conch.shown(chat, StepFinished)[-1].step


async def test_what_a_place_knows_is_taken_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path) as conch:
        machine = PlaceDouble(WorkPlaceId("ssh", "build-box"), seals=False)
        conch.places.named["ssh:build-box"] = machine
        chat = await conch.chat(engine="commands", mode="full", place="ssh:build-box")
        run = machine.run

        async def knows(request: RunRequest) -> RunResult:
            (request.folder / "by somebody else").write_text("x")
            result = await run(request)
            return RunResult(
                code=0, output=result.output, seconds=1, where=result.where, proof=result.proof,
                changed=Changes(added=("there",)),
            )  # fmt: skip

        monkeypatch.setattr(machine, "run", knows)
        conch.turns.send(chat, "true")
        await conch.ended(chat)
        assert await changes(conch, chat) == [(1, ("there",), (), ())]
        assert conch.turns._shared.changes._known == {}, "the folder is not listed a second time for it"


async def test_a_command_that_was_stopped_says_what_it_changed(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def work(request: RunRequest) -> int:
        (request.folder / "half").write_text("x")
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise Stopped(seconds=1) from None
        return 0

    async with rig(tmp_path) as conch:
        chat = await conch.chat(engine="commands", mode="ask")
        conch.turns.send(chat, "true")
        await conch.ended(chat)
        conch.container.work = work
        conch.turns.send(chat, "long")
        await begun.wait()
        await conch.turns.stop(chat)
        assert await changes(conch, chat) == [(1, ("half",), (), ())]


async def test_a_result_does_not_wait_for_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    told = watch.Watched.since

    def slow(self: watch.Watched, mark: watch.Mark) -> Changes | None:
        go.wait(10)
        return told(self, mark)

    async def work(request: RunRequest) -> int:
        (request.folder / "new").write_text("x")
        return 0

    async with rig(tmp_path) as conch:
        monkeypatch.setattr(watch.Watched, "since", slow)
        conch.container.work = work
        chat = await conch.chat(engine="commands", mode="ask")
        conch.turns.send(chat, "true")
        await conch.ended(chat)
        assert conch.shown(chat, StepFinished)
        assert await changes(conch, chat) == [], "it was not waited for"
        go.set()
        await conch.until(lambda where, event: isinstance(event, StepChanged))
        assert len(await changes(conch, chat)) == 1, "and is said all the same"


async def test_a_command_that_did_not_run_changed_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        conch.places.named.pop("container")
        chat = await conch.chat(engine="commands", mode="ask")
        conch.turns.send(chat, "true")
        (conch.folder / "by hand").write_text("x")
        await conch.ended(chat)
        assert await changes(conch, chat) == []


def test_of_very_many_files_the_number_is_kept_and_some_names() -> None:
    many = tuple(f"f{number:04}" for number in range(500))
    event = event_of("s", Changes(added=many, deleted=("gone",)))
    assert (event.count, len(event.added), event.deleted) == (501, MOST_NAMED, ())
    event = event_of("s", Changes(added=many, changed=("c",)))
    assert (event.count, len(event.added), event.changed) == (501, MOST_NAMED - 1, ("c",))


def test_a_name_that_is_no_text_is_kept_as_far_as_it_is() -> None:
    [read] = unpacked([packed(event_of("s", Changes(added=("odd\udcff",))))[1]])
    assert isinstance(read, StepChanged)
    assert read.added == ("odd?",)
