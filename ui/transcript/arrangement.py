"""Which rows show, and where. Only what shows is laid out; every other row has a guessed height.

What is seen never jumps: the view is held by a row and how far its top lies above the window's, not by a distance
from the beginning, so a guess that turns out wrong moves only the scroll bar. At the end it is held by the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ui.transcript import asks
from ui.transcript.folds import Folds
from ui.transcript.heights import Heights
from ui.transcript.highlight import Highlighter
from ui.transcript.look import Look
from ui.transcript.markdown import Code, read
from ui.transcript.prose import CodeState, Prose
from ui.transcript.rows import AskRow, NoteRow, ProseRow, Row, StoryRow, UserRow
from ui.transcript.sheet import Sheet
from ui.transcript.story import Story
from ui.transcript.telling import Rows

_KEPT = 300  # sheets
_TOP = 22


class Placed(NamedTuple):
    """A row that shows. ``y`` is its top in the window, often above it."""

    row: int
    y: int
    sheet: Sheet


class Arrangement:
    """``pinned`` while the end is to stay in sight; else ``anchor`` is the first row and how much of it is above."""

    def __init__(self, rows: Rows, folds: Folds, look: Look, highlighter: Highlighter, width: int = 720) -> None:
        self.rows, self.folds, self.look = rows, folds, look
        self.pinned = True
        self.anchor = (0, 0)
        self.width = width
        self.foot = 0
        self._highlighter = highlighter
        self._sheets: OrderedDict[int, Sheet] = OrderedDict()
        self.heights = Heights()
        self.reset()

    # Heights

    def reset(self) -> None:
        """Guesses every height anew: another width, another look, other rows."""
        self._sheets.clear()
        self.foot = self.look.px(46)
        every = self.rows.all
        look, width = self.look, self.width
        # Holds no arrangement: it would be held by its own heights, and a long chat would wait for the collector.
        self.heights = Heights(len(every), lambda index: _guess(every[index], look, width))

    def resize(self, width: int) -> bool:
        """Takes a new column width. True when it is another."""
        if width == self.width:
            return False
        self.width = width
        self.reset()
        return True

    def take_new(self) -> None:
        """Makes room for rows that were added."""
        for row in self.rows.all[len(self.heights) :]:
            self.heights.append(_guess(row, self.look, self.width))

    @property
    def total(self) -> int:
        return self.heights.total + self.foot

    # Sheets

    def renew(self, which: Callable[[Sheet], bool]) -> None:
        """Has the sheets made again of which that is true: the time shows in them, or their colours are known now."""
        for sheet in self._sheets.values():
            if which(sheet):
                sheet.key = ()

    def known(self, index: int) -> Sheet | None:
        return self._sheets.get(index)

    def sheet(self, index: int) -> Sheet:
        """The row laid out, and its height known from now on."""
        row = self.rows.all[index]
        if index >= len(self.heights):
            self.take_new()
        key = (row.rev, self.folds.rev if not isinstance(row, NoteRow) else 0)
        sheet = self._sheets.get(index)
        if sheet is None or sheet.key != key:
            sheet = self._build(row, sheet)
            sheet.key, sheet.old = key, {}
            self._sheets[index] = sheet
            if len(self._sheets) > _KEPT:
                self._sheets.popitem(last=False)
            if self.heights[index] != sheet.height:
                self.heights.set(index, sheet.height)
        self._sheets.move_to_end(index)
        return sheet

    def _build(self, row: Row, before: Sheet | None) -> Sheet:
        if row.hidden:
            return Sheet(lead=0)
        sheet = Sheet(lead=self._lead(row))
        if before is not None:
            sheet.old = before.memo
        match row:
            case ProseRow():
                self._prose(row, sheet)
            case UserRow():
                asks.user(row, self.look, sheet, self.width, self.folds)
            case StoryRow():
                Story(row, self.look, sheet, self.width, self.folds).build()
            case AskRow():
                asks.ask(row, self.look, sheet, self.width)
            case NoteRow():
                asks.note(row, self.look, sheet, self.width)
        return sheet

    def _prose(self, row: ProseRow, sheet: Sheet) -> None:
        pieces = read(row.text, live=row.live)
        states: list[CodeState] = []
        for piece in pieces:
            if isinstance(piece, Code):
                name = f"{row.index}:code{len(states)}"
                closed = piece.closed
                colored = self._highlighter.get(piece.language, piece.text) if closed else None
                states.append(CodeState(name in self.folds.wrapped, name in self.folds.whole, colored))
        Prose(self.look, sheet, self.width).build(pieces, states)

    def _lead(self, row: Row) -> int:
        """The empty room above a row, by what stands over it."""
        px = self.look.px
        above = row.index - 1
        while above >= 0 and self.rows.all[above].hidden:
            above -= 1
        if above < 0:
            return px(_TOP)
        over = self.rows.all[above]
        if isinstance(row, UserRow):
            return px(26)
        if isinstance(over, UserRow):
            return px(18)
        if isinstance(row, ProseRow) and isinstance(over, ProseRow):
            return px(20) if row.text.startswith("#") else px(6) if over.text.startswith("#") else px(11)
        return px(14)

    # Where it is

    @property
    def value(self) -> int:
        """How far from the beginning the window's top is, as far as the heights are known."""
        if not self.rows.all:
            return 0
        row, above = self.anchor
        return self.heights.offset(row) + above

    def move(self, by: int) -> None:
        """Moves the window by so many pixels, exactly, whatever was guessed."""
        self.pinned = False
        row, above = self.anchor
        above += by
        while above < 0 and row > 0:
            row -= 1
            above += self.sheet(row).height
        self.anchor = (row, max(0, above))

    def hold(self, row: int, y: int) -> None:
        """Keeps a row's top at ``y`` in the window."""
        self.anchor = (row, -y)
        self.move(0)

    def go(self, value: int) -> None:
        """Moves the window to a distance from the beginning, guesses included."""
        self.pinned = False
        if not self.rows.all:
            return
        value = max(0, value)
        row = self.heights.at(value)
        self.anchor = (row, value - self.heights.offset(row))

    def arrange(self, height: int) -> list[Placed]:
        """Lays out what shows in a window of that height."""
        self.take_new()
        if not self.rows.all:
            self.anchor = (0, 0)
            return []
        placed = [] if self.pinned else self._down(height)
        if self.pinned:
            placed = self._up(height)
        self.anchor = (placed[0].row, -placed[0].y)
        return placed

    def _down(self, height: int) -> list[Placed]:
        row, above = self.anchor
        last = len(self.rows.all) - 1
        row = min(row, last)
        while above >= (high := self.sheet(row).height) and row < last:
            above -= high
            row += 1
        y = -above
        placed: list[Placed] = []
        while row <= last and y < height:
            sheet = self.sheet(row)
            placed.append(Placed(row, y, sheet))
            y += sheet.height
            row += 1
        if row > last and y + self.foot <= height:
            self.pinned = True  # the end shows
        return placed

    def _up(self, height: int) -> list[Placed]:
        y = height - self.foot
        row = len(self.rows.all) - 1
        placed: list[Placed] = []
        while row >= 0 and y > 0:
            sheet = self.sheet(row)
            y -= sheet.height
            placed.append(Placed(row, y, sheet))
            row -= 1
        if not placed:
            placed.append(Placed(row, y - self.sheet(row).height, self.sheet(row)))
        placed.reverse()
        if row < 0 and y > 0:
            placed = [Placed(one.row, one.y - y, one.sheet) for one in placed]
        return placed


def _guess(row: Row, look: Look, width: int) -> int:
    """A row's height before it is laid out."""
    px, line = look.px, look.line
    match row:
        case ProseRow():
            text = row.text
            lines = int(len(text) * look.char / width) + 1 + text.count("\n")
            return (lines if lines < 40 else 40) * line + px(10)
        case UserRow():
            lines = int(len(row.text) * look.char / (width * 0.8)) + 1 + row.text.count("\n")
            return min(lines, 25) * line + px(46)
        case StoryRow():
            return 0 if row.hidden else px(56)
        case AskRow():
            return 0 if row.hidden else px(170)
    return px(14) + line
