"""The page of a chat: whose it is and where it works, what happened, and the composer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QSizePolicy, QStackedLayout, QVBoxLayout, QWidget

from ui.buttons import Button
from ui.composer.composer import DEPTH, Composer
from ui.composer.folder_chip import short_path
from ui.desk import Desk
from ui.marks import paint_mark
from ui.place_words import name_of, runs_words
from ui.shown import NEW_CHAT
from ui.standing import Standing
from ui.theme import TRANSCRIPT_WIDTH, Themes
from ui.widgets import ElidedLabel, Ground, Label

if TYPE_CHECKING:
    from app.chats.events import ChatEvent
    from ui.transcript.telling import Rows
    from ui.transcript.view import TranscriptView


def read_rows(events: list[ChatEvent]) -> Rows:
    """A chat's rows, made from its events, which are taken out of the list. Touches nothing of Qt: for a thread."""
    from ui.transcript import markdown
    from ui.transcript.telling import Rows

    markdown.warm()  # the window would wait for it when it shows the first answer
    rows = Rows()
    rows.load(events)
    rows.changed.clear()
    while events:
        del events[-1000:]  # here, and not all at once: letting go of thousands would hold the window too
    return rows


class Header(Ground):
    """The title, and beside it the folder or where one is in Settings."""

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "canvas", edge="bottom")
        self.title = ElidedLabel(themes, bold=True)
        self.beside = ElidedLabel(themes, role="muted")
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 0, 20, 1)
        row.setSpacing(10)
        row.addWidget(self.title)
        row.addWidget(self.beside)
        row.addStretch(1)
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.beside.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        themes.changed.connect(self._rescale)
        self._rescale()

    def _rescale(self) -> None:
        self.setFixedHeight(max(52, self.themes.px(52)))

    def show_words(self, title: str, beside: str) -> None:
        self.title.setText(title)
        self.beside.setText(beside)
        self.title.updateGeometry()
        self.beside.updateGeometry()


class Mark(QWidget):
    """Conch's mark, large."""

    def __init__(self, themes: Themes, side: int) -> None:
        super().__init__()
        self.themes, self._side = themes, side
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(self.themes.px(self._side), self.themes.px(self._side))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint_mark(painter, QRectF(self.rect()), "shell", self.themes.tokens.accent, width=1.1)
        painter.end()


class FirstPage(Ground):
    """What is seen before there is anything: three lines and one button."""

    folder_asked = Signal()

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "canvas")
        column = QVBoxLayout()
        column.setSpacing(themes.px(8))
        title = Label(themes, "A chat whose commands run where you pick", size="title", bold=True, wrap=True)
        lines = (
            "On this computer, sealed, or in a fresh container. Each row says where it ran.",
            "It begins with a folder to work on. Sealed commands write to that folder alone.",
        )
        self.button = Button(themes, "Choose a folder…", kind="primary")
        self.button.clicked.connect(self.folder_asked)
        mark = QHBoxLayout()
        mark.addWidget(Mark(themes, 44))
        mark.addStretch(1)
        column.addLayout(mark)
        column.addSpacing(themes.px(10))
        column.addWidget(title)
        for line in lines:
            column.addWidget(Label(themes, line, role="muted", wrap=True))
        column.addSpacing(themes.px(14))
        row = QHBoxLayout()
        row.addWidget(self.button)
        row.addStretch(1)
        column.addLayout(row)
        holder = QWidget()
        holder.setMaximumWidth(themes.px(560))
        holder.setLayout(column)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(holder, 1000)
        across.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.addStretch(2)
        layout.addLayout(across)
        layout.addStretch(3)


class Welcome(QWidget):
    """A new chat before its first message: the folder, and what running there means."""

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.title = Label(themes, size="title", bold=True, wrap=True)
        self.line = Label(themes, role="muted", wrap=True)
        for label in (self.title, self.line):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.addStretch(2)
        layout.addWidget(self.title)
        layout.addWidget(self.line)
        layout.addStretch(3)


class ChatPage(Ground):
    """Signals:
    folder_asked, followed: see ``Composer``.
    link_asked: a link in the transcript, not opened yet.
    file_asked: a file that a row names, to be opened.
    """

    folder_asked = Signal()
    followed = Signal(str)
    link_asked = Signal(str)
    file_asked = Signal(str)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing, window: QWidget) -> None:
        super().__init__(themes, "canvas")
        self._desk, self._standing = desk, standing
        self.header = Header(themes)
        self.composer = Composer(themes, desk, standing, window)
        self.transcript: TranscriptView | None = None
        self._welcome = Welcome(themes)
        self._scroll_to = 0
        self._body = QWidget()
        self._stack = QStackedLayout(self._body)
        self._stack.addWidget(QWidget())
        self._stack.addWidget(self._welcome)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 12, 18 - DEPTH)
        foot.addStretch(1)
        foot.addWidget(self.composer, 1000)
        foot.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.header)
        layout.addWidget(self._body, 1)
        layout.addLayout(foot)
        self.composer.folder_asked.connect(self.folder_asked)
        self.composer.followed.connect(self.followed)
        desk.shown_changed.connect(self._show_other)
        desk.altered.connect(self._show_words)
        standing.changed.connect(self._show_words)
        desk.reader = read_rows
        desk.loaded.connect(self._load)
        desk.happened.connect(self._happened)
        themes.changed.connect(self._rescale)
        self._rescale()

    def _rescale(self) -> None:
        self.composer.setMaximumWidth(self.themes.px(TRANSCRIPT_WIDTH) + 2 * DEPTH)

    def prepare(self) -> None:
        """Makes the transcript: after the first paint, as it is the dearest thing in the window."""
        if self.transcript is not None:
            return
        from ui.transcript.view import TranscriptView

        view = TranscriptView(self.themes)
        view.setAccessibleName("Chat")
        self._wire(view)
        self._stack.addWidget(view)
        self.transcript = view
        # Tab goes through the page from the top down: the chat, then the message.
        before: QWidget | None = self.composer.editor.previousInFocusChain()
        while before is not None and before.focusPolicy() == Qt.FocusPolicy.NoFocus:
            before = before.previousInFocusChain()
        if before is not None:
            QWidget.setTabOrder(before, view.pill)
            QWidget.setTabOrder(view.pill, view)

    def _wire(self, view: Any) -> None:
        connect: tuple[tuple[Any, Callable[..., object]], ...] = (
            (view.answered, self._answer),
            (view.stop_asked, self._desk.stop),
            (view.link_activated, self.link_asked.emit),
            (view.action_asked, lambda action, _step: self.followed.emit(action)),
            (view.open_file_asked, self.file_asked.emit),
        )
        for signal, slot in connect:
            signal.connect(slot)

    def _answer(self, step: str, answer: str) -> None:
        self._desk.answer(step, answer)
        focus = QApplication.focusWidget()
        if self.transcript is not None and focus is not None and self.transcript.isAncestorOf(focus):
            self.composer.editor.setFocus()  # the card goes, and the person goes on where they write

    def scroll_to(self, seq: int) -> None:
        """Shows the event with this number, once the chat is loaded."""
        self._scroll_to = seq

    def _show_other(self) -> None:
        self._stack.setCurrentIndex(0)
        self._show_words()

    def _show_words(self) -> None:
        shown = self._desk.shown
        folder = shown.folder
        self.header.show_words(shown.title or NEW_CHAT, short_path(folder) if folder is not None else "")
        if folder is not None and not shown.id:
            status = self._standing.place(shown.place)
            self._welcome.title.setText(f"What should be done in {folder.name or folder}?")
            where = f"Commands run {runs_words(shown.place)}."
            line = status.line if status is not None and status.ready else ""
            self._welcome.line.setText(f"{where} {line}".strip())

    def _load(self, rows: Rows | None) -> None:
        if rows is None:
            self._stack.setCurrentIndex(1)
            return
        self._show_rows(rows)
        if self._scroll_to and self.transcript is not None:
            self.transcript.scroll_to(self._scroll_to)
        self._scroll_to = 0

    def _show_rows(self, rows: Rows | None = None) -> None:
        """Shows a chat's rows, none at first."""
        from ui.transcript.model import TranscriptModel

        self.prepare()
        if self.transcript is not None:
            model = TranscriptModel()
            if rows is not None:
                model.rows = rows
            self.transcript.set_model(model)
            self._stack.setCurrentWidget(self.transcript)

    def _happened(self, event: ChatEvent) -> None:
        if self.transcript is None or self._stack.currentWidget() is not self.transcript:
            self._show_rows()
        if self.transcript is not None:
            self.transcript.model.add(event)

    def title_words(self) -> str:
        """The window's title: the chat, and in words where its commands run."""
        shown = self._desk.shown
        name = name_of(shown.place, self._standing.place(shown.place))
        where = runs_words(shown.place) if shown.place != "container" else f"in a container ({name})"
        return f"{shown.title or NEW_CHAT} — {where}" if shown.folder is not None else "Conch"
