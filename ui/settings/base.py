"""What the pages of Settings are made of: a scrolled column, headings, and cards of rows."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from ui.marks import paint_dot, paint_tile
from ui.paint import round_box
from ui.theme import RADIUS, SETTINGS_WIDTH, Themes, Tokens, scrollbar_style
from ui.widgets import Button, Card, Label

FLASH_MS = 1400


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
        self.ensureWidgetVisible(row, 0, 60)
        row.flash()
        if row.control is not None:
            row.control.setFocus(Qt.FocusReason.ShortcutFocusReason)


class SettingRow(QWidget):
    """A row of a card: its words at the left, its control at the right. ``mark`` is a place's."""

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
        self.title = Label(themes, title)
        self.title.setFont(themes.font(weight=QFont.Weight.Medium))
        self.line = Label(themes, line, role="muted", size="small", wrap=True)
        if not line:
            self.line.hide()  # never shown before it has a parent: it would be a window of its own for a moment
        self.state = Label(themes, role="muted", size="small")
        self.state.hide()
        words = QVBoxLayout()
        words.setSpacing(themes.px(2))
        words.addWidget(self.title)
        words.addWidget(self.line)
        row = self._row = QHBoxLayout(self)
        left = themes.px(50 if mark else 31 if dot else 16)
        row.setContentsMargins(left, themes.px(13), themes.px(14), themes.px(13))
        row.setSpacing(themes.px(10))
        row.addLayout(words, 1)
        row.addWidget(self.state)
        if control is not None:
            row.addWidget(control)
        self._flashed = False
        self._flash = QTimer(self)
        self._flash.setSingleShot(True)
        self._flash.setInterval(FLASH_MS)
        self._flash.timeout.connect(self._unflash)

    def say(self, line: str) -> None:
        self.line.setText(line)
        self.line.setVisible(bool(line))

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
            tile = QRectF(px(14), (self.height() - side) / 2, side, side)
            paint_tile(painter, tile, self._mark, tokens.place(self._mark), tokens.place_soft(self._mark))
        elif self._dot:
            at = QRectF(self.rect()).center()
            at.setX(px(17))
            paint_dot(painter, at, getattr(tokens, self._dot), radius=px(3.5))
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

    def clear(self) -> None:
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows = []

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        for row in self._rows[1:]:
            painter.fillRect(0, row.y(), self.width(), 1, self.themes.tokens.border)
        painter.end()


class Segments(QWidget):
    """One of a few choices, side by side. The arrow keys go from one to the next.

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
        row = QHBoxLayout(self)
        row.setContentsMargins(3, 3, 3, 3)
        row.setSpacing(2)
        for key, words in choices:
            button = _Segment(themes, words, name=f"{name}: {words}")
            button.clicked.connect(lambda *_, key=key: self.chosen.emit(key))
            self._group.addButton(button)
            self._buttons[key] = button
            row.addWidget(button)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

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
