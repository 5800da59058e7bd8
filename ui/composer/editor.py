"""Where a message is typed: it grows with its lines. Enter sends, Shift+Enter breaks the line."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QKeySequence,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget

from ui.theme import Themes, scrollbar_style

MOST_LINES = 10


class Editor(QPlainTextEdit):
    """Signals:
    sent: Enter was pressed, and nothing is being composed.
    focus_changed: the keyboard came here, or went elsewhere.
    """

    sent = Signal()
    focus_changed = Signal()

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes
        self.setAccessibleName("Message")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)
        themes.changed.connect(self._retheme)
        self._retheme()

    def _retheme(self) -> None:
        tokens = self.themes.tokens
        self.setFont(self.themes.font())
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Base, QColor(0, 0, 0, 0))
        palette.setColor(QPalette.ColorRole.Text, tokens.text)
        palette.setColor(QPalette.ColorRole.PlaceholderText, tokens.faint)
        self.setPalette(palette)
        self.verticalScrollBar().setStyleSheet(scrollbar_style(tokens))
        self._grow()

    def _grow(self, *_: object) -> None:
        line = QFontMetricsF(self.font()).lineSpacing()
        lines = max(1, min(MOST_LINES, round(self.document().size().height())))
        height = round(line * lines) + 2
        if height != self.height():
            self.setFixedHeight(height)
        fits = self.document().size().height() <= MOST_LINES
        bar = Qt.ScrollBarPolicy.ScrollBarAlwaysOff if fits else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        self.setVerticalScrollBarPolicy(bar)

    @property
    def composing(self) -> bool:
        """Whether an input method holds text that is not in the document yet."""
        layout = self.textCursor().block().layout()
        return bool(layout is not None and layout.preeditAreaText())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._grow()

    def event(self, event: QEvent) -> bool:
        # Qt's editor claims keys such as Ctrl+K for itself; here the window's own shortcuts come first.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            plain = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
            if event.modifiers() not in plain and self._is_shortcut(QKeySequence(event.keyCombination())):
                event.ignore()
                return False
        return super().event(event)

    def _is_shortcut(self, pressed: QKeySequence) -> bool:
        return any(action.shortcut() == pressed for host in self._hosts() for action in host.actions())

    def _hosts(self) -> Iterator[QWidget]:
        widget: QWidget | None = self
        while widget is not None:
            yield widget
            widget = widget.parentWidget()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.composing:
                event.accept()  # Enter ends the composing; passed on it would break the line
                return
            if event.modifiers() & (Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.AltModifier):
                self.textCursor().insertText("\n")
                self.ensureCursorVisible()
            else:
                self.sent.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    # A file or a folder that is dragged here is the window's, not text.

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return not dropped_path(source) and super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        # Only words: pasted colours and fonts would be another program's look.
        if source.hasText():
            self.insertPlainText(source.text())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_path(event.mimeData()):
            event.ignore()
        else:
            super().dragEnterEvent(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        if dropped_path(event.mimeData()):
            event.ignore()
        else:
            super().dragMoveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        if dropped_path(event.mimeData()):
            event.ignore()
        else:
            super().dropEvent(event)


def dropped_path(data: QMimeData) -> str:
    """The one path of this computer that is dragged; empty when it is something else."""
    urls = data.urls()
    return urls[0].toLocalFile() if len(urls) == 1 and urls[0].isLocalFile() else ""
