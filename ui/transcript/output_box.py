"""The whole of a long output, in a box of its own that scrolls and can be selected in.

Tens of thousands of lines are longer in the making than the window may be held, so they come, and go, in slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import (
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPalette,
    QResizeEvent,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget

from ui.theme import Themes, scrollbar_style
from ui.transcript.blocks import safe
from ui.transcript.ring import FocusRing
from ui.transcript.sheet import Control

Key = tuple[int, str]
_SLICE = 0.003  # seconds that the window is held at a time
_AT_ONCE = 2000  # characters: about the lines that take a third of a slice where each is short
_MODIFIERS = (Qt.Key.Key_Control, Qt.Key.Key_Shift, Qt.Key.Key_Alt, Qt.Key.Key_Meta)


class OutputBox(QPlainTextEdit):
    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self.key: Key = (-1, "")
        self.control: Control | None = None
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAutoFillBackground(True)  # the room of the scroll bar too
        self.document().setDocumentMargin(themes.px(13))
        self._themes = themes
        self._given = ""
        self._text = ""  # all of it, as it is shown
        self._put = 0  # how many characters of it the box holds
        self._all_chosen = False  # while more is still coming
        self._ring = FocusRing(themes, self)
        self._next = QTimer(self)
        self._next.setInterval(0)
        self._work: Callable[[], bool] = self._fill
        self._next.timeout.connect(self._slice)
        self.restyle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._ring.place()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._ring.place()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ring.place()

    def restyle(self) -> None:
        """Takes the colours and the font."""
        tokens = self._themes.tokens
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Base, tokens.code)
        palette.setColor(QPalette.ColorRole.Window, tokens.code)
        palette.setColor(QPalette.ColorRole.Text, tokens.muted)
        self.setPalette(palette)
        self.setFont(self._themes.code_font("small"))
        self.verticalScrollBar().setStyleSheet(scrollbar_style(tokens))

    def become(self, key: Key, control: Control) -> None:
        self.key, self.control = key, control
        if self.accessibleName() != control.says:
            self.setAccessibleName(control.says)
        if control.text != self._given:
            self._given, self._text, self._put = control.text, safe(control.text).rstrip("\n"), 0
            self.clear()
            self._work = self._fill
            if self._fill():  # what shows at once; the rest after it is painted
                self._next.start()

    def let_go(self) -> None:
        """Is destroyed, a slice at a time."""
        self.hide()
        self._work = self._empty
        self._next.start()

    def _slice(self) -> None:
        """Does a slice of the work. The rest comes when what waits meanwhile has been done."""
        end = time.perf_counter() + _SLICE
        while goes_on := self._work():
            if time.perf_counter() > end:
                break
        if goes_on != self._next.isActive():
            (self._next.start if goes_on else self._next.stop)()

    def _fill(self) -> bool:
        """Puts in some more lines. False when it holds all."""
        to = self._text.find("\n", self._put + _AT_ONCE) + 1 or len(self._text)
        to = min(to, self._put + 10 * _AT_ONCE)  # a line may be very long
        own = self.textCursor()
        own.setKeepPositionOnInsert(True)  # what the person has selected does not grow
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(self._text[self._put : to])
        self._put = to
        if to < len(self._text):
            return True
        if self._all_chosen:
            self.selectAll()
            self._all_chosen = False
        return False

    def _empty(self) -> bool:
        document = self.document()
        if document.characterCount() <= _AT_ONCE:
            self.deleteLater()
            return False
        cursor = QTextCursor(document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.setPosition(max(0, cursor.position() - _AT_ONCE), QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        return True

    # While more is still coming, all of it can be selected and copied already

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self._all_chosen = True
        elif event.matches(QKeySequence.StandardKey.Copy) and self._all_chosen and self._put < len(self._text):
            # As text, and never as an object of Python's: the clipboard would hold that past Python's end.
            QGuiApplication.clipboard().setText(self._text)
            event.accept()
            return
        elif event.key() not in _MODIFIERS and not event.matches(QKeySequence.StandardKey.Copy):
            self._all_chosen = False
        super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._all_chosen = False
        super().mousePressEvent(event)
