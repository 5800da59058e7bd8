"""What a command prints: cleaned once, here, and kept within bounds.

A command can print anything: bytes that are not UTF-8, half an emoji, terminal sequences that would retitle a window,
200 MB of ``yes``. Every place hands its bytes to an ``OutputKeeper``; nobody else decodes, cleans or counts them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workplaces.clean import Cleaner, fold
from workplaces.spill import LARGEST_SPILL, SPILL_DAYS, Spill, sweep
from workplaces.words import PLACE_WORDS

__all__ = ["HEAD", "LARGEST_SPILL", "SPILL_DAYS", "TAIL", "Kept", "OutputKeeper", "Stream", "fold", "sweep"]

Stream = Literal["out", "err"]
OnText = Callable[[Stream, str], None]
OnBytes = Callable[[Stream, bytes], None]

HEAD = 64 * 1024
TAIL = 64 * 1024

# What is kept in front of the tail, not to be shown but to know where the tail begins: in text, or within a sequence
# or a character. A sequence longer than this shows its end.
_BEFORE_TAIL = 4 * 1024
# Small pieces are joined up to this size, or a command that prints byte by byte would cost fifty times its bytes.
_PIECE = 8 * 1024
# Past the head a listener gets a sample: at most this much, this many seconds apart.
_SAMPLE = 4 * 1024
_SAMPLE_EVERY = 1 / 30
_CONTINUATION = bytes(range(0x80, 0xC0))
_UNITS = ((1024**3, "GB"), (1024**2, "MB"), (1024, "KB"))


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

    ``on_text`` gets everything of the first 64 KB. After that it gets what comes in pieces of at most 4 KB a stream,
    at most 30 times a second: everything of a command that prints that slowly, and the newest lines of one that
    prints faster. What was printed in between is shown at the next ``feed``, ``pump`` or ``finish``.
    """

    def __init__(
        self, *, on_text: OnText | None = None, on_bytes: OnBytes | None = None, spill_folder: Path | None = None
    ) -> None:
        self._on_bytes = on_bytes
        self._live = _Live(on_text) if on_text else None
        self._spill = Spill(spill_folder) if spill_folder else None
        self._spilling = False
        self._both = _Ends()
        self._each: dict[Stream, _Ends] = {"out": _Ends(), "err": _Ends()}
        self._kept: Kept | None = None

    def feed(self, stream: Stream, data: bytes) -> None:
        """Takes what came next on one stream. Ignored after ``finish``: a process that outlived its command."""
        if not data or self._kept is not None:
            return
        if self._on_bytes is not None:
            self._on_bytes(stream, data)
        if self._spilling or (self._spill and self._both.size + len(data) > HEAD + TAIL):
            self._write(data)
        room = HEAD - self._both.size
        self._both.add(stream, data)
        self._each[stream].add(stream, data)
        if self._live is not None:
            if room > 0:
                self._live.all(stream, data[:room])
            if len(data) > room:
                self._live.some(stream, data[max(room, 0) :])

    @property
    def waiting(self) -> bool:
        """Whether a listener is yet to be given something that ``pump`` would give it."""
        return self._live is not None and self._live.waiting

    def pump(self) -> None:
        """Gives a listener what waits for it, if it is time. For a reader that has nothing to read."""
        if self._live is not None and self._kept is None:
            self._live.give()

    def finish(self) -> Kept:
        """Ends both streams (half a character is shown as such) and gives what was kept. May be called twice."""
        if self._kept is not None:
            return self._kept
        if self._live is not None:
            self._live.end()
        text, lossy = self._both.text()
        only = next((stream for stream in self._each if self._each[stream].size == self._both.size), None)
        texts = {stream: text if stream == only else ends.text()[0] for stream, ends in self._each.items()}
        file = None
        if self._spill is not None:
            if lossy and not self._spilling:
                self._write(b"")
            self._spill.close()
            file = self._spill.path
        self._kept = Kept(
            text=text,
            out=texts["out"],
            err=texts["err"],
            size=self._both.size,
            left_out=self._both.left_out,
            file=file,
        )
        return self._kept

    def _write(self, data: bytes) -> None:
        if self._spill is not None:
            if not self._spilling:
                self._spilling = True
                for _, piece in self._both.pieces():  # nothing has been let go of yet
                    self._spill.write(bytes(piece))
            self._spill.write(data)


class _Ends:
    """The two ends of a run of bytes, each piece with the stream it came on."""

    def __init__(self) -> None:
        self.size = 0
        self._head: list[tuple[Stream, bytearray]] = []
        self._tail: deque[tuple[Stream, bytearray]] = deque()
        self._tail_size = 0

    @property
    def left_out(self) -> int:
        return max(0, self.size - HEAD - TAIL)

    def pieces(self) -> Iterator[tuple[Stream, bytearray]]:
        """Everything still held, in order."""
        yield from self._head
        yield from self._tail

    def add(self, stream: Stream, data: bytes) -> None:
        room = HEAD - self.size
        self.size += len(data)
        if room > 0:
            _append(self._head, stream, data[:room])
            data = data[room:]
            if not data:
                return
        if len(data) > TAIL + _BEFORE_TAIL:
            data = data[-TAIL - _BEFORE_TAIL :]
        _append(self._tail, stream, data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0][1]) >= TAIL + _BEFORE_TAIL:
            self._tail_size -= len(self._tail.popleft()[1])

    def text(self) -> tuple[str, bool]:
        """The clean text, and whether any of its bytes were no text."""
        cleaners: dict[Stream, Cleaner] = {}
        gap = self.left_out
        head = _clean(self._head, cleaners)
        if not gap:
            tail = _clean(self._tail, cleaners) + _end(cleaners)
            return head + tail, any(cleaner.lossy for cleaner in cleaners.values())
        later = cleaners if gap <= _BEFORE_TAIL else {}  # nothing was let go of: the head's end is where it starts
        before, shown = self._cut()
        _clean(before, later)
        tail = _clean(shown, later) + _end(later)
        line = PLACE_WORDS["output.left-out"].format(size=_size(gap))
        start = head if head.endswith("\n") or not head else head + "\n"
        lossy = any(cleaner.lossy for cleaner in (*cleaners.values(), *later.values()))
        return f"{start}{line}\n{tail}", lossy

    def _cut(self) -> tuple[list[tuple[Stream, bytearray]], list[tuple[Stream, bytearray]]]:
        """What is held in front of the tail, exactly ``_BEFORE_TAIL`` bytes of it where there are, and the tail."""
        before: list[tuple[Stream, bytearray]] = []
        shown: list[tuple[Stream, bytearray]] = []
        to_go = self._tail_size
        for stream, piece in self._tail:
            for at, part in ((TAIL + _BEFORE_TAIL, before), (TAIL, shown)):
                start = max(0, to_go - at)
                end = max(0, to_go - TAIL) if part is before else len(piece)
                if piece[start:end]:
                    part.append((stream, piece[start:end]))
            to_go -= len(piece)
        return before, shown


class _Live:
    """Tells a listener: all that comes at first, then a sample."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._cleaners: dict[Stream, Cleaner] = {}
        self._waiting: dict[Stream, bytearray] = {}
        self._given = 0.0

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def all(self, stream: Stream, data: bytes) -> None:
        if text := self._cleaner(stream).feed(data):
            self._on_text(stream, text)

    def some(self, stream: Stream, data: bytes) -> None:
        held = self._waiting.setdefault(stream, bytearray())
        held += data if len(data) <= _SAMPLE + 1 else data[-_SAMPLE - 1 :]
        if len(held) > _SAMPLE:
            # Something is passed over: go on at the start of a line, in plain text.
            self._cleaners[stream] = Cleaner()
            del held[:-_SAMPLE]
            del held[: held.find(b"\n") + 1]
            del held[: len(held) - len(held.lstrip(_CONTINUATION))]
        self.give()

    def give(self) -> None:
        now = time.monotonic()
        if self._waiting and now - self._given >= _SAMPLE_EVERY:
            self._given = now
            self._flush()

    def end(self) -> None:
        self._flush()
        for stream, cleaner in self._cleaners.items():
            if text := cleaner.feed(b"", final=True):
                self._on_text(stream, text)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for stream, held in waiting.items():
            self.all(stream, bytes(held))

    def _cleaner(self, stream: Stream) -> Cleaner:
        if stream not in self._cleaners:
            self._cleaners[stream] = Cleaner()
        return self._cleaners[stream]


def _append(
    pieces: list[tuple[Stream, bytearray]] | deque[tuple[Stream, bytearray]], stream: Stream, data: bytes
) -> None:
    if pieces:
        last, piece = pieces[-1]
        if last == stream and len(piece) + len(data) <= _PIECE:
            piece += data
            return
    pieces.append((stream, bytearray(data)))


def _clean(pieces: list[tuple[Stream, bytearray]] | deque[tuple[Stream, bytearray]], by: dict[Stream, Cleaner]) -> str:
    return "".join(by.setdefault(stream, Cleaner()).feed(bytes(piece)) for stream, piece in pieces)


def _end(cleaners: dict[Stream, Cleaner]) -> str:
    return "".join(cleaner.feed(b"", final=True) for cleaner in cleaners.values())


def _size(size: int) -> str:
    """A size as people read it: 900 bytes, 12.3 KB, 200 MB."""
    if size < 1024:
        return f"{size} bytes"
    unit, name = next((unit, name) for unit, name in _UNITS if size >= unit)
    value = size / unit
    return f"{value:.1f} {name}" if value < 99.95 else f"{value:.0f} {name}"
