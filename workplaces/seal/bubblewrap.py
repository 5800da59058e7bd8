"""The box on Linux: bubblewrap's arguments for a policy, whether it works here, and the box's processes.

bwrap(1) is told everything through a descriptor, so that no path or name shows in ``ps`` and none is too many. What it
made is read from its status pipe: the first process of the box, the namespaces it is in, and, only once the command
was really started, how that ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workplaces.pipes import room, widen
from workplaces.seal.policy import Policy
from workplaces.seal.seccomp import filter_program

_PATIENCE = 5.0
_LARGEST_STATUS = 64 * 1024
_PRIVATE_SIZE = 2 * 1024**3
OLDEST = (0, 4)
# Abilities of root that would undo a cover: taken from an open command too, when Conch runs as root.
_UNDOING = ("SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "MKNOD", "DAC_READ_SEARCH", "SYS_CHROOT")
_Kind = Literal["pinned", "private", "writable", "kept", "hidden", "covered"]


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that was seen to work. ``users``: whether it makes a user namespace too (always, but where this is
    root and the kernel refuses them)."""

    path: str
    version: tuple[int, ...]
    users: bool = True

    @property
    def name(self) -> str:
        return "bubblewrap " + ".".join(map(str, self.version))

    def options(self, policy: Policy, empty: Path) -> list[str]:
        """Everything before the command. ``empty`` is laid over hidden files: Conch's own, read-only and empty."""
        words = ["--die-with-parent", "--new-session", "--unshare-pid"]
        if policy.sealed:
            words += ["--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
            words += self.closed()
        elif os.geteuid() == 0:
            words += [word for name in _UNDOING for word in ("--cap-drop", f"CAP_{name}")]
        if not policy.network:
            words.append("--unshare-net")
        if Path("/") in policy.writable:
            words += ["--dev-bind", "/", "/", "--proc", "/proc"]
        else:
            words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
            # Root may write the kernel's settings there without any ability: what guards them asks who one is.
            words += ["--remount-ro", "/proc"] if os.geteuid() == 0 else []
        for name, value in policy.env.items():
            words += ["--setenv", name, value]
        return [*words, *self._mounts(policy, str(empty)), "--chdir", str(policy.start)]

    def closed(self) -> list[str]:
        """The user namespace of a sealed box, in which no other can be made: the filter of calls sees to that, and
        bubblewrap (0.8) where there is no filter for this kind of computer."""
        if not self.users:
            return []
        return (
            ["--unshare-user"] if filter_program() or self.version < (0, 8) else ["--unshare-user", "--disable-userns"]
        )

    def _mounts(self, policy: Policy, empty: str) -> Iterator[str]:
        """What lies on the file system, outer paths first, each only where it changes something."""
        closed: list[str] = []
        state: dict[str, str] = {"/": "writable" if Path("/") in policy.writable else "kept"}
        links = {str(where): str(what) for where, what in policy.links}
        for path, kind in _ordered(policy):
            around = next(state[parent] for parent in _above(path) if parent in state)
            if kind == "covered":
                if around not in ("hidden", "private"):
                    yield from ("--ro-bind", empty, path)
            elif kind == "hidden":
                if around not in ("hidden", "private"):
                    yield from (*self._mode("0555"), "--tmpfs", path)
                    if not policy.sealed:
                        closed.append(path)  # root, open, writes past a mode
                    state[path] = kind
            elif kind == "private":
                if around != "hidden":
                    yield from (*self._fresh(path), "--tmpfs", path)
                    state[path] = kind
            elif kind == "kept":
                if around in ("writable", "private"):
                    yield from ("--ro-bind", path, path)
                    state[path] = kind
            elif around != "writable" if kind == "writable" else around == "writable":
                yield from ("--bind", path, path)
                state[path] = "writable"
        for where, what in links.items():
            yield from ("--symlink", what, where)
        for path in closed:
            yield from ("--remount-ro", path)

    def _fresh(self, path: str) -> Iterator[str]:
        """How big a private folder may grow, and who may write to it."""
        yield from self._mode("0755" if path == "/run" else "1777")
        if self.version >= (0, 8):
            yield from ("--size", str(_PRIVATE_SIZE))

    def _mode(self, mode: str) -> tuple[str, ...]:
        return ("--perms", mode) if self.version >= (0, 5) else ()


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _ordered(policy: Policy) -> list[tuple[str, _Kind]]:
    kinds: dict[str, _Kind] = {}
    groups: tuple[tuple[_Kind, tuple[Path, ...]], ...] = (
        ("pinned", policy.pinned),
        ("private", policy.private),
        ("writable", policy.writable),
        ("kept", policy.read_only),
        ("hidden", policy.hidden_folders),
        ("covered", policy.hidden_files),
    )
    for kind, paths in groups:  # the stronger one of two on the same path comes later
        kinds.update((str(path), kind) for path in paths)
    kinds.pop("/", None)
    return sorted(kinds.items(), key=lambda item: item[0].count("/"))


class Box:
    """One box's processes, as ``processes.Tree`` asks for them. Made in the program's own thread.

    ``argv`` and ``pass_fds`` start bubblewrap, under ``name`` and with an empty environment; it then waits for what
    ``options`` gives, which is asked for only then: finding out takes about as long as a program needs to start.
    ``code`` is the command's exit code as bubblewrap saw it, None while the command was not seen to end; ``seen`` what
    was read back about the box. ``after`` is called once all of it is dead.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        options: Callable[[], Sequence[str]],
        *,
        filtered: bool,
        after: Callable[[], None] | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self.code: int | None = None
        self.seen: dict[str, str] = {}
        self._options = options
        self._after = after
        self._open: set[int] = set(pass_fds)
        self._theirs: list[int] = list(pass_fds)
        self._pid = 0
        self._first = -1
        self._first_pid = 0
        self._announced = False
        self._given = False
        self._fixed: list[str] = []
        try:
            self._status, status = self._pipe(to_us=True)
            self._fixed += ["--json-status-fd", str(status)]
            if filtered and (program := filter_program()):
                self._fixed += ["--seccomp", str(self._memory(program))]
            self._go, waits = self._pipe(to_us=False)
            widen((self._go,))
        except BaseException:
            self.close()
            raise
        self.argv = [name, "--args", str(waits), "--", *command]
        self.pass_fds = tuple(self._theirs)

    def started(self, pid: int) -> None:
        self._pid = pid
        for name in ("net", "ipc", "uts"):  # bubblewrap's own, which are the box's too unless it says otherwise
            with contextlib.suppress(OSError):
                self.seen[f"{name}-namespace"] = str(os.stat(f"/proc/{pid}/ns/{name}").st_ino)  # noqa: PTH116
        self._give(os.fsencode("\0".join((*self._fixed, *self._options(), ""))))
        for fd in (self._go, *self._theirs):
            self._close(fd)

    def _give(self, options: bytes) -> None:
        """Tells bubblewrap everything in one piece: half of the options must never be taken for all, not even when
        this process is killed right now. A pipe takes what fits in it as a whole."""
        if len(options) > room(self._go):
            raise OSError(f"the box has too many options ({len(options)} bytes)")
        with contextlib.suppress(BrokenPipeError):  # it ended already; how, is read from what it left
            if os.write(self._go, options) != len(options):
                raise OSError("the box could not be told its options")
        self._given = True

    def _hear(self, until: float) -> None:
        """Reads what bubblewrap says of the box: which process is its first, a millisecond or two after it was told
        what to do, and the command's exit code when that ended. All of it is there once bubblewrap itself ended."""
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        said = b""
        while not self._announced and (left := until - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                data = os.read(self._status, _LARGEST_STATUS)
                if not data:
                    return
                said += data
                for line in said.splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            status = json.loads(line)
        except ValueError:
            return
        first, code = status.get("child-pid"), status.get("exit-code")
        if isinstance(code, int):
            self.code = code
        if isinstance(first, int) and not self._announced:
            self._announced = True
            self._hold(first, status.get("pid-namespace"))
            for name in ("mnt", "net", "pid", "ipc", "uts"):
                if inode := status.get(f"{name}-namespace"):
                    self.seen[f"{name}-namespace"] = str(inode)

    def _hold(self, first: int, namespace: object) -> None:
        """Takes hold of the box's first process, unless it is gone, or its number somebody else's by now."""
        with contextlib.suppress(OSError):
            held = os.pidfd_open(first)
            self._open.add(held)
            inode = Path(f"/proc/{first}/ns/pid").stat().st_ino
            if namespace in (None, inode):
                self._first, self._first_pid = held, first

    def end(self) -> bool:
        """Kills the box. Its first process is killed itself: one that bubblewrap had not told to die with it yet
        would go on to run the command by itself."""
        try:
            return self._kill()
        finally:
            if self._after is not None:
                self._after()

    def _kill(self) -> bool:
        until = time.monotonic() + _PATIENCE
        if not self._given:  # it still waits to be told what to do, and has no children
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            return True
        self._hear(until)
        self._signal(self._first)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGKILL)
        if self._first < 0:
            return self._announced or not _children(self._pid)
        if self.code is not None and not _children(self._first_pid):
            return True  # nothing lives in there but bubblewrap's own reaper; its own end takes the kernel a while
        poll = select.poll()
        poll.register(self._first, select.POLLIN)
        return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))

    @staticmethod
    def _signal(pidfd: int) -> None:
        if pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def close(self) -> None:
        for fd in list(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)

    def _pipe(self, *, to_us: bool) -> tuple[int, int]:
        """A pipe, as (our end, bubblewrap's end)."""
        read, write = os.pipe()
        self._open |= {read, write}
        ours, theirs = (read, write) if to_us else (write, read)
        self._theirs.append(theirs)
        return ours, theirs

    def _memory(self, data: bytes) -> int:
        fd = os.memfd_create("conch", os.MFD_CLOEXEC)
        self._open.add(fd)
        self._theirs.append(fd)
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


def _children(pid: int) -> list[str]:
    """The children of a process (proc_pid_task_children(5)): none, when it is gone. A box's every process descends
    from its first one, so that where that has none it is alone. Raises nothing; unsure where the kernel cannot tell."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return [] if not Path(f"/proc/{pid}").exists() else ["?"]
    except OSError:
        return ["?"]
