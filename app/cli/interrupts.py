"""Ctrl+C and its like, for a command that must be dead before we go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from types import FrameType

_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK") if hasattr(signal, name)
)


class Interrupts:
    """Cancels one task, once, at the first signal; a second one is answered and changes nothing.

    Handlers of the ``signal`` module and not of the loop: they work while the loop waits for a slow reader too.
    """

    def __init__(self) -> None:
        self.caught: int | None = None
        self.stopping = False
        self._again = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None

    def listen(self) -> None:
        """From now on signals are ours. One that was ignored when we began (nohup, a shell's background) stays so."""
        for one in _SIGNALS:
            if signal.getsignal(one) is not signal.SIG_IGN:
                signal.signal(one, self._catch)

    def end(self) -> None:
        """When all is done: Python's own ending would let a late signal change the exit code."""
        for one in _SIGNALS:
            if signal.getsignal(one) == self._catch:
                signal.signal(one, signal.SIG_IGN)

    def attend(self) -> None:
        """The running task is the one to cancel; at once, when a signal came before."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        if self.stopping:
            self._cancel()

    def stop(self) -> None:
        """Cancels the task, once. May be called from any thread."""
        if not self.stopping:
            self.stopping = True
            self._cancel()

    def _catch(self, number: int, _: FrameType | None) -> None:
        if self.caught is None:
            self.caught = number
            self.stop()
        elif not self._again:
            self._again = True
            with contextlib.suppress(OSError):
                os.write(2, b"conch: It is being stopped there; a moment.\n")

    def _cancel(self) -> None:
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
