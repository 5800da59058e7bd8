"""What a command prints: cleaned once, here, and kept within bounds.

A command can print anything: bytes that are not UTF-8, half an emoji, terminal sequences that would retitle a window,
200 MB of ``yes``. Every place hands its bytes to an ``OutputKeeper``; nobody else decodes, cleans or counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Stream = Literal["out", "err"]
OnText = Callable[[Stream, str], None]
OnBytes = Callable[[Stream, bytes], None]

HEAD = 64 * 1024
TAIL = 64 * 1024
LARGEST_SPILL = 512 * 1024 * 1024
SPILL_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was kept of a command's output.

    ``text`` is clean and in the order it came, with a line in the middle that says what is not shown; ``out`` and
    ``err`` are the same for one stream. ``size`` is all the bytes the command printed, ``left_out`` how many of them
    are not in ``text``, ``file`` where the whole is kept (owner-only), if it was spilled.
    """

    text: str = ""
    out: str = ""
    err: str = ""
    size: int = 0
    left_out: int = 0
    file: Path | None = None


class OutputKeeper:
    """Takes a command's bytes as they come and keeps the first 64 KB and the last 64 KB of them.

    ``feed`` may be called from any one thread. ``on_text`` is called with clean text (no control characters but
    newline, tab and carriage return), in that same thread; whoever needs it elsewhere hands it over. ``on_bytes`` is
    called with the raw bytes. Past what is kept, or when the bytes are not UTF-8, the whole goes to a file made in
    ``spill_folder`` (mode 0600, at most LARGEST_SPILL bytes); with no folder nothing is spilled.
    """

    def __init__(
        self, *, on_text: OnText | None = None, on_bytes: OnBytes | None = None, spill_folder: Path | None = None
    ) -> None:
        raise NotImplementedError

    def feed(self, stream: Stream, data: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> Kept:
        """Ends both streams (half a character is shown as such) and gives what was kept. May be called twice."""
        raise NotImplementedError


def fold(text: str) -> str:
    """The text as a terminal would leave it: a carriage return starts its line again."""
    raise NotImplementedError
