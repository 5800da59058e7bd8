"""The “New” pill: something came below while the reader was further up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton

from ui.marks import paint_mark
from ui.paint import keyboard_focus, round_box
from ui.theme import Themes

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView


class NewPill(QAbstractButton):
    """Takes the reader to the end. Shown only when there is something new there."""

    def __init__(self, themes: Themes, view: TranscriptView) -> None:
        super().__init__(view)
        self._themes, self._view = themes, view
        self._offered = False
        self.setText(self.tr("New"))
        self.setAccessibleName(self.tr("Go to what is new"))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.hide()
        themes.changed.connect(self.update)

    def offer(self) -> None:
        """Something new is below."""
        self._offered = True

    def place(self, *, at_end: bool) -> None:
        """Shows or hides it, centred above the view's lower edge."""
        if at_end:
            self._offered = False
        if not self._offered:
            if not self.isHidden():
                self.hide()
            return
        px = self._themes.px
        font = self._themes.font("small", weight=QFont.Weight.Medium)
        wide, high = round(QFontMetricsF(font).horizontalAdvance(self.text())) + px(42), px(30)
        area = self._view.viewport().geometry()
        self.setGeometry(area.x() + (area.width() - wide) // 2, area.bottom() - high - px(12), wide, high)
        if self.isHidden():
            self.show()
            self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self._themes.tokens, self._themes.px
        painter = QPainter(self)
        rect = QRectF(self.rect())
        ground = tokens.tint(tokens.text, 0.05) if self.underMouse() else tokens.surface
        edge = tokens.accent if keyboard_focus(self) else tokens.border
        round_box(painter, rect, rect.height() / 2, ground, edge, width=2 if keyboard_focus(self) else 1)
        side = px(13)
        paint_mark(painter, QRectF(px(13), (rect.height() - side) / 2, side, side), "down", tokens.accent, width=1.8)
        painter.setFont(self._themes.font("small", weight=QFont.Weight.Medium))
        painter.setPen(tokens.accent)
        painter.drawText(rect.adjusted(px(29), 0, -px(12), 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()
