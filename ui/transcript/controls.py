"""The real buttons that lie over the rows: made once, used again for whatever shows.

They are widgets so that the mouse, the keyboard and a screen reader find them as they find any other. Only those in
sight exist; the rest wait in a pool.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from PySide6.QtCore import QObject, QPoint, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QWidget

from ui.paint import keyboard_focus, round_box
from ui.theme import RADIUS, Themes
from ui.transcript.arrangement import Placed
from ui.transcript.output_box import Key, OutputBox
from ui.transcript.sheet import Control

_SAID_MS = 1600


class RowButton(QAbstractButton):
    """One button of a row. ``key`` says which; ``does`` is what it asks for."""

    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self.themes = themes
        self.key: Key = (-1, "")
        self.control: Control | None = None
        self._said = ""
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.timeout.connect(self._unsay)
        # Tab goes from button to button in reading order, which the view knows and Qt's own chain does not.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def become(self, key: Key, control: Control) -> None:
        if key != self.key:
            self._said = ""
            self._back.stop()
        same = key == self.key
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents, control.kind == "reach")
        old, self.key, self.control = self.control, key, control
        if control is old and same:
            return
        if old is None or _words(old) != _words(control):
            self.setText(control.text)
            self.setAccessibleName(control.says or control.text)
            self.setAccessibleDescription(control.hint)
            self.setToolTip(f"<qt>{escape(control.tip)}</qt>" if control.tip else "")
            self.update()
        elif not same or old.kind != control.kind:
            self.update()

    def say(self, text: str) -> None:
        """Shows that it worked, for a moment."""
        self._said = text
        self._back.start(_SAID_MS)
        self.update()

    def _unsay(self) -> None:
        self._said = ""
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat():
            self.click()
            return
        if event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Select):
            super().keyPressEvent(event)
            return
        event.ignore()  # the view scrolls, or answers Esc

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.control is None:
            return
        tokens, px = self.themes.tokens, self.themes.px
        kind = self.control.kind
        hover, down = self.underMouse(), self.isDown()
        rect = QRectF(self.rect())
        radius = float(px(RADIUS["control"] if kind in ("primary", "plain") or self.control.key else 7))
        painter = QPainter(self)
        ground: QColor | None = None
        border: QColor | None = None
        ink = tokens.text
        if kind == "primary":
            ink, ground = tokens.on_accent, tokens.accent
            if hover or down:
                ground = tokens.tint(tokens.text, 0.16 if down else 0.08, tokens.accent)
        elif kind == "plain":
            ground, border = tokens.surface, tokens.border
            if hover or down:
                ground = tokens.tint(tokens.text, 0.08 if down else 0.04)
        elif kind in ("fold", "reach"):
            if hover and kind == "fold":
                ground = QColor(tokens.text)
                ground.setAlphaF(0.03)
            radius = float(RADIUS["card"] - 2) if kind == "fold" else 5.0
        else:
            ink = tokens.accent if kind == "link" else tokens.text if hover else tokens.muted
            under = tokens.code if kind == "code" else tokens.surface
            if kind == "code":
                ground = under
            if hover or down:
                ground = tokens.tint(tokens.text, 0.12 if down else 0.06, under)
        if keyboard_focus(self):
            round_box(painter, rect, radius, None, tokens.accent, width=2)
            inset = 3.5 if kind == "primary" else 2.0
            rect = rect.adjusted(inset, inset, -inset, -inset)
            radius, border = max(3.0, radius - 3), None
        if ground is not None or border is not None:
            round_box(painter, rect, radius, ground, border)
        self._words(painter, self._said or self.text(), ink, kind)
        painter.end()

    def _words(self, painter: QPainter, text: str, ink: QColor, kind: str) -> None:
        if not text or self.control is None:
            return
        px = self.themes.px
        big = kind in ("primary", "plain") or bool(self.control.key)
        font = self.themes.font("body" if big else "small", weight=QFont.Weight.Medium)
        painter.setFont(font)
        painter.setPen(ink)
        rect = QRectF(self.rect())
        if self.control.key:
            tokens = self.themes.tokens
            small = self.themes.font("small")
            wide = QFontMetricsF(small).horizontalAdvance(self.control.key) + px(12)
            cap = QRectF(rect.right() - px(13) - wide, rect.center().y() - px(10) + 0.5, wide, px(19))
            round_box(painter, cap, px(5), None, tokens.border)
            rect.setRight(cap.left() - px(7))
            rect.setLeft(px(13))
            painter.setPen(ink)
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
            painter.setFont(small)
            painter.setPen(tokens.faint)
            painter.drawText(cap, Qt.AlignmentFlag.AlignCenter, self.control.key)
            return
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)


def _words(control: Control) -> tuple[str, ...]:
    return control.text, control.says, control.hint, control.tip, control.key


class Controls(QObject):
    """Puts buttons over what shows.

    Signals:
        pressed: a button was pressed; its row and the control.
    """

    pressed = Signal(int, object)

    def __init__(self, themes: Themes, viewport: QWidget) -> None:
        super().__init__(viewport)
        self._themes, self._viewport = themes, viewport
        self._shown: dict[Key, RowButton | OutputBox] = {}
        self._pool: list[RowButton] = []
        self._order: list[Key] = []

    def sync(self, placed: list[Placed], left: int, refocus: Callable[[], None]) -> None:
        """Shows the controls of what shows; ``refocus`` is called when the one with the focus goes away."""
        height = self._viewport.height()
        wanted: dict[Key, tuple[Control, QRect]] = {}
        for row, top, sheet in placed:
            for control in sheet.controls:
                y = control.rect.y()
                if control.stick is not None and top + y < 6:
                    y = min(6.0 - top, max(y, control.stick))
                at = QRect(round(left + control.rect.x()), round(top + y), round(control.rect.width()), 0)
                at.setHeight(round(control.rect.height()))
                if at.bottom() >= 0 and at.y() < height:
                    wanted[row, control.name] = (control, at)
        focus = self._viewport.window().focusWidget() if self._shown else None
        for key in [key for key in self._shown if key not in wanted]:
            self._retire(self._shown.pop(key), focus, refocus)
        for key, (control, at) in wanted.items():
            widget = self._shown.get(key)
            if widget is None:
                widget = self._shown[key] = self._make(control)
            widget.become(key, control)
            if widget.geometry() != at:
                widget.setGeometry(at)
            if widget.isHidden():
                widget.show()
        self._order = list(wanted)

    def _make(self, control: Control) -> RowButton | OutputBox:
        if control.kind == "output":
            return OutputBox(self._themes, self._viewport)
        if self._pool:
            return self._pool.pop()
        made = RowButton(self._themes, self._viewport)
        made.clicked.connect(self._clicked)
        return made

    def _retire(self, widget: RowButton | OutputBox, focus: QWidget | None, refocus: Callable[[], None]) -> None:
        if focus is widget or (focus is not None and widget.isAncestorOf(focus)):
            refocus()
        widget.hide()
        if isinstance(widget, RowButton):
            self._pool.append(widget)
        else:
            widget.let_go()

    def _clicked(self) -> None:
        button = self.sender()
        if isinstance(button, RowButton) and button.control is not None:
            self.pressed.emit(button.key[0], button.control)

    def in_order(self) -> list[QWidget]:
        """Those in sight, in reading order."""
        return [self._shown[key] for key in self._order if key in self._shown]

    def of_row(self, row: int) -> list[QWidget]:
        return [self._shown[key] for key in self._order if key[0] == row and key in self._shown]

    def button(self, row: int, name: str) -> RowButton | None:
        found = self._shown.get((row, name))
        return found if isinstance(found, RowButton) else None

    def at(self, point: QPoint) -> QWidget | None:
        return next((widget for widget in self._shown.values() if widget.geometry().contains(point)), None)

    def restyle(self) -> None:
        """Takes the colours and fonts anew."""
        for widget in self._shown.values():
            if isinstance(widget, OutputBox):
                widget.restyle()
            widget.update()

    def clear(self) -> None:
        """Takes every control away, as for another chat."""
        for widget in self._shown.values():
            self._retire(widget, None, lambda: None)
        self._shown.clear()
        self._order.clear()
