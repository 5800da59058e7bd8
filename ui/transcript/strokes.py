"""What is painted of a card besides its words."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from ui.marks import paint_mark
from ui.paint import round_box
from ui.theme import RADIUS
from ui.transcript.look import Look


def card(
    painter: QPainter, *, card: QRectF, bands: list[tuple[QRectF, QColor]], lines: list[float], look: Look
) -> None:
    tokens, radius = look.tokens, float(RADIUS["card"])
    round_box(painter, card, radius, tokens.surface)
    for band, color in bands:
        if band.bottom() < card.bottom() - radius:
            painter.fillRect(band, color)
        else:
            # The last band follows the card's round foot.
            painter.save()
            painter.setClipRect(band, Qt.ClipOperation.IntersectClip)
            round_box(painter, card, radius, color)
            painter.restore()
    for y in lines:
        painter.fillRect(QRectF(card.x(), y, card.width(), 1), tokens.border)
    round_box(painter, card, radius, None, tokens.border)


def chip(painter: QPainter, *, box: QRectF, kind: str, look: Look) -> None:
    round_box(painter, box, box.height() / 2, look.tokens.place_soft(kind))
    side = look.px(12)
    mark = QRectF(box.x() + look.px(7), box.center().y() - side / 2, side, side)
    paint_mark(painter, mark, kind, look.tokens.place(kind))


def dot(painter: QPainter, *, at: QPointF, radius: float, color: QColor, hollow: bool) -> None:
    painter.setPen(QPen(color, 1.4) if hollow else Qt.PenStyle.NoPen)
    painter.setBrush(Qt.BrushStyle.NoBrush if hollow else color)
    painter.drawEllipse(at, radius, radius)


def arrow(painter: QPainter, *, at: QPointF, opened: bool, look: Look) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(look.tokens.faint)
    half = look.px(3)
    points = (
        [(-half, -half * 0.6), (half, -half * 0.6), (0, half)]
        if opened
        else [(-half * 0.6, -half), (half, 0), (-half * 0.6, half)]
    )
    painter.drawPolygon(QPolygonF([QPointF(at.x() + x, at.y() + y) for x, y in points]))


def bar(painter: QPainter, *, track: QRectF, part: float, look: Look) -> None:
    radius = track.height() / 2
    round_box(painter, track, radius, look.tokens.border)
    if part > 0:
        filled = QRectF(track.x(), track.y(), max(track.height(), track.width() * part), track.height())
        round_box(painter, filled, radius, look.tokens.accent)
