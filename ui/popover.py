"""A card that floats over the window, from a chip or a button: it closes with Esc, with a click beside it, or when
the keyboard goes elsewhere.

It is a child of the window, never a window of its own, so that it behaves the same on every system, and it never runs
a loop of its own.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from ui.motion import Glint
from ui.paint import SHADOW, by_keyboard, round_box, shadow
from ui.theme import POPOVER_MS, RADIUS, Themes

GAP = 14
RISE = 8


class _Scrim(QWidget):
    """Takes the clicks beside the card. Clear, or a veil over the window."""

    pressed = Signal()

    def __init__(self, themes: Themes, window: QWidget, veil: bool) -> None:
        super().__init__(window)
        self._themes, self._veil = themes, veil
        self.hide()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()
        self.pressed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._veil:
            painter = QPainter(self)
            veil = self._themes.tokens.text if not self._themes.tokens.dark else self._themes.tokens.sidebar
            painter.setOpacity(0.18 if not self._themes.tokens.dark else 0.55)
            painter.fillRect(self.rect(), veil)
            painter.end()


class Popover(QWidget):
    """Give it children inside ``card_rect()``, and call ``open_from`` or ``open_centred``.

    Signals:
        opened, closed
    """

    opened = Signal()
    closed = Signal()

    def __init__(self, themes: Themes, window: QWidget, *, name: str, veil: bool = False) -> None:
        super().__init__(window)
        self.themes = themes
        self.setAccessibleName(name)
        self.hide()
        self._scrim = _Scrim(themes, window, veil)
        self._scrim.pressed.connect(self.shut)
        self._anchor: QWidget | None = None
        self._back: QWidget | None = None
        self._rise = Glint(themes.motion, POPOVER_MS, self)
        self._rise.moved.connect(self._place)
        self._size = (0, 0)
        window.installEventFilter(self)
        themes.changed.connect(self._retheme)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._focus_moved)

    # What a subclass says

    def wanted_size(self, most_height: int) -> tuple[int, int]:
        """The card's width and height, at most ``most_height`` high, after laying its children out."""
        raise NotImplementedError

    def first_focus(self) -> QWidget:
        raise NotImplementedError

    # Opening and closing

    @property
    def is_open(self) -> bool:
        return self.isVisible()

    def open_from(self, anchor: QWidget) -> None:
        """Opens above ``anchor`` (below where there is no room). At the end the focus goes back to where it was."""
        self._open(anchor)

    def open_centred(self) -> None:
        """Opens in the upper middle of the window."""
        self._open(None)

    def _open(self, anchor: QWidget | None) -> None:
        if self.isVisible():
            return
        keyboard = self.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)
        for other in self.window().findChildren(Popover):
            other.shut()  # a key may ask for this one while another is open
        self._anchor = anchor
        self._back = QApplication.focusWidget() or anchor
        self._scrim.setGeometry(self.window().rect())
        self._scrim.show()
        self._scrim.raise_()
        self.fit()
        self.show()
        self.raise_()
        self.first_focus().setFocus(Qt.FocusReason.PopupFocusReason)
        if keyboard:
            by_keyboard(self)
        self._rise.play()
        self.opened.emit()

    def shut(self) -> None:
        """Closes, and gives the focus back to where it was."""
        if not self.isVisible():
            return
        inside = QApplication.focusWidget()
        had_focus = inside is None or inside is self or self.isAncestorOf(inside)
        self._rise.stop()
        self._scrim.hide()
        self.hide()
        if had_focus and self._back is not None and self._back.isVisible():
            self._back.setFocus(Qt.FocusReason.PopupFocusReason)
        self.closed.emit()

    def _focus_moved(self, _: QWidget | None, now: QWidget | None) -> None:
        if now is not None and self.isVisible():
            # Later: rows that are made anew may lose the focus for a moment.
            QTimer.singleShot(0, self, self._shut_if_left)

    def _shut_if_left(self) -> None:
        """A key of the window's may put the keyboard elsewhere; nobody wants to type behind a card."""
        now = QApplication.focusWidget()
        if now is not None and now is not self and not self.isAncestorOf(now):
            self.shut()

    def fit(self) -> None:
        """Lays itself out anew, after its content changed."""
        below_title = 12
        most = self.window().height() - 2 * below_title
        if self._anchor is not None:
            top = self._anchor.mapTo(self.window(), QPoint(0, 0)).y()
            most = max(top - GAP - below_title, most - top - self._anchor.height() - GAP)
        else:
            most -= self._centred_top() - below_title
        self._size = self.wanted_size(most)
        self.resize(self._size[0] + 2 * SHADOW, self._size[1] + 2 * SHADOW)
        self._place()

    def card_rect(self) -> QRect:
        return QRect(SHADOW, SHADOW, *self._size)

    def _place(self, *_: float) -> None:
        width, height = self._size
        window = self.window()
        rise = round((1 - self._rise.at) ** 2 * RISE)
        if self._anchor is None:
            at = QPoint((window.width() - width) // 2, self._centred_top())
        else:
            anchor = QRect(self._anchor.mapTo(window, QPoint(0, 0)), self._anchor.size())
            y = anchor.top() - GAP - height
            if y < 12:
                y = max(12, min(anchor.bottom() + GAP, window.height() - height - 12))
            at = QPoint(max(12, min(anchor.left() - GAP, window.width() - width - 12)), y)
        self.move(at.x() - SHADOW, at.y() - SHADOW + rise)

    def _centred_top(self) -> int:
        return max(12, round(self.window().height() * 0.14))

    def _retheme(self) -> None:
        if self.isVisible():
            self.fit()
            self.update()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._scrim.setGeometry(self.window().rect())
            self.fit()
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.shut()
        # Nothing typed in a popover falls through to the window behind it.
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()
        if not self.card_rect().contains(event.position().toPoint()):
            self.shut()

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes round inside."""
        stops = [
            child
            for child in self.findChildren(QWidget)
            if child.focusPolicy() & Qt.FocusPolicy.TabFocus and child.isVisible() and child.isEnabled()
        ]
        if not stops:
            return False
        stops.sort(key=lambda child: (child.mapTo(self, QPoint(0, 0)).y(), child.mapTo(self, QPoint(0, 0)).x()))
        focused = QApplication.focusWidget()
        now = stops.index(focused) if focused in stops else -1
        reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
        stops[(now + (1 if forward else -1)) % len(stops)].setFocus(reason)
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        card = QRectF(self.card_rect())
        shadow(painter, card, RADIUS["card"], dark=tokens.dark)
        round_box(painter, card, RADIUS["card"], tokens.surface, tokens.border)
        painter.end()
