"""Starts a program, streams what it prints, and ends all of it.

One thread a program: it starts it, reads both pipes, hands the bytes on, and stays until the last process of it is
dead. (It is also what the kernel ties a box's life to: ``PR_SET_PDEATHSIG`` names the starting *thread*.) The loop
only waits. Stopping is cancellation, and does not return before the tree is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from workplaces.output import Stream
from workplaces.pipes import Reader, reader, widen
from workplaces.stragglers import Group, Marked

__all__ = ["CannotStart", "Ended", "Group", "Killed", "Launch", "Marked", "Taker", "Tree", "ask", "launch", "run"]

# How long the pipes of a dead tree may still hold something. Who held them open for longer is not of the tree.
_DRAIN = 2.0
# How often to look, where the system cannot tell that a program ended.
_LOOK = 0.02
_LARGEST_ANSWER = 4 * 1024 * 1024
_SIGNALLED = 128
_CAN_WATCH = hasattr(os, "pidfd_open")
_STREAMS: dict[str, Stream] = {"out": "out", "err": "err"}


class CannotStart(OSError):
    """The program could not be started: it is not there, or may not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended. ``code`` is its exit code, 128+n for signal n, None when it timed out or was stopped.

    ``sure`` is False when some process of it may still be running.
    """

    code: int | None
    timed_out: bool = False
    seconds: float = 0.0
    sure: bool = True


class Killed(asyncio.CancelledError):
    """Raised when it was cancelled, once the tree is dead. ``ended`` says how."""

    def __init__(self, ended: Ended) -> None:
        super().__init__()
        self.ended = ended


class Taker(Protocol):
    """Who takes what a program prints. An OutputKeeper is one."""

    @property
    def waiting(self) -> bool: ...

    def feed(self, stream: Stream, data: bytes) -> None: ...

    def pump(self) -> None: ...


class Tree(Protocol):
    """All the processes of one program. Everything is called in the program's thread, ``end`` once."""

    def started(self, pid: int) -> None: ...

    def end(self) -> bool:
        """Kills what is left of it, the program included. Gives whether none of it lives any more."""
        ...

    def close(self) -> None:
        """Lets go of everything. May be called twice, and when nothing was started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start. ``env`` is the whole environment; ``pass_fds`` keep their numbers in the program; ``program`` is
    the file to start when it is not ``argv[0]``."""

    argv: Sequence[str]
    program: str | None = None
    env: Mapping[str, str]
    cwd: Path | None = None
    pass_fds: tuple[int, ...] = ()
    tree: Tree = field(default_factory=Group)


async def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    keeper: Taker,
    timeout: float,
    cwd: Path | None = None,
    pass_fds: tuple[int, ...] = (),
) -> Ended:
    """Runs a program to its end, its standard input at its end.

    At ``timeout`` seconds, and when this is cancelled, every process that came of it is killed; those it left behind
    are killed when it ends by itself. Raises CannotStart, and Killed when cancelled.
    """
    tree = Marked()
    marked = Launch(argv=argv, env={**env, **tree.env}, cwd=cwd, pass_fds=pass_fds, tree=tree)
    return await launch(lambda: marked, keeper, timeout)


async def ask(
    argv: Sequence[str], timeout: float, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[int | None, str, str]:
    """Asks a helper program a short question: its exit code (None: no answer in time), and what it printed.

    A program that is not there answers 127. At most 4 MB of each stream are given.
    """
    answer = _Answer()
    asked = Launch(argv=argv, env=dict(os.environ) if env is None else env, cwd=cwd)
    try:
        ended = await launch(lambda: asked, answer, timeout)
    except CannotStart as error:
        return 127, "", str(error)
    return ended.code, answer.text("out"), answer.text("err")


async def launch(prepare: Callable[[], Launch], keeper: Taker, timeout: float) -> Ended:
    """``run``, for who must touch the disk first: ``prepare`` is called in the program's thread and may raise."""
    done = _Done()
    worker = _Worker(prepare, keeper, timeout, done)
    done.worker = worker
    worker.start()
    try:
        ended = await done
    except BaseException:
        if worker.stopping:
            raise Killed(Ended(code=None)) from None
        raise
    if worker.stopping:
        raise Killed(ended)
    return ended


class _Done(asyncio.Future[Ended]):
    """How a program's thread answers. Cancelling stops the program, and the answer comes once its tree is dead."""

    worker: _Worker

    def cancel(self, msg: Any | None = None) -> bool:
        if self.done():
            return False
        self.worker.stop()
        return True


class _Worker:
    """One program's thread."""

    def __init__(self, prepare: Callable[[], Launch], keeper: Taker, timeout: float, done: _Done) -> None:
        self._prepare = prepare
        self._keeper = keeper
        self._timeout = timeout
        self._done = done
        self._loop = done.get_loop()
        self._lock = threading.Lock()
        self.stopping = False
        self._reader: Reader | None = None

    def start(self) -> None:
        threading.Thread(target=self._work, name="conch-program", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            self.stopping = True
            if self._reader is not None:
                self._reader.wake()

    def _work(self) -> None:
        try:
            ended = self._through()
        except BaseException as error:  # noqa: BLE001 - it is given to who waits
            self._tell(self._done.set_exception, error)
        else:
            self._tell(self._done.set_result, ended)

    def _tell(self, how: Callable[[Any], None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            self._loop.call_soon_threadsafe(how, what)

    def _through(self) -> Ended:
        plan = self._prepare()
        try:
            if self.stopping:
                return Ended(code=None)
            began = time.monotonic()
            process = _start(plan)
            try:
                return self._follow(process, plan.tree, began)
            finally:
                for pipe in (process.stdout, process.stderr):
                    if pipe is not None:
                        pipe.close()
        finally:
            plan.tree.close()

    def _follow(self, process: subprocess.Popen[bytes], tree: Tree, began: float) -> Ended:
        """Reads until the program ended or must; then ends its tree, takes what was still on its way, and waits."""
        timed_out = False
        sure = False
        with _Watched(process) as watched:
            with self._lock:
                self._reader = watched.reader
            try:
                tree.started(process.pid)
                timed_out = self._read_until_end(watched, began + self._timeout)
            finally:
                with self._lock:
                    self._reader = None
                stopped = self.stopping
                sure = tree.end()
                if timed_out or stopped:
                    # The tree is dead or out of reach; the program itself is our child, and its own end is certain.
                    with contextlib.suppress(OSError):
                        process.kill()
                process.wait()
            self._drain(watched, sure)
        code = None if timed_out or stopped else _code(process.returncode)
        return Ended(code=code, timed_out=timed_out, seconds=time.monotonic() - began, sure=sure)

    def _read_until_end(self, watched: _Watched, deadline: float) -> bool:
        """Gives whether it timed out; False too when it was stopped."""
        while not self.stopping:
            now = time.monotonic()
            if now >= deadline:
                return True
            wait = deadline - now
            if self._keeper.waiting:
                wait = min(wait, _LOOK)
            got = watched.read(wait)
            for name, data in got:
                self._take(name, data)
            if ("ended", b"") in got:
                return False
            if self._keeper.waiting:
                self._keeper.pump()
        return False

    def _drain(self, watched: _Watched, sure: bool) -> None:
        """Takes what is still in the pipes. Of a tree that is surely dead nothing more will come; of another, what it
        prints for a while."""
        wait = not sure or watched.reader.behind
        until = time.monotonic() + _DRAIN
        while watched.reader.open and time.monotonic() < until:
            got = watched.reader.read(max(0.0, until - time.monotonic()) if wait else 0.0)
            if not got and not wait:
                return
            for name, data in got:
                self._take(name, data)

    def _take(self, name: str, data: bytes) -> None:
        if not data:
            return
        if name in _STREAMS:
            self._keeper.feed(_STREAMS[name], data)


class _Watched:
    """A started program with all that can be waited for: its pipes and its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pidfd = -1
        self._ended = False

    def __enter__(self) -> _Watched:
        streams = {"out": self._process.stdout, "err": self._process.stderr}
        pipes = {name: pipe.fileno() for name, pipe in streams.items() if pipe is not None}
        widen(pipes.values())
        if _CAN_WATCH:
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self._process.pid)
        self.reader = reader(pipes, {"ended": self._pidfd} if self._pidfd >= 0 else {})
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def read(self, timeout: float) -> list[tuple[str, bytes]]:
        if self._pidfd >= 0:
            return self.reader.read(timeout)
        got = self.reader.read(min(timeout, _LOOK))
        if not got and not self._ended and self._process.poll() is not None:
            self._ended = True
            got = [("ended", b"")]
        return got


class _Answer:
    """Keeps what a helper program printed, as it is."""

    waiting = False

    def __init__(self) -> None:
        self._held: dict[Stream, bytearray] = {"out": bytearray(), "err": bytearray()}

    def feed(self, stream: Stream, data: bytes) -> None:
        held = self._held[stream]
        held += data[: _LARGEST_ANSWER - len(held)]

    def pump(self) -> None:
        """Nobody listens."""

    def text(self, stream: Stream) -> str:
        return self._held[stream].decode(errors="replace")


def _start(plan: Launch) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            plan.argv,
            executable=plan.program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(plan.env),
            cwd=plan.cwd,
            pass_fds=plan.pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        raise CannotStart(error.errno, error.strerror, error.filename) from error
    except ValueError as error:  # a NUL byte in an argument
        raise CannotStart(str(error)) from error


def _code(returncode: int) -> int:
    return returncode if returncode >= 0 else _SIGNALLED - returncode
