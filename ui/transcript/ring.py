"""The ring round what scrolls while the keyboard is on it: the whole transcript, a long output's box."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from ui.paint import keyboard_focus, round_box
from ui.theme import RADIUS, Themes

_INSET = 3


class FocusRing(QWidget):
    """Lies over the view and lets the mouse through. Its own widget, as what lies under it is scrolled by pixels."""

    def __init__(self, themes: Themes, view: QAbstractScrollArea) -> None:
        super().__init__(view)
        self._themes, self._view = themes, view
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        themes.changed.connect(self.update)

    def place(self) -> None:
        """Shows or hides it, as the keyboard is there or not."""
        self.setGeometry(self._view.viewport().geometry().adjusted(_INSET, _INSET, -_INSET, -_INSET))
        shows = keyboard_focus(self._view)
        if shows == self.isHidden():
            self.setVisible(shows)
            self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        round_box(painter, QRectF(self.rect()), RADIUS["card"], None, self._themes.tokens.accent, width=2)
        painter.end()
