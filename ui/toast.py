"""Where the window says something calmly: one sentence at the foot of the page, with at most one step.

A note that passes goes by itself after some seconds, but not while the pointer or the focus is on it. One that stays
waits to be closed.
"""

from __future__ import annotations

from collections import deque

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.buttons import Button
from ui.notes import Note
from ui.paint import SHADOW, round_box, shadow
from ui.theme import RADIUS, Themes
from ui.widgets import Label

SECONDS = 8


def announce(widget: QWidget, words: str) -> None:
    """Lets a screen reader say ``words``."""
    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, words))


class Toast(QWidget):
    """Notes, one after the other, over the foot of ``page``."""

    def __init__(self, themes: Themes, page: QWidget) -> None:
        super().__init__(page)
        self.themes = themes
        self._page = page
        self._note: Note | None = None
        self._waiting: deque[Note] = deque()
        self._words = Label(themes, wrap=True)
        self._step = Button(themes, "", kind="link")
        self._close = Button(themes, "", kind="quiet", mark="close", name="Close this note", size="small")
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(SHADOW + 16, SHADOW + 10, SHADOW + 8, SHADOW + 10)
        row.setSpacing(8)
        row.addWidget(self._words, 1)
        row.addWidget(self._step)
        row.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._timed_out)
        self._step.clicked.connect(self._pressed)
        self._close.clicked.connect(self.dismiss)
        page.installEventFilter(self)
        themes.changed.connect(self._fit)
        self.lift = 120  # how far above the foot of the page, so that the composer stays free
        self.hide()

    @property
    def note(self) -> Note | None:
        """What is said now."""
        return self._note

    def say(self, note: Note) -> None:
        """Says it now, or after one that still offers a step. A note that stays makes way and comes back."""
        now = self._note
        if now is None or (not now.stays and not now.button):
            self._show(note)
        elif now.words == note.words:
            return
        elif now.stays:
            self._note = None
            self._waiting.append(now)
            self._show(note)
        else:
            self._waiting.append(note)
            self._timer.start(min(self._timer.remainingTime(), SECONDS * 400))

    def _show(self, note: Note) -> None:
        self._note = note
        self._words.setText(note.words)
        self._step.setVisible(bool(note.button))
        self._step.say(note.button)
        self.setAccessibleName(note.words)
        self._fit()
        self.show()
        self.raise_()
        announce(self, note.words)
        if not note.stays:
            self._timer.start(SECONDS * 1000)

    def dismiss(self) -> None:
        """Closes the note that is shown; the next one that waits comes."""
        self._timer.stop()
        self._note = None
        if self._waiting:
            self._show(self._waiting.popleft())
        else:
            self.hide()

    def _pressed(self) -> None:
        note, self._note = self._note, None
        self.dismiss()
        if note is not None and note.run is not None:
            note.run()

    def _timed_out(self) -> None:
        held = self.underMouse() or any(child.hasFocus() for child in (self._step, self._close))
        if held:
            self._timer.start(1000)
        else:
            self.dismiss()

    def _fit(self) -> None:
        room = self._page.width() - 24 + 2 * SHADOW
        wide = min(self.themes.px(560) + 2 * SHADOW, room)
        self.setFixedWidth(max(1, wide))
        height = self._row.heightForWidth(self.width())
        self.resize(self.width(), max(height, self._row.sizeHint().height()))
        self.move((self._page.width() - self.width()) // 2, self._page.height() - self.height() - self.lift + SHADOW)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._fit()
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
            event.accept()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        card = QRectF(self.rect()).adjusted(SHADOW, SHADOW, -SHADOW, -SHADOW)
        shadow(painter, card, RADIUS["card"], dark=tokens.dark)
        round_box(painter, card, RADIUS["card"], tokens.surface, tokens.border)
        painter.end()
