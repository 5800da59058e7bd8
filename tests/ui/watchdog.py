"""Watches the window's thread: how long, at worst, it kept everyone else waiting.

A timer ticks on the thread every other millisecond. A late tick means that something held the thread, or that the
system gave the processor to another program: the kernel says how long that was (``schedstat``), and it is taken off.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer

TICK_MS = 2
LIMIT_MS = 8.0


@dataclass
class Held:
    """``milliseconds`` that the thread was held, and ``doing``: what it did when that was noticed."""

    milliseconds: float
    doing: str = ""


@dataclass
class Watchdog(QObject):
    """Begin it with ``start`` on the window's thread; ``held`` lists each time that the thread was held too long."""

    limit: float = LIMIT_MS
    held: list[Held] = field(default_factory=list)
    ticks: int = 0
    worst: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)
        self._stats = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._seen = ""
        self._last = 0.0
        self._waits: deque[tuple[float, float]] = deque(maxlen=64)

    def start(self) -> None:
        self._last = time.perf_counter()
        self._waits.append((self._last, self._waiting()))
        self._timer.start()
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._timer.stop()
        self._ended.set()

    def words(self) -> str:
        return "\n".join(f"{one.milliseconds:.1f} ms\n{one.doing}" for one in self.held)

    def _waiting(self) -> float:
        """Seconds that the window's thread stood ready to run while the processor did something else."""
        try:
            return int(self._stats.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def _tick(self) -> None:
        # Nothing here may read a file: that gives the interpreter away, and getting it back is what is measured.
        gap = 1e3 * (time.perf_counter() - self._last) - TICK_MS
        self.ticks += 1
        if gap > self.limit:
            now = self._waiting()
            began = next((waited for at, waited in reversed(self._waits) if at <= self._last), now)
            gap -= 1e3 * (now - began)
        if gap > self.limit:
            self.held.append(Held(gap, self._seen))
        self.worst = max(self.worst, gap)
        self._seen = ""
        self._last = time.perf_counter()

    def _look(self) -> None:
        """In a thread: notes how long the window's thread has waited, and where it is when a tick is late."""
        while not self._ended.wait(0.003):
            if time.perf_counter() - self._last > (self.limit + TICK_MS) / 1e3 and not self._seen:
                frame = sys._current_frames().get(self._thread)
                self._seen = "".join(traceback.format_stack(frame)[-6:]) if frame else ""
            self._waits.append((time.perf_counter(), self._waiting()))
