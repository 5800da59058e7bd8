"""Where a command's output goes: raw bytes to a pipe or a file, cleaned text to a terminal."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from collections.abc import Callable

from app.cli.screen import nobody_reads
from workplaces.clean import Cleaner

_PIECE = getattr(select, "PIPE_BUF", 512)
"""A pipe that can be written to takes so many bytes without making the writer wait."""

_LOOK = 0.25
"""Seconds after which a writer that waits for its reader looks whether it still should."""


class Outlet:
    """One of our own two streams.

    ``write`` waits for a slow reader, so that memory stays bounded, but only until ``give_up`` says that the command
    is to end: then what nobody takes is let go. ``lost`` is called once, when nobody reads any more or nothing can be
    written; ``trouble`` then holds the error.
    """

    def __init__(self, number: int, give_up: Callable[[], bool], lost: Callable[[], None]) -> None:
        self._number = number
        self._give_up = give_up
        self._lost = lost
        self.trouble: OSError | None = None
        self._cleaner = Cleaner() if _is_terminal(number) else None
        self._waits = _waits(number)

    @property
    def nobody_reads(self) -> bool:
        return isinstance(self.trouble, BrokenPipeError)

    def write(self, data: bytes, *, final: bool = False) -> None:
        """May be called from any one thread."""
        if self._cleaner is not None:
            data = self._cleaner.feed(data, final=final).encode("utf-8", "replace")
        left = memoryview(data)
        while left and self.trouble is None:
            try:
                if self._waits:
                    if not self._ready():
                        return
                    left = left[os.write(self._number, left[:_PIECE]) :]
                else:
                    left = left[os.write(self._number, left) :]
            except BlockingIOError:  # somebody made the pipe so; it is not ours alone
                time.sleep(0.01)
            except OSError as error:
                self.trouble = error
                nobody_reads(self._number)
                self._lost()

    def finish(self) -> None:
        """Half a character at the end is shown as such."""
        if self._cleaner is not None:
            self.write(b"", final=True)

    def _ready(self) -> bool:
        """Waits until the reader takes more. False: it is not going to be waited for any longer."""
        while not select.select([], [self._number], [], 0 if self._give_up() else _LOOK)[1]:
            if self._give_up():
                return False
        return True


def _is_terminal(number: int) -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(number)
    return False


def _waits(number: int) -> bool:
    """Whether a write can make us wait for a reader: not on a file, and on Windows it cannot be asked."""
    with contextlib.suppress(OSError):
        return sys.platform != "win32" and not stat.S_ISREG(os.fstat(number).st_mode)
    return False
