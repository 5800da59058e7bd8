"""Whole turns at real places: a loopback model calls a command in a real container and in a real sealed box."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.chats.events import (
    AnswerText,
    ChatChanged,
    ChatEvent,
    StepAsked,
    StepChanged,
    StepFinished,
    StepOutput,
    StepStarted,
    TurnFinished,
)
from app.home import Home
from app.services import Services
from tests.doubles.openai import Answer, Call, OpenAIDouble
from tests.real.engines.dockerd import Dockerd
from tests.workplaces.looking import number, processes, until
from workplaces.words import PLACE_WORDS

ROOT = Path(__file__).parents[2]

# What only that place has: its first process, its name, a network of its own.
WHERE = "cat /proc/1/comm; cat /etc/hostname; readlink /proc/self/ns/net; echo made > made.txt"


class Conch:
    """The services, on a home and a work folder of the test's own."""

    def __init__(self, services: Services, folder: Path, place: str, model: OpenAIDouble) -> None:
        self.services = services
        self.folder = folder
        self.place = place
        self.model = model
        self.seen: list[ChatEvent] = []
        services.turns.subscribe(lambda _, event: self.seen.append(event))

    async def chat(self, *, engine: str = "openai", mode: str = "ask", place: str = "") -> str:
        made = await self.services.store.make(
            folder=self.folder,
            place=place or self.place,
            mode=mode,  # type: ignore[arg-type]
            engine=engine,
        )
        return made.id

    def shown(self, kind: type) -> list:  # type: ignore[type-arg]
        return [event for event in self.seen if isinstance(event, kind)]

    async def first(self, kind: type, nth: int = 1):  # type: ignore[no-untyped-def]
        await until(lambda: len(self.shown(kind)) >= nth or self.shown(TurnFinished)[nth - 1 :], 60, kind.__name__)
        found = self.shown(kind)
        assert len(found) >= nth, self.seen[-5:]
        return found[nth - 1]


@pytest.fixture(params=["computer", "container"])
async def conch(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Conch]:
    if request.param == "container":
        request.getfixturevalue("docker_host")
    else:
        request.getfixturevalue("need")("bwrap")
    async with Started(tmp_path, monkeypatch, request.param) as made:
        yield made


class Started:
    """Conch, started in a person's home with nothing in it but the work folder."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        self.folder = tmp_path / "person" / "work"
        self.folder.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(tmp_path / "person"))
        self.place = place
        self.model = OpenAIDouble()

    async def __aenter__(self) -> Conch:
        self.model.__enter__()
        self.services = Services(Home())
        await self.services.start()
        await self.services.preferences.set("model.base_url", self.model.base_url)
        await self.services.preferences.set("model.name", "double-1")
        return Conch(self.services, self.folder, self.place, self.model)

    async def __aexit__(self, *_: object) -> None:
        await self.services.close()
        await asyncio.to_thread(self.model.__exit__)


def is_there(conch: Conch, finished: StepFinished) -> None:
    """The command ran at the place, and nowhere else."""
    first, name, network = finished.text.splitlines()
    if conch.place == "container":
        assert first == "docker-init"
        assert name == finished.proof["target"][:12]
    else:
        assert first == "bwrap"
    assert network != str(Path("/proc/self/ns/net").readlink())
    assert finished.proof["place"] == conch.place
    assert (finished.proof["sealed"], finished.proof["network"]) == (True, False)


async def test_a_model_runs_a_command_there_and_is_told(conch: Conch) -> None:
    conch.model.script(
        [
            Answer(text="I look.", calls=[Call("run_command", {"command": WHERE})]),
            Answer(text="It ran where you said.", piece=4),
        ]
    )
    chat = await conch.chat()
    conch.services.turns.send(chat, "where are you?")
    card: StepAsked = await conch.first(StepAsked)
    assert not (conch.folder / "made.txt").exists()
    conch.services.turns.answer(chat, card.step, "once")
    end: TurnFinished = await conch.first(TurnFinished)
    assert (end.outcome, end.words) == ("done", "")
    [finished] = conch.shown(StepFinished)
    is_there(conch, finished)
    assert finished.where == {"container": PLACE_WORDS["container.where"], "computer": ""}[conch.place]
    assert (conch.folder / "made.txt").read_text() == "made\n"
    assert "".join(event.text for event in conch.shown(AnswerText)) == "I look.It ran where you said."
    [told] = conch.model.requests[1].tool_answers()
    assert told.startswith({"container": "Ran in a container", "computer": "Ran on this computer"}[conch.place])
    assert f"in {finished.proof['folder']}, sealed, without network. Exit code" in told
    assert finished.text.strip() in told
    described = (conch.model.requests[0].body or {})["tools"][0]["function"]["description"]
    assert str(conch.folder) in described


async def test_no_means_that_nothing_ran_there(conch: Conch) -> None:
    conch.model.script([Answer(calls=[Call("run_command", {"command": "touch made.txt"})]), "Then not."])
    chat = await conch.chat()
    conch.services.turns.send(chat, "make it")
    card: StepAsked = await conch.first(StepAsked)
    conch.services.turns.answer(chat, card.step, "no")
    await conch.first(TurnFinished)
    assert not (conch.folder / "made.txt").exists()


async def test_what_is_typed_is_sealed_until_the_switch_is_off(conch: Conch) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(conch.folder)], check=True)
    chat = await conch.chat(engine="commands")
    conch.services.turns.send(chat, "echo x > .git/x; echo y > y")
    await conch.first(TurnFinished)
    assert not (conch.folder / ".git/x").exists()
    assert (conch.folder / "y").exists()
    conch.services.turns.send(chat, "echo x > .git/x", sealed=False)
    await conch.first(TurnFinished, 2)
    assert (conch.folder / ".git/x").exists()
    sealed, opened = conch.shown(StepFinished)
    assert (sealed.proof["sealed"], opened.proof["sealed"]) == (True, False)


async def test_stop_in_the_middle_of_a_command(conch: Conch) -> None:
    mark = number()
    line = f"echo begun; sh -c 'trap \"\" TERM; sleep {mark} & wait' & sleep {mark} && touch PROOF"
    conch.model.script([Answer(calls=[Call("run_command", {"command": line})])])
    chat = await conch.chat(mode="full")
    conch.services.turns.send(chat, "go")
    await conch.first(StepOutput)
    await until(lambda: processes(f"sleep {mark}"), 20, "it runs")
    async with asyncio.timeout(20):
        await conch.services.turns.stop(chat)
    # At once, when stop has returned.
    assert not processes(f"sleep {mark}")
    assert not (conch.folder / "PROOF").exists()
    [finished] = conch.shown(StepFinished)
    assert (finished.outcome, finished.text) == ("stopped", "begun\n")
    [end] = conch.shown(TurnFinished)
    assert end.outcome == "stopped"


async def test_a_time_that_is_up(conch: Conch) -> None:
    mark = number()
    call = Call("run_command", {"command": f"echo begun; sleep {mark}", "timeout": 1})
    conch.model.script([Answer(calls=[call]), "Too slow."])
    chat = await conch.chat(mode="full")
    conch.services.turns.send(chat, "go")
    await conch.first(TurnFinished)
    [finished] = conch.shown(StepFinished)
    assert (finished.outcome, finished.code, finished.text) == ("timed_out", None, "begun\n")
    assert "Ended after 1 second, the time it was given." in finished.words
    assert "the time it was given" in conch.model.requests[1].tool_answers()[0]
    assert not processes(f"sleep {mark}")


async def test_output_streams_as_it_comes(conch: Conch) -> None:
    """The first line is shown while the command waits for a file that is made only then."""
    chat = await conch.chat(engine="commands")
    conch.services.turns.send(chat, "echo first; until test -e go; do sleep 0.01; done; echo second")
    await conch.first(StepOutput)
    assert not conch.shown(StepFinished)
    (conch.folder / "go").touch()
    await conch.first(TurnFinished)
    assert [event.text for event in conch.shown(StepOutput)] == ["first\n", "second\n"]


async def test_a_protected_place_is_refused_there_too(conch: Conch, tmp_path: Path) -> None:
    keys = tmp_path / "person/.ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("the key")
    conch.model.script([Answer(calls=[Call("run_command", {"command": "cat ~/.ssh/id_rsa; touch made.txt"})]), "No."])
    chat = await conch.chat(mode="full")
    conch.services.turns.send(chat, "read it")
    await conch.first(TurnFinished)
    [finished] = conch.shown(StepFinished)
    assert finished.outcome == "refused"
    assert not (conch.folder / "made.txt").exists()
    assert "the key" not in str(conch.model.requests[1].body)


async def test_a_command_that_prints_without_end(conch: Conch) -> None:
    chat = await conch.chat(engine="commands")
    conch.services.turns.send(chat, "yes | head -c 50000000")
    await conch.first(TurnFinished)
    [finished] = conch.shown(StepFinished)
    assert (finished.outcome, finished.size) == ("ok", 50_000_000)
    assert finished.left_out == 50_000_000 - 128 * 1024
    assert Path(finished.file).stat().st_size == 50_000_000
    kept = [event for event in await conch.services.store.events(chat) if isinstance(event, StepOutput)]
    assert sum(len(event.text) for event in kept) <= 64 * 1024


async def test_docker_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    await _runs_nowhere(tmp_path, monkeypatch, "container")


async def test_bubblewrap_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a shell needs is on PATH, so a command could run, and must not."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "touch", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    await _runs_nowhere(tmp_path, monkeypatch, "computer")


async def _runs_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    async with Started(tmp_path, monkeypatch, place) as conch:
        conch.model.script([Answer(calls=[Call("run_command", {"command": "touch made.txt"})]), "It did not run."])
        chat = await conch.chat(mode="full")
        conch.services.turns.send(chat, "make it")
        end: TurnFinished = await conch.first(TurnFinished)
        assert end.outcome == "done"
        [finished] = conch.shown(StepFinished)
        assert finished.outcome == "not_run"
        assert finished.words
        assert finished.next_label
        assert not (conch.folder / "made.txt").exists()
        [told] = conch.model.requests[1].tool_answers()
        assert told.startswith(finished.words)
        assert finished.next_label in told
        assert told.endswith(PLACE_WORDS["model.did-not-run"])


async def test_the_place_changes_while_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker_host: Dockerd
) -> None:
    wait = "touch begun; until test -e go; do sleep 0.01; done; cat /proc/1/comm"
    async with Started(tmp_path, monkeypatch, "container") as conch:
        calls = [Call("run_command", {"command": wait}), Call("run_command", {"command": "cat /proc/1/comm"})]
        conch.model.script([Answer(calls=calls), "Both."])
        chat = await conch.chat(mode="full")
        conch.services.turns.send(chat, "go")
        await until((conch.folder / "begun").exists, 60, "it runs")
        await conch.services.store.append(chat, ChatChanged(place="computer"))
        (conch.folder / "go").touch()
        await conch.first(TurnFinished)
        first, second = conch.shown(StepFinished)
        assert (first.where, second.where) == (PLACE_WORDS["container.where"], "")
        assert (first.proof["place"], second.proof["place"]) == ("container", "computer")
        assert first.text != second.text == "bwrap\n"


CRASH = """
import asyncio, sys
from pathlib import Path
from app.chats.events import StepOutput
from app.home import Home
from app.services import Services

async def main():
    services = Services(Home())
    await services.start()
    chat = await services.store.make(folder=Path(sys.argv[1]), place=sys.argv[2], mode="ask", engine="commands")
    services.turns.subscribe(lambda _, event: isinstance(event, StepOutput) and print("shown", event.text, flush=True))
    services.turns.send(chat.id, f"echo before; sleep {sys.argv[3]} && touch PROOF")
    print(chat.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("place", ["computer", "container"])
async def test_a_crash_in_the_middle_of_a_command(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "container":
        request.getfixturevalue("docker_host")
    else:
        request.getfixturevalue("need")("bwrap")
    mark = number()
    making = Started(tmp_path, monkeypatch, place)
    argv = [sys.executable, "-c", CRASH, str(making.folder), place, mark]
    with subprocess.Popen(argv, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        chat = (await asyncio.to_thread(process.stdout.readline)).strip()
        assert await asyncio.to_thread(process.stdout.readline) == "shown before\n"
        process.send_signal(signal.SIGKILL)
    async with making as conch:
        events = await conch.services.store.events(chat)
        assert isinstance(events[-1], TurnFinished)
        assert events[-1].outcome == "cut_off"
        [finished] = [event for event in events if isinstance(event, StepFinished)]
        assert (finished.outcome, finished.text) == ("cut_off", "before\n")
        await until(lambda: not processes(f"sleep {mark}"), 30, "what a crash left behind ends")
        assert not (making.folder / "PROOF").exists()
        # And the chat goes on.
        conch.services.turns.send(chat, "echo after")
        await conch.first(TurnFinished)
        assert conch.shown(StepFinished)[0].text == "after\n"
        assert conch.shown(StepStarted)[0].place == place


async def test_a_row_says_what_its_command_changed(conch: Conch) -> None:
    """What a real command in a real box did, as the kernel tells it: made, changed, moved and removed."""
    (conch.folder / "deep").mkdir()
    for name in ("kept", "gone", "deep/moved"):
        (conch.folder / name).write_text("before")
    chat = await conch.chat(engine="commands")
    conch.services.changes.prepare(conch.folder)
    await until(lambda: conch.services.changes._known[conch.folder]._started, 10, "it is listed")
    command = (
        "echo now >kept; rm gone; mv deep/moved deep/er; mkdir -p n/e node_modules; echo >n/e/w; echo >node_modules/x"
    )
    conch.services.turns.send(chat, command)
    told = await conch.first(StepChanged)
    finished = await conch.first(StepFinished)
    assert (finished.outcome, told.step) == ("ok", finished.step)
    assert (told.count, told.changed) == (5, ("kept",))
    assert told.added == ("deep/er", "n/e/w")
    assert told.deleted == ("deep/moved", "gone")
    await conch.first(TurnFinished)
    conch.services.turns.send(chat, "cat kept")
    await conch.first(TurnFinished, 2)
    assert len(conch.shown(StepChanged)) == 1, "a command that only reads changes nothing"
