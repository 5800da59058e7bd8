"""Motion: springs, and whether anything may move at all.

With reduced motion nothing moves: a spring is at its target at once, and whoever fades or glints shows the end state.
"""

from __future__ import annotations

import math
import os
import time
from typing import Final, Literal

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication

Reduce = Literal["system", "on", "off"]

FRAME_MS: Final = 16
GLINT_MS: Final = 600
PORTAL_MS: Final = 2000
_STEP: Final = 1 / 240  # seconds; the integrator's own step, so that a late frame does not blow a stiff spring up
_LONGEST_FRAME: Final = 1 / 15


class Motion(QObject):
    """Whether things may move: what the person chose, else what the system says.

    Signals:
        changed: ``reduced`` is another now.
    """

    changed = Signal()

    def __init__(self, choice: Reduce = "system") -> None:
        super().__init__()
        self._choice: Reduce = choice
        self._system = False
        self._watches = False
        self._hints: tuple[object, ...] = ()

    @property
    def reduced(self) -> bool:
        return self._system if self._choice == "system" else self._choice == "on"

    @property
    def choice(self) -> Reduce:
        return self._choice

    def choose(self, choice: Reduce) -> None:
        before = self.reduced
        self._choice = choice
        if self.reduced != before:
            self.changed.emit()

    def watch_system(self) -> None:
        """Asks Qt what the system prefers and follows it (Qt 6.12). On an older Qt ``Portal`` is the way."""
        hints = QGuiApplication.styleHints()
        accessibility = getattr(hints, "accessibility", lambda: None)()
        preference = getattr(accessibility, "motionPreference", None)
        if accessibility is None or preference is None:
            return
        self._watches = True
        self._hints = (hints, accessibility)  # PySide ends the one when the other is let go
        reduced = getattr(Qt, "MotionPreference").ReducedMotion  # noqa: B009  # Qt 6.12 has it, 6.11 does not
        self.system_says(preference() == reduced)
        accessibility.motionPreferenceChanged.connect(lambda value: self.system_says(value == reduced))

    @property
    def qt_knows(self) -> bool:
        """Whether this Qt says by itself what the system prefers."""
        return self._watches

    def system_says(self, reduced: bool) -> None:
        before = self.reduced
        self._system = reduced
        if self.reduced != before:
            self.changed.emit()


class Portal(QObject):
    """Asks the desktop's settings portal whether motion is to be reduced, for a Qt that does not know.

    ``org.freedesktop.appearance`` ``reduced-motion`` is 1 when it is (XDG Desktop Portal, Settings). Nothing waits for
    the answer; without a bus, a portal or such a setting nothing is said.
    """

    def __init__(self, motion: Motion, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._motion = motion
        self._waiting: QObject | None = None

    def ask(self) -> None:
        """Asks now. Also for each time that the window comes to the front: the setting may be another."""
        if self._waiting is not None or not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
            return  # asking for a bus without an address may start one
        from PySide6.QtDBus import QDBusConnection, QDBusMessage, QDBusPendingCallWatcher

        call = QDBusMessage.createMethodCall(
            "org.freedesktop.portal.Desktop",
            "/org/freedesktop/portal/desktop",
            "org.freedesktop.portal.Settings",
            "ReadOne",
        )
        call.setArguments(["org.freedesktop.appearance", "reduced-motion"])
        watcher = QDBusPendingCallWatcher(QDBusConnection.sessionBus().asyncCall(call, PORTAL_MS), self)
        self._waiting = watcher

        def answered() -> None:
            self._waiting = None
            answer = watcher.reply()
            if answer.type() == QDBusMessage.MessageType.ReplyMessage:
                self._motion.system_says(_is_one(answer.arguments()))
            watcher.deleteLater()

        watcher.finished.connect(answered)


def _is_one(arguments: list[object]) -> bool:
    value = arguments[0] if arguments else None
    while (inside := getattr(value, "variant", None)) is not None:
        value = inside()
    return value == 1


class Spring(QObject):
    """A value that is pulled to its target like a weight on a spring, and settles there.

    Defaults are the place mark's glide: stiffness 420, damping 30, mass 1. Units are the caller's; time is seconds.

    Signals:
        moved: a new value, about 60 times a second while it moves, and once more when it has settled.
        settled: the target is reached and nothing moves any more.
    """

    moved = Signal(float)
    settled = Signal()

    def __init__(
        self,
        motion: Motion,
        value: float = 0.0,
        *,
        stiffness: float = 420.0,
        damping: float = 30.0,
        mass: float = 1.0,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._motion = motion
        self.value = value
        self.target = value
        self.velocity = 0.0
        self._stiffness, self._damping, self._mass = stiffness, damping, mass
        self._rest = 0.001
        self._last = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(FRAME_MS)
        self._timer.timeout.connect(self._frame)

    @property
    def moving(self) -> bool:
        return self._timer.isActive()

    def pull(self, target: float) -> None:
        """Moves to ``target``; with reduced motion it is there at once."""
        self.target = target
        if self._motion.reduced:
            self.jump(target)
            return
        self._rest = max(1e-6, abs(target - self.value) / 500)
        if not self._timer.isActive():
            self._last = time.perf_counter()
            self._timer.start()

    def jump(self, value: float) -> None:
        """Is at ``value`` now, still."""
        self._timer.stop()
        self.value = self.target = value
        self.velocity = 0.0
        self.moved.emit(value)
        self.settled.emit()

    def advance(self, seconds: float) -> bool:
        """Lets ``seconds`` pass. True once it has settled."""
        steps = max(1, math.ceil(seconds / _STEP))
        step = seconds / steps
        for _ in range(steps):
            force = -self._stiffness * (self.value - self.target) - self._damping * self.velocity
            self.velocity += force / self._mass * step
            self.value += self.velocity * step
        slow = abs(self.velocity) * FRAME_MS / 1000 < self._rest
        if slow and abs(self.value - self.target) < self._rest:
            self.value, self.velocity = self.target, 0.0
            return True
        return False

    def _frame(self) -> None:
        if self._motion.reduced:
            self.jump(self.target)
            return
        now = time.perf_counter()
        done = self.advance(min(_LONGEST_FRAME, now - self._last))
        self._last = now
        if done:
            self._timer.stop()
        self.moved.emit(self.value)
        if done:
            self.settled.emit()


class Glint(QObject):
    """One pass from 0 to 1, for a glint or a short fade. With reduced motion it is never seen: it ends at once.

    Signals:
        moved: how far it is, 0 to 1.
        ended: it is over.
    """

    moved = Signal(float)
    ended = Signal()

    def __init__(self, motion: Motion, milliseconds: int = GLINT_MS, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._motion = motion
        self._seconds = milliseconds / 1000
        self._began = 0.0
        self.at = 1.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(FRAME_MS)
        self._timer.timeout.connect(self._frame)

    @property
    def moving(self) -> bool:
        return self._timer.isActive()

    def play(self) -> None:
        if self._motion.reduced:
            self._end()
            return
        self._began = time.perf_counter()
        self.at = 0.0
        self._timer.start()
        self.moved.emit(0.0)

    def stop(self) -> None:
        if self._timer.isActive():
            self._end()

    def _frame(self) -> None:
        self.at = (time.perf_counter() - self._began) / self._seconds
        if self.at >= 1 or self._motion.reduced:
            self._end()
        else:
            self.moved.emit(self.at)

    def _end(self) -> None:
        self._timer.stop()
        self.at = 1.0
        self.moved.emit(1.0)
        self.ended.emit()
