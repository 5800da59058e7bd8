"""The shell that lives on there: what happens to it, and what is answered all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.workplaces.mirror_far import Pair
from workplaces.mirror import Running
from workplaces.mirror.far import BOOTSTRAP, script
from workplaces.mirror.living import MOST_INPUT, Living


class Counted:
    """A far side that tells how many programs were started there, and which processes."""

    def __init__(self, pair: Pair) -> None:
        self._far = pair.far
        self.started: list[Running] = []

    @property
    def name(self) -> str:
        return self._far.name

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        self.started.append(self._far.run(command, given))
        return self.started[-1]

    def pids(self) -> list[int]:
        return [running._process.pid for running in self.started]  # type: ignore[attr-defined]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.fixture
def far(pair: Pair) -> Counted:
    return Counted(pair)


@pytest.fixture
def living(pair: Pair, far: Counted) -> Iterator[Living]:
    made = Living(far)
    pair.far = made  # type: ignore[assignment]
    yield made
    made.close()


def ask(living: Living, text: str, *rest: bytes) -> tuple[bytes, int | None]:
    running = living.run(BOOTSTRAP, script(text, ["one", "two'"], rest))
    heard = b"".join(iter(running.read, b""))
    return heard, running.end()[0]


def until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_many_requests_are_answered_by_one_shell(living: Living, far: Counted) -> None:
    assert ask(living, 'printf "%s " "$@"') == (b"one two' ", 0)
    assert ask(living, "exit 3") == (b"", 3)
    assert ask(living, "x=1; cd /; umask 0; cat", b"a\0b\n", b"\n\xff") == (b"a\0b\n\n\xff", 0)
    assert ask(living, 'printf "%s%s" "$x" "$PWD"') == (str(Path.cwd()).encode(), 0)
    assert len(far.started) == 1


def test_what_a_script_does_not_read_is_no_request(living: Living, far: Counted, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    evil = f"\n: >{seen}\n".encode() * 2000
    assert ask(living, "head -c 3 >/dev/null", evil) == (b"", 0)
    assert ask(living, "exit 7", evil) == (b"", 7)
    assert ask(living, "echo on") == (b"on\n", 0)
    assert not seen.exists()
    assert len(far.started) == 1


def test_a_shell_that_lost_step_ends_and_runs_nothing(living: Living, far: Counted, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    ask(living, ":")
    shell = living._shell
    assert shell is not None
    shell._to_send.put(f": >{seen}\n".encode())
    assert ask(living, "echo on") == (b"on\n", 0)
    assert not seen.exists()
    assert len(far.started) == 2


def test_a_big_input_has_its_own_program(living: Living, far: Counted) -> None:
    ask(living, ":")
    given = [b"x" * 100_000] * (MOST_INPUT // 100_000 + 3)
    assert ask(living, "wc -c", *given) == (b"%d\n" % sum(map(len, given)), 0)
    assert len(far.started) == 2


def test_two_at_once(living: Living, far: Counted, tmp_path: Path) -> None:
    first = living.run(BOOTSTRAP, script(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo first"))
    assert ask(living, f": >{tmp_path}/go; echo second") == (b"second\n", 0)
    assert b"".join(iter(first.read, b"")) == b"first\n"
    assert first.end()[0] == 0
    assert ask(living, "echo third") == (b"third\n", 0)
    assert len(far.started) == 2


@pytest.mark.parametrize("when", ["idle", "before an answer"])
def test_a_shell_that_was_killed(living: Living, far: Counted, tmp_path: Path, when: str) -> None:
    ask(living, ":")
    shell = far.pids()[0]
    if when == "idle":
        os.kill(shell, signal.SIGKILL)
        assert ask(living, "echo on") == (b"on\n", 0)
    else:
        once = f"[ -e {tmp_path}/once ] || {{ : >{tmp_path}/once; kill -9 {shell}; exec sleep 0; }}; echo on"
        assert ask(living, once) == (b"on\n", 0)
    assert ask(living, "echo more") == (b"more\n", 0)


def test_a_shell_that_was_killed_in_mid_answer(living: Living, far: Counted) -> None:
    ask(living, ":")
    heard, code = ask(living, f"echo begun; sleep 0.1; kill -9 {far.pids()[0]}; exit 0")
    assert heard in (b"begun\n", b"")  # what came is no whole answer
    assert code != 0
    assert ask(living, "echo more") == (b"more\n", 0)


def test_stop_in_the_middle(living: Living, far: Counted, tmp_path: Path) -> None:
    running = living.run(BOOTSTRAP, script(f"echo $$ >{tmp_path}/pid; while :; do echo; sleep 0.01; done"))
    until((tmp_path / "pid").exists)
    threading.Timer(0.05, running.stop).start()
    while running.read():
        pass
    running.end()
    until(lambda: not _lives(far.pids()[0]))
    assert ask(living, "echo on") == (b"on\n", 0)


def test_nothing_is_left_there(living: Living, far: Counted) -> None:
    ask(living, ":")
    pid = far.pids()[0]
    assert _lives(pid)
    living.close()
    assert not _lives(pid)


def test_it_ends_when_it_is_idle(pair: Pair, far: Counted) -> None:
    living = Living(far, idle=0.2)
    ask(living, ":")
    until(lambda: not _lives(far.pids()[0]))
    assert ask(living, "echo on") == (b"on\n", 0)
    living.close()


def test_an_endless_listing(living: Living, far: Counted, pair: Pair) -> None:
    """A ``find`` that never ends is given up on, and its shell with it."""
    (pair.here / "a").write_text("a")
    tools = pair.base / "tools"
    tools.mkdir()
    (tools / "find").write_text(
        "#!/bin/sh\ncase $* in *%p*) yes '=T "
        + "x" * 1000
        + "' | tr '\\n' '\\0';; *) exec /usr/bin/find \"$@\";; esac\n"
    )
    (tools / "find").chmod(0o755)
    start = ["env", "-i", f"HOME={pair.home}", f"PATH={tools}:/usr/bin:/bin", "/bin/sh", "-c"]
    pair.home.mkdir(exist_ok=True)
    asyncio.run(pair.round())
    good = far._far._argv
    far._far._argv = lambda command: [*start, command]
    living.close()
    with pytest.raises(Exception, match="build-box"):
        asyncio.run(pair.round())
    until(lambda: not any(map(_lives, far.pids())))
    far._far._argv = good
    (pair.here / "b").write_text("b")
    asyncio.run(pair.round())
    assert (pair.there / "b").read_text() == "b"


def test_garbage_instead_of_a_shell(pair: Pair, far: Counted) -> None:
    """A machine whose shell greets with noise, and no loop: each request is a program of its own."""
    lost = Living(far, start=lambda _, given: far.run("echo noise; head -c 100 >/dev/null", given))
    assert ask(lost, "echo on") == (b"on\n", 0)
    assert ask(lost, "echo on", b"x") == (b"on\n", 0)
    assert len(far.started) == 3  # it was tried once
    lost.close()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_every_shell(pair: Pair, shell: str) -> None:
    program, *words = shell.split()
    if subprocess.run(["which", program], capture_output=True).returncode:
        pytest.skip(f"{program} is not here")
    line = " ".join([program, *words])
    pair.home.mkdir(exist_ok=True)
    pair.far._argv = lambda command: ["/bin/sh", "-c", command.replace("/bin/sh", line)]
    far = Counted(pair)
    living = Living(far)
    for _ in range(3):
        assert ask(living, "cat", b"\0\n'x" * 9000) == (b"\0\n'x" * 9000, 0)
    assert len(far.started) == 1
    living.close()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
