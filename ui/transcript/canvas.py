"""Painting what of the transcript is in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QTextLayout

from ui.marks import paint_dot
from ui.transcript.sheet import Text

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView


def paint(view: TranscriptView, painter: QPainter, area: QRect) -> None:
    """Paints the rows that lie in ``area`` of the window."""
    painter.fillRect(area, view.themes.tokens.canvas)
    left, selection = view.column, view.selection
    first, last = area.top(), area.bottom()
    begins, ends = selection.rows() if not selection.empty else (1, 0)
    for row, top, sheet in view.placed:
        if top > last or top + sheet.height < first or not sheet.height:
            continue
        painter.save()
        painter.translate(left, top)
        if row == view.flash.row:
            view.flash.paint(painter, sheet, view.look, view.arrangement.width)
        chosen = _chooser(view, row) if begins <= row <= ends else None
        sheet.paint(painter, view.model.folds.shifts.get(row, {}), chosen, QRectF(area.translated(-left, -top)))
        painter.restore()
    if view.placed and view.model.rows.waiting:
        _waiting(view, painter, left)


def _chooser(view: TranscriptView, row: int) -> Callable[[int, Text], list[QTextLayout.FormatRange]]:
    def chosen(number: int, text: Text) -> list[QTextLayout.FormatRange]:
        return view.selection.ranges(row, number, text, view.look)

    return chosen


def _waiting(view: TranscriptView, painter: QPainter, left: int) -> None:
    """Says below the last row that the assistant thinks."""
    last = view.placed[-1]
    if last.row != len(view.model.rows.all) - 1:
        return
    look = view.look
    y = last.y + last.sheet.height + look.px(14)
    paint_dot(painter, QPointF(left + look.px(4), y + look.line / 2), look.tokens.accent)
    painter.setFont(look.body)
    painter.setPen(look.tokens.muted)
    box = QRectF(left + look.px(16), y, view.arrangement.width, look.line)
    painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, view.tr("Thinking…"))
