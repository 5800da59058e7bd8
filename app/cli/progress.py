"""Something long, shown on stderr: a line that changes on a terminal, else one line for each new thing."""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from workplaces.place import Progress

_EVERY = 0.1


class ProgressLine:
    def __init__(self, number: int = 2) -> None:
        self._number = number
        self._terminal = False
        with contextlib.suppress(OSError):
            self._terminal = os.isatty(number)
        self._words = ""
        self._drawn = 0.0
        self._there = False

    def show(self, progress: Progress) -> None:
        new = progress.words != self._words
        self._words = progress.words
        if self._terminal:
            now = time.monotonic()
            if new or now - self._drawn >= _EVERY:
                self._drawn, self._there = now, True
                width = shutil.get_terminal_size().columns - 1
                self._write(f"\r\x1b[K{line(progress)[:width]}")
        elif new:
            self._write(f"{progress.words}\n")

    def clear(self) -> None:
        """Takes the line away, before something else is printed."""
        if self._there:
            self._there = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._number, text.encode("utf-8", "replace"))


def line(progress: Progress) -> str:
    """``Getting the image… 120 of 400 MB``."""
    million = 1_000_000
    if progress.total:
        return f"{progress.words} {progress.done / million:.0f} of {progress.total / million:.0f} MB"
    return f"{progress.words} {progress.done / million:.0f} MB" if progress.done else progress.words
