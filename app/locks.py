"""Locks between processes. The system drops them when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


class FileLock:
    """A lock on a file (made when needed, owner-only). One object is one holder; it is not for use by two threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: int | None = None

    @property
    def held(self) -> bool:
        return self._held is not None

    def take(self, *, wait: bool = True) -> bool:
        """Takes the lock; without ``wait`` gives False when another holds it. Raises OSError when it cannot."""
        while self._held is None:
            number = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            if not _lock(number, wait):
                os.close(number)
                return False
            # Whoever held it before may have removed the file: a lock on a file nobody can find is no lock.
            if _same(number, self.path):
                self._held = number
            else:
                os.close(number)
        return True

    def release(self, *, remove: bool = False) -> None:
        """Gives the lock back; ``remove`` takes its file away too, while it is still held."""
        if self._held is None:
            return
        number, self._held = self._held, None
        if remove:
            with contextlib.suppress(OSError):  # Windows keeps an open file; the next one to look takes it away
                self.path.unlink(missing_ok=True)
        os.close(number)

    def __enter__(self) -> FileLock:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _same(number: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(number)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


if sys.platform == "win32":
    import msvcrt

    def _lock(number: int, wait: bool) -> bool:
        # LK_LOCK itself gives up after ten tries of a second.
        while True:
            try:
                msvcrt.locking(number, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
else:
    import fcntl

    def _lock(number: int, wait: bool) -> bool:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True
