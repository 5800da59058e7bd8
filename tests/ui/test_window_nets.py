"""What nobody caught is logged and said in one calm sentence; a traceback never reaches the window."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from tests.ui.window_hands import Person, use_window
from ui.notes import SORRY
from ui.start import _catch_all, _unexpected


def test_an_error_in_a_slot_is_said(
    conch_home: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logged: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: logged.append(kind))

    def fails() -> None:
        raise ZeroDivisionError("inside a slot")

    async def script(person: Person) -> None:
        _catch_all(person.window.desk)
        QTimer.singleShot(0, fails)
        await person.until(lambda: person.toast() == SORRY, "one calm sentence")
        assert "ZeroDivisionError" not in person.seen()
        assert logged == [ZeroDivisionError], "what logs it had it too"

    use_window(conch_home, script)


def test_an_error_in_a_task_is_said(conch_home: Path, qapp: QApplication, caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("inside a task")

    async def script(person: Person) -> None:
        person.window.desk.start(fails(), "something")
        await person.until(lambda: person.toast() == SORRY, "one calm sentence")

    with caplog.at_level(logging.ERROR):
        use_window(conch_home, script)
    assert "something failed" in caplog.text
    assert "inside a task" in caplog.text


def test_an_error_on_the_loop_is_said(conch_home: Path, qapp: QApplication, caplog: pytest.LogCaptureFixture) -> None:
    async def script(person: Person) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, what: _unexpected(person.window.desk, what))
        loop.call_exception_handler({"message": "odd", "exception": ZeroDivisionError("on the loop")})
        await person.until(lambda: person.toast() == SORRY, "one calm sentence")

    use_window(conch_home, script)
    assert "on the loop" in caplog.text


def test_a_key_pressed_before_the_window_is_whole_is_not_lost(conch_home: Path, qapp: QApplication) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    from app.home import Home
    from tests.ui.window_hands import CTRL
    from ui.start import Opened

    home = Home(conch_home)
    home.prepare()
    home.chats.touch()  # so that it is no first start
    opened = Opened(home)
    opened.shell.show()
    QTest.qWaitForWindowExposed(opened.shell)
    QTest.keyClicks(QApplication.focusWidget(), "make tets")
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_K, CTRL)
    window = opened.window
    QTest.qWait(20)
    assert window.page.composer.editor.toPlainText() == "make tets"
    assert QApplication.focusWidget().accessibleName() == "Find anything", "Ctrl+K opened it"
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert QApplication.focusWidget().accessibleName() == "Message"
    QTest.keyClicks(QApplication.focusWidget(), "!")
    assert window.page.composer.editor.toPlainText() == "make tets!", "the cursor was taken over too"
    opened.shell.finish()
    opened.shell.deleteLater()
