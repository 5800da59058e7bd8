"""What the window has to press: buttons, the chips of the composer, a switch.

As ``ui/widgets.py`` has it: each paints from the theme's tokens and follows ``Themes.changed`` by itself.
"""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QSizePolicy, QWidget

from ui.marks import paint_dot, paint_mark
from ui.paint import elided, keyboard_focus, round_box
from ui.theme import RADIUS, Size, Themes, Tokens

Kind = Literal["primary", "plain", "quiet", "link", "danger"]


class Button(QAbstractButton):
    """A button with words. ``name`` is what a screen reader says when the words alone would not do."""

    def __init__(
        self,
        themes: Themes,
        text: str,
        *,
        kind: Kind = "plain",
        mark: str = "",
        name: str = "",
        pill: bool = False,
        size: Size = "body",
        align: Literal["center", "left"] = "center",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.themes = themes
        self.kind: Kind = kind
        self._mark, self._pill, self._size, self._align = mark, pill, size, align
        self.setText(text)
        self.setAccessibleName(name or text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self._retheme)

    def say(self, text: str, name: str = "") -> None:
        """Changes the words."""
        self.setText(text)
        self.setAccessibleName(name or text)
        self.updateGeometry()
        self.update()

    def set_mark(self, mark: str) -> None:
        self._mark = mark
        self.update()

    def _retheme(self) -> None:
        self.updateGeometry()
        self.update()

    def _label_font(self) -> QFont:
        weight = QFont.Weight.Normal if self.kind == "quiet" else QFont.Weight.Medium
        return self.themes.font(self._size, weight=weight)

    def _spare(self) -> tuple[int, int]:
        """Room left and right of the words, above and below them."""
        px = self.themes.px
        if self.kind == "link":
            return px(4), px(3)
        if self._pill:
            return px(14), px(8)
        return (px(13), px(9)) if self._size == "body" else (px(10), px(6))

    def _mark_side(self) -> int:
        return self.themes.px(14) if self._mark else 0

    def sizeHint(self) -> QSize:
        across, down = self._spare()
        metrics = QFontMetricsF(self._label_font())
        width = metrics.horizontalAdvance(self.text()) + 2 * across
        if self._mark:
            width += self._mark_side() + (self.themes.px(7) if self.text() else 0)
        return QSize(round(width + 1), round(metrics.height() + 2 * down))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _colors(self, tokens: Tokens) -> tuple[QColor | None, QColor | None, QColor]:
        """Ground, border and ink."""
        hover = self.underMouse() and self.isEnabled()
        down = self.isDown()
        ground: QColor | None
        if self.kind == "primary":
            if not self.isEnabled():
                return tokens.tint(tokens.accent, 0.45), None, tokens.on_accent
            ground = tokens.accent
            if hover or down:
                ground = tokens.tint(tokens.text, 0.16 if down else 0.08, tokens.accent)
            return ground, None, tokens.on_accent
        ink = tokens.text if self.isEnabled() else tokens.faint
        if self.kind == "link":
            return None, None, tokens.accent if self.isEnabled() else tokens.faint
        if self.kind == "quiet":
            ground = tokens.tint(tokens.text, 0.10 if down else 0.06, tokens.canvas) if hover or down else None
            return ground, None, tokens.text if hover else tokens.muted
        if self.kind == "danger":
            ink = tokens.bad
        ground = tokens.surface
        if hover or down:
            ground = tokens.tint(tokens.text, 0.08 if down else 0.04)
        return ground, tokens.border, ink

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            event.accept()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        ground, border, ink = self._colors(tokens)
        rect = QRectF(self.rect())
        radius = float(RADIUS["chip"] if self._pill else RADIUS["control"])
        ring = keyboard_focus(self)
        if ring:
            round_box(painter, rect, radius, None, tokens.accent, width=2)
            if self.kind == "primary":
                rect = rect.adjusted(3.5, 3.5, -3.5, -3.5)
                border = None
            else:
                border = None
                rect = rect.adjusted(2, 2, -2, -2)
            radius = max(4.0, radius - 3)
        if ground is not None or border is not None:
            round_box(painter, rect, radius, ground, border)
        self._paint_label(painter, ink)
        painter.end()

    def _paint_label(self, painter: QPainter, ink: QColor) -> None:
        font = self._label_font()
        painter.setFont(font)
        painter.setPen(ink)
        across, _ = self._spare()
        area = QRectF(self.rect()).adjusted(across, 0, -across, 0)
        side, gap = self._mark_side(), self.themes.px(7) if self._mark and self.text() else 0
        words = elided(self.text(), font, area.width() - side - gap + 1)
        wide = QFontMetricsF(font).horizontalAdvance(words)
        left = area.left() if self._align == "left" else area.left() + (area.width() - wide - side - gap) / 2
        if self._mark:
            paint_mark(painter, QRectF(left, (self.height() - side) / 2, side, side), self._mark, ink, width=1.5)
            left += side + gap
        if self.kind == "link" and self.underMouse():
            underlined = QFont(font)
            underlined.setUnderline(True)
            painter.setFont(underlined)
        box = QRectF(left, 0, wide + 2, self.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)


class Chip(Button):
    """A pill in the composer: a mark, a word, a small arrow, perhaps a state's dot; it opens something."""

    def __init__(self, themes: Themes, text: str, *, name: str = "", mark: str = "", arrow: bool = True) -> None:
        super().__init__(themes, text, name=name, mark=mark, pill=True, size="small")
        self.arrow = arrow
        self.opened = False
        self.dot: QColor | None = None

    def _label_font(self) -> QFont:
        return self.themes.font("small")

    def sizeHint(self) -> QSize:
        px = self.themes.px
        metrics = QFontMetricsF(self._label_font())
        width = metrics.horizontalAdvance(self.text()) + 2 * px(11)
        width += (px(15) + px(5)) if self._mark else 0
        width += px(14) if self.arrow else 0
        width += px(12) if self.dot is not None else 0
        return QSize(round(min(width, px(240))), round(metrics.height() + 2 * px(7)))

    def ground(self, tokens: Tokens) -> tuple[QColor, QColor]:
        """Ground and border."""
        lit = self.opened or self.isDown()
        fill = tokens.tint(tokens.text, 0.05) if lit or self.underMouse() else tokens.surface
        return fill, tokens.muted if self.opened else tokens.border

    def ink(self, tokens: Tokens) -> QColor:
        return tokens.text if self.isEnabled() else tokens.faint

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self.themes.tokens, self.themes.px
        painter = QPainter(self)
        rect = QRectF(self.rect())
        fill, border = self.ground(tokens)
        if keyboard_focus(self):
            round_box(painter, rect, RADIUS["chip"], fill, tokens.accent, width=2)
        else:
            round_box(painter, rect, RADIUS["chip"], fill, border)
        left = float(px(11))
        if self._mark:
            self.paint_chip_mark(painter, QRectF(left, (self.height() - px(15)) / 2, px(15), px(15)))
            left += px(15) + px(5)
        font = self._label_font()
        painter.setFont(font)
        painter.setPen(self.ink(tokens))
        right = self.width() - px(11) - (px(14) if self.arrow else 0) - (px(12) if self.dot is not None else 0)
        words = elided(self.text(), font, right - left + 1)
        painter.drawText(QRectF(left, 0, right - left + 2, self.height()), Qt.AlignmentFlag.AlignVCenter, words)
        if self.dot is not None:
            paint_dot(painter, QPointF(right + px(8), self.height() / 2), self.dot, radius=px(3))
        if self.arrow:
            side = px(10)
            at = QRectF(self.width() - px(9) - side, (self.height() - side) / 2 + 1, side, side)
            paint_mark(painter, at, "down", tokens.muted, width=2.0)
        painter.end()

    def paint_chip_mark(self, painter: QPainter, rect: QRectF) -> None:
        paint_mark(painter, rect, self._mark, self.themes.tokens.place(self._mark))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            self.click()
            event.accept()
            return
        super().keyPressEvent(event)


class Switch(QCheckBox):
    """A small on/off switch with its word beside it."""

    def __init__(self, themes: Themes, text: str, *, name: str = "") -> None:
        super().__init__(text)
        self.themes = themes
        self.setAccessibleName(name or text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self.updateGeometry)
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        px = self.themes.px
        metrics = QFontMetricsF(self.themes.font("small"))
        width = px(26) + px(7) + metrics.horizontalAdvance(self.text()) + px(10)
        return QSize(round(width), round(max(metrics.height() + 2 * px(7), px(18))))

    def hitButton(self, pos: object) -> bool:
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self.themes.tokens, self.themes.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if keyboard_focus(self):
            round_box(painter, QRectF(self.rect()), RADIUS["chip"], None, tokens.accent, width=2)
        track = QRectF(px(5), (self.height() - px(15)) / 2, px(26), px(15))
        on = self.isChecked()
        ground = tokens.accent if on else tokens.tint(tokens.muted, 0.75)
        if not self.isEnabled():
            ground = tokens.tint(tokens.muted, 0.45)
        round_box(painter, track, track.height() / 2, ground)
        knob = track.height() / 2 - 2.2
        x = track.right() - knob - 2.2 if on else track.left() + knob + 2.2
        painter.setBrush(tokens.on_accent if on and self.isEnabled() else tokens.surface)
        painter.drawEllipse(QPointF(x, track.center().y()), knob, knob)
        painter.setFont(self.themes.font("small"))
        painter.setPen(tokens.text if self.isEnabled() else tokens.muted)
        words = QRectF(track.right() + px(7), 0, self.width(), self.height())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()
