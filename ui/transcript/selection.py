"""What is selected: from one place to another, over blocks and over rows."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QTextBoundaryFinder
from PySide6.QtGui import QTextCharFormat, QTextLayout, QTextLine

from ui.transcript.arrangement import Arrangement, Placed
from ui.transcript.look import Look
from ui.transcript.markdown import BREAK, Span
from ui.transcript.rows import AskRow, NoteRow, ProseRow, Row, StoryRow, UserRow
from ui.transcript.sheet import Sheet, Text, cursor_x, format_range

Pos = tuple[int, int, int]  # row, text within its sheet, Qt's position within the text
Unit = Literal["letter", "word", "block"]


def line_at(text: Text, y: float) -> QTextLine:
    """The line of a text that ``y`` (from the text's top) lies in, or the nearest."""
    layout = text.laid.layout
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        if y < line.y() + line.height() + 2:
            return line
    return layout.lineAt(max(0, layout.lineCount() - 1))


def nearest(sheet: Sheet, x: float, y: float) -> int | None:
    """The text of a sheet that is nearest to a point."""
    best: int | None = None
    least = (float("inf"), float("inf"))
    for number, text in enumerate(sheet.texts):
        down = max(text.y - y, y - text.bottom, 0.0)
        right = text.x + max(text.laid.natural, 8.0)
        distance = (down, max(text.x - x, x - right, 0.0))
        if distance < least:
            best, least = number, distance
    return best


def hit(placed: list[Placed], x: float, y: float, shifts: dict[int, dict[str, float]]) -> Pos | None:
    """The position nearest to a point of the window; ``x`` counts from the column's left edge."""
    for row, top, sheet in placed:
        last = row == placed[-1].row
        if (y < top + sheet.height or last) and sheet.texts:
            number = nearest(sheet, x, y - top)
            if number is None:
                continue
            text = sheet.texts[number]
            inside = y - top - text.y
            # Above the first line is its beginning, below the last one its end.
            if inside < -4:
                return row, number, 0
            if inside > text.laid.height + 4:
                return row, number, text.length
            line = line_at(text, inside)
            return row, number, line.xToCursor(x - text.x + shift_of(sheet, text, shifts.get(row)))
    return None


def shift_of(sheet: Sheet, text: Text, shifts: dict[str, float] | None) -> float:
    """How far a text is moved sideways in its window."""
    if text.scroller < 0 or not shifts:
        return 0.0
    window = sheet.scrollers[text.scroller]
    return min(shifts.get(window.name, 0.0), window.most)


def link_at(sheet: Sheet, x: float, y: float) -> Span | None:
    """The live link under a point of a sheet."""
    for text in sheet.texts:
        if not text.links or not (text.y <= y < text.bottom):
            continue
        line = line_at(text, y - text.y)
        inside = x - text.x
        rect = line.naturalTextRect()
        if not rect.left() <= inside < rect.right():
            continue
        at = line.xToCursor(inside, QTextLine.CursorPosition.CursorOnCharacter)
        for span in text.links:
            if span.start <= at < span.start + span.length:
                return span
    return None


class Selection:
    """``anchor`` is where it began, ``cursor`` where it is now; by words or blocks it grows in whole ones."""

    def __init__(self) -> None:
        self.anchor: Pos | None = None
        self.cursor: Pos | None = None
        self._base: tuple[Pos, Pos] | None = None
        self._unit: Unit = "letter"

    def clear(self) -> None:
        self.anchor = self.cursor = self._base = None

    @property
    def empty(self) -> bool:
        return self.anchor is None or self.cursor is None or self.anchor == self.cursor

    @property
    def span(self) -> tuple[Pos, Pos]:
        if self.anchor is None or self.cursor is None:
            return (0, 0, 0), (0, 0, 0)
        return (self.anchor, self.cursor) if self.anchor <= self.cursor else (self.cursor, self.anchor)

    def begin(self, at: Pos, unit: Unit, arrangement: Arrangement) -> None:
        self._unit = unit
        self._base = around(at, unit, arrangement)
        self.anchor, self.cursor = self._base

    def reach(self, at: Pos, arrangement: Arrangement) -> None:
        """Grows or shrinks to ``at``."""
        if self._base is None:
            self.begin(at, "letter", arrangement)
            return
        first, last = around(at, self._unit, arrangement)
        if first < self._base[0]:
            self.anchor, self.cursor = self._base[1], first
        else:
            self.anchor, self.cursor = self._base[0], max(last, self._base[1])

    def put(self, anchor: Pos, cursor: Pos) -> None:
        self._unit, self._base = "letter", (anchor, anchor)
        self.anchor, self.cursor = anchor, cursor

    def rows(self) -> tuple[int, int]:
        first, last = self.span
        return first[0], last[0]

    def ranges(self, row: int, number: int, text: Text, look: Look) -> list[QTextLayout.FormatRange]:
        """The selected part of a text, for painting."""
        first, last = self.span
        here = (row, number)
        if here < first[:2] or here > last[:2]:
            return []
        start = first[2] if here == first[:2] else 0
        end = last[2] if here == last[:2] else text.length
        if end <= start:
            return []
        style = QTextCharFormat()
        style.setBackground(look.selection)
        return [format_range(start, end - start, style)]

    def text(self, arrangement: Arrangement) -> str:
        """What is selected, as text."""
        if self.empty:
            return ""
        first, last = self.span
        out: list[str] = []
        for row in range(first[0], last[0] + 1):
            if first[0] < row < last[0] and arrangement.known(row) is None:
                if said := row_text(arrangement.rows.all[row]):
                    out += [said, "\n\n"]
                continue
            sheet = arrangement.sheet(row)
            for number, text in enumerate(sheet.texts):
                here = (row, number)
                if here < first[:2] or here > last[:2]:
                    continue
                start = first[2] if here == first[:2] else 0
                end = last[2] if here == last[:2] else None
                out.append(text.copied(start, end))
                if here != last[:2]:
                    out.append(text.after)
            if sheet.texts and row != last[0] and out and not out[-1].endswith("\n\n"):
                out[-1] = out[-1].rstrip("\n ") + "\n\n" if not out[-1].strip() else out[-1] + "\n\n"
        return "".join(out).rstrip()


def around(at: Pos, unit: Unit, arrangement: Arrangement) -> tuple[Pos, Pos]:
    """The letter, word or block that a position lies in."""
    row, number, position = at
    if unit == "letter":
        return at, at
    text = arrangement.sheet(row).texts[number]
    if unit == "word":
        finder = QTextBoundaryFinder(QTextBoundaryFinder.BoundaryType.Word, text.text)
        finder.setPosition(min(position, text.length))
        if not finder.isAtBoundary() or position >= text.length:
            finder.toPreviousBoundary()
        start = max(0, finder.position())
        finder.setPosition(start)
        end = finder.toNextBoundary()
        return (row, number, start), (row, number, end if end >= 0 else text.length)
    # In code each line is a paragraph of its own.
    raw = text.text
    if BREAK in raw and text.scroller >= 0:
        layout = text.laid.layout
        line = layout.lineForTextPosition(min(position, text.length))
        return (row, number, line.textStart()), (row, number, line.textStart() + line.textLength())
    return (row, number, 0), (row, number, text.length)


def message_span(row: int, arrangement: Arrangement) -> tuple[Pos, Pos] | None:
    """The whole message that a row belongs to."""
    first, last = arrangement.rows.group_of(row)
    while first < last and not arrangement.sheet(first).texts:
        first += 1
    while last > first and not arrangement.sheet(last).texts:
        last -= 1
    texts = arrangement.sheet(last).texts
    if not texts or not arrangement.sheet(first).texts:
        return None
    return (first, 0, 0), (last, len(texts) - 1, texts[-1].length)


def row_text(row: Row) -> str:
    """A whole row as text, without laying it out."""
    from ui.transcript import words
    from ui.transcript.markdown import plain

    match row:
        case UserRow():
            return row.text
        case ProseRow():
            return plain(row.text)
        case StoryRow():
            return "\n".join(f"{said} · {after}" if after else said for said, after in [words.headline(row.shown)])
        case NoteRow():
            return words.note(row)
        case AskRow():
            return ""
    return ""


def message_text(arrangement: Arrangement, row: int, *, markdown: bool) -> str:
    """The message of a row: what was said in it, without what was done."""
    first, last = arrangement.rows.group_of(row)
    out: list[str] = []
    for one in arrangement.rows.all[first : last + 1]:
        if isinstance(one, UserRow):
            out.append(one.text)
        elif isinstance(one, ProseRow):
            out.append(one.text if markdown else row_text(one))
    return "\n\n".join(out)


def moved(at: Pos, arrangement: Arrangement, *, forward: bool, word: bool) -> Pos:
    """One letter or word further, into the next text at an end."""
    row, number, position = at
    sheet = arrangement.sheet(row)
    if number < len(sheet.texts):
        text = sheet.texts[number]
        layout = text.laid.layout
        mode = QTextLayout.CursorMode.SkipWords if word else QTextLayout.CursorMode.SkipCharacters
        to = layout.nextCursorPosition(position, mode) if forward else layout.previousCursorPosition(position, mode)
        if to != position:
            return row, number, to
    beside = beside_text(row, number, arrangement, forward=forward)
    if beside is None:
        return at
    row, number = beside
    return row, number, 0 if forward else arrangement.sheet(row).texts[number].length


def beside_text(row: int, number: int, arrangement: Arrangement, *, forward: bool) -> tuple[int, int] | None:
    """The text before or after one, in reading order."""
    step = 1 if forward else -1
    if 0 <= number + step < len(arrangement.sheet(row).texts):
        return row, number + step
    row += step
    while 0 <= row < len(arrangement.rows.all):
        count = len(arrangement.sheet(row).texts)
        if count:
            return row, 0 if forward else count - 1
        row += step
    return None


def point_of(at: Pos, arrangement: Arrangement) -> QPointF:
    """Where a position is, from its row's top and the column's left edge: the middle of its line."""
    row, number, position = at
    text = arrangement.sheet(row).texts[number]
    line = text.laid.layout.lineForTextPosition(min(position, text.length))
    if not line.isValid():
        return QPointF(text.x, text.y)
    return QPointF(text.x + cursor_x(line, position), text.y + line.y() + line.height() / 2)
