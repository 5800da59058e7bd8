"""The window as the system sees it, and its first frame.

The first frame must be quick, and half of what a window costs is Qt's classes being made known to Python. So the shell
draws the grounds and holds a real editor that takes keys; everything else comes into it a moment later and takes over
what was typed. Nothing here may name the ``Qt`` namespace or import a module that does.
"""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QEvent, QKeyCombination, QRect, QRectF, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QColor, QKeyEvent, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QPlainTextEdit, QWidget

from ui.tokens import ABALONE, PEARL, SIDEBAR_WIDTH, TRANSCRIPT_WIDTH, Tokens

_FOOT = 18  # as ``ui.page`` and ``ui.composer`` have it
_CARD = 91
_HEADER = 52
_RADIUS = 16


class _Editor(QPlainTextEdit):
    """Takes text; a key that gives none (Ctrl+K, Esc) is left to the shell, for what takes over."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        text = event.text()
        if text and text.isprintable():
            super().keyPressEvent(event)
        else:
            event.ignore()


class _Card(QWidget):
    """The composer's card, drawn with the few calls of a painter that do not ask for the ``Qt`` namespace."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        wide, tall = self.width(), self.height()
        for row in range(_RADIUS):
            inset = round(_RADIUS - (_RADIUS**2 - (_RADIUS - row - 0.5) ** 2) ** 0.5)
            painter.eraseRect(QRect(inset, row, wide - 2 * inset, 1))
            painter.eraseRect(QRect(inset, tall - 1 - row, wide - 2 * inset, 1))
        painter.eraseRect(QRect(0, _RADIUS, wide, tall - 2 * _RADIUS))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawRoundedRect(QRectF(0.5, 0.5, wide - 1, tall - 1), _RADIUS, _RADIUS)
        painter.end()


class Shell(QWidget):
    """``theme`` is the person's choice; ``scale`` how large text is; ``first`` that there is nothing to show yet.

    Signals:
        painted: the first frame is out.
        close_asked: the person closes the window; ``finish`` closes it for real.
        activated: the window is in front again.
    """

    painted = Signal()
    close_asked = Signal()
    activated = Signal()

    def __init__(self, *, theme: str = "system", scale: float = 1.0, first: bool = False, geometry: str = "") -> None:
        super().__init__()
        self._painted = self._finished = False
        self._content: QWidget | None = None
        self._scale = min(2.0, max(0.8, scale))
        self._first = first
        self._tokens = _tokens(theme)
        self._early: list[QKeyCombination] = []
        self.setWindowTitle("Conch")
        self.setAccessibleName("Conch")
        self.setMinimumSize(640, 420)
        self.resize(1180, 780)
        if geometry:
            self.restoreGeometry(QByteArray.fromBase64(geometry.encode()))
        tokens = self._tokens
        _dress(self, tokens.canvas)
        self._side, self._edge, self._line = (
            _dress(QWidget(self), color) for color in (tokens.sidebar, tokens.border, tokens.border)
        )
        self._card = _Card(self)
        _dress(self._card, tokens.surface, tokens.border).setAutoFillBackground(False)
        self._editor: QPlainTextEdit | None = None if first else self._make_editor()
        for part in (self._line, self._card):
            part.setVisible(not first)
        (self._editor or self).setFocus()

    def _make_editor(self) -> QPlainTextEdit:
        editor = _Editor(self)
        editor.setAccessibleName("Message")
        editor.setFrameShape(QFrame.Shape.NoFrame)
        editor.document().setDocumentMargin(0)
        font = QApplication.font()
        font.setPixelSize(round(14 * self._scale))
        editor.setFont(font)
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Base, self._tokens.surface)
        palette.setColor(QPalette.ColorRole.Text, self._tokens.text)
        editor.setPalette(palette)
        return editor

    # What takes over

    def host(self, content: QWidget) -> None:
        """Shows ``content`` in place of the first frame, which is let go."""
        self._content = content
        content.setParent(self)
        content.setGeometry(self.rect())
        content.show()
        for part in (self._editor, self._card, self._line, self._edge, self._side):
            if part is not None:
                part.hide()
                part.deleteLater()
        self._editor = None
        self._early.clear()

    def typed(self) -> tuple[str, int]:
        """What was typed into the first frame, and where the cursor is."""
        if self._editor is None:
            return "", 0
        return self._editor.toPlainText(), self._editor.textCursor().position()

    def early_keys(self) -> list[QKeyCombination]:
        """The keys that were pressed before there was anything to take them."""
        return list(self._early)

    def where(self) -> str:
        """The window's place on the screen, for the next start."""
        return bytes(self.saveGeometry().toBase64().data()).decode()

    def finish(self) -> None:
        self._finished = True
        self.close()

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self._content is not None:
            self._content.setGeometry(self.rect())
            return
        side, header = round(SIDEBAR_WIDTH * self._scale), round(_HEADER * self._scale)
        self._side.setGeometry(0, 0, side - 1, self.height())
        self._edge.setGeometry(side - 1, 0, 1, self.height())
        if self._editor is None:
            return
        room = self.width() - side
        wide, tall = round(min(TRANSCRIPT_WIDTH * self._scale, room - 48)), round(_CARD * self._scale)
        left, top = side + (room - wide) // 2, self.height() - _FOOT - tall
        self._line.setGeometry(side, header - 1, room, 1)
        self._card.setGeometry(left, top, wide, tall)
        self._editor.setGeometry(left + 15, top + 14, wide - 29, tall - 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self.painted.emit)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._content is None:
            self._early.append(event.keyCombination())
        super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.activated.emit()
        super().changeEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._finished:
            event.accept()
        else:
            event.ignore()
            self.close_asked.emit()


def _dress(widget: QWidget, ground: QColor, ink: QColor | None = None) -> QWidget:
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Window, ground)
    if ink is not None:
        palette.setColor(QPalette.ColorRole.WindowText, ink)
    widget.setPalette(palette)
    widget.setAutoFillBackground(True)
    return widget


def _tokens(theme: str) -> Tokens:
    if theme in ("light", "dark"):
        return ABALONE if theme == "dark" else PEARL
    # The system's palette is dark when its scheme is; asking for the scheme itself would cost the ``Qt`` namespace.
    window: QColor = QApplication.palette().color(QPalette.ColorRole.Window)
    return ABALONE if window.lightness() < 128 else PEARL
