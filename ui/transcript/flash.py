"""The mark on a row that was looked for: there for a moment, then gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QRectF, QTimer
from PySide6.QtGui import QPainter

from ui.paint import round_box
from ui.transcript.look import Look
from ui.transcript.sheet import Sheet

_MS = 1500
_FRAME_MS = 33


class Flash(QObject):
    """Marks one row. ``repaint`` is called with the row for each frame; with reduced motion it only comes and goes."""

    def __init__(self, repaint: Callable[[int], None], parent: QObject) -> None:
        super().__init__(parent)
        self.row = -1
        self._repaint = repaint
        self._began = 0.0
        self._reduced = False
        self._timer = QTimer(self)
        self._timer.setInterval(_FRAME_MS)
        self._timer.timeout.connect(self._frame)

    def begin(self, row: int, *, reduced: bool) -> None:
        self.row, self._began, self._reduced = row, time.monotonic(), reduced
        self._timer.start()
        self._repaint(row)

    def _frame(self) -> None:
        row = self.row
        if time.monotonic() - self._began > _MS / 1000:
            self.row = -1
            self._timer.stop()
            self._repaint(row)
        elif not self._reduced:
            self._repaint(row)

    def paint(self, painter: QPainter, sheet: Sheet, look: Look, width: int) -> None:
        """Paints the mark under a row, from whose top the painter measures."""
        gone = (time.monotonic() - self._began) / (_MS / 1000)
        strength = 1.0 if self._reduced else max(0.0, min(1.0, 2 - 2 * gone))
        tokens, px = look.tokens, look.px
        rect = QRectF(-px(10), sheet.lead - px(5), width + px(20), sheet.height - sheet.lead + px(5))
        round_box(painter, rect, px(10), tokens.tint(tokens.accent_soft, strength, tokens.canvas))
