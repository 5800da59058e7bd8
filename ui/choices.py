"""A popover with rows to choose one from: the place picker, the mode, the engine and the folder are all this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QRadioButton, QScrollArea, QWidget

from ui.fuzzy import score
from ui.marks import paint_dot, paint_mark, paint_tile
from ui.paint import WrappedText, by_keyboard, keyboard_focus, round_box
from ui.popover import Popover
from ui.theme import RADIUS, Themes, scrollbar_style
from ui.widgets import Field, Label

TYPE_AHEAD_MS = 900
MANY = 8  # rows beyond which there is a field to search them


@dataclass(frozen=True, slots=True)
class Choice:
    """One row. ``state`` is said in words to a screen reader where the screen shows ``dot``."""

    key: str
    title: str
    line: str = ""
    mark: str = ""
    dot: str = ""  # a token: good, warn, bad, faint
    state: str = ""
    link: str = ""
    link_key: str = ""
    can_pick: bool = True
    tone: str = ""  # the hue under the chosen row; a place's kind


class Row(QRadioButton):
    """A row of a ``ChoicePopover``. Arrow keys move between rows, Enter or a click chooses.

    Signals:
        followed: the row's link was pressed.
    """

    followed = Signal()

    def __init__(self, themes: Themes, choice: Choice, *, chosen: bool) -> None:
        super().__init__()
        self.themes, self.choice = themes, choice
        self.setAutoExclusive(False)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._line: WrappedText | None = None
        self._line_at = QPointF()
        self._over_link = False
        self.show_choice(choice, chosen=chosen)

    def show_choice(self, choice: Choice, *, chosen: bool) -> None:
        self.choice = choice
        self.setChecked(chosen)
        said = [choice.title]
        if choice.state:
            said.append(choice.state)
        self.setAccessibleName(", ".join(said))
        self.setAccessibleDescription(f"{choice.line} {choice.link}".strip())
        self._line = None
        self.update()

    def nextCheckState(self) -> None:
        """A click does not tick the row; whoever owns the choice does, when it has changed."""

    def hitButton(self, pos: object) -> bool:
        return True

    def height_for(self, width: int) -> int:
        px = self.themes.px
        self._line = None
        left = px(8) + (px(36) if self.choice.mark else px(4))
        height = px(8) + self.themes.line()
        if self.choice.line or self.choice.link:
            room = width - left - px(34)
            self._line = WrappedText(self.choice.line, self.themes.font("small"), room, link=self.choice.link)
            self._line_at = QPointF(left, height + px(1))
            height += round(self._line.height) + px(1)
        return height + px(9)

    def sizeHint(self) -> QSize:
        return QSize(self.width(), self.height_for(self.width()))

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px, choice = self.themes.tokens, self.themes.px, self.choice
        if self._line is None and (choice.line or choice.link):
            self.height_for(self.width())
        painter = QPainter(self)
        rect = QRectF(self.rect())
        hue = tokens.place(choice.tone) if choice.tone else tokens.muted
        ground: QColor | None = None
        if self.isChecked():
            ground = tokens.tint(hue, 0.09 if not tokens.dark else 0.14)
        if self.underMouse() or self.hasFocus():
            ground = tokens.tint(tokens.text, 0.05, ground or tokens.surface)
        ring = tokens.accent if keyboard_focus(self) else None
        if ground is not None or ring is not None:
            round_box(painter, rect, RADIUS["control"], ground, ring, width=2)
        left = px(8)
        if choice.mark:
            tile = QRectF(px(8), px(10), px(26), px(26))
            paint_tile(painter, tile, choice.mark, tokens.place(choice.mark), tokens.place_soft(choice.mark))
            left += px(36)
        else:
            left += px(4)
        font = self.themes.font(weight=QFont.Weight.Medium)
        painter.setFont(font)
        painter.setPen(tokens.text)
        metrics = QFontMetricsF(font)
        room = self.width() - left - px(52)
        title = metrics.elidedText(choice.title, Qt.TextElideMode.ElideRight, room)
        line = QRectF(left, px(8), room + 2, metrics.height())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, title)
        if choice.dot:
            at = QPointF(left + metrics.horizontalAdvance(title) + px(12), line.center().y() + 0.5)
            paint_dot(painter, at, getattr(tokens, choice.dot), radius=px(3.5))
        if self._line is not None:
            painter.setFont(self.themes.font("small"))
            self._line.draw(painter, self._line_at, tokens.muted, tokens.accent, underline=self._over_link)
        if self.isChecked():
            side = px(14)
            at_check = QRectF(self.width() - px(12) - side, px(10), side, side)
            paint_mark(painter, at_check, "check", hue, width=1.6)
        painter.end()

    # Mouse and keys

    def _on_link(self, at: QPointF) -> bool:
        return self._line is not None and any(rect.contains(at) for rect in self._line.link_rects(self._line_at))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        over = self._on_link(event.position())
        if over != self._over_link:
            self._over_link = over
            self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)
            self.update()
        super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._on_link(event.position()):
            self.setDown(False)
            self.followed.emit()
            event.accept()
            return
        super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        # The popover moves between rows; a radio button's own arrow keys would choose on the way.
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.click()
            event.accept()
            return
        event.ignore()


class _Scroll(QScrollArea):
    """Leaves the arrow keys to the popover, which moves the focus with them and scrolls to it."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()


class ChoicePopover(Popover):
    """Rows to choose one from.

    Signals:
        picked: the key of the row that was chosen.
        followed: the ``link_key`` of the link that was pressed (or of the row that cannot be picked).
    """

    picked = Signal(str)
    followed = Signal(str)

    def __init__(self, themes: Themes, window: QWidget, *, title: str, width: int = 370) -> None:
        super().__init__(themes, window, name=title)
        self._width = width
        self._title = Label(themes, title, role="muted", size="small", bold=True)
        self._title.setParent(self)
        self._rows: list[Row] = []
        self._shown: list[Row] = []  # those that fit what was searched for
        self._chosen = ""
        self._search = Field(themes, name=f"Search: {title}", placeholder="Search", wide=width - 16)
        self._search.setParent(self)
        self._search.hide()
        self._search.textChanged.connect(self._find)
        self._search.returnPressed.connect(self._click_first)
        self._scroll = _Scroll(self)
        self._scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.viewport().setAutoFillBackground(False)
        self._list = QWidget()
        self._list.setAutoFillBackground(False)
        self._scroll.setWidget(self._list)
        self._list.setAutoFillBackground(False)
        self._footer: QWidget | None = None
        self._typed = ""
        self._forget = QTimer(self)
        self._forget.setSingleShot(True)
        self._forget.setInterval(TYPE_AHEAD_MS)
        self._forget.timeout.connect(self._forget_typed)
        self.opened.connect(self._forget_typed)
        self.opened.connect(self._search.clear)

    def set_footer(self, footer: QWidget) -> None:
        footer.setParent(self)
        self._footer = footer

    def show_choices(self, choices: Sequence[Choice], chosen: str) -> None:
        """Shows the rows; those that are there already are updated where they stand, so the focus stays."""
        self._chosen = chosen
        if [row.choice.key for row in self._rows] == [choice.key for choice in choices]:
            for row, choice in zip(self._rows, choices, strict=True):
                row.show_choice(choice, chosen=choice.key == chosen)
        else:
            focused = next((row.choice.key for row in self._rows if row.hasFocus()), "")
            for row in self._rows:
                row.hide()
                row.deleteLater()
            self._rows = []
            for choice in choices:
                row = Row(self.themes, choice, chosen=choice.key == chosen)
                row.setParent(self._list)
                row.clicked.connect(lambda *_, row=row: self._click(row))
                row.followed.connect(lambda *_, row=row: self.followed.emit(row.choice.link_key))
                row.show()
                self._rows.append(row)
            self._search.setVisible(len(self._rows) > MANY)
            self._narrow()
            if focused:
                self.first_focus(focused).setFocus(Qt.FocusReason.PopupFocusReason)
        if self.isVisible():
            self.fit()

    def _narrow(self) -> None:
        asked = self._search.text().strip() if not self._search.isHidden() else ""
        self._shown = list(self._rows)
        if asked:  # what fits best comes first
            fits = {row: score(asked, row.choice.title, row.choice.line) for row in self._rows}
            self._shown = sorted((row for row in self._rows if fits[row] > 0), key=lambda row: -fits[row])
        for row in self._rows:
            row.setVisible(row in self._shown)

    def _click_first(self) -> None:
        if self._shown:
            self._click(self._shown[0])

    def _find(self) -> None:
        self._narrow()
        if self.isVisible():
            self.fit()

    @property
    def rows(self) -> list[Row]:
        return self._rows

    def _click(self, row: Row) -> None:
        if row.choice.can_pick:
            self.picked.emit(row.choice.key)
        elif row.choice.link_key:
            self.followed.emit(row.choice.link_key)

    # Popover

    def first_focus(self, key: str = "") -> QWidget:
        wanted = key or self._chosen
        return next((row for row in self._rows if row.choice.key == wanted), self._rows[0] if self._rows else self)

    def wanted_size(self, most_height: int) -> tuple[int, int]:
        px = self.themes.px
        width = min(px(self._width), self.window().width() - 24)
        head = px(12) + self._title.sizeHint().height() + px(8)
        searched = self._search.sizeHint().height() if not self._search.isHidden() else 0
        above, head = head, head + (searched + px(8) if searched else 0)
        foot = self._foot_height()
        row_width = width - 2 * px(8)
        top = 0
        for row in self._shown:
            height = row.height_for(row_width)
            row.setGeometry(0, top, row_width, height)
            top += height
        self._list.resize(row_width, top)
        room = max(px(60), most_height - head - foot - px(8))
        inside = min(top, room)
        card = QRect(self.card_rect().topLeft(), QSize(width, head + inside + px(8) + foot))
        self._title.setGeometry(
            card.left() + px(16), card.top() + px(12), width - px(32), self._title.sizeHint().height()
        )
        if searched:
            self._search.setGeometry(card.left() + px(8), card.top() + above, row_width, searched)
        self._scroll.setGeometry(card.left() + px(8), card.top() + head, row_width, inside)
        bar = Qt.ScrollBarPolicy.ScrollBarAsNeeded if top > inside else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self._scroll.setVerticalScrollBarPolicy(bar)
        self._scroll.verticalScrollBar().setStyleSheet(scrollbar_style(self.themes.tokens) if top > inside else "")
        if self._footer is not None:
            self._footer.setGeometry(card.left() + 1, card.bottom() + 1 - foot, width - 2, foot - 1)
        return card.width(), card.height()

    def _foot_height(self) -> int:
        return self.themes.px(38) if self._footer is not None and not self._footer.isHidden() else 0

    def keyPressEvent(self, event: QKeyEvent) -> None:
        focused = QApplication.focusWidget()
        now = self._shown.index(focused) if focused in self._shown else -1
        last = len(self._shown) - 1
        moves = {
            Qt.Key.Key_Down: 0 if now == last else now + 1,
            Qt.Key.Key_Up: last if now <= 0 else now - 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        if self._shown and (to := moves.get(Qt.Key(event.key()))) is not None:
            self._go(to)
        elif (
            (text := event.text())
            and text.isprintable()
            and not event.modifiers() & Qt.KeyboardModifier.ControlModifier
        ):
            if self._search.isHidden():
                self._type(text, now)
            else:
                self._search.setFocus(Qt.FocusReason.OtherFocusReason)
                self._search.insert(text)
        else:
            super().keyPressEvent(event)
            return
        event.accept()

    def _go(self, to: int) -> None:
        by_keyboard(self)
        self._shown[to].setFocus(Qt.FocusReason.TabFocusReason)
        self._scroll.ensureWidgetVisible(self._shown[to], 0, 8)

    def _type(self, text: str, now: int) -> None:
        """Type-ahead: the next row whose title begins with what was typed; one letter again goes on to the next."""
        again = text.casefold() == self._typed
        self._typed = self._typed if again else self._typed + text.casefold()
        self._forget.start()
        start = now + 1 if len(self._typed) == 1 else max(now, 0)
        for step in range(len(self._shown)):
            at = (start + step) % len(self._shown)
            if self._shown[at].choice.title.casefold().startswith(self._typed):
                self._go(at)
                return

    def _forget_typed(self) -> None:
        self._typed = ""
