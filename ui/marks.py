"""The places' marks and Conch's own, drawn as paths on a 16-unit square, so that they are sharp at any size.

A mark says which place, together with a name in words; it never stands alone for a state.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap

_UNIT: Final = 16.0


def paint_mark(painter: QPainter, rect: QRectF, kind: str, color: QColor, *, width: float = 1.4) -> None:
    """Draws a mark inside ``rect``: a place's by its kind or whole name (``ssh:build-box``), or one of this module's
    others (``shell``, ``check``, ``plus``, ``down``, ``search``, ``gear``, ``back``, ``close``, ``stop``, ``folder``).

    ``width`` is the line's, in units of the 16-unit square.
    """
    path = _paths().get(kind.partition(":")[0])
    if path is None:
        path = _paths()["computer"]
    side = min(rect.width(), rect.height())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(rect.center().x() - side / 2, rect.center().y() - side / 2)
    painter.scale(side / _UNIT, side / _UNIT)
    painter.setPen(QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
    painter.setBrush(color if kind == "stop" else Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    painter.restore()


def paint_tile(painter: QPainter, rect: QRectF, kind: str, color: QColor, ground: QColor) -> None:
    """A mark on its rounded ground, as the place picker and Settings show it."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ground)
    radius = rect.width() * 0.27
    painter.drawRoundedRect(rect, radius, radius)
    painter.restore()
    inset = rect.width() * 0.22
    paint_mark(painter, rect.adjusted(inset, inset, -inset, -inset), kind, color)


def paint_dot(painter: QPainter, center: QPointF, color: QColor, *, radius: float = 3.5) -> None:
    """A state's dot. Words always stand beside it."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(color)
    painter.drawEllipse(center, radius, radius)
    painter.restore()


def app_icon() -> QIcon:
    """Conch's mark on its own ground, for the window and the task bar."""
    icon = QIcon()
    for size in (16, 24, 32, 48, 64, 128, 256):
        pixmap = QPixmap(size, size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor("#0B7285"))
        painter.drawRoundedRect(QRectF(0, 0, size, size), size * 0.23, size * 0.23)
        inset = size * 0.16
        paint_mark(
            painter, QRectF(inset, inset, size - 2 * inset, size - 2 * inset), "shell", QColor("#FFFFFF"), width=1.5
        )
        painter.end()
        icon.addPixmap(pixmap)
    return icon


def mark_svg(kind: str, color: str, *, ground: str = "") -> str:
    """A mark as SVG, for desktop entries and bundles. ``ground`` puts it on a rounded square, as the app's icon is."""
    path, scale = _paths()[kind], 0.68 if ground else 1.0
    curve = QPainterPath.ElementType.CurveToElement
    words, index = [], 0
    while index < path.elementCount():
        element = path.elementAt(index)
        if element.type == curve:
            ends = [path.elementAt(index + step) for step in range(3)]
            words.append("C" + " ".join(f"{end.x:.2f} {end.y:.2f}" for end in ends))
            index += 3
            continue
        letter = "M" if element.type == QPainterPath.ElementType.MoveToElement else "L"
        words.append(f"{letter}{element.x:.2f} {element.y:.2f}")
        index += 1
    square = f'<rect width="16" height="16" rx="3.7" fill="{ground}"/>' if ground else ""
    inset = _UNIT * (1 - scale) / 2
    drawn = "".join(words)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{square}'
        f'<path transform="translate({inset:.2f} {inset:.2f}) scale({scale})" fill="none" stroke="{color}" '
        f'stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" d="{drawn}"/></svg>\n'
    )


@lru_cache(maxsize=1)
def _paths() -> dict[str, QPainterPath]:
    return {
        "computer": _computer(),
        "container": _container(),
        "ssh": _server(),
        "cloud": _cloud(),
        "shell": _shell(),
        "check": _lines([(3, 8.6), (6.4, 12), (13, 4.6)]),
        "plus": _lines([(8, 3), (8, 13)], [(3, 8), (13, 8)]),
        "down": _lines([(4.5, 6.5), (8, 10), (11.5, 6.5)]),
        "back": _lines([(9.8, 3.8), (5.6, 8), (9.8, 12.2)]),
        "close": _lines([(4, 4), (12, 12)], [(12, 4), (4, 12)]),
        "search": _search(),
        "gear": _gear(),
        "stop": _stop(),
        "folder": _folder(),
        "send": _lines([(8, 13), (8, 3.4)], [(3.8, 7.4), (8, 3.2), (12.2, 7.4)]),
        "key": _key(),
    }


def _lines(*lines: list[tuple[float, float]]) -> QPainterPath:
    path = QPainterPath()
    for line in lines:
        path.moveTo(*line[0])
        for point in line[1:]:
            path.lineTo(*point)
    return path


def _computer() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(1.8, 2.6, 12.4, 8.4), 1.6, 1.6)
    path.addPath(_lines([(8, 11), (8, 13.4)], [(5.2, 13.6), (10.8, 13.6)]))
    return path


def _container() -> QPainterPath:
    corners = [(8, 1.6), (13.6, 4.7), (13.6, 11.3), (8, 14.4), (2.4, 11.3), (2.4, 4.7)]
    path = _lines([*corners, corners[0]])
    path.closeSubpath()
    path.addPath(_lines([(2.6, 4.9), (8, 7.9), (13.4, 4.9)], [(8, 7.9), (8, 14.2)]))
    return path


def _server() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(1.9, 2.2, 12.2, 5.0), 1.6, 1.6)
    path.addRoundedRect(QRectF(1.9, 8.8, 12.2, 5.0), 1.6, 1.6)
    path.addPath(_lines([(4.7, 4.7), (4.75, 4.7)], [(4.7, 11.3), (4.75, 11.3)], [(7.4, 4.7), (8.6, 4.7)]))
    path.addPath(_lines([(7.4, 11.3), (8.6, 11.3)]))
    return path


def _cloud() -> QPainterPath:
    path = QPainterPath(QPointF(4.4, 12.6))
    path.cubicTo(2.5, 12.6, 1.2, 11.4, 1.2, 9.7)
    path.cubicTo(1.2, 8.1, 2.4, 6.9, 3.9, 6.7)
    path.cubicTo(4.3, 4.7, 5.9, 3.4, 7.9, 3.4)
    path.cubicTo(10.1, 3.4, 11.8, 4.9, 12.1, 7.0)
    path.cubicTo(13.7, 7.2, 14.8, 8.3, 14.8, 9.8)
    path.cubicTo(14.8, 11.4, 13.6, 12.6, 11.9, 12.6)
    path.closeSubpath()
    return path


def _shell() -> QPainterPath:
    """A conch's spiral: it opens at the foot and winds in, two turns and a bit."""
    path = QPainterPath()
    steps, turns = 96, 2.2
    for step in range(steps + 1):
        part = step / steps
        angle = math.pi * (0.5 + 2 * turns * part)
        radius = 1.05 + 6.0 * (1 - part) ** 0.92
        # The eye of the shell lies a little above and right of the middle, as the outer turn is the widest.
        middle = QPointF(8.0 + 0.55 * part, 7.7 - 0.5 * part)
        point = QPointF(middle.x() + radius * math.cos(angle), middle.y() + radius * math.sin(angle))
        if step == 0:
            path.moveTo(point)
        else:
            path.lineTo(point)
    return path


def _search() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(7, 7), 4.4, 4.4)
    path.addPath(_lines([(10.3, 10.3), (13.6, 13.6)]))
    return path


def _gear() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(8, 8), 2.1, 2.1)
    teeth = 8
    points: list[tuple[float, float]] = []
    for tooth in range(teeth):
        for offset, radius in ((-0.30, 4.7), (-0.17, 6.2), (0.17, 6.2), (0.30, 4.7)):
            angle = (tooth + offset) * 2 * math.pi / teeth
            points.append((8 + radius * math.cos(angle), 8 + radius * math.sin(angle)))
    ring = _lines([*points, points[0]])
    ring.closeSubpath()
    path.addPath(ring)
    return path


def _stop() -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(4.4, 4.4, 7.2, 7.2), 1.2, 1.2)
    return path


def _folder() -> QPainterPath:
    corners = [(1.8, 12.8), (1.8, 3.6), (6.2, 3.6), (7.8, 5.4), (14.2, 5.4), (14.2, 12.8)]
    path = _lines([*corners, corners[0]])
    path.closeSubpath()
    return path


def _key() -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(5.2, 10.8), 2.9, 2.9)
    path.addPath(_lines([(7.4, 8.6), (13.2, 2.8)], [(11.0, 5.0), (13.0, 7.0)]))
    return path
