"""A block of an answer laid out: paragraphs, lists, quotes, tables, and code in its box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QTextOption

from ui.paint import round_box
from ui.transcript.highlight import Colored
from ui.transcript.look import Look
from ui.transcript.markdown import BREAK, Code, Para, Piece, Rule, Table
from ui.transcript.sheet import (
    Box,
    Control,
    Laid,
    Scroller,
    Sheet,
    Text,
    cursor_x,
    formats,
    in_units,
    lay,
    right_to_left,
)

FOLD_LINES = 30
_CHUNK = 16  # lines of code laid out together: what streams in lays out only the last of them


@dataclass(frozen=True, slots=True)
class CodeState:
    """What the person chose for a block of code, and its colours once they are known."""

    wrapped: bool
    whole: bool
    colored: Colored | None


class Prose:
    """Lays one block out, top to bottom."""

    def __init__(self, look: Look, sheet: Sheet, width: int) -> None:
        self.look, self.sheet, self.width = look, sheet, width
        self._y = float(sheet.lead)
        self._codes = 0

    def build(self, pieces: list[Piece], states: list[CodeState]) -> None:
        # A quote's bar and a table's frame change as a whole.
        self.sheet.grows = all(isinstance(piece, Para | Code) and not piece.quote for piece in pieces)
        before: Piece | None = None
        for number, piece in enumerate(pieces):
            gap = self._gap(before, piece)
            self._y += gap
            match piece:
                case Para():
                    self._para(number, piece, gap if isinstance(before, Para) and before.quote else 0)
                case Code():
                    self._code(number, piece, states[self._codes])
                    self._codes += 1
                case Table():
                    self._table(piece)
                case Rule():
                    self._rule()
            before = piece
        self._reach()
        self.sheet.height = round(self._y + 0.49)

    def _reach(self) -> None:
        """Lets the keyboard and a screen reader come to the links."""
        for number, text in enumerate(self.sheet.texts):
            for span in text.links:
                line = text.laid.layout.lineForTextPosition(span.start)
                first, last = cursor_x(line, span.start), cursor_x(line, span.start + span.length)
                rect = QRectF(text.x + min(first, last), text.y + line.y(), abs(last - first), line.height())
                says = f"Link: {text.copied(span.start, span.start + span.length)}. {span.href}"
                name = f"link{number}.{span.start}"
                self.sheet.controls.append(
                    Control(name, rect.adjusted(-3, -1, 3, 1), "", "reach", ("link", span.href), says)
                )
        self.sheet.controls.sort(key=lambda control: (control.rect.y(), control.rect.x()))

    def _gap(self, before: Piece | None, piece: Piece) -> int:
        px = self.look.px
        if before is None:
            return 0
        if isinstance(piece, Para) and piece.level:
            return px(18)
        if isinstance(before, Para) and before.level:
            return px(6)
        if isinstance(piece, Para) and piece.tight:
            return px(3)
        if isinstance(piece, Para) and isinstance(before, Para) and piece.depth and before.depth:
            return px(6)
        return px(10)

    def _indent(self, depth: int, quote: int) -> int:
        return self.look.px(22) * depth + self.look.px(16) * quote

    def _para(self, number: int, para: Para, joins: int) -> None:
        look, sheet = self.look, self.sheet
        indent = self._indent(para.depth, para.quote)
        width = max(40, self.width - indent)
        font = look.heading(para.level) if para.level else look.body
        line = round(font.pixelSize() * 1.36) if para.level else look.line
        spans = in_units(para.text, para.spans)
        key = (para.text, para.level, width, spans)
        if (known := sheet.old.get(number)) is not None and known[0] == key:
            laid = known[1]
        else:
            laid = lay(para.text, font, width, line, spans=formats(look, spans) if spans else None)
        sheet.memo[number] = (key, laid)
        rtl = right_to_left(para.text)
        color = look.tokens.muted if para.quote else look.tokens.text
        text = Text(laid, 0 if rtl else indent, self._y, width, para.text, color, "\n" if para.tight else "\n\n")
        text.links = [span for span in spans if span.href]
        text.looks = len(spans)
        if para.marker:
            text.before = f"{para.marker} "
            self._marker(para, indent, rtl, line)
        elif para.depth:
            text.before = "  "
        sheet.texts.append(text)
        if para.quote:
            self._quote(para, rtl, laid.height, joins)
        self._y += laid.height

    def _quote(self, para: Para, rtl: bool, high: int, joins: int) -> None:
        """The bars beside quoted text; ``joins`` is how far up they go to meet those of the paragraph above."""
        px = self.look.px
        left, step = (self.width - px(3), -px(16)) if rtl else (0, px(16))
        bars = [QRectF(left + step * level, self._y - joins, px(3), high + joins) for level in range(para.quote)]
        self.sheet.paints.append(partial(_fill, rects=bars, color=self.look.tokens.border))

    def _marker(self, para: Para, indent: int, rtl: bool, line: int) -> None:
        look = self.look
        room = look.px(22) - look.px(6)
        left = self.width - indent + look.px(6) if rtl else indent - look.px(22)
        made = lay(
            para.marker, look.body, max(room, look.width(para.marker, look.body)), line, align="l" if rtl else "r"
        )
        # A long number grows to the left of its column rather than wrap.
        over = max(0.0, made.natural - room)
        self.sheet.paints.append(
            partial(_draw, laid=made, x=left - (0 if rtl else over), y=self._y, color=look.tokens.muted)
        )

    def _rule(self) -> None:
        y = self._y + self.look.px(8)
        self.sheet.paints.append(partial(_fill, rects=[QRectF(0, y, self.width, 1)], color=self.look.tokens.border))
        self._y += self.look.px(17)

    # Code

    def _code(self, number: int, code: Code, state: CodeState) -> None:
        look, sheet, px = self.look, self.sheet, self.look.px
        left = float(self._indent(code.depth, code.quote))
        wide = self.width - left
        pad, head = px(14), px(32)
        name = f"code{self._codes}"
        lines = code.text.split("\n")
        folded = code.closed and not state.whole and len(lines) > FOLD_LINES + 4
        shown = lines[:FOLD_LINES] if folded else lines
        top, inner = self._y, wide - 2 * pad
        wrap = QTextOption.WrapMode.WrapAnywhere if state.wrapped else QTextOption.WrapMode.ManualWrap
        y = top + head
        longest = 0.0
        first = len(sheet.texts)
        for at in range(0, len(shown), _CHUNK):
            text = BREAK.join(shown[at : at + _CHUNK])
            colors = state.colored.ranges(look, at, min(at + _CHUNK, len(shown))) if state.colored else None
            key = (text, state.wrapped, inner, bool(colors))
            memo = (number, at)
            if (known := sheet.old.get(memo)) is not None and known[0] == key:
                laid = known[1]
            else:
                laid = lay(text, look.code, inner, look.code_line, spans=colors, wrap=wrap, code=True)
            sheet.memo[memo] = (key, laid)
            part = Text(laid, left + pad, y, inner, text, look.tokens.text, scroller=len(sheet.scrollers))
            part.looks = len(colors or ())
            sheet.texts.append(part)
            longest = max(longest, laid.natural)
            y += laid.height
        sheet.texts[-1].after = "\n\n" if first < len(sheet.texts) else "\n"
        window = Scroller(name, QRectF(left + pad, top + head, inner, y - top - head), 0 if state.wrapped else longest)
        sheet.scrollers.append(window)
        y += px(12) if window.most <= 0 else px(16)
        if folded:
            words = f"Show all {len(lines):,} lines"
            wide_words = look.width(words, look.small_medium) + px(16)
            rect = QRectF(left + px(6), y - px(6), wide_words, px(26))
            sheet.controls.append(Control(f"{name}.all", rect, words, "link", ("code.whole", name), words))
            y += px(24)
        tokens = look.tokens
        sheet.boxes.append(Box(QRectF(left, top, wide, y - top), float(px(10)), tokens.code, tokens.border))
        self._code_head(name, code, state, QRectF(left, top, wide, y - top), window.most > 0)
        self._y = y

    def _code_head(self, name: str, code: Code, state: CodeState, box: QRectF, overflows: bool) -> None:
        look, sheet, px = self.look, self.sheet, self.look.px
        label = lay(code.language or "text", look.small, box.width(), look.small_line)
        sheet.paints.append(partial(_draw, laid=label, x=box.x() + px(14), y=box.y() + px(8), color=look.tokens.faint))
        of = f"the {code.language} code" if code.language else "the code"
        high = px(24)
        right = box.right() - px(6)
        wide = look.width("Copied", look.small_medium) + px(16)
        stick = box.bottom() - high - px(6)
        rect = QRectF(right - wide, box.y() + px(5), wide, high)
        sheet.controls.append(
            Control(f"{name}.copy", rect, "Copy", "code", ("code.copy", name), f"Copy {of}", stick=stick)
        )
        if overflows or state.wrapped:
            words = "Don't wrap" if state.wrapped else "Wrap"
            wide_too = look.width(words, look.small_medium) + px(16)
            rect = QRectF(rect.x() - wide_too - px(2), rect.y(), wide_too, high)
            says = f"{'Do not wrap' if state.wrapped else 'Wrap'} the lines of {of}"
            sheet.controls.append(Control(f"{name}.wrap", rect, words, "code", ("code.wrap", name), says, stick=stick))

    # Tables

    def _table(self, table: Table) -> None:
        look, sheet, px = self.look, self.sheet, self.look.px
        columns = max((len(row) for row in table.rows), default=0)
        if not columns:
            return
        left = float(self._indent(table.depth, 0))
        wide = self.width - left
        pad = px(10)
        widths = self._columns(table, columns, wide - 2 * pad * columns, pad)
        top = y = self._y
        lines: list[QRectF] = []
        for number, row in enumerate(table.rows):
            x, tallest = left, 0
            for column, cell in enumerate(row):
                font = look.strong if number == 0 else look.body
                spans = in_units(cell.text, cell.spans)
                align = table.align[column] if column < len(table.align) else "l"
                laid = lay(
                    cell.text,
                    font,
                    widths[column],
                    look.line,
                    spans=formats(look, spans) if spans else None,
                    align=align,
                )
                last = column == len(row) - 1
                text = Text(
                    laid, x + pad, y + px(5), widths[column], cell.text, look.tokens.text, "\n" if last else "\t"
                )
                text.links = [span for span in spans if span.href]
                sheet.texts.append(text)
                tallest = max(tallest, laid.height)
                x += widths[column] + 2 * pad
            y += tallest + px(10)
            lines.append(QRectF(left, y, x - left, 1))
            y += 1
        lines.pop()
        right = left + sum(widths) + 2 * pad * columns
        frame = QRectF(left, top, right - left, y - top)
        sheet.paints.append(partial(round_box, rect=frame, radius=px(8), fill=None, border=look.tokens.border))
        sheet.paints.append(partial(_fill, rects=lines, color=look.tokens.border))
        self._y = y

    def _columns(self, table: Table, columns: int, room: float, pad: int) -> list[float]:
        """Each column as wide as it wants, and where that is too much the widest give way first."""
        look = self.look
        wants = [0.0] * columns
        for number, row in enumerate(table.rows):
            font = look.strong if number == 0 else look.body
            for column, cell in enumerate(row):
                wants[column] = max(wants[column], min(look.width(cell.text, font) + px_spare(cell), 4 * room))
        least = look.px(36)
        wants = [max(least, want + 2) for want in wants]
        while sum(wants) > room + 0.5:
            widest = max(wants)
            second = max((want for want in wants if want < widest), default=least)
            wide = [i for i, want in enumerate(wants) if want == widest]
            over = sum(wants) - room
            cut = max(second, widest - over / len(wide), least)
            if cut >= widest:
                break
            for i in wide:
                wants[i] = cut
        return wants


def px_spare(cell: Para) -> float:
    """Bold or fixed-width spans are a little wider than the plain text that was measured."""
    return sum(span.length for span in cell.spans) * 1.2


def _fill(painter: QPainter, *, rects: list[QRectF], color: QColor) -> None:
    for rect in rects:
        painter.fillRect(rect, color)


def _draw(painter: QPainter, *, laid: Laid, x: float, y: float, color: QColor) -> None:
    painter.setPen(color)
    laid.layout.draw(painter, QPointF(x, y))
