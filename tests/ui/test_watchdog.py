"""The watchdog bites: a thread that is held for longer than it may be is seen, and where."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from tests.ui.watchdog import Watchdog


def hold_the_window() -> None:
    end = time.perf_counter() + 0.08
    while time.perf_counter() < end:
        pass


def test_a_held_thread_is_seen(qtbot: QtBot) -> None:
    watchdog = Watchdog()
    watchdog.start()
    for after in (30, 150, 270):
        QTimer.singleShot(after, hold_the_window)
    qtbot.wait(450)
    watchdog.stop()
    assert len(watchdog.held) >= 1
    assert max(one.milliseconds for one in watchdog.held) > 15
    assert any("hold_the_window" in one.doing for one in watchdog.held)


def test_a_thread_that_sleeps_is_seen_too(qtbot: QtBot) -> None:
    watchdog = Watchdog()
    watchdog.start()
    QTimer.singleShot(30, lambda: time.sleep(0.03))
    qtbot.wait(200)
    watchdog.stop()
    assert max(one.milliseconds for one in watchdog.held) > 15
