"""The window's own words, fields and grounds: they paint from the theme's tokens and have names for a screen reader.

Each follows ``Themes.changed`` by itself. Sizes grow with the text-size setting.
"""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLabel, QLineEdit, QWidget

from ui.marks import paint_mark
from ui.paint import elided, round_box
from ui.theme import RADIUS, Size, Themes

Role = Literal["text", "muted", "faint", "accent", "good", "warn", "bad"]


class Label(QLabel):
    """Plain words in one of the theme's inks. Never reads markup: some words come from outside."""

    def __init__(
        self,
        themes: Themes,
        text: str = "",
        *,
        role: Role = "text",
        size: Size = "body",
        bold: bool = False,
        wrap: bool = False,
    ) -> None:
        super().__init__()
        self.themes, self._role, self._size, self._bold = themes, role, size, bold
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self.setText(text)
        themes.changed.connect(self._retheme)
        self._retheme()

    def ink(self, role: Role) -> None:
        self._role = role
        self._retheme()

    def _retheme(self) -> None:
        weight = QFont.Weight.DemiBold if self._bold else QFont.Weight.Normal
        self.setFont(self.themes.font(self._size, weight=weight))
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.WindowText, getattr(self.themes.tokens, self._role))
        self.setPalette(palette)


class ElidedLabel(Label):
    """A label on one line that is cut with an ellipsis when there is no room; the whole is its tooltip then."""

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        width = QFontMetricsF(self.font()).horizontalAdvance(self.text())
        return QSize(round(width + 2), super().sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        words = elided(self.text(), self.font(), self.width())
        self.setToolTip(self.text() if words != self.text() else "")
        painter.drawText(QRectF(self.rect()), Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)
        painter.end()


class Field(QLineEdit):
    """One line to type in. ``name`` is what a screen reader says; the placeholder alone would not be read.

    ``wide`` is the width in pixels, at a text size of 100, that it would have where there is room.
    """

    def __init__(
        self, themes: Themes, *, name: str, placeholder: str = "", mark: str = "", secret: bool = False, wide: int = 0
    ) -> None:
        super().__init__()
        self.themes, self._mark, self._wide = themes, mark, wide
        self.setAccessibleName(name)
        self.setPlaceholderText(placeholder)
        self.setFrame(False)
        if secret:
            self.setEchoMode(QLineEdit.EchoMode.Password)
        themes.changed.connect(self._retheme)
        self._retheme()

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(self.themes.px(self._wide), hint.height()) if self._wide else hint

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        return QSize(self.themes.px(60), hint.height()) if self._wide else hint

    def _retheme(self) -> None:
        px, tokens = self.themes.px, self.themes.tokens
        self.setFont(self.themes.font())
        left = px(31) if self._mark else px(11)
        self.setTextMargins(left, px(7), px(8), px(7))
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Base, QColor(0, 0, 0, 0))
        palette.setColor(QPalette.ColorRole.Text, tokens.text)
        palette.setColor(QPalette.ColorRole.PlaceholderText, tokens.faint)
        self.setPalette(palette)

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self.themes.tokens, self.themes.px
        painter = QPainter(self)
        lit = self.hasFocus()
        fill = tokens.surface if lit else tokens.tint(tokens.text, 0.03, tokens.sunken)
        border = tokens.accent if lit else tokens.border
        round_box(painter, QRectF(self.rect()), RADIUS["control"], fill, border, width=1.5 if lit else 1)
        if self._mark:
            side = px(14)
            at = QRectF(px(11), (self.height() - side) / 2, side, side)
            paint_mark(painter, at, self._mark, tokens.muted)
        painter.end()
        super().paintEvent(event)


class Card(QWidget):
    """A rounded surface with a thin border that other widgets stand on."""

    def __init__(self, themes: Themes, parent: QWidget | None = None, *, radius: int = RADIUS["card"]) -> None:
        super().__init__(parent)
        self.themes, self._radius = themes, radius
        themes.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        tokens = self.themes.tokens
        round_box(painter, QRectF(self.rect()), self._radius, tokens.surface, tokens.border)
        painter.end()


class Ground(QWidget):
    """A plain ground in one of the tokens' colours, with a line at one edge when asked."""

    def __init__(self, themes: Themes, color: Literal["canvas", "sidebar"], *, edge: str = "") -> None:
        super().__init__()
        self.themes, self._color, self._edge = themes, color, edge
        themes.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        tokens = self.themes.tokens
        painter.fillRect(self.rect(), getattr(tokens, self._color))
        if self._edge == "right":
            painter.fillRect(self.width() - 1, 0, 1, self.height(), tokens.border)
        elif self._edge == "bottom":
            painter.fillRect(0, self.height() - 1, self.width(), 1, tokens.border)
        painter.end()
