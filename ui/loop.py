"""asyncio on Qt's loop. The one module that knows which library joins them, so that it can be replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from ui.garbage import Sweeper

SWITCH_SECONDS = 0.001


def run(app: QApplication, main: Coroutine[Any, Any, int], sweeper: Sweeper | None = None) -> int:
    """Runs ``main`` on Qt's loop until it returns, and gives what it returned.

    Garbage is collected on this thread alone meanwhile, by ``sweeper``.
    """
    import os

    os.environ["QT_API"] = "pyside6"
    import qasync

    sweeper = sweeper or Sweeper()
    sweeper.start()
    before = sys.getswitchinterval()
    # The reader threads hand the interpreter back sooner, so that the window's thread is never kept waiting.
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        # Not QtAsyncio: it has no subprocesses, sockets or readers.
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
            return runner.run(_ending_generators(main))
    finally:
        # What was to be destroyed later is destroyed now: no loop turns any more that would.
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        sys.setswitchinterval(before)
        sweeper.stop()


async def _ending_generators(main: Coroutine[Any, Any, int]) -> int:
    """Ends asynchronous generators that nobody reads to their end, as asyncio's own loop does and qasync's does not."""
    loop = asyncio.get_running_loop()
    ending: set[asyncio.Task[None]] = set()

    def end(generator: AsyncGenerator[Any, Any]) -> None:
        task = loop.create_task(_close(generator), name="end a generator")
        ending.add(task)
        task.add_done_callback(ending.discard)

    def dropped(generator: AsyncGenerator[Any, Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, generator)

    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=dropped)
    try:
        return await main
    finally:
        await asyncio.sleep(0)
        if ending:
            await asyncio.wait(ending, timeout=1)
        sys.set_asyncgen_hooks(*before)


async def _close(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()
