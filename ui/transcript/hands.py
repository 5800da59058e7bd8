"""The mouse and the keyboard over the transcript: selecting, links, the menu, scrolling by keys."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QMenu, QToolTip, QWidget

from ui.paint import by_keyboard
from ui.transcript import selection as chosen
from ui.transcript.arrangement import Placed
from ui.transcript.markdown import Span
from ui.transcript.rows import StoryRow
from ui.transcript.selection import Pos
from ui.transcript.sheet import cursor_x

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView

_EDGE_MS = 40


class Hands:
    """Turns what the person does into what the view does."""

    def __init__(self, view: TranscriptView) -> None:
        self.view = view
        self._pressed: QPointF | None = None
        self._dragging = False
        self._link: Span | None = None
        self._third = 0.0  # until when a third click makes a triple one
        self._menu: QMenu | None = None
        self._edge = QTimer(view)
        self._edge.setInterval(_EDGE_MS)
        self._edge.timeout.connect(self._scroll_at_edge)
        self._mouse = QPoint()

    # Where things are

    def place(self, point: QPointF | QPoint) -> Pos | None:
        view = self.view
        return chosen.hit(view.placed, point.x() - view.column, point.y(), view.model.folds.shifts)

    def placed_at(self, y: float) -> Placed | None:
        return next((one for one in self.view.placed if one.y <= y < one.y + one.sheet.height), None)

    def link(self, point: QPointF | QPoint) -> Span | None:
        one = self.placed_at(point.y())
        return chosen.link_at(one.sheet, point.x() - self.view.column, point.y() - one.y) if one else None

    # The mouse

    def press(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            event.ignore()
            return
        view, point = self.view, event.position()
        self._pressed, self._dragging = point, False
        self._link = self.link(point)
        at = self.place(point)
        if at is None:
            return
        now = event.timestamp() / 1000
        if now < self._third:
            self._third = 0.0
            self._link = None
            self._dragging = True
            view.selection.begin(at, "block", view.arrangement)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier and view.selection.anchor is not None:
            view.selection.put(view.selection.anchor, at)
        else:
            view.selection.begin(at, "letter", view.arrangement)
        view.viewport().update()

    def double(self, event: QMouseEvent) -> None:
        at = self.place(event.position())
        if event.button() != Qt.MouseButton.LeftButton or at is None:
            return
        self._third = event.timestamp() / 1000 + QApplication.doubleClickInterval() / 1000
        self._pressed, self._dragging, self._link = event.position(), True, None
        self.view.selection.begin(at, "word", self.view.arrangement)
        self.view.viewport().update()

    def move(self, event: QMouseEvent) -> None:
        point = event.position()
        self._mouse = point.toPoint()
        if self._pressed is None or not event.buttons() & Qt.MouseButton.LeftButton:
            self._hover(point)
            return
        if not self._dragging:
            if (point - self._pressed).manhattanLength() < QApplication.startDragDistance() // 2:
                return
            self._dragging = True
        self._reach(point)
        outside = point.y() < 0 or point.y() > self.view.viewport().height()
        if outside != self._edge.isActive():
            (self._edge.start if outside else self._edge.stop)()

    def _reach(self, point: QPointF) -> None:
        view = self.view
        inside = QPointF(point.x(), min(max(point.y(), 0.0), view.viewport().height() - 1.0))
        if (at := self.place(inside)) is not None:
            view.selection.reach(at, view.arrangement)
            view.viewport().update()

    def _scroll_at_edge(self) -> None:
        view = self.view
        y, height = self._mouse.y(), view.viewport().height()
        over = y if y < 0 else y - height
        view.scroll_by(max(-80, min(80, over)))
        self._reach(QPointF(self._mouse))

    def release(self, event: QMouseEvent) -> None:
        self._edge.stop()
        if event.button() != Qt.MouseButton.LeftButton:
            event.ignore()
            return
        link, self._link = self._link, None
        if link is not None and not self._dragging and self.link(event.position()) == link:
            self.view.link_activated.emit(link.href)
        self._pressed, self._dragging = None, False
        clipboard = QGuiApplication.clipboard()
        if clipboard.supportsSelection() and not self.view.selection.empty:
            clipboard.setText(self.view.selection.text(self.view.arrangement), clipboard.Mode.Selection)

    def _hover(self, point: QPointF) -> None:
        view = self.view
        link = self.link(point)
        view.hovered.emit(link.href if link else "")
        shape = Qt.CursorShape.ArrowCursor
        if link is not None:
            shape = Qt.CursorShape.PointingHandCursor
        elif (one := self.placed_at(point.y())) is not None:
            x, y = point.x() - view.column, point.y() - one.y
            if any(text.y <= y < text.bottom and text.x - 4 <= x <= text.x + text.width for text in one.sheet.texts):
                shape = Qt.CursorShape.IBeamCursor
        if view.viewport().cursor().shape() != shape:
            view.viewport().setCursor(shape)

    def leave(self) -> None:
        self.view.hovered.emit("")

    def tip(self, event: QEvent) -> bool:
        """A link's real target, a chip in full, words that did not fit."""
        if not isinstance(event, QHelpEvent):
            return False
        point = event.pos()
        text = ""
        if (link := self.link(point)) is not None:
            text = link.href
        elif (one := self.placed_at(point.y())) is not None:
            inside = QPointF(point.x() - self.view.column, point.y() - one.y)
            text = next((said for rect, said in reversed(one.sheet.tips) if rect.contains(inside)), "")
        # Foreign text: as rich text that is escaped, so that it is never read as rich text itself.
        QToolTip.showText(event.globalPos(), f"<qt>{escape(text)}</qt>" if text else "", self.view.viewport())
        return True

    def sideways(self, event: QWheelEvent) -> bool:
        """Moves a block of code sideways. False when the wheel is for the whole view."""
        delta = event.pixelDelta().x() or event.angleDelta().x() // 2
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not delta:
            delta = event.angleDelta().y() // 2
        point = event.position()
        one = self.placed_at(point.y())
        if not delta or one is None or abs(event.angleDelta().y()) > abs(event.angleDelta().x()) > 0:
            return False
        inside = QPointF(point.x() - self.view.column, point.y() - one.y)
        for window in one.sheet.scrollers:
            if window.most > 0 and window.rect.contains(inside):
                shifts = self.view.model.folds.shifts.setdefault(one.row, {})
                shifts[window.name] = min(window.most, max(0.0, shifts.get(window.name, 0.0) - delta))
                self.view.repaint_row(one.row)
                return True
        return False

    # The keyboard

    def key(self, event: QKeyEvent) -> None:
        view = self.view
        key = event.key()
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        page = view.viewport().height() - 2 * view.look.line
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_message()
        elif key == Qt.Key.Key_Escape and view.dismiss_ask():
            pass
        elif key == Qt.Key.Key_Escape and not view.selection.empty:
            view.selection.clear()
            view.viewport().update()
        elif shift and key in _MOVES and self._extend(event):
            pass
        elif key == Qt.Key.Key_Up:
            view.scroll_by(-view.verticalScrollBar().singleStep())
        elif key == Qt.Key.Key_Down:
            view.scroll_by(view.verticalScrollBar().singleStep())
        elif key == Qt.Key.Key_PageUp or (key == Qt.Key.Key_Space and shift):
            view.scroll_by(-page)
        elif key in (Qt.Key.Key_PageDown, Qt.Key.Key_Space):
            view.scroll_by(page)
        elif key == Qt.Key.Key_Home:
            view.verticalScrollBar().setValue(0)
        elif key == Qt.Key.Key_End:
            view.scroll_to_end()
        else:
            event.ignore()

    def tab(self, forward: bool) -> Literal["stay", "on"]:
        """Gives the focus to the next button in sight; "on" when the next one is outside the view."""
        view = self.view
        stops = [widget for widget in view.controls.in_order() if widget.isEnabled()]
        focus = view.window().focusWidget()
        at = next((n for n, widget in enumerate(stops) if widget is focus), None)
        if at is None and not forward:
            return "on"
        by_keyboard(view)
        to = 0 if at is None else at + (1 if forward else -1)
        if 0 <= to < len(stops):
            stops[to].setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
            self._into_sight(stops[to])
            return "stay"
        if at is not None:
            # Before the first button stands the view itself; and from it Qt finds what comes after the last.
            view.setFocus(Qt.FocusReason.ShortcutFocusReason)  # not Backtab: that would come in again from below
        return "on" if forward else "stay"

    def enter_from_below(self) -> None:
        """Shift+Tab came here: to the question that waits, else to the last button in sight, else to the view."""
        view = self.view
        if view.focus_ask():
            return
        stops = [widget for widget in view.controls.in_order() if widget.isEnabled()]
        if stops:
            stops[-1].setFocus(Qt.FocusReason.BacktabFocusReason)
            self._into_sight(stops[-1])

    def _into_sight(self, widget: QWidget) -> None:
        """Scrolls so far that a button is wholly in sight."""
        top, bottom = widget.y() - 8, widget.y() + widget.height() + 8
        over = bottom - self.view.viewport().height()
        if top < 0 or over > 0:
            self.view.scroll_by(top if top < 0 else over)

    def copy(self) -> None:
        if not self.view.selection.empty:
            QGuiApplication.clipboard().setText(self.view.selection.text(self.view.arrangement))

    def select_message(self, row: int | None = None) -> None:
        """Selects the message that the selection is in, else the last one in sight."""
        view = self.view
        if row is None and view.selection.cursor is not None:
            row = view.selection.cursor[0]
        if row is None and view.placed:
            row = next((one.row for one in reversed(view.placed) if one.sheet.texts), None)
        span = chosen.message_span(row, view.arrangement) if row is not None else None
        if span is not None:
            view.selection.put(*span)
            view.viewport().update()

    def _extend(self, event: QKeyEvent) -> bool:
        """Shift and an arrow: the selection grows from where it is."""
        view, arrangement = self.view, self.view.arrangement
        cursor, anchor = view.selection.cursor, view.selection.anchor
        if cursor is None or anchor is None:
            return False
        key = event.key()
        word = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            to: Pos | None = chosen.moved(cursor, arrangement, forward=key == Qt.Key.Key_Right, word=word)
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            text = arrangement.sheet(cursor[0]).texts[cursor[1]]
            line = text.laid.layout.lineForTextPosition(min(cursor[2], text.length))
            end = line.textStart() + line.textLength()
            to = (cursor[0], cursor[1], line.textStart() if key == Qt.Key.Key_Home else end)
        else:
            to = self._line_away(cursor, down=key == Qt.Key.Key_Down)
        if to is not None:
            view.selection.put(anchor, to)
            self._reveal(to)
            view.viewport().update()
        return True

    def _line_away(self, at: Pos, *, down: bool) -> Pos | None:
        """The place a line above or below, also in the next text."""
        arrangement = self.view.arrangement
        row, number, position = at
        text = arrangement.sheet(row).texts[number]
        layout = text.laid.layout
        line = layout.lineForTextPosition(min(position, text.length))
        x = cursor_x(line, position)
        to = line.lineNumber() + (1 if down else -1)
        if 0 <= to < layout.lineCount():
            return row, number, layout.lineAt(to).xToCursor(x)
        beside = chosen.beside_text(row, number, arrangement, forward=down)
        if beside is None:
            return (row, number, text.length) if down else (row, number, 0)
        other = arrangement.sheet(beside[0]).texts[beside[1]]
        lines = other.laid.layout
        edge = lines.lineAt(0 if down else lines.lineCount() - 1)
        return *beside, edge.xToCursor(x + text.x - other.x)

    def _reveal(self, at: Pos) -> None:
        view = self.view
        one = next((one for one in view.placed if one.row == at[0]), None)
        if one is None:
            return
        y, spare = one.y + chosen.point_of(at, view.arrangement).y(), view.look.line * 2
        if y < spare:
            view.scroll_by(round(y - spare))
        elif y > view.viewport().height() - spare:
            view.scroll_by(round(y - view.viewport().height() + spare))

    # The menu

    def menu(self, event: QContextMenuEvent) -> None:
        """Copy, for what is under the mouse. Never ``exec``: that would nest an event loop."""
        view = self.view
        point = event.pos()
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        one = self.placed_at(point.y()) if by_mouse else None
        row = one.row if one is not None else view.selection.cursor[0] if view.selection.cursor else None
        if row is None and view.placed:
            row = view.placed[-1].row
        if row is None:
            return
        menu = QMenu(view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        put = QGuiApplication.clipboard().setText
        if not view.selection.empty:
            menu.addAction(view.tr("Copy")).triggered.connect(self.copy)
        if by_mouse and (link := self.link(point)) is not None:
            menu.addAction(view.tr("Copy link address")).triggered.connect(lambda: put(link.href))
        found = view.model.rows.all[row]
        if isinstance(found, StoryRow):
            self._step_actions(menu, found, point if by_mouse else None)
        arrangement = view.arrangement
        if chosen.message_text(arrangement, row, markdown=False):
            for words, markdown in ((view.tr("Copy message"), False), (view.tr("Copy as Markdown"), True)):
                menu.addAction(words).triggered.connect(
                    lambda *_, markdown=markdown: put(chosen.message_text(arrangement, row, markdown=markdown))
                )
        menu.addSeparator()
        menu.addAction(view.tr("Select the whole message")).triggered.connect(lambda: self.select_message(row))
        self._menu = menu
        menu.popup(event.globalPos())

    def _step_actions(self, menu: QMenu, story: StoryRow, point: QPoint | None) -> None:
        put = QGuiApplication.clipboard().setText
        step = story.shown[0] if len(story.shown) == 1 else None
        if step is None:
            return
        if step.command:
            menu.addAction(self.view.tr("Copy command")).triggered.connect(lambda: put(step.command))
        if step.text.strip():
            menu.addAction(self.view.tr("Copy output")).triggered.connect(lambda: put(step.text))


_MOVES = (
    Qt.Key.Key_Left,
    Qt.Key.Key_Right,
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
)
