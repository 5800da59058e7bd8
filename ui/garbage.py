"""Python's garbage, collected on the window's thread and when it disturbs nobody.

Left to itself Python collects in whichever thread happens to make an object. A Qt object that is garbage would then be
destroyed in a thread that is not its own, and its timers would fire into freed memory. And a whole collection over a
long chat takes longer than the window may be held.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

EVERY_MS = 40  # often, so that what is young is little
_YOUNG, _MIDDLE, _OLD = 2000, 10, 10  # how many new objects, young and middle collections are enough for the next


class Sweeper(QObject):
    """From ``start`` on the only one who collects. ``idle`` says whether a long collection may be now."""

    def __init__(self, idle: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self.idle = idle
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self._sweep)

    def start(self) -> None:
        gc.disable()
        gc.freeze()  # the modules, so far
        self._timer.start()

    def settle(self, *_: object) -> None:
        """What is there now stays (the modules, the window, a chat's rows): collections need not look at it again.

        A long chat's rows would make each of them too long. They go without a collection, as nothing of them is in a
        circle.
        """
        gc.freeze()

    def stop(self) -> None:
        """Collects everything, and leaves it to Python again."""
        self._timer.stop()
        gc.unfreeze()
        gc.collect()
        gc.enable()

    def _sweep(self) -> None:
        young, middle, old = gc.get_count()
        if old >= _OLD and self.idle():
            gc.collect(2)
        elif middle >= _MIDDLE:
            gc.collect(1)
        elif young >= _YOUNG:
            gc.collect(0)
