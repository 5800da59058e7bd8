"""The transcript to a screen reader: a list in which every row is named, those out of sight too.

Qt's own widgets speak for themselves, so a row's children are its buttons as they are. The rows are interfaces made
when they are asked for (``QAccessible.installFactory``), and cost nothing while nobody listens.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import QObject, QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleInterface, QColor, QWindow

from ui.transcript import words
from ui.transcript.rows import AskRow, NoteRow, StoryRow

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView

_installed = False
# Qt keeps the interfaces by pointer; Python must not let go of them first.
_kept: dict[int, RowsAccess] = {}


def install() -> None:
    """Tells Qt how a transcript is read out. Once for the program."""
    global _installed
    if not _installed:
        _installed = True
        QAccessible.installFactory(_make)


def _make(name: str, thing: QObject) -> QAccessibleInterface | None:
    from ui.transcript.view import TranscriptView

    if not isinstance(thing, TranscriptView):
        return None
    if (known := _kept.get(id(thing))) is not None and known.isValid() and known.view is thing:
        return known
    made = RowsAccess(thing)
    key = id(thing)
    _kept[key] = made
    thing.destroyed.connect(lambda *_: _kept.pop(key, None))
    return made


class _Access(QAccessibleInterface):
    """What the list and its rows share."""

    def __init__(self, view: TranscriptView) -> None:
        super().__init__()
        self._view = weakref.ref(view)

    @property
    def view(self) -> TranscriptView:
        view = self._view()
        if view is None:
            raise RuntimeError("the transcript is gone")
        return view

    def isValid(self) -> bool:
        view = self._view()
        return view is not None and bool(shiboken6.isValid(view))

    def window(self) -> QWindow | None:  # type: ignore[override]  # the stub does not say that it may be nothing
        return self.view.window().windowHandle()

    def setText(self, kind: QAccessible.Text, text: str) -> None:
        pass

    def state(self) -> QAccessible.State:
        return QAccessible.State()

    def foregroundColor(self) -> QColor:
        return self.view.themes.tokens.text

    def backgroundColor(self) -> QColor:
        return self.view.themes.tokens.canvas


class RowsAccess(_Access):
    """The list."""

    def __init__(self, view: TranscriptView) -> None:
        super().__init__(view)
        self._rows: dict[int, RowAccess] = {}

    def object(self) -> QObject:
        return self.view

    def parent(self) -> QAccessibleInterface | None:  # type: ignore[override]
        above = self.view.parentWidget()
        return QAccessible.queryAccessibleInterface(above) if above is not None else None

    def childCount(self) -> int:
        return len(self.view.shown_rows()) + (not self.view.pill.isHidden())

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        rows = self.view.shown_rows()
        if index == len(rows) and not self.view.pill.isHidden():
            return QAccessible.queryAccessibleInterface(self.view.pill)
        return self.of_row(rows[index]) if 0 <= index < len(rows) else None

    def of_row(self, row: int) -> RowAccess:
        made = self._rows.get(row)
        if made is None:
            made = self._rows[row] = RowAccess(self, row)
            QAccessible.registerAccessibleInterface(made)
        return made

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        rows = self.view.shown_rows()
        if not isinstance(child, RowAccess):
            return len(rows) if child.object() is self.view.pill else -1
        at = bisect_left(rows, child.row)
        return at if at < len(rows) and rows[at] == child.row else -1

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]
        at = self.view.viewport().mapFromGlobal(QPoint(x, y)).y()
        row = next((row for row, top, sheet in self.view.placed if top <= at < top + sheet.height), None)
        return self.of_row(row) if row is not None else None

    def rect(self) -> QRect:
        return QRect(self.view.mapToGlobal(QPoint(0, 0)), self.view.size())

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.List

    def text(self, kind: QAccessible.Text) -> str:
        return self.view.accessibleName() if kind == QAccessible.Text.Name else ""

    def focusChild(self) -> QAccessibleInterface | None:  # type: ignore[override]
        focus = self.view.window().focusWidget()
        if focus is not None and focus is not self.view and self.view.isAncestorOf(focus):
            return QAccessible.queryAccessibleInterface(focus)
        return self if self.view.hasFocus() else None

    def state(self) -> QAccessible.State:
        state = QAccessible.State()
        state.focusable = True
        state.focused = self.view.hasFocus()
        return state


class RowAccess(_Access):
    """One row: its words, and its buttons as children."""

    def __init__(self, rows: RowsAccess, row: int) -> None:
        super().__init__(rows.view)
        self._above, self.row = rows, row

    def isValid(self) -> bool:
        return super().isValid() and self.row < len(self.view.model.rows.all)

    def object(self) -> QObject | None:  # type: ignore[override]
        return None

    def parent(self) -> QAccessibleInterface:
        return self._above

    def childCount(self) -> int:
        return len(self.view.controls.of_row(self.row))

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        buttons = self.view.controls.of_row(self.row)
        return QAccessible.queryAccessibleInterface(buttons[index]) if 0 <= index < len(buttons) else None

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        thing = child.object()
        return next((at for at, button in enumerate(self.view.controls.of_row(self.row)) if button is thing), -1)

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]
        for button in self.view.controls.of_row(self.row):
            if button.rect().contains(button.mapFromGlobal(QPoint(x, y))):
                return QAccessible.queryAccessibleInterface(button)
        return None

    def rect(self) -> QRect:
        """Where the row is on the screen, as far as its height is known."""
        view, heights = self.view, self.view.arrangement.heights
        if self.row >= len(heights):
            return QRect()
        known = next((top for row, top, _ in view.placed if row == self.row), None)
        top = known if known is not None else heights.offset(self.row) - view.scrolling.value
        at = view.viewport().mapToGlobal(QPoint(view.column, top))
        return QRect(at.x(), at.y(), view.arrangement.width, heights[self.row])

    def role(self) -> QAccessible.Role:
        match self.view.model.rows.all[self.row]:
            case AskRow():
                return QAccessible.Role.AlertMessage
            case StoryRow():
                return QAccessible.Role.Grouping
            case NoteRow():
                return QAccessible.Role.Note
        return QAccessible.Role.ListItem

    def text(self, kind: QAccessible.Text) -> str:
        return words.spoken(self.view.model.rows.all[self.row]) if kind == QAccessible.Text.Name else ""

    def state(self) -> QAccessible.State:
        state = QAccessible.State()
        state.readOnly = True
        rect = self.rect()
        if not rect.intersects(self._above.rect()):
            state.offscreen = True
        return state


def announce(view: TranscriptView, text: str, *, urgent: bool = False) -> None:
    """Has a screen reader say something now. Does nothing when none listens or Qt cannot."""
    from PySide6 import QtGui

    kind = getattr(QtGui, "QAccessibleAnnouncementEvent", None)
    if kind is None or not text:
        return
    event = kind(view, text)
    politeness = getattr(QAccessible, "AnnouncementPoliteness", None)
    if urgent and politeness is not None:
        event.setPoliteness(politeness.Assertive)
    QAccessible.updateAccessibility(event)
