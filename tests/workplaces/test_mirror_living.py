"""The shell that lives on there: what happens to it, and what is answered all the same."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.workplaces.mirror_far import Pair, far_in
from workplaces.mirror.far import BOOTSTRAP, Running, script
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


@pytest.fixture(params=["python", "sh"])
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Pair:
    """A machine that has Python, and one that has not."""
    pair = Pair(tmp_path)
    if request.param == "sh":
        tools = tmp_path / "without"
        tools.mkdir()
        (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
        (tools / "python3").chmod(0o755)
        pair.far = far_in(pair.home, path=f"{tools}:/usr/bin:/bin")
    return pair


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


_WAYS: dict[str, Callable[[Path], object]] = {
    "written": lambda there: (there / "d" / "a").write_text("b"),
    "written in place, its time put back": lambda there: _put_back(there / "d" / "a"),
    "made": lambda there: (there / "d" / "new").write_text("b"),
    "made in a new folder": lambda there: [(there / "e" / "f").mkdir(parents=True), (there / "e/f/n").write_text("b")],
    "moved": lambda there: (there / "d").rename(there / "g"),
    "deleted": lambda there: (there / "d" / "a").unlink(),
    "mode": lambda there: (there / "d" / "a").chmod(0o700),
    "the copy swapped": lambda there: [there.rename(there.parent / "x"), shutil.copytree(there.parent / "x", there),
        (there / "d" / "a").write_text("b")],
    "more than a watch can hold": lambda there: [(there / "d" / str(n % 50)).write_text("b") for n in range(9000)],
}  # fmt: skip


@pytest.mark.parametrize("way", _WAYS)
async def test_the_watch_misses_nothing(pair: Pair, living: Living, way: str) -> None:
    (pair.here / "d").mkdir()
    (pair.here / "d" / "a").write_text("a")
    (pair.here / "b").write_text("b")
    os.utime(pair.here / "d" / "a", (1e9, 1e9))
    await pair.round()
    for _ in range(2):  # twice: the watch set anew, and the one that was there
        await pair.round()
        _, back = await pair.round(_WAYS[way])
        assert not back.trouble
        found = {path.relative_to(pair.here): path.is_file() and path.read_text() for path in pair.here.rglob("*")}
        there = {path.relative_to(pair.there): path.is_file() and path.read_text() for path in pair.there.rglob("*")}
        assert found == there
        if way not in ("written", "made", "mode"):
            break
        for path in (pair.there / "d").iterdir():
            path.write_text("other")


def _put_back(path: Path) -> None:
    before = path.stat()
    with path.open("r+") as file:
        file.write("c")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_nothing_changed_is_known_without_a_listing(pair: Pair, living: Living, far: Counted) -> None:
    """Only where the machine has Python: there a ``find`` that ends the shell is not asked."""
    if (pair.base / "without").exists():
        pytest.skip("the machine has none")
    tools = pair.base / "tools"
    tools.mkdir()
    far._far._argv = lambda command: [  # type: ignore[attr-defined]
        "env", "-i", f"HOME={pair.home}", f"PATH={tools}:/usr/bin:/bin", "/bin/sh", "-c", command
    ]  # fmt: skip
    pair.home.mkdir(exist_ok=True)
    (pair.here / "a").write_text("a")
    await pair.round()
    await pair.round()
    (tools / "find").write_text(f'#!/bin/sh\n: >{tools}/asked\nexec /usr/bin/find "$@"\n')
    (tools / "find").chmod(0o755)
    await pair.round()
    assert not (tools / "asked").exists()
    await pair.round(lambda there: (there / "a").write_text("b"))
    assert (tools / "asked").exists()
    assert (pair.here / "a").read_text() == "b"


async def test_a_python_that_lies_is_not_believed_for_long(pair: Pair, living: Living) -> None:
    """It says that nothing changed, whatever happens: a full listing now and then finds out."""
    (pair.here / "a").write_text("a")
    await pair.round()
    shell = living._shell
    assert shell is not None
    real = shell.ask
    told: list[str] = []

    def lie(end: str, taken: list[bytes]) -> None:
        words = shlex.split(os.fsdecode(taken[0].partition(b"; LC_ALL")[0]))
        if len(taken) > 1 or words[5] in ("", "-"):
            real(end, taken)
            return
        told.append(words[5])
        now = f"{time.time():.6f}"
        said = rf"=W %s\0=C f 600 3 {now} {now} 1\0=T find\0=S\0=E 0\0"
        word = '"$(cat "$HOME"/.conch-work/.chat-1/word)"'
        real(end, [f"printf '\\n{words[2]}\\n'; printf '{said}' {word}\n".encode()])

    await pair.round()
    shell.ask = lie  # type: ignore[method-assign]
    await pair.round(lambda there: (there / "a").write_text("b"))
    assert told
    while (pair.here / "a").read_text() == "a":
        assert len(told) < 25
        await pair.round()
    assert len(told) > 1
    assert (pair.here / "a").read_text() == (pair.there / "a").read_text() == "b"


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
