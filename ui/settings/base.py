"""What the pages of Settings are made of: a scrolled column, headings, and cards of rows."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from ui.buttons import Button
from ui.flow import Flow
from ui.marks import paint_dot, paint_tile
from ui.paint import round_box
from ui.theme import RADIUS, SETTINGS_WIDTH, Themes, Tokens, scrollbar_style
from ui.widgets import Card, Label

FLASH_MS = 1400
WORDS_BESIDE = 170  # pixels that a row's words have at least beside its control


class Pane(QScrollArea):
    """A page. ``reveal`` shows a setting of it by the preference's name. Filled by subclasses with ``add``."""

    crumbs: tuple[str, ...] = ()

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes
        self.rows: dict[str, SettingRow] = {}
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._column = QVBoxLayout()
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(themes.px(8))
        self._inner = QWidget()
        self._inner.setLayout(self._column)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(self._inner, 1000)
        across.addStretch(1)
        ground = QWidget()
        whole = QVBoxLayout(ground)
        whole.setContentsMargins(24, themes.px(26), 24, themes.px(26))
        whole.addLayout(across)
        whole.addStretch(1)
        self.setWidget(ground)
        themes.changed.connect(self._retheme)
        self._retheme()

    def _retheme(self) -> None:
        self._inner.setMaximumWidth(self.themes.px(SETTINGS_WIDTH))
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Window, self.themes.tokens.canvas)
        self.setPalette(palette)
        self.verticalScrollBar().setStyleSheet(scrollbar_style(self.themes.tokens))

    def heading(self, title: str, line: str = "", *, first: bool = True) -> None:
        if not first:
            self._column.addSpacing(self.themes.px(14))
        self._column.addWidget(Label(self.themes, title, size="title" if first else "body", bold=True, wrap=True))
        if line:
            self._column.addWidget(Label(self.themes, line, role="muted", wrap=True))
        self._column.addSpacing(self.themes.px(4))

    def add(self, widget: QWidget) -> None:
        self._column.addWidget(widget)

    def card(self, rows: Sequence[SettingRow]) -> RowsCard:
        card = RowsCard(self.themes)
        for row in rows:
            card.add(row)
            if row.name:
                self.rows[row.name] = row
        self.add(card)
        return card

    def entered(self) -> None:
        """The page is shown. A subclass brings it up to date here."""

    def reveal(self, name: str) -> None:
        row = self.rows.get(name)
        if row is None:
            return
        # A page that was just made has its heights only when it was laid out, in more than one step.
        for after in (0, 60, 200):
            QTimer.singleShot(after, row, lambda: self.ensureWidgetVisible(row, 0, 60))
        row.flash()
        if row.control is not None:
            row.control.setFocus(Qt.FocusReason.ShortcutFocusReason)


class SettingRow(QWidget):
    """A row of a card: its words at the left, its control at the right, or below them where there is no room beside.

    ``mark`` is a place's.
    """

    def __init__(
        self,
        themes: Themes,
        title: str,
        line: str = "",
        *,
        control: QWidget | None = None,
        name: str = "",
        mark: str = "",
        dot: str = "",
    ) -> None:
        super().__init__()
        self.themes, self.name, self.control, self._mark, self._dot = themes, name, control, mark, dot
        self.title = Label(themes, title, wrap=True)
        self.title.setFont(themes.font(weight=QFont.Weight.Medium))
        self.line = Label(themes, line, role="muted", size="small", wrap=True)
        self.state = Label(themes, role="muted", size="small")
        for part in (self.title, self.line, self.state, control):
            if part is not None:
                part.setParent(self)
        if not line:
            self.line.hide()
        self.state.hide()
        self._middle = 0  # of the words, where the mark is
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._flashed = False
        self._flash = QTimer(self)
        self._flash.setSingleShot(True)
        self._flash.setInterval(FLASH_MS)
        self._flash.timeout.connect(self._unflash)
        themes.changed.connect(self._fit)

    # Where its parts go

    def _arrange(self, width: int, *, move: bool) -> int:
        """Gives the height for ``width``, and puts the parts there with ``move``."""
        px = self.themes.px
        left, right, edge, gap = px(50 if self._mark else 31 if self._dot else 16), px(14), px(13), px(10)
        room = max(1, width - left - right)
        side = [part for part in (self.state, self.control) if part is not None and not part.isHidden()]
        wide = sum(part.sizeHint().width() + gap for part in side)
        beside = room - wide >= min(px(WORDS_BESIDE), room)
        lines = [label for label in (self.title, self.line) if not label.isHidden()]
        for_words = room - wide if beside else room
        heights = [label.heightForWidth(for_words) for label in lines]
        words = sum(heights) + px(2) * (len(lines) - 1)
        widths = [part.sizeHint().width() if beside else min(part.sizeHint().width(), room) for part in side]
        tall = [
            part.heightForWidth(at) if part.hasHeightForWidth() else part.sizeHint().height()
            for part, at in zip(side, widths, strict=True)
        ]
        high = max(tall, default=0)
        inner = max(words, high) if beside else words + sum(gap + one for one in tall)
        if move:
            top = edge + ((inner - words) // 2 if beside else 0)
            self._middle = top + words // 2
            for label, height in zip(lines, heights, strict=True):
                label.setGeometry(left, top, for_words, height)
                top += height + px(2)
            at, down = left + room - wide + gap, edge + words + gap
            for part, part_width, height in zip(side, widths, tall, strict=True):
                if beside:
                    part.setGeometry(at, edge + (inner - height) // 2, part_width, height)
                    at += part_width + gap
                else:
                    part.setGeometry(left, down, part_width, height)
                    down += height + gap
        return inner + 2 * edge

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(width, move=False)

    def sizeHint(self) -> QSize:
        width = self.width() or self.themes.px(SETTINGS_WIDTH)
        return QSize(width, self._arrange(width, move=False))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        height = self._arrange(self.width(), move=True)
        if height != self.minimumHeight() or height != self.maximumHeight():
            self.setFixedHeight(height)

    def say(self, line: str) -> None:
        self.line.setText(line)
        self.line.setVisible(bool(line))
        self._fit()

    def flash(self) -> None:
        """Shows for a moment that this is what was looked for."""
        self._flashed = True
        self._flash.start()
        self.update()

    def _unflash(self) -> None:
        self._flashed = False
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self.themes.tokens, self.themes.px
        painter = QPainter(self)
        if self._flashed:
            round_box(painter, QRectF(self.rect()).adjusted(3, 3, -3, -3), RADIUS["control"], tokens.accent_soft)
        if self._mark:
            side = px(26)
            tile = QRectF(px(14), self._middle - side / 2, side, side)
            paint_tile(painter, tile, self._mark, tokens.place(self._mark), tokens.place_soft(self._mark))
        elif self._dot:
            paint_dot(painter, QPointF(px(17), self._middle), getattr(tokens, self._dot), radius=px(3.5))
        painter.end()


class RowsCard(Card):
    """A card of rows with a thin line between them."""

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(1, 1, 1, 1)
        self._layout.setSpacing(0)
        self._rows: list[QWidget] = []

    def add(self, row: QWidget) -> None:
        self._layout.addWidget(row)
        self._rows.append(row)

    def remove(self, row: QWidget) -> None:
        self._rows.remove(row)
        self._layout.removeWidget(row)
        row.hide()
        row.deleteLater()

    def clear(self) -> None:
        for row in list(self._rows):
            self.remove(row)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        for row in [row for row in self._rows if not row.isHidden()][1:]:
            painter.fillRect(0, row.y(), self.width(), 1, self.themes.tokens.border)
        painter.end()


class Segments(QWidget):
    """One of a few choices, side by side, or on a second line where there is no room. Arrow keys go through them.

    Signals:
        chosen: the key of the one that was pressed.
    """

    chosen = Signal(str)

    def __init__(self, themes: Themes, choices: Sequence[tuple[str, str]], *, name: str) -> None:
        super().__init__()
        self.themes = themes
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[str, _Segment] = {}
        self._flow = Flow(2)
        self._flow.setParent(self)
        for key, words in choices:
            button = _Segment(themes, words, name=f"{name}: {words}")
            button.clicked.connect(lambda *_, key=key: self.chosen.emit(key))
            self._group.addButton(button)
            self._buttons[key] = button
            self._flow.add(button)
        policy = QSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._flow.heightForWidth(width - 6) + 6

    def sizeHint(self) -> QSize:
        width = self._flow.sizeHint().width() - 2 + 6  # the flow counts a gap after the last one too
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._flow.setGeometry(self.rect().adjusted(3, 3, -3, -3))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().event(event)

    def show_choice(self, key: str) -> None:
        if (button := self._buttons.get(key)) is not None:
            button.setChecked(True)

    def focusInEvent(self, event: object) -> None:
        (self._group.checkedButton() or self).setFocus()

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        if (checked := self._group.checkedButton()) is not None:
            checked.setFocus(reason)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        tokens = self.themes.tokens
        round_box(painter, QRectF(self.rect()), RADIUS["control"], tokens.sunken, tokens.border)
        painter.end()


class _Segment(Button):
    def __init__(self, themes: Themes, words: str, *, name: str) -> None:
        super().__init__(themes, words, name=name, size="small", kind="quiet")
        self.setCheckable(True)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(hint.width() + self.themes.px(4), hint.height() - self.themes.px(2))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.isChecked():
            tokens = self.themes.tokens
            painter = QPainter(self)
            rect = QRectF(self.rect())
            round_box(painter, rect, RADIUS["control"] - 3, tokens.surface, tokens.border)
            painter.end()
        super().paintEvent(event)

    def _colors(self, tokens: Tokens) -> tuple[QColor | None, QColor | None, QColor]:
        ground, border, ink = super()._colors(tokens)
        return (None, border, tokens.text) if self.isChecked() else (ground, border, ink)
