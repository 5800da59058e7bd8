"""How commands in a real box end: seen from this computer, where nothing of them may be left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import Heard, stopped
from tests.workplaces.looking import heartbeat, names, number, processes, until
from workplaces.container.box import Options
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import PlaceUnavailable, RunRequest, RunResult, Stopped

FORK_BOMB = "f() { f | f & }; f; sleep 30"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
async def place(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Container]:
    made = Container(tmp_path / "conch", image=lambda: docker_host.image)
    yield made
    await made.close()


@pytest.fixture
async def small(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Container]:
    """One whose boxes have a gigabyte: it takes ten seconds to fill the four that others have."""
    made = Container(tmp_path / "conch", image=lambda: docker_host.image, options=lambda: Options(memory=1))
    yield made
    await made.close()


async def test_the_boxes_of_a_command_carry_their_labels(place: Container, work: Path, docker_host: Dockerd) -> None:
    mark = number()
    heard = Heard()
    request = RunRequest(command=f"echo on; sleep {mark}", folder=work, chat="chat-7", output=heard.keeper)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stopped(place, request))
        await heard.wait_for("on")
        boxes = docker_host.boxes(conch_work="1", conch_chat="chat-7")
        assert len(boxes) == 1
        assert processes(mark), "a box's processes are seen from here"
        running.cancel()
    error = running.result()
    assert error.sure
    assert error.proof is not None
    assert [error.proof.target] == boxes
    assert boxes[0] not in docker_host.boxes()
    assert processes(mark) == []


async def test_a_timeout_leaves_nothing_on_this_computer(place: Container, work: Path, docker_host: Dockerd) -> None:
    mark = number()
    command = f"(setsid sh -c 'trap \"\" TERM HUP INT; sleep {mark}' &) ; echo on; sleep {mark} && touch PROOF"
    result = await place.run(RunRequest(command=command, folder=work, timeout=1.0))
    assert (result.code, result.timed_out, result.sure, result.output.out) == (None, True, True, "on\n")
    assert processes(mark) == []
    assert docker_host.boxes() == []
    assert names(work) == set()


async def test_a_flood_can_be_stopped(place: Container, work: Path, docker_host: Dockerd) -> None:
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()
    keeper = OutputKeeper(on_text=lambda stream, text: loop.call_soon_threadsafe(seen.set) and None)
    async with heartbeat() as longest, asyncio.TaskGroup() as group:
        request = RunRequest(command="yes & yes >&2", folder=work, output=keeper)
        running = group.create_task(stopped(place, request))
        await seen.wait()
        began = time.monotonic()
        running.cancel()
    assert time.monotonic() - began < 5
    assert running.result().sure
    assert longest[0] < 0.25
    assert docker_host.boxes() == []


async def test_a_fork_bomb_ends_with_its_box(place: Container, work: Path, docker_host: Dockerd) -> None:
    mark = number()
    async with heartbeat() as longest:
        result = await place.run(RunRequest(command=f"{FORK_BOMB} {mark}", folder=work, timeout=2.0))
    assert result.sure
    assert longest[0] < 1.0
    assert processes(mark) == []
    assert docker_host.boxes() == []
    assert (await place.run(RunRequest(command="echo well", folder=work))).output.out == "well\n"


async def test_too_much_memory_is_said(small: Container, work: Path) -> None:
    hog = ("python3", "-c", "b = [bytearray(64 << 20) for _ in range(20)]")
    result = await small.run(RunRequest(command=hog, folder=work))
    assert result.code == 137
    assert "ran out of its 1 GB of memory" in result.note


async def test_too_many_processes_are_refused_by_the_kernel(place: Container, work: Path) -> None:
    line = "i=0; while [ $i -lt 600 ]; do sleep 20 & i=$((i+1)); done"
    result = await place.run(RunRequest(command=line, folder=work, timeout=30))
    assert result.code != 0
    assert "annot fork" in result.output.err


async def test_a_full_tmp_is_the_commands_trouble_alone(place: Container, work: Path) -> None:
    line = "head -c 2200M /dev/zero > /tmp/x; echo $?; rm /tmp/x; echo y > /tmp/x && cat /tmp/x"
    result = await place.run(RunRequest(command=line, folder=work, timeout=60))
    assert result.output.out == "1\ny\n"
    assert "No space left" in result.output.err


async def said(place: Container, work: Path, then: Callable[[], object]) -> RunResult:
    """Runs a command that speaks and goes on; does ``then`` meanwhile; gives how it ended."""
    heard = Heard()
    request = RunRequest(command="echo said; sleep 1000", folder=work, output=heard.keeper)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(place.run(request))
        await heard.wait_for("said")
        then()
    assert running.result().output.out == "said\n"
    return running.result()


async def test_the_engine_is_stopped_in_mid_command(place: Container, work: Path, docker_host: Dockerd) -> None:
    result = await said(place, work, docker_host.stop)
    assert result.code is None or result.code >= 128
    with pytest.raises(PlaceUnavailable) as raised:
        await place.run(RunRequest(command="touch PROOF", folder=work))
    assert raised.value.need == "container"
    assert docker_host.host in raised.value.words
    assert names(work) == set()
    docker_host.start()  # not in a thread: an engine ends with the thread that started it
    assert (await place.run(RunRequest(command="echo back", folder=work))).output.out == "back\n"
    await until(lambda: not docker_host.boxes(conch_work="1"), 20, "what the engine had left is removed")


async def test_the_engine_dies_in_mid_command(place: Container, work: Path, docker_host: Dockerd) -> None:
    pid = int((docker_host.socket.parent / "docker.pid").read_text())
    result = await said(place, work, lambda: os.kill(pid, signal.SIGKILL))
    assert (result.code, result.sure) == (None, False)
    assert "stopped answering" in result.note
    assert result.proof.details["read back"] == "no"
    docker_host.stop()
    docker_host.start()  # not in a thread: an engine ends with the thread that started it
    await until(lambda: not docker_host.boxes(conch_work="1"), 40, "the box is removed once the engine is back")


async def test_a_box_that_someone_else_removes(place: Container, work: Path, docker_host: Dockerd) -> None:
    result = await said(place, work, docker_host.clear)
    assert result.code in (None, 137)
    assert result.sure


RUNNER = """
import asyncio, sys
from pathlib import Path
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest
home, image, work, command = sys.argv[1:]
async def main():
    place = Container(Path(home), image=lambda: image)
    keeper = OutputKeeper(on_text=lambda stream, text: print(text, end="", flush=True))
    await place.run(RunRequest(command=command, folder=Path(work), output=keeper))
asyncio.run(main())
"""


async def test_boxes_of_a_conch_that_was_killed_go_at_the_next_start_and_nobody_elses(
    place: Container, work: Path, docker_host: Dockerd, tmp_path: Path
) -> None:
    mark = number()
    home = tmp_path / "conch"
    line = [sys.executable, "-c", RUNNER, str(home), docker_host.image, str(work), f"echo on; sleep {mark}"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    fixed: list[tuple[str, str]] = []
    with docker_host.client() as client:
        others = [
            client.containers.run(docker_host.image, ["sleep", "1000"], detach=True, labels=labels).id
            for labels in (
                {},
                {"conch.work": "1"},
                {"conch.work": "1", "conch.home": "another", "conch.owner": "1:1:1:1"},
            )
        ]
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE) as conch:
        assert conch.stdout is not None
        assert await asyncio.to_thread(conch.stdout.readline) == b"on\n"
        (box,) = set(docker_host.boxes(conch_work="1")) - set(others)
        mine = Container(home, image=lambda: docker_host.image, on_fixed=lambda *said: fixed.append(said))
        assert await mine.sweep() == 0, "its owner still lives"
        conch.send_signal(signal.SIGKILL)
    assert processes(mark), "a killed Conch cannot end its command"
    assert box in docker_host.boxes()
    assert await mine.sweep() == 1
    assert set(docker_host.boxes()) == set(others)
    assert processes(mark) == []
    assert fixed == [("Removed containers left behind", "1 from a Conch that ended suddenly")]
    assert await mine.sweep() == 0
    assert len(fixed) == 1
    await mine.close()


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.15, 0.3])
async def test_a_kill_at_any_moment_leaves_nothing_after_the_next_start(
    work: Path, docker_host: Dockerd, tmp_path: Path, pause: float
) -> None:
    home = tmp_path / "conch"
    line = [sys.executable, "-c", RUNNER, str(home), docker_host.image, str(work), "sleep 1000"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(line, env=env) as conch:
        await until(lambda: (home / "empty").exists(), 20)
        await asyncio.sleep(pause)
        conch.kill()
    place = Container(home, image=lambda: docker_host.image)
    # the engine may still be at making what was asked for before the kill
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        await place.sweep()
        await asyncio.sleep(0.2)
    assert docker_host.boxes() == []
    await place.close()


async def test_stop_at_any_moment_leaves_nothing(place: Container, work: Path, docker_host: Dockerd) -> None:
    mark = number()

    async def one(pause: float) -> None:
        running = asyncio.get_running_loop().create_task(
            place.run(RunRequest(command=f"sleep {mark} && touch PROOF", folder=work))
        )
        await asyncio.sleep(pause)
        running.cancel()
        with pytest.raises(Stopped) as raised:
            await running
        assert raised.value.sure

    for pauses in ((0.0, 0.03, 0.06, 0.1), (0.15, 0.2, 0.25, 0.3), (0.4, 0.5, 0.6, 0.7)):
        await asyncio.gather(*map(one, pauses))
    await until(lambda: not docker_host.boxes(), 5)
    assert processes(mark) == []
    assert names(work) == set()
