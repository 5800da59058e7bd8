"""A person before a transcript: finds words where they are drawn, and uses the mouse and the keyboard."""

from __future__ import annotations

import time
from collections.abc import Iterable

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface, QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QMenu

from app.chats.events import (
    AnswerText,
    ChatEvent,
    StepAsked,
    StepFinished,
    StepOutput,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from ui.theme import Choice, Themes
from ui.transcript.model import TranscriptModel
from ui.transcript.sheet import cursor_x
from ui.transcript.view import TranscriptView


class Chat:
    """Makes a chat's events, numbered as the store numbers them."""

    def __init__(self) -> None:
        self.events: list[ChatEvent] = []
        self.turn = "t0"

    def _add(self, kind: type, **fields: object) -> Chat:
        self.events.append(kind(turn=self.turn, seq=len(self.events) + 1, at=time.time(), **fields))
        return self

    def user(self, text: str) -> Chat:
        self.turn = f"t{len(self.events)}"
        self._add(UserMessage, text=text)
        return self._add(TurnStarted, engine="x", place="container", mode="ask")

    def says(self, text: str, answer: str = "a") -> Chat:
        return self._add(AnswerText, answer=f"{self.turn}{answer}", text=text)

    def starts(self, step: str, words: str = "Ran the tests", **fields: object) -> Chat:
        fields = {"tool": "run_command", "command": "pytest -q", "place": "container"} | fields
        return self._add(StepStarted, step=step, words=words, **fields)

    def prints(self, step: str, text: str) -> Chat:
        return self._add(StepOutput, step=step, stream="out", text=text)

    def ends(self, step: str, outcome: str = "ok", **fields: object) -> Chat:
        fields = {"code": 0, "seconds": 1.5, "where": "container"} | fields
        return self._add(StepFinished, step=step, outcome=outcome, **fields)

    def asks(
        self, step: str, title: str = "Run this outside the sealed box?", why: str = "It needs the network."
    ) -> Chat:
        return self._add(StepAsked, step=step, title=title, why=why)

    def done(self, outcome: str = "done", words: str = "") -> Chat:
        return self._add(TurnFinished, outcome=outcome, words=words)


class Person:
    """Looks at one transcript and uses it."""

    def __init__(
        self, events: Iterable[ChatEvent] = (), *, theme: Choice = "light", size: tuple[int, int] = (900, 700)
    ) -> None:
        self.themes = Themes(choice=theme)
        self.themes.motion.choose("on")
        self.themes.dress()
        self.model = TranscriptModel()
        self.model.load(events)
        self.view = TranscriptView(self.themes, self.model)
        self.view.resize(*size)
        self.view.show()
        self.view.activateWindow()
        self.settle()

    def settle(self) -> None:
        """Until what was told to the view shows."""
        QTest.qWait(45)

    def tell(self, *events: ChatEvent) -> None:
        for event in events:
            self.model.add(event)
        self.settle()

    # Seeing

    def seen(self) -> str:
        """All words that are drawn in the window now, buttons included, from the top down."""
        return "\n".join(words for _, _, words in self._drawn())

    def _drawn(self) -> list[tuple[float, float, str]]:
        view, out = self.view, []
        area = view.viewport().rect()
        for row, top, sheet in view.placed:
            for text in sheet.texts:
                layout = text.laid.layout
                for number in range(layout.lineCount()):
                    line = layout.lineAt(number)
                    y = top + text.y + line.y()
                    if area.top() <= y + line.height() / 2 <= area.bottom():
                        raw = text.text.encode("utf-16-le")
                        part = raw[2 * line.textStart() : 2 * (line.textStart() + line.textLength())]
                        out.append((y, text.x, part.decode("utf-16-le", "replace").rstrip("\u2028")))
            for button in view.controls.of_row(row):
                if isinstance(button, QAbstractButton) and button.text():
                    out.append((float(button.y()), float(button.x()), button.text()))
        if not view.pill.isHidden():
            out.append((1e6, 0.0, view.pill.text()))
        return sorted(out, key=lambda one: (one[0], one[1]))

    def point(self, words: str, *, end: bool = False) -> QPoint:
        """Where words are drawn: before their first letter, or after their last."""
        for _, top, sheet in self.view.placed:
            for text in sheet.texts:
                if (at := text.text.find(words)) < 0:
                    continue
                at += len(words) if end else 0
                at = len(text.text[:at].encode("utf-16-le")) // 2
                line = text.laid.layout.lineForTextPosition(at)
                x = self.view.column + text.x + cursor_x(line, at)
                return QPoint(round(x), round(top + text.y + line.y() + line.height() / 2))
        raise AssertionError(f"“{words}” is not in sight:\n{self.seen()}")

    def button(self, name: str) -> QAbstractButton:
        """The one button in sight whose name for a screen reader, or whose text, is that."""
        found = [b for b in self.buttons() if name in (b.accessibleName(), b.text())]
        assert len(found) == 1, f"{len(found)} buttons “{name}” of {[b.accessibleName() for b in self.buttons()]}"
        return found[0]

    def buttons(self) -> list[QAbstractButton]:
        return [b for b in self.view.findChildren(QAbstractButton) if b.isVisible()]

    # Doing

    def press(self, name: str) -> None:
        QTest.mouseClick(self.button(name), Qt.MouseButton.LeftButton)
        self.settle()

    def click(self, at: QPoint) -> None:
        QTest.mouseClick(self.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)

    def drag(self, start: QPoint, to: QPoint) -> None:
        view = self.view.viewport()
        QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, start)
        for part in (0.3, 0.7, 1.0):
            at = start + (to - start) * part
            QTest.mouseMove(view, at)
            QApplication.processEvents()
        QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, to)

    def key(self, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
        held = Qt.KeyboardModifier.NoModifier
        for one in modifiers:
            held |= one
        QTest.keyClick(self.view.window().focusWidget() or self.view, key, held)
        QApplication.processEvents()

    def wheel(self, steps: int) -> None:
        """Turns the wheel; down is positive."""
        at = QPointF(self.view.viewport().rect().center())
        for _ in range(abs(steps)):
            event = QWheelEvent(
                at,
                QPointF(self.view.viewport().mapToGlobal(at.toPoint())),
                QPoint(),
                QPoint(0, -120 if steps > 0 else 120),
                Qt.MouseButton.NoButton,
                Qt.KeyboardModifier.NoModifier,
                Qt.ScrollPhase.NoScrollPhase,
                False,
            )
            QApplication.sendEvent(self.view.viewport(), event)
            QApplication.processEvents()

    def copied(self) -> str:
        """What Ctrl+C puts on the clipboard."""
        QGuiApplication.clipboard().setText("nothing was copied")
        self.key(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        return QGuiApplication.clipboard().text()

    def menu(self, at: QPoint, choose: str) -> None:
        """Opens the menu and chooses from it."""
        QTest.mouseClick(self.view.viewport(), Qt.MouseButton.RightButton, Qt.KeyboardModifier.NoModifier, at)
        from PySide6.QtGui import QContextMenuEvent

        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, self.view.viewport().mapToGlobal(at))
        QApplication.sendEvent(self.view.viewport(), event)
        menu = self.view.findChildren(QMenu)[-1]
        action = next(a for a in menu.actions() if a.text() == choose)
        QTest.mouseClick(
            menu, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, menu.actionGeometry(action).center()
        )
        menu.close()
        QApplication.processEvents()


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def walk(interface: QAccessibleInterface) -> list[QAccessibleInterface]:
    """An accessible thing and all below it."""
    out = [interface]
    for number in range(interface.childCount()):
        child = interface.child(number)
        if child is not None:
            out += walk(child)
    return out


def name(interface: QAccessibleInterface) -> str:
    return interface.text(QAccessible.Text.Name)
