"""Ending everything a program started, where no box holds its processes together.

A process can leave its parent, its group and its session, and ignore every signal that can be ignored. It is found by
any of: being of the group, descending from one that was seen, or carrying the mark in its environment. One that shed
all three before it was ever looked for is not found; in a box there is no such way out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time

import psutil

MARK = "CONCH_RUN"
_PATIENCE = 5.0


class Group:
    """The process and what shares its group. Enough for a program of our own asking a short question."""

    def __init__(self) -> None:
        self._pid = 0

    def started(self, pid: int) -> None:
        self._pid = pid

    def end(self) -> bool:
        _kill_group(self._pid)
        return True

    def close(self) -> None:
        """Holds nothing."""


class Marked(Group):
    """Everything that came of the process, found again and again until there is none. ``mark`` goes in its env."""

    def __init__(self) -> None:
        super().__init__()
        self.mark = secrets.token_hex(16)
        self._seen: set[tuple[int, float]] = set()

    @property
    def env(self) -> dict[str, str]:
        return {MARK: self.mark}

    def started(self, pid: int) -> None:
        super().started(pid)
        with contextlib.suppress(psutil.Error):
            self._seen.add((pid, psutil.Process(pid).create_time()))

    def end(self) -> bool:
        """Kills all of it. False when some of it still lived after five seconds."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            _kill_group(self._pid)
            found = self._find()
            if not found:
                return True
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.suspend()  # or a fork could outrun us
            for process in (*found, *self._find()):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=0.2)
        return False

    def _find(self) -> list[psutil.Process]:
        """Its live processes. A process number that was given to somebody else since is not taken for it."""
        parents: dict[int, tuple[psutil.Process, int, float]] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                    parents[process.pid] = (process, process.ppid(), process.create_time())
        found: dict[int, psutil.Process] = {}
        for pid, (process, _, made) in parents.items():
            if pid != self._pid and ((pid, made) in self._seen or self._has_mark(process)):
                found[pid] = process
        roots = {self._pid, *found}
        grew = True
        while grew:
            grew = False
            for pid, (process, parent, _) in parents.items():
                if parent in roots and pid not in roots:
                    found[pid] = process
                    roots.add(pid)
                    grew = True
        self._seen.update((pid, parents[pid][2]) for pid in found)
        return list(found.values())

    def _has_mark(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return process.environ().get(MARK) == self.mark
        return False


def _kill_group(pid: int) -> None:
    """Kills the group that a process leads. The leader is ours and not waited for yet, so its number is its own."""
    if pid <= 0:
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    else:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)  # on Windows this is TerminateProcess
