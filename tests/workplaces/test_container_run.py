"""What a container does when its engine hangs, lies or goes away. A real one is asked in tests/real."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import Box, EngineDouble
from tests.workplaces.looking import heartbeat, until
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import CONTAINER, PlaceUnavailable, RunRequest, Stopped


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def place(double: EngineDouble, tmp_path: Path) -> AsyncIterator[Container]:
    env = {"DOCKER_HOST": double.host}
    made = Container(tmp_path / "conch", image=lambda: "double:1", env=env, person=tmp_path / "person")
    yield made
    double.calm()
    await made.close()
    await until(lambda: not double.boxes, 10, "a box was left")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").touch()  # the double is an engine behind a virtual machine: it cannot tell an empty folder
    return made


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not answer is waited for less long than a person's is: the tests without it see to those."""
    for where in ("run", "place"):
        monkeypatch.setattr(f"workplaces.container.{where}.HUNG_LIMIT", 0.3)
    monkeypatch.setattr("workplaces.container.life._LOST_LIMIT", 0.5)


def ask(work: Path, **how: Any) -> RunRequest:
    return RunRequest(**{"command": "x", "folder": work, "timeout": 30.0, **how})


async def stop_after(place: Container, request: RunRequest, condition: Any) -> tuple[Stopped, float]:
    """Stops the command once the condition holds; gives how it ended and how long that took."""
    running = asyncio.get_running_loop().create_task(place.run(request))
    await until(condition)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await running
    assert isinstance(raised.value, Stopped)
    return raised.value, time.monotonic() - began


def asked(double: EngineDouble, line: str) -> bool:
    return any(line in each for each in double.asked)


def runs_on(box: Box) -> None:
    """A box whose command goes on until it is killed."""


async def test_a_command_runs_in_a_box_that_is_then_removed(place: Container, double: EngineDouble, work: Path) -> None:
    def speak(box: Box) -> None:
        box.say(1, b"out\n")
        box.say(2, b"err\n")
        box.code = 3
        box.ended.set()

    double.runs = speak
    result = await place.run(ask(work, chat="c"))
    assert (result.code, result.output.out, result.output.err, result.sure) == (3, "out\n", "err\n", True)
    assert (result.where, result.proof.network, result.proof.sealed) == (CONTAINER, False, True)
    assert result.proof.details["engine"] == "Docker 24.0.1"
    await until(lambda: not any(box.given for box in double.boxes.values()), 5)


@pytest.mark.parametrize("request_line", ["POST .*/containers/create", "POST .*/attach"])
async def test_stop_while_the_engine_makes_a_box(
    place: Container, double: EngineDouble, work: Path, request_line: str
) -> None:
    double.hang(request_line)
    async with heartbeat() as longest:
        stopped, seconds = await stop_after(place, ask(work), lambda: asked(double, request_line.rpartition("/")[2]))
    assert (stopped.sure, stopped.words) == (True, ""), "nothing had been started"
    assert seconds < 1.5
    assert longest[0] < 0.2
    assert not asked(double, "/start")
    double.wake()
    await until(lambda: not double.boxes, 5, "the box that came late is removed")
    assert not asked(double, "/start")


@pytest.mark.usefixtures("brief")
async def test_stop_while_the_engine_starts_a_box(place: Container, double: EngineDouble, work: Path) -> None:
    double.runs = runs_on
    double.hang("POST .*/start")
    stopped, seconds = await stop_after(place, ask(work), lambda: asked(double, "/start"))
    assert (stopped.sure, stopped.words) == (True, ""), "the box had not been given its command"
    assert seconds < 1.5
    double.wake()
    await until(lambda: not double.boxes, 5, "the box that came late is removed")
    assert not any(box.given for box in double.served)


@pytest.mark.usefixtures("brief")
async def test_stop_when_the_engine_does_not_kill(
    place: Container, double: EngineDouble, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.container.run.STOP_LIMIT", 0.5)
    double.runs = runs_on
    double.hang("POST .*/kill")
    stopped, seconds = await stop_after(place, ask(work), lambda: any(box.given for box in double.served))
    assert 0.8 <= seconds < 5, "an engine that answers is given its time"
    assert not stopped.sure
    assert "may still run" in stopped.words


async def test_stop_when_the_engine_answers_nothing_any_more(
    place: Container, double: EngineDouble, work: Path
) -> None:
    said: list[str] = []
    double.runs = lambda box: box.say(1, b"started\n")
    keeper = OutputKeeper(on_text=lambda stream, text: said.append(text))
    running = asyncio.get_running_loop().create_task(place.run(ask(work, output=keeper)))
    await until(lambda: "started" in "".join(said))
    double.hang(".*")
    began = time.monotonic()
    async with heartbeat() as longest:
        running.cancel()
        with pytest.raises(Stopped) as raised:
            await running
    assert time.monotonic() - began < 4
    assert longest[0] < 0.2
    assert not raised.value.sure
    assert "may still run" in raised.value.words
    assert raised.value.proof is not None
    assert keeper.finish().out == "started\n"
    double.calm()
    await until(lambda: not double.boxes, 10, "the box is removed once the engine answers")


@pytest.mark.usefixtures("brief")
async def test_a_timeout_when_the_engine_answers_nothing(place: Container, double: EngineDouble, work: Path) -> None:
    def start(box: Box) -> None:
        box.say(1, b"started\n")
        double.hang(".*")

    double.runs = start
    result = await place.run(ask(work, timeout=0.3))
    assert (result.code, result.timed_out, result.sure) == (None, True, False)
    assert result.output.out == "started\n"
    assert "may still run" in result.note


async def test_stop_again_while_it_is_being_stopped(place: Container, double: EngineDouble, work: Path) -> None:
    double.runs = runs_on
    double.hang("POST .*/kill")
    running = asyncio.get_running_loop().create_task(place.run(ask(work)))
    await until(lambda: any(box.given for box in double.boxes.values()))
    running.cancel()
    await until(lambda: asked(double, "/kill"))
    running.cancel()
    await asyncio.sleep(0.1)
    assert not running.done(), "it let go of a running command"
    double.wake()
    with pytest.raises(Stopped) as raised:
        await running
    assert raised.value.sure


async def test_stop_while_a_timeout_ends_it(place: Container, double: EngineDouble, work: Path) -> None:
    double.runs = runs_on
    double.hang("POST .*/kill")
    running = asyncio.get_running_loop().create_task(place.run(ask(work, timeout=0.1)))
    await until(lambda: asked(double, "/kill"))
    running.cancel()
    double.wake()
    with pytest.raises(Stopped):
        await running


async def test_stop_while_the_image_comes(place: Container, double: EngineDouble, work: Path) -> None:
    double.images.clear()
    double.hang("POST .*/images/create")
    stopped, seconds = await stop_after(place, ask(work), lambda: asked(double, "/images/create"))
    assert (stopped.sure, double.boxes) == (True, {})
    assert seconds < 1


async def test_stop_while_the_engine_is_looked_for(place: Container, double: EngineDouble, work: Path) -> None:
    double.hang("GET .*/version")
    stopped, seconds = await stop_after(place, ask(work), lambda: asked(double, "/version"))
    assert (stopped.sure, seconds < 1) == (True, True)


async def test_a_box_that_cannot_be_removed_now_is_removed_later(
    place: Container, double: EngineDouble, work: Path
) -> None:
    double.answer("DELETE .*", 500, {"message": "device busy"})
    result = await place.run(ask(work))
    assert (result.code, result.sure) == (0, True), "it has ended, that was seen"
    assert len(double.boxes) == 1
    double.calm()
    await until(lambda: not any(box.given for box in double.boxes.values()), 5)


async def refused(place: Container, request: RunRequest) -> PlaceUnavailable:
    with pytest.raises(PlaceUnavailable) as raised:
        await place.run(request)
    return raised.value


@pytest.mark.parametrize(
    ("request_line", "message", "says"),
    [
        (
            "create",
            'invalid mount config for type "bind": bind source path does not exist: /x',
            "does not see the folder",
        ),
        ("start", "Mounts denied: the path /x is not shared from the host", "does not see the folder"),
        ("start", "OCI runtime create failed: no space left on device", "no room on its disk"),
        ("start", 'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown', "has no /bin/sh"),
        ("start", "exec format error", "kind of processor"),
        ("start", "argument list too long", "too long"),
        ("start", "something else went wrong", "something else went wrong"),
    ],
)
async def test_a_box_that_is_refused_says_why(
    place: Container, double: EngineDouble, work: Path, request_line: str, message: str, says: str
) -> None:
    double.answer(f"POST .*/{request_line}", 400 if request_line == "create" else 500, {"message": message})
    assert says in (await refused(place, ask(work))).words
    double.calm()
    await until(lambda: not double.boxes)


@pytest.mark.usefixtures("brief")
async def test_an_engine_that_hangs_up_is_named_and_nothing_ran(
    place: Container, double: EngineDouble, work: Path
) -> None:
    await place.run(ask(work))
    double.drop(".*")
    error = await refused(place, ask(work))
    assert error.need == "container"
    assert double.host in error.words


async def test_an_engine_that_was_started_anew_is_found_again(
    place: Container, double: EngineDouble, work: Path
) -> None:
    assert (await place.run(ask(work))).code == 0
    engine = await place._engines.find()
    engine.client.close()
    assert (await place.run(ask(work))).code == 0


async def test_a_box_that_sees_another_folder_ran_nothing(place: Container, double: EngineDouble, work: Path) -> None:
    double.first_line = lambda body: b"1:2:3 other\n"
    double.info["KernelVersion"] = os.uname().release
    error = await refused(place, ask(work))
    assert "does not see the folder" in error.words
    assert str(work) in error.words
    assert error.next_step is not None


@pytest.mark.usefixtures("brief")
async def test_an_image_without_the_small_tools_says_so(place: Container, double: EngineDouble, work: Path) -> None:
    double.first_line = lambda body: b"other\n"
    assert "small tools" in (await refused(place, ask(work))).words


async def test_a_git_that_changed_meanwhile_is_looked_at_again(
    place: Container, double: EngineDouble, work: Path
) -> None:
    double.info["KernelVersion"] = os.uname().release
    (work / ".git").mkdir()
    seen = work.stat()
    right = double.first_line
    wrong = f"{seen.st_dev}:{seen.st_ino}:1 9:9:1 other\n".encode()
    answers = [lambda body: wrong, right]
    double.first_line = lambda body: answers.pop(0)(body)
    assert (await place.run(ask(work))).code == 0
    assert double.asked.count("POST /v1.43/containers/create") == 2
    double.first_line = lambda body: wrong
    assert ".git changed" in (await refused(place, ask(work))).words


@pytest.mark.parametrize(
    ("held", "code", "says"),
    [
        (b"[FATAL tini (7)] exec /bin/sh failed: No such file or directory\n", 127, "has no /bin/sh"),
        (b"[FATAL tini (7)] exec /bin/sh failed: Exec format error\n", 126, "kind of processor"),
        (b"", 127, "has no /bin/sh"),
        (b"", 137, "would not make the container"),
    ],
)
async def test_a_box_that_ends_before_its_command_says_why(
    place: Container, double: EngineDouble, work: Path, held: bytes, code: int, says: str
) -> None:
    def end(box: Box) -> None:
        if held:
            box.say(2, held)
        box.code = code
        box.ended.set()

    double.first_line = lambda body: b""
    double.runs = end
    request = ask(work)
    assert says in (await refused(place, request)).words
    assert request.output.finish().text == ""


async def test_a_box_that_does_not_begin_as_it_should_is_ended(
    place: Container, double: EngineDouble, work: Path
) -> None:
    double.runs = runs_on
    double.first_line = lambda body: b"hello\n"
    request = ask(work)
    assert "did not begin as it should" in (await refused(place, request)).details
    assert request.output.finish().text == ""
    assert double.boxes == {}
    assert not any(box.given for box in double.served)


@pytest.mark.usefixtures("brief")
async def test_an_engine_that_goes_away_leaves_what_was_said(
    place: Container, double: EngineDouble, work: Path
) -> None:
    def go(box: Box) -> None:
        box.say(1, b"half")
        double.answer(".*", 500, {"message": "shutting down"})
        box.attached.shutdown(socket.SHUT_RDWR)

    double.runs = go
    result = await place.run(ask(work))
    assert (result.code, result.output.out, result.sure) == (None, "half", False)
    assert "stopped answering" in result.note


async def test_output_that_breaks_off_does_not_leave_the_command_running(
    place: Container, double: EngineDouble, work: Path
) -> None:
    def lie(box: Box) -> None:
        box.say(1, b"half")
        box.attached.sendall(b"\xff" * 64)
        box.attached.shutdown(socket.SHUT_RDWR)

    double.runs = lie
    result = await place.run(ask(work))
    assert (result.code, result.output.out, result.sure) == (None, "half", True)
    assert result.note
    assert double.boxes == {}


async def test_an_image_that_was_removed_is_got_again(place: Container, double: EngineDouble, work: Path) -> None:
    await place.run(ask(work))
    found = double.images.pop("double:1")

    def pull(handler: Any, name: str) -> None:
        double.images[name] = found
        handler.lines([])

    double.pull = pull
    assert (await place.run(ask(work))).code == 0


async def test_what_takes_the_output_may_fail_and_the_box_is_gone(
    place: Container, double: EngineDouble, work: Path
) -> None:
    def fail(stream: str, text: str) -> None:
        raise RuntimeError("the window is gone")

    double.runs = lambda box: box.say(1, b"x" * 100_000)
    with pytest.raises(RuntimeError, match="the window is gone"):
        await place.run(ask(work, output=OutputKeeper(on_text=fail)))
    assert double.boxes == {}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((), "no command"),
        (("",), "no command"),
        ("x" * 200_000, "too long"),
        (("echo", *["x" * 100_000] * 12), "too long"),
        ("a\0b", "not text"),
        (("echo", "a\0"), "not text"),
        ("\udc80", "not text"),
    ],
)
async def test_a_command_no_box_can_be_given_is_refused(
    place: Container, double: EngineDouble, work: Path, command: Any, says: str
) -> None:
    assert says in (await refused(place, ask(work, command=command))).words
    assert not asked(double, "create")


async def test_folders_no_box_can_have_are_refused(place: Container, double: EngineDouble, work: Path) -> None:
    conch = work.parent / "conch"
    conch.mkdir(exist_ok=True)
    assert "protected" in (await refused(place, ask(conch))).words


async def test_conchs_own_home_in_the_folder_is_covered(double: EngineDouble, tmp_path: Path) -> None:
    env = {"DOCKER_HOST": double.host}
    place = Container(tmp_path / "work" / "conch", image=lambda: "double:1", env=env, person=tmp_path / "person")
    (tmp_path / "work" / "conch").mkdir(parents=True)
    (tmp_path / "work" / "a.txt").touch()
    result = await place.run(ask(tmp_path / "work"))
    assert result.proof.details["covered"] == "1"
    await place.close()


async def test_how_it_stands_says_the_engine_and_whether_the_image_is_there(
    place: Container, double: EngineDouble, tmp_path: Path
) -> None:
    status = await place.standing()
    assert (status.standing, status.seals, status.need) == ("ready", True, None)
    assert (status.name, status.line) == ("Docker", "A fresh, locked-down box for each command.")
    assert status.details["engine"] == "Docker 24.0.1"
    assert status.details["image here"] == "yes"
    double.images.clear()
    status = await place.standing(look=True)
    assert status.ready
    assert "The first one gets its image" in status.line
    double.answer(".*", 500, {})
    status = await place.standing(look=True)
    assert (status.standing, status.need) == ("needs", "container")
    assert status.next_step is not None
    bad = Container(tmp_path / "conch", image=lambda: "Not An Image", env={"DOCKER_HOST": double.host})
    double.calm()
    status = await bad.standing()
    assert (status.standing, "is not an image's name" in status.line) == ("down", True)
