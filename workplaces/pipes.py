"""Reading several pipes in one thread, and being woken while doing so."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

READ = 256 * 1024
_F_SETPIPE_SZ = 1031  # Linux fcntl(2): a pipe starts with 64 KB, sixteen switches a megabyte
_F_GETPIPE_SZ = 1032
_ROOM = 1024 * 1024

Got = tuple[str, bytes]


class Reader(Protocol):
    """Gives ``(name, bytes)`` of what came within ``timeout`` seconds; no bytes once at that pipe's end.

    The names ``wake`` (somebody called ``wake``) and those of ``ready`` descriptors come with no bytes too.
    """

    @property
    def open(self) -> int:
        """How many pipes have not ended yet."""
        ...

    @property
    def behind(self) -> bool:
        """Whether bytes may be on their way that a ``read`` with no time would not give."""
        ...

    def read(self, timeout: float | None) -> list[Got]: ...

    def wake(self) -> None:
        """Makes ``read`` come back. For any thread."""
        ...

    def close(self) -> None: ...


class PollReader:
    """For systems where a pipe can be waited for. ``ready`` descriptors are only waited for, and once."""

    behind = False

    def __init__(self, pipes: Mapping[str, int], ready: Mapping[str, int]) -> None:
        import select

        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._lock = threading.Lock()
        self._names = {fd: name for name, fd in (*pipes.items(), *ready.items(), ("wake", self._wake_read))}
        self._pipes = set(pipes.values())
        for fd in self._names:
            self._poll.register(fd, select.POLLIN)

    @property
    def open(self) -> int:
        return len(self._pipes)

    def read(self, timeout: float | None) -> list[Got]:
        got: list[Got] = []
        for fd, _ in self._poll.poll(None if timeout is None else max(0.0, timeout * 1000)):
            data = b""
            if fd in self._pipes:
                data = os.read(fd, READ)
                if not data:
                    self._pipes.discard(fd)
            elif fd == self._wake_read:
                os.read(fd, 64)
            if not data and fd != self._wake_read:
                self._poll.unregister(fd)
            got.append((self._names[fd], data))
        return got

    def wake(self) -> None:
        with self._lock:
            if self._wake_write >= 0:
                try:
                    os.write(self._wake_write, b"!")
                except BlockingIOError:
                    return

    def close(self) -> None:
        with self._lock:
            for fd in (self._wake_read, self._wake_write):
                os.close(fd)
            self._wake_read = self._wake_write = -1


class ThreadReader:
    """For Windows, where a pipe cannot be waited for: a thread for each, and a short queue that holds them back."""

    behind = True

    def __init__(self, pipes: Mapping[str, int]) -> None:
        self._queue: queue.Queue[Got] = queue.Queue(maxsize=16)
        self._left = len(pipes)
        self._closed = False
        self._threads = [threading.Thread(target=self._drain, args=pipe, daemon=True) for pipe in pipes.items()]
        for thread in self._threads:
            thread.start()

    @property
    def open(self) -> int:
        return self._left

    def read(self, timeout: float | None) -> list[Got]:
        try:
            got = self._queue.get(timeout=timeout)
        except queue.Empty:
            return []
        if not got[1] and got[0] != "wake":
            self._left -= 1
        return [got]

    def wake(self) -> None:
        try:
            self._queue.put_nowait(("wake", b""))
        except queue.Full:
            return  # it is about to come back anyway

    def close(self) -> None:
        self._closed = True
        while any(thread.is_alive() for thread in self._threads):
            if not self.read(0.05) and self._left == 0:
                break

    def _drain(self, name: str, fd: int) -> None:
        while not self._closed:
            try:
                data = os.read(fd, READ)
            except OSError:
                data = b""
            self._queue.put((name, data))
            if not data:
                return


def reader(pipes: Mapping[str, int], ready: Mapping[str, int]) -> Reader:
    """The one that works here."""
    return ThreadReader(pipes) if sys.platform == "win32" else PollReader(pipes, ready)


def widen(fds: Iterable[int]) -> None:
    """Gives pipes more room where the system can. A person's allowance may be used up: then they stay as they are."""
    if sys.platform == "linux":
        import fcntl

        for fd in fds:
            try:
                fcntl.fcntl(fd, _F_SETPIPE_SZ, _ROOM)
            except OSError:
                return


def room(fd: int) -> int:
    """How many bytes an empty pipe takes at once (Linux)."""
    import fcntl

    return fcntl.fcntl(fd, _F_GETPIPE_SZ)
