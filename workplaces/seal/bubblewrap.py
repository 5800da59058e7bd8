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
    """A bubblewrap that was seen to work. ``nested`` is True when it can forbid further user namespaces inside."""

    path: str
    version: tuple[int, ...]
    nested: bool = True

    @property
    def name(self) -> str:
        return "bubblewrap " + ".".join(map(str, self.version))

    def options(self, policy: Policy, empty: Path) -> list[str]:
        """Everything before the command. ``empty`` is laid over hidden files: Conch's own, read-only and empty."""
        words = ["--die-with-parent", "--new-session", "--unshare-pid"]
        if policy.sealed:
            words += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
            words += ["--unshare-user", "--disable-userns"] if self.nested else []
        elif os.geteuid() == 0:
            words += [word for name in _UNDOING for word in ("--cap-drop", f"CAP_{name}")]
        if not policy.network:
            words.append("--unshare-net")
        if Path("/") in policy.writable:
            words += ["--dev-bind", "/", "/", "--proc", "/proc"]
        else:
            words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        return [*words, *self._mounts(policy, str(empty)), "--chdir", str(policy.start)]

    def _mounts(self, policy: Policy, empty: str) -> Iterator[str]:
        """What lies on the file system, outer paths first, each only where it changes something."""
        state: dict[str, str] = {"/": "writable" if Path("/") in policy.writable else "kept"}
        closed: list[str] = []
        links = {str(where): str(what) for where, what in policy.links}
        for path, kind in _ordered(policy):
            around = next(state[parent] for parent in _above(path) if parent in state)
            if kind == "covered":
                if around not in ("hidden", "private"):
                    yield from ("--ro-bind", empty, path)
            elif kind == "hidden":
                if around not in ("hidden", "private"):
                    yield from ("--tmpfs", path)
                    closed.append(path)
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
        if self.version >= (0, 5):
            yield from ("--perms", "0755" if path == "/run" else "1777")
        if self.version >= (0, 8):
            yield from ("--size", str(_PRIVATE_SIZE))


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

    ``argv`` and ``pass_fds`` start it. ``code`` is the command's exit code as bubblewrap saw it, None while the command
    was not seen to end; ``seen`` what was read back about the box. ``after`` is called once all of it is dead.
    """

    def __init__(
        self,
        bwrap: Bubblewrap,
        policy: Policy,
        command: Sequence[str],
        *,
        empty: Path,
        after: Callable[[], None] | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self.code: int | None = None
        self.seen: dict[str, str] = {}
        self.side: int | None = None
        self._after = after
        self._open: set[int] = set()
        self._theirs: list[int] = []
        self._told = b""
        self._lines: list[str] = []
        self._pid = 0
        self._first = -1
        self._first_pid = 0
        self._announced = False
        try:
            self.side, status = self._pipe()
            options = [*bwrap.options(policy, empty), "--json-status-fd", str(status)]
            program = filter_program() if policy.sealed else b""
            if program:
                options += ["--seccomp", str(self._memory(program))]
            arguments = self._memory(b"".join(os.fsencode(option) + b"\0" for option in options))
        except BaseException:
            self.close()
            raise
        self.argv = [bwrap.path, "--args", str(arguments), "--", *command]
        self._theirs += pass_fds
        self._open.update(pass_fds)
        self.pass_fds = tuple(self._theirs)

    def started(self, pid: int) -> None:
        self._pid = pid
        for fd in self._theirs:
            self._close(fd)

    def told(self, data: bytes) -> None:
        self._told = (self._told + data)[:_LARGEST_STATUS]
        *lines, self._told = self._told.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                status = json.loads(line)
                if isinstance(status, dict):
                    self._status(status)

    def _status(self, status: dict[str, object]) -> None:
        first, code = status.get("child-pid"), status.get("exit-code")
        if isinstance(code, int):
            self.code = code
        if not isinstance(first, int) or self._announced:
            return
        self._announced = True
        self._hold(first, status.get("pid-namespace"))
        for name in ("mnt", "net", "pid", "ipc", "uts", "cgroup"):
            inode = status.get(f"{name}-namespace")
            with contextlib.suppress(OSError):
                inode = inode or Path(f"/proc/{first}/ns/{name}").stat().st_ino
            if isinstance(inode, int):
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
        if not self._announced:
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

    def _hear(self, until: float) -> None:
        """Waits for bubblewrap to say which process is the box's first; it says so within a millisecond or two."""
        if self.side is None:
            return
        poll = select.poll()
        poll.register(self.side, select.POLLIN)
        while not self._announced and (left := until - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                data = os.read(self.side, 4096)
                if not data:
                    return
                self.told(data)

    @staticmethod
    def _signal(pidfd: int) -> None:
        if pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def close(self) -> None:
        for fd in list(self._open):
            self._close(fd)
        self.side = None

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)

    def _pipe(self) -> tuple[int, int]:
        ours, theirs = os.pipe()
        self._open |= {ours, theirs}
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
