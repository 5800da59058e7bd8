"""A row laid out: its texts, what is painted under them, and where its buttons go.

A sheet is made when its row is about to show and forgotten when it has not been for a while. Coordinates are logical
pixels from the column's left edge and the row's top.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QTextCharFormat, QTextLayout, QTextLine, QTextOption

from ui.paint import round_box
from ui.transcript.look import Look
from ui.transcript.markdown import BREAK, Span

Paint = Callable[[QPainter], None]
Align = Literal["l", "c", "r"]
ControlKind = Literal["primary", "plain", "quiet", "link", "code", "fold", "output", "reach"]


class Laid:
    """Text in lines."""

    __slots__ = ("_natural", "height", "layout")

    def __init__(self, layout: QTextLayout, height: int) -> None:
        self.layout, self.height = layout, height
        self._natural = -1.0

    @property
    def natural(self) -> float:
        """The width that its longest line wants."""
        if self._natural < 0:
            lines = (self.layout.lineAt(n).naturalTextWidth() for n in range(self.layout.lineCount()))
            self._natural = max(lines, default=0.0)
        return self._natural


def cursor_x(line: QTextLine, position: int) -> float:
    """``cursorToX`` gives (x, position) in PySide6."""
    answer: object = line.cursorToX(position)
    return float(answer[0]) if isinstance(answer, tuple) else float(answer)  # type: ignore[arg-type]


def in_units(text: str, spans: list[Span]) -> list[Span]:
    """The spans counted as Qt counts."""
    if not spans or units(text):
        return spans
    at = [0]
    for char in text:
        at.append(at[-1] + (2 if char > "\uffff" else 1))
    return [
        Span(at[span.start], at[span.start + span.length] - at[span.start], span.style, span.href) for span in spans
    ]


def formats(look: Look, spans: list[Span]) -> list[QTextLayout.FormatRange]:
    return [format_range(span.start, span.length, look.format(span.style, bool(span.href))) for span in spans]


def format_range(start: int, length: int, style: QTextCharFormat) -> QTextLayout.FormatRange:
    part = QTextLayout.FormatRange()
    part.start, part.length, part.format = start, length, style
    return part


def units(text: str) -> bool:
    """Whether Qt counts the text as Python does. Outside the first plane it counts two (UTF-16)."""
    return text.isascii() or not any(char > "\uffff" for char in text)


def right_to_left(text: str) -> bool:
    """The direction of a paragraph, from its first strong character (UAX #9, P2 and P3)."""
    if text.isascii():
        return False
    for char in text[:200]:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return True
        if kind == "L":
            return False
    return False


def lay(
    text: str,
    font: QFont,
    width: float,
    line: int,
    *,
    spans: list[QTextLayout.FormatRange] | None = None,
    wrap: QTextOption.WrapMode = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere,
    align: Align = "l",
    code: bool = False,
) -> Laid:
    """Lays a text out in lines of at least ``line`` pixels."""
    layout = QTextLayout(text, font)
    option = QTextOption()
    option.setWrapMode(wrap)
    if code:
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        option.setTabStopDistance(8 * font.pixelSize() * 0.6)
    elif right_to_left(text):
        option.setTextDirection(Qt.LayoutDirection.RightToLeft)
        align = "r" if align == "l" else align
    if align != "l":
        option.setAlignment(
            Qt.AlignmentFlag.AlignHCenter
            if align == "c"
            else Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute
        )
    layout.setTextOption(option)
    layout.setCacheEnabled(True)
    if spans:
        layout.setFormats(spans)
    top, step, lower = 0, 0, 0
    same = text.isascii()  # then no line has a letter of another font in it, and all are of one height
    layout.beginLayout()
    while (made := layout.createLine()).isValid():
        made.setLineWidth(width)
        if not step or not same:
            high = made.height()
            step = line if high <= line else round(high + 0.5)
            lower = int((step - high + 1) / 2)  # whole pixels: sharp, and level with the buttons
        made.setPosition(QPointF(0, top + lower))
        top += step
    layout.endLayout()
    return Laid(layout, top)


@dataclass(slots=True, eq=False)
class Text:
    """A laid out text in its place. ``after`` is what stands between it and the next one when both are copied.

    ``links`` are spans of ``text`` with a live target, ``looks`` counts all its spans; ``scroller`` is the sideways
    window it lies in, -1 for none.
    """

    laid: Laid
    x: float
    y: float
    width: float
    text: str
    color: QColor
    after: str = "\n"
    before: str = ""
    links: list[Span] = field(default_factory=list)
    scroller: int = -1
    looks: int = 0

    @property
    def bottom(self) -> float:
        return self.y + self.laid.height

    def copied(self, start: int, end: int | None) -> str:
        """The text between two of Qt's positions."""
        if units(self.text):
            part = self.text[start:end]
        else:
            raw = self.text.encode("utf-16-le", "surrogatepass")
            stop = len(raw) if end is None else 2 * end
            part = raw[2 * start : stop].decode("utf-16-le", "replace")
        return (self.before if start == 0 else "") + part.replace(BREAK, "\n")

    @property
    def length(self) -> int:
        """In Qt's positions."""
        return len(self.text) if units(self.text) else len(self.text.encode("utf-16-le", "surrogatepass")) // 2


class Box(NamedTuple):
    """A rounded ground with an edge."""

    rect: QRectF
    radius: float
    fill: QColor
    edge: QColor

    def paint(self, painter: QPainter, clip: QRectF) -> None:
        """Paints what shows in ``clip``. A tall box is cut down first: its corners are what costs."""
        rect, spare = QRectF(self.rect), 2 * self.radius + 2
        rect.setTop(max(rect.top(), clip.top() - spare))
        rect.setBottom(min(rect.bottom(), clip.bottom() + spare))
        if rect.height() > 0:
            round_box(painter, rect, self.radius, self.fill, self.edge)


@dataclass(slots=True, eq=False)
class Scroller:
    """A window that its texts may be moved sideways in."""

    name: str
    rect: QRectF
    content: float

    @property
    def most(self) -> float:
        return max(0.0, self.content - self.rect.width())


@dataclass(slots=True, eq=False)
class Control:
    """A real button that is put over the sheet; for ``output`` a box of text, for ``reach`` a place for the keyboard
    alone, over words that the mouse finds by itself.

    ``name`` names it within its row; ``says`` is for a screen reader and ``hint`` is said after it; ``does`` is the
    verb and its argument; ``key`` is a key that does the same, shown as a cap; ``stick`` is how far down it may go to
    stay in sight, as a y in the row.
    """

    name: str
    rect: QRectF
    text: str
    kind: ControlKind
    does: tuple[str, str]
    says: str = ""
    tip: str = ""
    hint: str = ""
    key: str = ""
    stick: float | None = None
    on: bool = False


@dataclass(slots=True, eq=False)
class Sheet:
    """``lead`` is the empty room above the row, part of ``height``. ``memo`` is what the next sheet of the row
    may use again, ``old`` the last one's; ``grows`` says that its texts alone tell what changed; ``ticks`` that the
    time shows in it.
    """

    lead: int
    height: int = 0
    texts: list[Text] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    paints: list[Paint] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    scrollers: list[Scroller] = field(default_factory=list)
    memo: dict[object, tuple[object, Laid]] = field(default_factory=dict)
    old: dict[object, tuple[object, Laid]] = field(default_factory=dict)
    tips: list[tuple[QRectF, str]] = field(default_factory=list)
    key: tuple[object, ...] = ()
    ticks: bool = False
    grows: bool = False

    def same_as(self, old: Sheet) -> int:
        """How many pixels from the top look as they did in the sheet before, when a row has only grown."""
        if not self.grows or not old.grows or self.lead != old.lead:
            return 0
        same = float(self.lead)
        for mine, other in zip(self.texts, old.texts, strict=False):
            if mine.y != other.y or mine.x != other.x:
                break
            if mine.laid is other.laid:
                same = mine.bottom
                continue
            lines = other.laid.layout.lineCount()
            # All but the last line stand, when the text has only grown at its end.
            if (
                lines > 1
                and mine.text.startswith(other.text)
                and mine.links == other.links
                and mine.looks == other.looks
            ):
                same = mine.y + other.laid.layout.lineAt(lines - 1).y() - 2
            break
        return max(0, int(same) - 2)

    def same_controls(self, old: Sheet) -> bool:
        """Whether the buttons are those of the sheet before, where they were."""
        mine = [(one.name, one.rect, one.text, one.does, one.stick) for one in self.controls]
        return mine == [(one.name, one.rect, one.text, one.does, one.stick) for one in old.controls]

    def write(
        self,
        look: Look,
        text: str,
        font: QFont,
        at: tuple[float, float],
        width: float,
        line: int,
        color: QColor,
        *,
        spans: list[Span] | None = None,
        after: str = "\n",
        align: Align = "l",
        mono: bool = False,
        wrap: bool | Literal["anywhere"] = True,
    ) -> Text:
        """Lays a text out at a place and gives it back. It wraps between words, or anywhere as a terminal does."""
        spans = in_units(text, spans or [])
        anywhere = wrap == "anywhere"
        mode = QTextOption.WrapMode.WrapAnywhere if anywhere else QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
        key = (text, id(font), width, line, wrap, mono, align)  # the theme keeps its fonts, so an id names one
        known = self.old.get(key) if not spans else None
        laid = (
            known[1]
            if known
            else lay(
                text,
                font,
                width,
                line,
                spans=formats(look, spans) if spans else None,
                wrap=mode if wrap else QTextOption.WrapMode.ManualWrap,
                align=align,
                code=mono,
            )
        )
        if not spans:
            self.memo[key] = (key, laid)
        made = Text(laid, at[0], at[1], width, text, color, after)
        made.links = [span for span in spans if span.href]
        self.texts.append(made)
        return made

    def paint(
        self,
        painter: QPainter,
        shifts: dict[str, float],
        chosen: Callable[[int, Text], list[QTextLayout.FormatRange]] | None,
        clip: QRectF,
    ) -> None:
        """Paints what of the sheet lies in ``clip``; ``chosen`` gives each text's selected part."""
        for box in self.boxes:
            box.paint(painter, clip)
        for paint in self.paints:
            paint(painter)
        first, last = clip.top(), clip.bottom()
        for number, text in enumerate(self.texts):
            if text.y > last or text.y + text.laid.height < first:
                continue
            ranges = chosen(number, text) if chosen else []
            painter.setPen(text.color)
            if text.scroller < 0:
                text.laid.layout.draw(painter, QPointF(text.x, text.y), ranges, clip)
                continue
            window = self.scrollers[text.scroller]
            painter.save()
            painter.setClipRect(window.rect, Qt.ClipOperation.IntersectClip)
            shift = min(shifts.get(window.name, 0.0), window.most)
            text.laid.layout.draw(painter, QPointF(text.x - shift, text.y), ranges, clip)
            painter.restore()
        for window in self.scrollers:
            if window.most > 0:
                self._bar(painter, window, min(shifts.get(window.name, 0.0), window.most))

    def _bar(self, painter: QPainter, window: Scroller, shift: float) -> None:
        track = window.rect.width()
        long = max(24.0, track * track / window.content)
        left = window.rect.left() + (track - long) * (shift / window.most)
        color = QColor(128, 128, 128, 90)
        painter.fillRect(QRectF(left, window.rect.bottom() + 3, long, 3), color)
