"""The transcript: the widget that shows a chat.

It is a scroll area of its own, because no ready widget shows ten thousand rows and a streaming answer cheaply: rows
are painted, only those in sight are laid out (``arrangement.py``), and real buttons lie over them (``controls.py``).
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui.paint import by_keyboard
from ui.theme import TRANSCRIPT_WIDTH, Themes, scrollbar_style
from ui.transcript import a11y, canvas, words
from ui.transcript.arrangement import Arrangement, Placed
from ui.transcript.controls import Controls, RowButton
from ui.transcript.damage import Shown, damage, shown
from ui.transcript.deeds import Deeds
from ui.transcript.flash import Flash
from ui.transcript.hands import Hands
from ui.transcript.highlight import Highlighter
from ui.transcript.look import Look
from ui.transcript.model import TranscriptModel
from ui.transcript.pill import NewPill
from ui.transcript.ring import FocusRing
from ui.transcript.rows import AskRow, UserRow
from ui.transcript.scrolling import Scrolling
from ui.transcript.selection import Selection

_MARGIN = 24  # pixels kept free at each side of the column
_SPARE = 12  # of which rows paint in so many (a mark round a row)
_TICK_MS = 500


class TranscriptView(QAbstractScrollArea):
    """Shows a ``TranscriptModel``.

    Signals:
        answered: a question was answered; the step and once, chat or no.
        stop_asked: the person wants the turn to stop.
        link_activated: a link was opened; its whole address (http, https or mailto only).
        open_file_asked: the person wants to see a file; its path.
        action_asked: a next step was pressed; its name and the step.
        hovered: the address under the mouse, empty when there is none, for a status line.
    """

    answered = Signal(str, str)
    stop_asked = Signal()
    link_activated = Signal(str)
    open_file_asked = Signal(str)
    action_asked = Signal(str, str)
    hovered = Signal(str)

    def __init__(self, themes: Themes, model: TranscriptModel | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        a11y.install()
        self.themes = themes
        self.model = model or TranscriptModel(self)
        self.look = Look(themes)
        self.highlighter = Highlighter(self)
        self.arrangement = Arrangement(self.model.rows, self.model.folds, self.look, self.highlighter)
        self.selection = Selection()
        self.placed: list[Placed] = []
        self._painted: Shown = {}  # what the window shows now
        self._listed: list[int] | None = None
        self._waits = False
        self.scrolling = Scrolling(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(self.tr("Chat"))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.viewport().setMouseTracking(True)
        self.controls = Controls(themes, self.viewport())
        self.deeds = Deeds(self)
        self.hands = Hands(self)
        self.controls.pressed.connect(self.deeds.do)
        self.pill = NewPill(themes, self)
        self.pill.clicked.connect(self.scroll_to_end)
        self.ring = FocusRing(themes, self)
        self.setTabOrder(self.pill, self)  # so that Shift+Tab from below comes to the rows at once
        self.highlighter.ready.connect(self._recolor)
        self._tick = QTimer(self)
        self._tick.setInterval(_TICK_MS)
        self._tick.timeout.connect(self._ticked)
        self.flash = Flash(self.repaint_row, self)
        themes.changed.connect(self._restyle)
        self._style_bar()
        self._join()
        close = self.highlighter.close
        self.destroyed.connect(lambda *_: close())

    # The model

    def set_model(self, model: TranscriptModel) -> None:
        """Shows another chat, where its reader left it."""
        self.remember()
        self.model.reset.disconnect(self._reset)
        self.model.changed.disconnect(self._changed)
        self.model.finished.disconnect(self._finished)
        self.model.asked.disconnect(self._asked)
        self.model = model
        self._join()
        self._reset()

    def remember(self) -> None:
        """Notes in the model where the reader is."""
        self.model.pinned, self.model.anchor = self.arrangement.pinned, self.arrangement.anchor

    def _join(self) -> None:
        self.model.reset.connect(self._reset)
        self.model.changed.connect(self._changed)
        self.model.finished.connect(self._finished)
        self.model.asked.connect(self._asked)

    def _reset(self) -> None:
        self._listed = None
        self.selection.clear()
        self.controls.clear()
        self.pill.hide()
        width = self.arrangement.width
        self.arrangement = Arrangement(self.model.rows, self.model.folds, self.look, self.highlighter, width)
        self.arrangement.pinned, self.arrangement.anchor = self.model.pinned, self.model.anchor
        self._painted.clear()
        self.show_rows()

    def _changed(self, changed: set[int]) -> None:
        self._listed = None
        rows = self.model.rows.all
        self.arrangement.take_new()
        if any(isinstance(rows[index], UserRow) for index in changed):
            self.arrangement.pinned = True  # what the person has just sent is always shown
        elif not self.arrangement.pinned and changed:
            self.pill.offer()
        if self.isVisible() and not self._grown(changed):
            self.show_rows()

    def _grown(self, changed: set[int]) -> bool:
        """The way of nearly every piece of an answer: the last row is a little longer and nothing else moves."""
        last = self.placed[-1] if self.placed else None
        if last is None or changed != {last.row} or last.row != len(self.model.rows.all) - 1:
            return False
        if self._waits:
            return False  # what said so below the row has to go
        sheet = self.arrangement.sheet(last.row)
        if sheet.height != last.sheet.height or not sheet.same_controls(last.sheet):
            return False
        self.placed[-1] = Placed(last.row, last.y, sheet)
        self._painted[last.row] = (last.y, sheet)
        same = sheet.same_as(last.sheet)
        area = QRect(self.column - _SPARE, last.y + same, self.arrangement.width + 2 * _SPARE, sheet.height - same)
        self.viewport().update(area)
        return True

    def _finished(self, outcome: str, said: str) -> None:
        last = next((row for row in reversed(self.model.rows.all) if not row.hidden), None)
        text = words.spoken(last)[:500] if last is not None else ""
        a11y.announce(self, f"{self.tr('Finished')}. {text}" if outcome == "done" else said or text)

    def _asked(self, step: str) -> None:
        ask = self.model.open_ask()
        if ask is not None:
            a11y.announce(self, words.spoken(ask), urgent=True)

    # What shows

    @property
    def column(self) -> int:
        """The left edge of the column, in the window."""
        # Of the whole width, so that nothing moves when the scroll bar comes.
        return max(0, (self.width() - self.arrangement.width) // 2)

    def show_rows(self) -> None:
        """Lays out what shows and paints what of it is new."""
        height = self.viewport().height()
        if height <= 0 or not self.isVisible():
            return
        self.placed = self.arrangement.arrange(height)
        self.scrolling.sync()
        self._repaint()
        self.controls.sync(self.placed, self.column, self._take_focus)
        self.pill.place(at_end=self.arrangement.pinned)
        ticks = any(one.sheet.ticks for one in self.placed)
        if ticks != self._tick.isActive():
            (self._tick.start if ticks else self._tick.stop)()

    def _take_focus(self) -> None:
        """The button with the focus goes; with the keyboard in use the ring says where it is now."""
        keyboard = self.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)
        self.setFocus(Qt.FocusReason.ShortcutFocusReason if keyboard else Qt.FocusReason.OtherFocusReason)

    def _repaint(self) -> None:
        """Moves what only moved, and repaints what changed."""
        view, before = self.viewport(), self._painted
        self._painted = shown(self.placed)
        waits, self._waits = self._waits, self.model.rows.waiting
        foot = self.arrangement.foot if waits or self._waits else 0
        done = damage(
            before, self._painted, view.size(), (self.column - _SPARE, self.arrangement.width + 2 * _SPARE), foot
        )
        if done.shift:
            view.scroll(0, done.shift)
        view.update(done.area)

    def repaint_row(self, row: int) -> None:
        for one in self.placed:
            if one.row == row:
                self.viewport().update(QRect(0, one.y, self.viewport().width(), one.sheet.height))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        canvas.paint(self, painter, event.rect())
        painter.end()

    # Time

    def _ticked(self) -> None:
        """A second goes by for what is running."""
        self.arrangement.renew(lambda sheet: sheet.ticks)
        self.show_rows()

    def _recolor(self) -> None:
        self.arrangement.renew(lambda sheet: bool(sheet.scrollers))
        self.show_rows()

    # The theme

    def _restyle(self) -> None:
        self.look = Look(self.themes)
        self.arrangement.look = self.look
        self.arrangement.reset()
        self._fit()
        self._style_bar()
        self._painted.clear()
        self.show_rows()
        self.controls.restyle()
        self.viewport().update()

    def _style_bar(self) -> None:
        self.verticalScrollBar().setStyleSheet(scrollbar_style(self.themes.tokens))

    def _fit(self) -> bool:
        """Makes the column as wide as fits; text that is larger gets a wider one, so that a line holds as much."""
        most = round(TRANSCRIPT_WIDTH * max(1.0, self.themes.scale))
        return self.arrangement.resize(max(160, min(most, self.width() - 2 * _MARGIN)))

    # Scrolling

    def scroll_to_end(self) -> None:
        self.arrangement.pinned = True
        self.show_rows()

    def scroll_to(self, seq: int) -> bool:
        """Shows the row of an event, a little below the top, and marks it for a moment. False when there is none."""
        row = self.model.rows.at_seq(seq)
        if row is None:
            return False
        self.arrangement.hold(row, self.viewport().height() // 6)
        self.show_rows()
        self.flash.begin(row, reduced=self.themes.motion.reduced)
        return True

    def scroll_by(self, by: int) -> None:
        """Moves what shows by so many pixels, as the arrow keys do."""
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + by)

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        if self.scrolling.moved():
            self.show_rows()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._painted.clear()
        self.ring.place()
        if self.scrolling.syncing:
            return  # only the scroll bar came or went
        self._fit()
        self.show_rows()
        self.pill.place(at_end=self.arrangement.pinned)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.highlighter.warm()
        self._fit()
        self._painted.clear()
        self.show_rows()

    def hideEvent(self, event: QHideEvent) -> None:
        self._tick.stop()
        self.scrolling.rest()
        super().hideEvent(event)

    # The mouse and the keyboard

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.hands.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.hands.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.hands.release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.hands.double(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.hands.menu(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            event.ignore()  # the window's, for the size of text
        elif not self.hands.sideways(event):
            super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.hands.key(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            return self.hands.tip(event)
        if event.type() == QEvent.Type.Leave:
            self.hands.leave()
        return super().viewportEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.ring.place()
        if event.reason() == Qt.FocusReason.BacktabFocusReason:
            self.hands.enter_from_below()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.ring.place()

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes to the view, then through the buttons in sight, then on to what follows the view."""
        to = self.hands.tab(forward)
        return super().focusNextPrevChild(forward) if to == "on" else True

    # What is asked from outside

    def open_ask(self) -> AskRow | None:
        """The question that waits for an answer."""
        return self.model.open_ask()

    def dismiss_ask(self) -> bool:
        """Answers the open question with no, as Esc does. False when nothing is asked."""
        ask = self.model.open_ask()
        if ask is None:
            return False
        self.answered.emit(ask.step.id, "no")
        return True

    def focus_ask(self) -> bool:
        """Shows the open question and gives its first answer the focus. False when nothing is asked."""
        ask = self.model.open_ask()
        if ask is None:
            return False
        self.arrangement.take_new()
        self.arrangement.hold(ask.index, self.viewport().height() // 3)
        self.show_rows()
        buttons = self.controls.of_row(ask.index)
        if buttons:
            by_keyboard(self)
            buttons[0].setFocus(Qt.FocusReason.ShortcutFocusReason)
        return True

    def shown_rows(self) -> list[int]:
        """The indexes of the rows that have something to show, in order."""
        if self._listed is None:
            self._listed = [row.index for row in self.model.rows.all if not row.hidden]
        return self._listed

    def copied(self, row: int, name: str) -> None:
        """Lets a button say that it worked."""
        button = self.controls.button(row, name)
        if isinstance(button, RowButton):
            button.say(self.tr("Copied"))
