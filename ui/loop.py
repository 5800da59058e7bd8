"""asyncio on Qt's loop. The one module that knows which library joins them, so that it can be replaced."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
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
            return runner.run(main)
    finally:
        # What was to be destroyed later is destroyed now: no loop turns any more that would.
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        sys.setswitchinterval(before)
        sweeper.stop()
