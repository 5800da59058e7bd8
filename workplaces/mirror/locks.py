"""One command at a time for one copy, in this process and in others. The system drops the lock of who dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from workplaces.mirror.stop import Halt

_LOOK: Final = 0.05


class CopyLock:
    """A lock on a file, taken and given back by possibly different threads of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number: int | None = None

    def take(self, halt: Halt) -> None:
        """Waits for its turn. Raises Halted when it is told to stop, OSError when the lock cannot be had."""
        while True:
            halt.check()
            number = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            if _lock(number) and _same(number, self._path):
                self._number = number
                return
            os.close(number)
            halt.wait(_LOOK)

    def release(self) -> None:
        if self._number is not None:
            number, self._number = self._number, None
            os.close(number)


def _same(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(number: int) -> bool:
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(number: int) -> bool:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
