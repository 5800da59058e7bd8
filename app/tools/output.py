"""A command's output on its way to the chat: from the thread that reads it, in batches, to the loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from app.chats.events import ChatEvent, StepOutput
from workplaces.output import Stream

EVERY = 0.05
"""Seconds between two batches."""
KEPT = 64 * 1024
"""Characters of a step's output that are kept as they came; the whole end of it comes with StepFinished."""
MOST_WAITING = 64 * 1024
MOST_PIECES = 6

Put = Callable[[ChatEvent], None]


class OutputPump:
    """``text`` may be called in any one thread; ``keep`` and ``show`` are called on the loop.

    Past what is kept, batches are only shown, and a batch that would grow too large loses its beginning.
    """

    def __init__(self, step: str, *, keep: Put, show: Put) -> None:
        self._loop = asyncio.get_running_loop()
        self._step = step
        self._keep = keep
        self._show = show
        self._room = KEPT
        self._lock = threading.Lock()
        self._waiting: list[tuple[Stream, str]] = []
        self._size = 0
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    def text(self, stream: Stream, text: str) -> None:
        with self._lock:
            if self._waiting and self._waiting[-1][0] == stream and len(self._waiting[-1][1]) < 4096:
                self._waiting[-1] = (stream, self._waiting[-1][1] + text)
            else:
                self._waiting.append((stream, text))
            self._size += len(text)
            while self._size > 4 * MOST_WAITING and len(self._waiting) > 1:
                self._size -= len(self._waiting.pop(0)[1])
            if self._asked:
                return
            self._asked = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to be shown it
            self._loop.call_soon_threadsafe(self._arm)

    def end(self) -> None:
        """Gives what still waits. On the loop, once no more text comes."""
        if self._timer is not None:
            self._timer.cancel()
        self._give()

    def _arm(self) -> None:
        due = self._last + EVERY - self._loop.time()
        if due <= 0:
            self._give()
        else:
            self._timer = self._loop.call_later(due, self._give)

    def _give(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        with self._lock:
            waiting, self._waiting, self._size, self._asked = self._waiting, [], 0, False
        for stream, text in _joined(waiting):
            kept, shown = text[: self._room], text[self._room :]
            if kept:
                self._room -= len(kept)
                self._keep(StepOutput(step=self._step, stream=stream, text=kept))
            if shown:
                self._show(StepOutput(step=self._step, stream=stream, text=shown[-MOST_WAITING:]))


def _joined(pieces: list[tuple[Stream, str]]) -> list[tuple[Stream, str]]:
    """The pieces of one batch. Where the two streams take many turns, each becomes one: order within 50 ms is no more
    sure than that anyway, as they come through two pipes."""
    if len(pieces) <= MOST_PIECES:
        return pieces
    whole: dict[Stream, list[str]] = {}
    for stream, text in pieces:
        whole.setdefault(stream, []).append(text)
    return [(stream, "".join(texts)) for stream, texts in whole.items()]
