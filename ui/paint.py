"""Small painting helpers that every widget of the window shares."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPen,
    QPixmap,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QWidget

LEADING = 1.14  # a line's height in wrapped words, as a part of the font's own
SHADOW = 18  # pixels round a floating card that its shadow needs


def keyboard_focus(widget: QWidget) -> bool:
    """Whether ``widget`` has the focus and the person got it there with the keyboard, so that a ring is due."""
    return widget.hasFocus() and widget.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)


def by_keyboard(widget: QWidget) -> None:
    """Says that the person is using the keyboard now: from here on the focus is shown with a ring."""
    widget.window().setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)


def round_box(
    painter: QPainter,
    rect: QRectF,
    radius: float,
    fill: QColor | None,
    border: QColor | None = None,
    *,
    width: float = 1.0,
) -> None:
    """A rounded rectangle whose border lies inside ``rect``."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(fill if fill is not None else Qt.BrushStyle.NoBrush)
    if border is None:
        painter.setPen(Qt.PenStyle.NoPen)
        inner = rect
    else:
        painter.setPen(QPen(border, width))
        half = width / 2
        inner = rect.adjusted(half, half, -half, -half)
    radius = min(radius, inner.height() / 2)
    painter.drawRoundedRect(inner, radius, radius)


def shadow(painter: QPainter, rect: QRectF, radius: float, *, dark: bool, depth: int = SHADOW) -> None:
    """A soft shadow round ``rect``, as wide as ``depth``. Kept for each size, as a blinking cursor paints it again."""
    ratio = painter.device().devicePixelRatioF()
    soft = _shadow(round(rect.width()), round(rect.height()), radius, dark, depth, ratio)
    painter.drawPixmap(rect.topLeft() - QPointF(depth, depth), soft)


@lru_cache(maxsize=16)
def _shadow(width: int, height: int, radius: float, dark: bool, depth: int, ratio: float) -> QPixmap:
    """Rings that fade, cheaper than a blur."""
    picture = QPixmap(round((width + 2 * depth) * ratio), round((height + 2 * depth) * ratio))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    rect = QRectF(depth, depth, width, height)
    strongest = 46 if dark else 13
    for ring in range(depth):
        fade = (1 - ring / depth) ** 2
        painter.setPen(QPen(QColor(0, 0, 0, max(1, round(strongest * fade))), 1.4))
        grown = rect.adjusted(-ring, -ring + depth * 0.18, ring, ring + depth * 0.12)
        painter.drawRoundedRect(grown, radius + ring, radius + ring)
    painter.end()
    return picture


def elided(text: str, font: QFont, width: float) -> str:
    """``text`` on one line, cut with an ellipsis when it is wider than ``width``."""
    return QFontMetricsF(font).elidedText(text.replace("\n", " "), Qt.TextElideMode.ElideRight, max(0.0, width))


class WrappedText:
    """Words that wrap in a width, the last of them perhaps a link, laid out once and then drawn."""

    def __init__(self, text: str, font: QFont, width: float, *, link: str = "") -> None:
        whole = f"{text} {link}" if link and text else text or link
        self._start = len(whole) - len(link)
        self._layout = QTextLayout(whole, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self._layout.setTextOption(option)
        self._link = link
        if link:
            # Before the lines are made: a heavier link is wider.
            self._layout.setFormats([self._part(None, underline=False)])
        self._layout.beginLayout()
        top = 0.0
        while (line := self._layout.createLine()).isValid():
            line.setLineWidth(max(1.0, width))
            line.setPosition(QPointF(0, top))
            top += round(line.height() * LEADING)
        self._layout.endLayout()
        self.height = top
        self.width = max(
            (self._layout.lineAt(i).naturalTextWidth() for i in range(self._layout.lineCount())), default=0
        )

    def draw(self, painter: QPainter, at: QPointF, color: QColor, link: QColor, *, underline: bool = False) -> None:
        painter.setPen(color)
        formats: list[QTextLayout.FormatRange] = []
        if self._link:
            formats.append(self._part(link, underline=underline))
        self._layout.draw(painter, at, formats)

    def _part(self, color: QColor | None, *, underline: bool) -> QTextLayout.FormatRange:
        look = QTextCharFormat()
        if color is not None:
            look.setForeground(color)
        look.setFontUnderline(underline)
        look.setFontWeight(QFont.Weight.DemiBold)
        part = QTextLayout.FormatRange()
        part.start, part.length, part.format = self._start, len(self._link), look
        return part

    def link_rects(self, at: QPointF) -> list[QRectF]:
        """Where the link is, a rectangle a line, when the text is drawn at ``at``."""
        rects: list[QRectF] = []
        if not self._link:
            return rects
        for number in range(self._layout.lineCount()):
            line = self._layout.lineAt(number)
            first, last = max(self._start, line.textStart()), line.textStart() + line.textLength()
            if first >= last:
                continue
            left, right = _x(line.cursorToX(first)), _x(line.cursorToX(last))
            rects.append(QRectF(at.x() + left, at.y() + line.y(), right - left, line.height()))
        return rects


def _x(answer: object) -> float:
    """``cursorToX`` gives (x, cursor) in PySide6."""
    return float(answer[0]) if isinstance(answer, tuple) else float(answer)  # type: ignore[arg-type]
