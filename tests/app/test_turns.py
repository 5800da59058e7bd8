"""A turn: what is asked, run, recorded and told, in which order."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Literal

import pytest

from app.chats.events import (
    AnswerText,
    ChatChanged,
    ChatEvent,
    StepAnswered,
    StepAsked,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.chats.store import StoreTrouble
from app.chats.turns import Busy
from tests.app.rig import PlaceDouble, rig, says_hello
from tests.doubles.openai import Answer, Call, OpenAIDouble, Request
from workplaces.place import NextStep, PlaceUnavailable, Progress, RunRequest, Stopped, WorkPlaceId
from workplaces.words import PLACE_WORDS


async def test_a_command_chat_runs_what_is_typed_sealed_and_unasked(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        chat = await conch.chat(engine="commands", mode="ask")
        conch.turns.send(chat, "  echo hi ")
        end = await conch.ended(chat)
        kinds = [type(event) for where, event in conch.seen]
        assert kinds == [UserMessage, TurnStarted, StepStarted, StepOutput, StepFinished, TurnFinished]
        assert (end.outcome, end.words) == ("done", "")
        [request] = conch.container.requests
        assert (request.command, request.open, request.folder, request.chat) == ("echo hi", False, conch.folder, chat)
        assert request.timeout == 3600
        [started] = conch.shown(chat, StepStarted)
        assert (started.by_person, started.open, started.place, started.words) == (
            True,
            False,
            "container",
            "Ran echo …",
        )
        [finished] = conch.shown(chat, StepFinished)
        assert (finished.outcome, finished.code, finished.text, finished.where) == ("ok", 0, "hello\n", "container")
        assert finished.proof["details"] == {"engine": "double"}
        # What was shown is what is kept.
        assert [event for _, event in conch.seen] == (await conch.store.events(chat))[1:]
        assert len({event.turn for _, event in conch.seen}) == 1
        assert not conch.turns.busy(chat)


async def test_the_switch_off_runs_it_open(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "git fetch", sealed=False)
        await conch.ended(chat)
        assert conch.container.requests[0].open
        assert conch.shown(chat, StepStarted)[0].open


async def test_a_bang_runs_a_command_in_any_chat_and_asks_no_model(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "! ls -la")
            await conch.ended(chat)
            assert conch.container.requests[0].command == "ls -la"
            assert conch.shown(chat, TurnStarted)[0].engine == "commands"
            conch.turns.send(chat, "!")
            end = await conch.ended(chat, turns=2)
            assert end.outcome == "failed"
            assert "no command" in end.words
        assert not model.requests


async def test_a_row_is_kept_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a crash in the middle of it is seen afterwards, also where the disk is slow."""
    kept: list[object] = []

    async def looks(request: RunRequest) -> int:
        kept.extend(await conch.store.events(request.chat))
        return 0

    async with rig(tmp_path) as conch:
        append = conch.store.append

        async def slow(chat: str, *events: ChatEvent) -> list[ChatEvent]:
            await asyncio.sleep(0.05)
            return await append(chat, *events)

        monkeypatch.setattr(conch.store, "append", slow)
        conch.container.work = looks
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "x")
        await conch.ended(chat)
        assert isinstance(kept[-1], StepStarted)


async def test_a_model_calls_a_command_is_asked_about_and_goes_on(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(text="Let me look.", calls=[Call("run_command", {"command": "ls"})]), "Two files."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "what is here?")
            card = await conch.asked(chat)
            assert not conch.container.requests  # nothing runs while it is asked about
            assert card.title == "List files in a container?"
            conch.turns.answer(chat, card.step, "once")
            conch.turns.answer(chat, card.step, "no")  # a second press changes nothing
            end = await conch.ended(chat)
            assert end.outcome == "done"
            assert end.tokens_in == 40
            [answered] = conch.shown(chat, StepAnswered)
            assert answered.answer == "once"
            answers = conch.shown(chat, AnswerText)
            assert "".join(event.text for event in answers) == "Let me look.Two files."
            assert len({event.answer for event in answers}) == 2  # before and after the step
        [told] = model.requests[1].tool_answers()
        assert (
            told.splitlines()[0]
            == "Ran in a container (box-1), in /there, sealed, without network. Exit code 0, after 0.5 s."
        )
        assert "hello" in told
        first = model.requests[0]
        assert first.tools == ["run_command", "read_file", "write_file", "edit_file", "list_files", "search_files"]
        described = (first.body or {})["tools"][0]["function"]["description"]
        assert f"The double of container sees {tmp_path / 'work'} as /there." in described
        assert "Do not run it another way" in first.messages[0]["content"]


async def test_no_is_told_and_nothing_runs(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "rm -rf x"})]), "Then not."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "clean up")
            conch.turns.answer(chat, (await conch.asked(chat)).step, "no")
            await conch.ended(chat)
            assert not conch.container.requests
            assert conch.shown(chat, StepFinished)[0].outcome == "refused"
        assert "did not allow" in model.requests[1].tool_answers()[0]


async def test_always_is_for_this_very_command_and_survives_a_restart(tmp_path: Path) -> None:
    call = Call("run_command", {"command": "make"})
    with OpenAIDouble() as model:
        model.script([Answer(calls=[call]), "Made.", Answer(calls=[call]), "Again."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "make it")
            conch.turns.answer(chat, (await conch.asked(chat)).step, "chat")
            await conch.ended(chat)
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.turns.send(chat, "again")
            await conch.ended(chat)
            assert not conch.shown(chat, StepAsked)
            assert len(conch.container.requests) == 1
            # Another place, or the same command open, is another thing.
            model.script([Answer(calls=[Call("run_command", {"command": "make", "open": True, "reason": "to push"})])])
            conch.turns.send(chat, "now open")
            card = await conch.asked(chat)
            assert "to push" in card.why
            await conch.turns.stop(chat)
            await conch.store.append(chat, ChatChanged(place="computer"))
            model.script([Answer(calls=[call])])
            conch.turns.send(chat, "and here")
            await conch.until(lambda _, event: isinstance(event, StepAsked) and event.step != card.step)
            await conch.turns.stop(chat)
            assert not conch.computer.requests


async def test_full_trust_asks_nothing_but_refuses_a_protected_place(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": f"cat {keys}/id"})]), "No."])
        async with rig(tmp_path, base_url=model.base_url, protected=(keys,)) as conch:
            chat = await conch.chat(mode="full")
            conch.turns.send(chat, "read my key")
            await conch.ended(chat)
            conch.turns.send(chat, f"!cat {keys}/id")  # nor for the person, by way of the chat
            await conch.ended(chat, turns=2)
            first, second = conch.shown(chat, StepFinished)
            assert (first.outcome, second.outcome) == ("refused", "refused")
            assert "protected place" in second.words
            assert not conch.container.requests


async def test_a_place_that_is_not_there_runs_nothing_and_says_so(tmp_path: Path) -> None:
    gone = PlaceUnavailable(
        "Docker is not running.", next_step=NextStep("Start Docker", command="sudo systemctl start docker")
    )
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "ls"})]), "It did not run."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.places.named["container"] = gone
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "list")
            assert (await conch.ended(chat)).outcome == "done"
            [finished] = conch.shown(chat, StepFinished)
            assert (finished.outcome, finished.words) == ("not_run", "Docker is not running.")
            assert (finished.next_label, finished.next_command) == ("Start Docker", "sudo systemctl start docker")
            assert not conch.shown(chat, StepAsked)  # nobody is asked about what cannot run
            conch.turns.send(chat, "!ls")
            await conch.ended(chat, turns=2)
            assert conch.shown(chat, StepFinished)[1].outcome == "not_run"
            assert not conch.computer.requests  # never here instead
        [told] = model.requests[1].tool_answers()
        assert told == gone.for_model()
        assert PLACE_WORDS["model.did-not-run"] in told
        assert "not ready now: Docker is not running." in model.requests[0].messages[0]["content"]


async def test_a_place_that_goes_as_it_runs_is_said_too(tmp_path: Path) -> None:
    async def gone(request: RunRequest) -> int:
        raise PlaceUnavailable("It went away.")

    async with rig(tmp_path) as conch:
        conch.container.work = gone
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "ls")
        await conch.ended(chat)
        assert conch.shown(chat, StepFinished)[0].outcome == "not_run"


async def test_a_place_that_does_not_seal_is_asked_and_run_as_open(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "ls"})]), "Done."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            box = PlaceDouble(WorkPlaceId("ssh", "build-box"), seals=False)
            conch.places.named["ssh:build-box"] = box
            chat = await conch.chat(mode="ask", place="ssh:build-box")
            conch.turns.send(chat, "list")
            card = await conch.asked(chat)
            assert card.title == "List files on build-box?"
            assert "leaves the box" in card.why
            conch.turns.answer(chat, card.step, "once")
            await conch.ended(chat)
            assert box.requests[0].open


async def test_the_place_is_asked_for_each_command(tmp_path: Path) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    async def waits(request: RunRequest) -> int:
        running.set()
        await go_on.wait()
        return 0

    two = [Call("run_command", {"command": "first"}), Call("run_command", {"command": "second"})]
    with OpenAIDouble() as model:
        model.script([Answer(calls=two), "Both."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.container.work = waits
            chat = await conch.chat()
            conch.turns.send(chat, "go")
            await running.wait()
            await conch.store.append(chat, ChatChanged(place="computer"))
            go_on.set()
            await conch.ended(chat)
            assert [request.command for request in conch.container.requests] == ["first"]
            assert [request.command for request in conch.computer.requests] == ["second"]
            assert [step.place for step in conch.shown(chat, StepStarted)] == ["container", "computer"]
            assert [step.where for step in conch.shown(chat, StepFinished)] == ["container", ""]
        first, second = model.requests[1].tool_answers()
        assert first.startswith("Ran in a container")
        assert second.startswith("Ran on this computer")


async def test_the_mode_holds_from_the_next_step(tmp_path: Path) -> None:
    two = [Call("run_command", {"command": "first"}), Call("run_command", {"command": "second"})]
    with OpenAIDouble() as model:
        model.script([Answer(calls=two), "Both."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "go")
            card = await conch.asked(chat)
            await conch.store.append(chat, ChatChanged(mode="full"))
            conch.turns.answer(chat, card.step, "once")
            await conch.ended(chat)
            assert len(conch.shown(chat, StepAsked)) == 1
            assert len(conch.container.requests) == 2


@pytest.mark.parametrize("answer", ["once", "no"])
async def test_what_a_place_must_not_decide_is_asked_on_the_steps_own_card(
    tmp_path: Path, answer: Literal["once", "no"]
) -> None:
    """Also with full trust: the command ran, and what it did there would empty the folder here."""
    told: list[bool] = []

    async def runs(request: RunRequest) -> int:
        assert request.ask is not None
        told.append(await request.ask("40 of 50 files are gone there."))
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = runs
        chat = await conch.chat(mode="full")
        conch.turns.send(chat, "!rm -rf x")
        card = await conch.asked(chat)
        assert (card.why, card.can_always) == ("40 of 50 files are gone there.", False)
        assert told == []
        conch.turns.answer(chat, card.step, answer)
        await conch.ended(chat)
        assert told == [answer == "once"]


@pytest.mark.parametrize("when", ["model", "asking", "running", "at once"])
async def test_stop_at_any_point(tmp_path: Path, when: str) -> None:
    running, dead = asyncio.Event(), []

    async def runs(request: RunRequest) -> int:
        request.output.feed("out", b"half\n")
        running.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # a place takes its time until all is dead
            dead.append(True)
            raise Stopped(seconds=1.5, proof=conch.container.proof(request)) from None
        return 0

    with OpenAIDouble() as model:
        first = (
            Answer(text="Thinking about it", hang_after=3)
            if when == "model"
            else Answer(calls=[Call("run_command", {"command": "sleep 600"})])
        )
        model.script([first])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.container.work = runs
            chat = await conch.chat(mode="ask" if when == "asking" else "full")
            conch.turns.send(chat, "go")
            if when == "model":
                await conch.until(lambda _, event: isinstance(event, AnswerText))
            elif when == "asking":
                await conch.asked(chat)
            elif when == "running":
                await conch.until(lambda _, event: isinstance(event, StepOutput))
            async with asyncio.timeout(2):
                await conch.turns.stop(chat)
                await conch.turns.stop(chat)
            assert not conch.turns.busy(chat)
            kept = await conch.store.events(chat)
            assert isinstance(kept[-1], TurnFinished)
            assert kept[-1].outcome == "stopped"
            finished = [event for event in kept if isinstance(event, StepFinished)]
            if when == "running":
                assert dead
                assert (finished[0].outcome, finished[0].text, finished[0].seconds) == ("stopped", "half\n", 1.5)
                assert finished[0].proof["target"] == "box-1"
            elif when == "asking":
                assert finished[0].outcome == "not_run"
                assert not conch.container.requests
            elif when == "model":
                assert "Think" in conch.answer_text(chat)
            # And the chat goes on: what was cut off is a valid history.
            model._steps.clear()
            model.script(["Here again."])
            conch.turns.send(chat, "and now?")
            assert (await conch.ended(chat, turns=2)).outcome == "done"


async def test_what_a_command_was_refused_is_in_its_row_and_told_to_the_model(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "x", "open": True})]), "I see."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.container.tried, conch.container.note = ("evil.test:443", "github.com"), "It tried to reach evil."
            chat = await conch.chat()
            conch.turns.send(chat, "go")
            await conch.ended(chat)
            assert conch.shown(chat, StepFinished)[0].tried == ("evil.test:443", "github.com")
            kept = [event for event in await conch.store.events(chat) if isinstance(event, StepFinished)]
            assert kept[0].tried == ("evil.test:443", "github.com")
        assert "It tried to reach evil." in model.requests[1].tool_answers()[0]


async def test_what_a_stopped_command_was_refused_is_in_its_row(tmp_path: Path) -> None:
    running = asyncio.Event()

    async def runs(request: RunRequest) -> int:
        running.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            stopped = Stopped()
            stopped.tried = ("evil.test:443",)
            raise stopped from None
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = runs
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "sleep 600")
        await running.wait()
        await conch.turns.stop(chat)
        assert conch.shown(chat, StepFinished)[0].tried == ("evil.test:443",)


async def test_stop_that_is_not_sure_says_so(tmp_path: Path) -> None:
    running = asyncio.Event()

    async def runs(request: RunRequest) -> int:
        running.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise Stopped(sure=False, words="The engine did not answer, so it may still run.") from None
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = runs
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "sleep 600")
        await running.wait()
        await conch.turns.stop(chat)
        assert conch.shown(chat, StepFinished)[0].words == "The engine did not answer, so it may still run."


async def test_how_a_command_ends_is_said(tmp_path: Path) -> None:
    codes = iter([3, None])

    async def ends(request: RunRequest) -> int | None:
        return next(codes)

    async with rig(tmp_path) as conch:
        conch.container.work = ends
        chat = await conch.chat(engine="commands")
        for turn in (1, 2):
            conch.turns.send(chat, "x")
            assert (await conch.ended(chat, turns=turn)).outcome == "done"
        first, second = conch.shown(chat, StepFinished)
        assert (first.outcome, first.code) == ("failed", 3)
        assert (second.outcome, second.code) == ("timed_out", None)
        assert "the time it was given" in second.words


async def test_progress_is_shown_and_not_kept(tmp_path: Path) -> None:
    async def pulls(request: RunRequest) -> int:
        assert request.on_progress is not None
        for done in range(0, 1001):
            request.on_progress(Progress("Getting node", done, 1000))
        return await says_hello(request)

    async with rig(tmp_path) as conch:
        conch.container.work = pulls
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "ls")
        await conch.ended(chat)
        shown = conch.shown(chat, StepProgress)
        assert (shown[-1].done, shown[-1].seq) == (1000, 0)
        assert len(shown) < 10
        assert not any(isinstance(event, StepProgress) for event in await conch.store.events(chat))


async def test_output_is_batched_and_bounded(tmp_path: Path) -> None:
    async def prints(request: RunRequest) -> int:
        def work() -> None:
            for _ in range(2000):
                request.output.feed("out", b"x" * 999 + b"\n")

        await asyncio.to_thread(work)
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = prints
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "yes")
        await conch.ended(chat)
        kept = [event for event in await conch.store.events(chat) if isinstance(event, StepOutput)]
        assert sum(len(event.text) for event in kept) <= 64 * 1024
        shown = conch.shown(chat, StepOutput)
        assert len(shown) < 60
        [finished] = conch.shown(chat, StepFinished)
        assert finished.size == 2_000_000
        assert finished.left_out == 2_000_000 - 128 * 1024


async def test_two_streams_that_take_turns_are_few_events(tmp_path: Path) -> None:
    async def prints(request: RunRequest) -> int:
        def work() -> None:
            for number in range(1000):
                request.output.feed("out", f"out {number}\n".encode())
                request.output.feed("err", f"err {number}\n".encode())

        await asyncio.to_thread(work)
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = prints
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "x")
        await conch.ended(chat)
        shown = conch.shown(chat, StepOutput)
        assert len(shown) < 60
        for stream in ("out", "err"):
            text = "".join(event.text for event in shown if event.stream == stream)
            assert text == "".join(f"{stream} {number}\n" for number in range(1000))


async def test_a_long_answer_is_few_events(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        text = "word " * 400
        model.script([Answer(text=text, piece=5, delay=0.001)])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat()
            conch.turns.send(chat, "write")
            await conch.ended(chat)
            assert conch.answer_text(chat) == text
            assert len(conch.shown(chat, AnswerText)) < 40


async def test_chats_do_not_wait_for_one_another(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(request: RunRequest) -> int:
        await go_on.wait()
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = waits
        slow, quick = await conch.chat(engine="commands"), await conch.chat(engine="commands", place="computer")
        conch.turns.send(slow, "slow")
        with pytest.raises(Busy):
            conch.turns.send(slow, "twice")
        conch.turns.send(quick, "quick")
        await conch.ended(quick)
        assert conch.turns.busy(slow)
        go_on.set()
        await conch.ended(slow)


async def test_close_stops_every_turn(tmp_path: Path) -> None:
    async def waits(request: RunRequest) -> int:
        await asyncio.sleep(600)
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = waits
        chats = [await conch.chat(engine="commands") for _ in range(3)]
        for chat in chats:
            conch.turns.send(chat, "x")
        await conch.until(lambda where, event: where == chats[-1] and isinstance(event, StepStarted))
        await conch.turns.close()
        for chat in chats:
            kept = await conch.store.events(chat)
            assert isinstance(kept[-1], TurnFinished)
            assert kept[-1].outcome == "stopped"


async def test_what_conch_itself_does_wrong_is_one_sentence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(request: RunRequest) -> int:
        raise ZeroDivisionError("a bug")

    async with rig(tmp_path) as conch:
        conch.container.work = breaks
        chat = await conch.chat(engine="commands")
        with caplog.at_level(logging.ERROR):
            conch.turns.send(chat, "x")
            end = await conch.ended(chat)
        assert end.outcome == "failed"
        assert "Traceback" not in end.words
        assert "ZeroDivisionError" not in end.words
        assert "a bug" in caplog.text
        assert conch.shown(chat, StepFinished)[0].outcome == "failed"


async def test_whoever_watches_cannot_break_a_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with rig(tmp_path) as conch:

        def breaks(chat: str, event: object) -> None:
            raise RuntimeError("the window is gone")

        end = conch.turns.subscribe(breaks)
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "x")
        assert (await conch.ended(chat)).outcome == "done"
        assert "the window is gone" in caplog.text
        end()
        end()


async def test_a_next_message_can_be_sent_as_the_turn_ends(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        chat = await conch.chat(engine="commands")
        sent = []

        def go_on(where: str, event: object) -> None:
            if isinstance(event, TurnFinished) and not sent:
                sent.append(True)
                conch.turns.send(chat, "second")

        conch.turns.subscribe(go_on)
        conch.turns.send(chat, "first")
        await conch.ended(chat, turns=2)
        assert [request.command for request in conch.container.requests] == ["first", "second"]


async def test_a_store_that_fails_ends_the_turn_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = asyncio.Event()

    async def waits(request: RunRequest) -> int:
        running.set()
        await asyncio.sleep(600)
        return 0

    async with rig(tmp_path) as conch:
        conch.container.work = waits
        chat = await conch.chat(engine="commands")
        conch.turns.send(chat, "x")
        await running.wait()

        async def full(chat: str, *events: object) -> list[object]:
            raise StoreTrouble("There is no room left on the disk.")

        monkeypatch.setattr(conch.store, "append", full)
        conch.container.requests[0].output.feed("out", b"more\n")
        end = await conch.ended(chat)
        assert (end.outcome, end.words) == ("failed", "There is no room left on the disk.")
        assert not conch.turns.busy(chat)


async def test_a_chat_that_is_gone(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        conch.turns.send("nowhere", "x")
        end = await conch.ended("nowhere")
        assert (end.outcome, end.words) == ("failed", "That chat is not there any more.")


@pytest.mark.parametrize("what", ["gone", "/", "home"])
async def test_a_folder_that_cannot_be_worked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    with OpenAIDouble() as model:
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.folder = {"gone": tmp_path / "gone", "/": Path("/"), "home": tmp_path / "home"}[what]
            chat = await conch.chat()
            conch.turns.send(chat, "hello")
            end = await conch.ended(chat)
            assert end.outcome == "failed"
            assert end.words.endswith("Choose another folder.")
        assert not model.requests


async def test_file_tools_work_here_wherever_commands_run(tmp_path: Path) -> None:
    calls = [
        Call("write_file", {"path": "src/a.txt", "content": "one\ntwo\n"}),
        Call("read_file", {"path": "src/a.txt"}),
        Call("write_file", {"path": "../outside.txt", "content": "x"}),
        Call("edit_file", {"path": "src/a.txt", "old_string": "three", "new_string": "3"}),
    ]
    with OpenAIDouble() as model:
        model.script([Answer(calls=calls), "Written."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat(mode="ask")
            conch.turns.send(chat, "write")
            card = await conch.asked(chat)
            assert card.title == "Change src/a.txt?"
            assert not (conch.folder / "src").exists()
            conch.turns.answer(chat, card.step, "chat")
            await conch.ended(chat)
            assert (conch.folder / "src/a.txt").read_text() == "one\ntwo\n"
            assert not (tmp_path / "outside.txt").exists()
            # Reading is not asked about, nor is what cannot work; the rest was allowed for good.
            assert len(conch.shown(chat, StepAsked)) == 1
            outcomes = [event.outcome for event in conch.shown(chat, StepFinished)]
            assert outcomes == ["ok", "ok", "refused", "failed"]
            assert [event.place for event in conch.shown(chat, StepStarted)] == ["", "", "", ""]
        answers = model.requests[1].tool_answers()
        assert answers[0] == "Made src/a.txt: 2 lines."
        assert "     2\ttwo" in answers[1]
        assert "outside the work folder" in answers[2]
        assert "old_string is not in src/a.txt" in answers[3]


async def test_a_write_that_began_is_told_as_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from app.tools import writing

    writes, go_on = threading.Event(), threading.Event()
    real = writing._write

    def slow(*arguments: object) -> None:
        writes.set()
        go_on.wait(10)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "_write", slow)
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("write_file", {"path": "a", "content": "x"})])])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat()
            conch.turns.send(chat, "write")
            await asyncio.to_thread(writes.wait, 10)
            stopping = asyncio.get_running_loop().create_task(conch.turns.stop(chat))
            await asyncio.sleep(0.05)
            assert not stopping.done()
            go_on.set()
            await stopping
            assert (conch.folder / "a").read_text() == "x"
            [finished] = conch.shown(chat, StepFinished)
            assert finished.outcome == "ok"
            assert conch.shown(chat, TurnFinished)[0].outcome == "stopped"


async def test_history_goes_along_and_is_valid(tmp_path: Path) -> None:
    def checks(request: Request) -> str:
        said = [(message["role"], message.get("content")) for message in request.messages[1:]]
        assert said[0] == ("user", "first")
        assert [role for role, _ in said] == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
        assert "I ran this command: ls" in said[4][1]
        assert "hello" in said[4][1]
        assert said[6] == ("user", "third")
        return "Yes."

    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "ls"})]), "One.", "Ok.", checks])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            chat = await conch.chat()
            for turn, text in enumerate(["first", "!ls", "second", "third"], 1):
                conch.turns.send(chat, text)
                await conch.ended(chat, turns=turn)
            assert conch.answer_text(chat) == "One.Ok.Yes."


async def test_no_engine_no_model(tmp_path: Path) -> None:
    async with rig(tmp_path) as conch:
        for engine, words in (("openai", "address of a model's server is missing"), ("later", "not an engine")):
            chat = await conch.chat(engine=engine)
            conch.turns.send(chat, "hello")
            end = await conch.ended(chat)
            assert end.outcome == "failed"
            assert words in end.words
