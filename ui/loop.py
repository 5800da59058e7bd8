"""asyncio on Qt's loop. The one module that knows which library joins them, so that it can be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from PySide6.QtWidgets import QApplication


def run(app: QApplication, main: Coroutine[Any, Any, int]) -> int:
    """Runs ``main`` on Qt's loop until it returns, and gives what it returned."""
    import os

    os.environ["QT_API"] = "pyside6"
    import qasync

    # Not QtAsyncio: it has no subprocesses, sockets or readers.
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
        return runner.run(main)
