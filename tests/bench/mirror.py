"""What the mirror costs round a command: ``python -m tests.bench.mirror [--json] [--rounds N]``.

Over a real OpenSSH server on loopback, and again with 25 ms of delay each way (a relay holds each byte back). Each is a
ratio, in one run, to what people do by hand: ``rsync -a --delete`` there, the command, ``rsync`` back, over the same
shared connection. Conch has only ``sh``, ``find`` and ``tar`` there, and in a second turn Python as well.

- *nothing*: nothing changed on either side; *ten here*, *ten there*: ten files did.
- *first*: a copy of 10,000 files that is not there yet.
- *memory*: what a round over 50,000 files, and over one file of 500 MB, adds to a Conch that is idle.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.common import Bar, Rounds, Samples, Subject, parse, ratio, report, take_turns
from tests.real.engines import sshd as sshds
from tests.real.engines.needs import need
from tests.real.engines.sshd import HOST, Sshd
from workplaces.mirror.far import ProgramFar
from workplaces.mirror.living import Living
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.work import Limits

SIZES = (1_000, 10_000, 50_000)
DELAY = 0.025
MOST_NOTHING_PYTHON, MOST_TEN_PYTHON = 0.03, 0.05
MOST_NOTHING, MOST_TEN, MOST_FIRST, MOST_MEMORY = 0.35, 0.4, 1.0, 80.0
MEGABYTE = 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments, rounds=20, about=__doc__ or "")
    try:
        need("rsync", *sshds.PROGRAMS, root=True)
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    rounds: dict[str, Samples] = {}
    bars: list[Bar] = []
    with ExitStack() as stack:
        machine = stack.enter_context(sshds.made())
        machine.user()
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-bench-")))
        line = stack.enter_context(shared(machine, base, machine.port, "near"))
        for size in SIZES:
            rounds |= compare(Bench(machine, base / f"near-{size}", line, size), given.rounds, f"{size:,}", bars)
        rounds |= first(Bench(machine, base / "first", line, 10_000), max(3, given.rounds // 4), bars)
        with relay(machine.port) as port:
            far = stack.enter_context(shared(machine, base, port, "far"))
            rounds |= compare(
                Bench(machine, base / "far-10000", far, 10_000), max(5, given.rounds // 2), "10,000 far", bars
            )
    memory(bars)
    return report("mirror", rounds, bars, given)


def compare(bench: Bench, count: int, name: str, bars: list[Bar]) -> Rounds:
    """Nothing changed, ten here, ten there: each by itself, as commands that follow one another; Conch's ways and rsync
    in turns."""
    bench.prepare()
    found: Rounds = {}
    for case in ("nothing", "ten here", "ten there"):
        subjects: dict[str, Subject] = {
            f"{name}, {case}: conch{_way(with_python)}": bench.conch(case, with_python) for with_python in (False, True)
        }
        subjects[f"{name}, {case}: rsync"] = bench.rsync(case)
        found |= take_turns(subjects, rounds=count, warm_up=3)
        for with_python, most in ((False, (MOST_NOTHING, MOST_TEN)), (True, (MOST_NOTHING_PYTHON, MOST_TEN_PYTHON))):
            way = _way(with_python)
            value = ratio(found, f"{name}, {case}: conch{way}", f"{name}, {case}: rsync")
            bars.append(Bar(f"{name}, {case}{way}", value, most[case != "nothing"]))
    for side in bench.sides.values():
        side.far.close()
    return found


def _way(with_python: bool) -> str:
    return ", python there" if with_python else ""


def first(bench: Bench, count: int, bars: list[Bar]) -> Rounds:
    bench.prepare()
    found = take_turns({"first: conch": bench.first_conch, "first: rsync": bench.first_rsync}, rounds=count)
    bars.append(Bar("first copy of 10,000 files", ratio(found, "first: conch", "first: rsync"), MOST_FIRST))
    return found


@dataclass
class Side:
    """One of Conch's ways: a folder here, its copy there, and who is asked about it."""

    mirror: Mirror
    far: Living
    chat: str
    here: Path
    there: Path


@dataclass
class Bench:
    """A folder here for each way, and a copy of each there."""

    machine: Sshd
    base: Path
    line: list[str]
    size: int

    def prepare(self) -> None:
        self.by_hand = self.base / "rsync-folder"
        fill(self.by_hand, self.size)
        far = ProgramFar(HOST, lambda command: [*self.line, "--", HOST, command])
        without = self.machine.user().home / "without"
        without.mkdir(exist_ok=True)
        (without / "python3").write_text("#!/bin/sh\nexit 1\n")
        (without / "python3").chmod(0o755)
        without.chmod(0o755)
        fars = {
            False: Living(far, start=lambda command, given: far.run(f"PATH={without}:$PATH; {command}", given)),
            True: Living(far),
        }
        self.sides = {with_python: self.side(with_python, far) for with_python, far in fars.items()}
        self.by_hand_there = self.machine.user().home / f"rsync-{self.base.name}"
        self.rsync_round(lambda: None)
        self.count = 0

    def side(self, with_python: bool, far: Living) -> Side:
        name = f"{self.base.name}-{'python' if with_python else 'sh'}"
        here = self.base / f"conch-{name}"
        fill(here, self.size)
        there = self.machine.user().home / ".conch-work" / name
        side = Side(Mirror(self.base / f"state-{name}"), far, name, here, there)
        self.round(side, lambda: None)
        return side

    def command(self) -> None:
        subprocess.run([*self.line, "--", HOST, "true"], check=True, stdin=subprocess.DEVNULL)

    def round(self, side: Side, change: Callable[[], None]) -> float:
        async def one() -> None:
            limits = Limits(files=60_000)
            async with side.mirror.session(side.chat, side.here, side.far, limits=limits) as session:
                await session.before()
                await asyncio.to_thread(self.command)
                spent.append(time.perf_counter())
                change()
                spent.append(time.perf_counter())
                back = await session.after()
                if back.trouble:
                    raise RuntimeError(back.trouble)

        spent: list[float] = []
        start = time.perf_counter()
        asyncio.run(one())
        return time.perf_counter() - start - (spent[1] - spent[0])

    def rsync_round(self, change: Callable[[], None]) -> float:
        start = time.perf_counter()
        copy = ["rsync", "-a", "--delete", "-e", " ".join(self.line)]
        target = f"{HOST}:{self.by_hand_there}/"
        subprocess.run([*copy, f"{self.by_hand}/", target], check=True)
        self.command()
        before = time.perf_counter()
        change()
        changed = time.perf_counter() - before
        subprocess.run([*copy, "--no-owner", "--no-group", target, f"{self.by_hand}/"], check=True)
        return time.perf_counter() - start - changed

    def conch(self, case: str, with_python: bool) -> Subject:
        side = self.sides[with_python]
        return lambda: self.measure(case, side.here, side.there, lambda change: self.round(side, change))

    def rsync(self, case: str) -> Subject:
        return lambda: self.measure(case, self.by_hand, self.by_hand_there, self.rsync_round)

    def measure(self, case: str, here: Path, there: Path, round: Callable[[Callable[[], None]], float]) -> float:
        self.count += 1
        text = b"%d" % self.count * 100
        if case == "ten here":
            touch(here, self.size, text)
            time.sleep(0.05)
        seconds = round(lambda: touch(there, self.size, text) if case == "ten there" else None)
        time.sleep(0.05)
        return seconds

    def first_conch(self) -> float:
        side = self.sides[False]
        asyncio.run(side.mirror.remove(side.far, side.chat))
        return self.round(side, lambda: None)

    def first_rsync(self) -> float:
        shutil.rmtree(self.by_hand_there)
        return self.rsync_round(lambda: None)


def fill(folder: Path, size: int) -> None:
    for number in range(size):
        path = place(folder, number)
        if number % 25 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d\n" % number * 400)
    old = time.time() - 100_000
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


def place(folder: Path, number: int) -> Path:
    return folder / f"part{number // 500}" / f"sub{number // 25}" / f"file{number}.txt"


def touch(folder: Path, size: int, text: bytes) -> None:
    for number in range(0, size, size // 10):
        place(folder, number).write_bytes(text)


@contextmanager
def shared(machine: Sshd, base: Path, port: int, name: str) -> Iterator[list[str]]:
    """One shared connection, and the start of a command line that uses it."""
    settings = base / f"{name}-settings"
    text = machine.settings(HOST, "build", "LogLevel ERROR").replace(f"Port {machine.port}", f"Port {port}")
    settings.write_text(text.replace("GlobalKnownHostsFile", "StrictHostKeyChecking no\n  GlobalKnownHostsFile"))
    line = ["ssh", "-F", str(settings), "-S", str(base / name)]
    master = subprocess.Popen([*line, "-M", "-N", HOST], stdin=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if subprocess.run([*line, "-O", "check", HOST], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.05)
        yield line
    finally:
        master.terminate()
        master.wait()


@contextmanager
def relay(port: int) -> Iterator[int]:
    """A port that leads to another one, each byte held back for DELAY seconds, both ways."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    near, _ = server.accept()
                except OSError:
                    return
                far = socket.create_connection(("127.0.0.1", port))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                hold(near, far)
                hold(far, near)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def hold(source: socket.socket, sink: socket.socket) -> None:
    waiting: deque[tuple[float, bytes]] = deque()
    there = threading.Semaphore(0)

    def read() -> None:
        while True:
            try:
                data = source.recv(1 << 18)
            except OSError:
                data = b""
            waiting.append((time.monotonic() + DELAY, data))
            there.release()
            if not data:
                return

    def write() -> None:
        while True:
            there.acquire()
            due, data = waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
            except OSError:
                return

    for work in (read, write):
        threading.Thread(target=work, daemon=True).start()


def memory(bars: list[Bar]) -> None:
    """Each in a process of its own, whose peak is compared with that of one that did a round over nothing."""
    for name, files, size in (("50,000 files", 50_000, 1_000), ("one file of 500 MB", 1, 500_000_000)):
        peaks = []
        for count in (0, files):
            with tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch:
                line = [sys.executable, "-m", "tests.bench.mirror", "--memory", scratch, str(count), str(size)]
                peaks.append(int(subprocess.run(line, check=True, capture_output=True, text=True).stdout))
        bars.append(Bar(f"memory, {name}", (peaks[1] - peaks[0]) / MEGABYTE, MOST_MEMORY, "MB"))


def one_round(base: Path, files: int, size: int) -> None:
    """Prints the peak of this process's memory, in bytes, after a round there and back."""
    from tests.workplaces.mirror_far import Pair

    pair = Pair(base)
    pair.limits = Limits(files=60_000)
    for number in range(files):
        path = pair.here / str(number // 100) / str(number)
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.write(b"x" * min(size, 1000))
            file.truncate(size)

    def command(there: Path) -> None:
        for path in there.rglob("*"):
            if path.is_file():
                with path.open("r+b") as file:
                    file.write(b"y")

    for step in (None, command, None):
        _, back = asyncio.run(pair.round(step))
        if back.trouble:
            raise RuntimeError(back.trouble)
    # not getrusage's: that of a program that was just started is its parent's
    print(next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))  # noqa: SIM115, PTH123


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        one_round(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
        sys.exit(0)
    sys.exit(main())
