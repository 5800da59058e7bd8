"""One command on this computer: started in its box, followed, and accounted for."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workplaces import processes
from workplaces.output import OutputKeeper, Stream
from workplaces.place import COMPUTER, LONGEST_TIMEOUT, PlaceUnavailable, Proof, RunRequest, RunResult, Stopped
from workplaces.processes import Ended, Killed, Launch, Marked
from workplaces.repository.after import restore
from workplaces.seal import seatbelt
from workplaces.seal.bubblewrap import Box, Bubblewrap
from workplaces.seal.policy import Policy
from workplaces.words import PLACE_WORDS

_SHELL = "/bin/sh"
# One argument may hold this much (Linux MAX_ARG_STRLEN, 32 pages); a longer line is read from a descriptor.
_LONGEST_ARGUMENT = 128 * 1024 - 1
_OF_BWRAP = b"bwrap: "
_CANNOT_START = b"bwrap: execvp "
_LARGEST_HELD = 16 * 1024
_SIGNALLED = 128
_NOT_RUNNABLE, _NOT_FOUND = 126, 127
_NO_NETWORK = re.compile(
    r"(?i)could not resolve|name resolution|name or service not known|network is unreachable|ENOTFOUND|EAI_AGAIN"
)


@dataclass(slots=True)
class Run:
    """One command, once. ``policy`` and ``empty`` are asked in the program's thread; ``box`` is None for no box, and is
    called ``name`` in a list of processes."""

    policy: Callable[[RunRequest], Policy]
    empty: Callable[[], Path]
    request: RunRequest
    box: Bubblewrap | None
    name: str
    failed: str = ""
    _tree: Box | Marked | None = None
    _policy: Policy | None = None
    _moved: str = ""
    _after: _After | None = None
    _ears: _Ears = field(init=False)

    def __post_init__(self) -> None:
        self._ears = _Ears(self.request.output, self.box is not None)

    async def through(self) -> RunResult | None:
        """Runs it. None when the box could not be made, so that nothing ran: ``failed`` says what was seen."""
        timeout = min(max(self.request.timeout, 0.0), LONGEST_TIMEOUT)
        try:
            ended = await processes.launch(self._prepare, self._ears, timeout)
        except Killed as killed:
            self._ears.release()
            unsure = "" if killed.ended.sure else PLACE_WORDS["computer.unsure"]
            words = f"{unsure} {self._moved}".strip()
            proof = self._proof() if self._policy else None
            raise Stopped(sure=killed.ended.sure, words=words, seconds=killed.ended.seconds, proof=proof) from None
        except processes.CannotStart as error:
            if error.errno == errno.E2BIG:
                raise PlaceUnavailable(PLACE_WORDS["command.long"], details=str(error)) from error
            raise PlaceUnavailable(PLACE_WORDS["box.failed"], details=str(error)) from error
        if isinstance(self._tree, Box) and self._tree.code is None and ended.code is not None:
            if self._ears.cannot_start():
                return self._result(Ended(code=self._why_not(), seconds=ended.seconds))
            if self._ears.held or ended.code < _SIGNALLED:
                self.failed = self._ears.held.decode(errors="replace").strip()
                return None
        return self._result(ended)

    def _prepare(self) -> Launch:
        """Makes ready what starts it. Called in the program's thread."""
        argv, fds = _argv(self.request.command, boxed=self.box is not None)
        if self.box is not None:
            sealed = not self.request.open
            box = Box(self.name, argv, self._options, filtered=sealed, after=self._afterwards, pass_fds=fds)
            self._tree = box
            return Launch(argv=box.argv, program=self.box.path, env={}, pass_fds=box.pass_fds, tree=box)
        self._policy = policy = self.policy(self.request)
        self._tree = tree = _Unboxed(self._look_after)
        if sys.platform == "darwin":
            argv = seatbelt.command(policy, argv)
        return Launch(argv=argv, env={**policy.env, **tree.env}, cwd=policy.start, tree=tree)

    def _options(self) -> list[str]:
        """What bubblewrap is told, by what is there now. Called in the program's thread."""
        assert self.box is not None  # noqa: S101 - only a box asks
        try:
            self._policy = self.policy(self.request)
            options = self.box.options(self._policy, self.empty())
        except OSError as error:
            raise PlaceUnavailable(PLACE_WORDS["box.failed"], details=str(error)) from error
        self._after = _After(self, self._policy)
        return options

    def _look_after(self) -> None:
        if self._policy is not None and self._policy.repository is not None:
            self.moved(restore(self._policy.repository))

    def _afterwards(self) -> None:
        if self._after is not None:
            self._after()

    def _why_not(self) -> int:
        """The exit code a shell gives for a program that could not be started: it is not there, or may not be run."""
        program = self.request.command if isinstance(self.request.command, str) else self.request.command[0]
        if isinstance(self.request.command, str) or self._policy is None:
            return _NOT_RUNNABLE
        if "/" in program:
            return _NOT_RUNNABLE if (self._policy.start / program).exists() else _NOT_FOUND
        found = shutil.which(program, os.F_OK, self._policy.env.get("PATH"))
        return _NOT_RUNNABLE if found else _NOT_FOUND

    def _result(self, ended: Ended) -> RunResult:
        self._ears.release()
        kept = self.request.output.finish()
        return RunResult(
            code=ended.code,
            output=kept,
            seconds=ended.seconds,
            where=COMPUTER,
            proof=self._proof(),
            timed_out=ended.timed_out,
            note=self._note(ended, kept.text),
            sure=ended.sure,
        )

    def _proof(self) -> Proof:
        assert self._policy is not None  # noqa: S101 - it was started
        details = {"uid": str(os.geteuid())} if hasattr(os, "geteuid") else {}
        sealed, network = self._policy.sealed, True
        if self.box is not None and isinstance(self._tree, Box):
            details |= {"seal": self.box.name, **self._tree.seen}
            inside = self._tree.seen.get("net-namespace")
            network = inside == _own_network() if inside else self._policy.network
        elif sys.platform == "darwin":
            details["seal"] = "Seatbelt"
            network = self._policy.network
        else:
            details["seal"] = "none"
        return Proof(
            place=str(COMPUTER),
            target=socket.gethostname(),
            folder=str(self._policy.start),
            network=network,
            sealed=sealed,
            details=details,
        )

    def _note(self, ended: Ended, text: str) -> str:
        """What the model would not know: why something failed in the box."""
        notes = []
        if self._moved:
            notes.append(self._moved)
        if self._policy is not None and self._policy.sealed and ended.code:
            if _NO_NETWORK.search(text):
                notes.append(PLACE_WORDS["computer.note.network"])
            if "Read-only file system" in text:
                notes.append(PLACE_WORDS["computer.note.read-only"])
        return " ".join(notes)

    def moved(self, said: str) -> None:
        self._moved = said


class _Unboxed(Marked):
    """A program's processes where no box holds them. ``after`` is called once all of them are dead."""

    def __init__(self, after: Callable[[], None]) -> None:
        super().__init__()
        self._after = after

    def end(self) -> bool:
        try:
            return super().end()
        finally:
            self._after()


class _After:
    """Once all of a sealed command is dead: the folder is as it must be, whatever the command or a race did."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self._run = run
        self._repository = policy.repository
        top = f"{policy.start}/"
        inside = (path for path in (*policy.hidden_folders, *policy.hidden_files) if str(path).startswith(top))
        self._covered = [(path, _which(path)) for path in inside]
        self._began = time.time()

    def __call__(self) -> None:
        for path, was in self._covered:
            # It went away while the box was made, and what covered it was made in its stead: nothing of that stays.
            if (now := _which(path)) is not None and now != was:
                _remove_stub(path, self._began)
        if self._repository is not None:
            self._run.moved(restore(self._repository))


class _Ears:
    """Hands on what is printed, but for bubblewrap's own words: those are held until it is known whose they are."""

    def __init__(self, keeper: OutputKeeper, listen: bool) -> None:
        self._keeper = keeper
        self._listening = listen
        self.held = b""

    @property
    def waiting(self) -> bool:
        return self._keeper.waiting

    def cannot_start(self) -> bool:
        """Whether the box was made and only the command could not be started in it; then that is what it printed."""
        if not self.held.startswith(_CANNOT_START):
            return False
        self.held = self.held.removeprefix(_CANNOT_START)
        return True

    def feed(self, stream: Stream, data: bytes) -> None:
        if stream == "err" and self._listening:
            self.held += data
            start = self.held[: len(_OF_BWRAP)]
            if _OF_BWRAP.startswith(start) and len(self.held) < _LARGEST_HELD:
                return
            self.release()
            return
        self._keeper.feed(stream, data)

    def pump(self) -> None:
        self._keeper.pump()

    def release(self) -> None:
        """They were the command's own after all."""
        self._listening = False
        held, self.held = self.held, b""
        self._keeper.feed("err", held)


def check_command(command: str | tuple[str, ...]) -> None:
    """Raises PlaceUnavailable, with words, for what no system can start."""
    if not command and not isinstance(command, str):
        raise PlaceUnavailable(PLACE_WORDS["command.empty"])
    if any("\0" in part for part in ([command] if isinstance(command, str) else command)):
        raise PlaceUnavailable(PLACE_WORDS["command.zero"])


def _argv(command: str | tuple[str, ...], *, boxed: bool) -> tuple[Sequence[str], tuple[int, ...]]:
    """What to start for a command, and the descriptors it reads."""
    if sys.platform == "win32":
        shell = os.environ.get("COMSPEC", "cmd.exe")
        return ([shell, "/d", "/s", "/c", command] if isinstance(command, str) else list(command)), ()
    if not isinstance(command, str):
        # A box starts a program itself and says why it could not; elsewhere the shell does.
        return (list(command) if boxed else [_SHELL, "-c", 'exec "$@"', "sh", *command]), ()
    if len(line := os.fsencode(command)) > _LONGEST_ARGUMENT and sys.platform == "linux":
        fd = os.memfd_create("command", os.MFD_CLOEXEC)
        os.write(fd, line)
        os.lseek(fd, 0, os.SEEK_SET)
        return [_SHELL, f"/proc/self/fd/{fd}"], (fd,)
    return [_SHELL, "-c", command], ()


def _own_network() -> str:
    try:
        return str(Path("/proc/self/ns/net").stat().st_ino)
    except OSError:
        return ""


def _which(path: Path) -> tuple[int, int] | None:
    """Which file is there now: its number, which the next one may be given at once, and when that was made so."""
    try:
        seen = path.lstat()
    except OSError:
        return None
    return seen.st_ino, seen.st_ctime_ns


def _remove_stub(path: Path, began: float) -> None:
    """Removes what bubblewrap makes to lay something over: an empty file that nobody may write, or an empty folder."""
    try:
        seen = path.lstat()
        if not began - 1 < seen.st_ctime < began + 2:
            return
        if stat.S_ISDIR(seen.st_mode):
            path.rmdir()
        elif seen.st_mode == stat.S_IFREG | 0o444 and seen.st_size == 0:
            path.unlink()
    except OSError:
        return
