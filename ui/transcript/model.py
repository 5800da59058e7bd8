"""A chat as the transcript shows it. What happens in quick succession is told at most 30 times a second."""

from __future__ import annotations

import time
from collections.abc import Iterable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.chats.events import ChatEvent, StepAsked, TurnFinished
from ui.transcript.folds import Folds
from ui.transcript.rows import AskRow
from ui.transcript.telling import Rows

FRAME = 1 / 30  # seconds


class TranscriptModel(QObject):
    """One chat. It keeps what is folded and where the reader was, so that a chat looks the same when come back to.

    Signals:
        reset: the rows are others now.
        changed: rows were added or changed; the set of their indexes.
        asked: a question wants an answer; the step's id.
        finished: a turn ended; its outcome and its words.
    """

    reset = Signal()
    changed = Signal(object)
    asked = Signal(str)
    finished = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows = Rows()
        self.folds = Folds()
        self.pinned = True
        self.anchor = (0, 0)
        self._told = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tell)

    def load(self, events: Iterable[ChatEvent]) -> None:
        """Shows a chat from the beginning."""
        self.rows, self.folds = Rows(), Folds()
        self.rows.load(events)
        self.rows.changed.clear()
        self.pinned, self.anchor = True, (0, 0)
        self.reset.emit()

    def add(self, event: ChatEvent) -> None:
        """Takes what just happened."""
        self.rows.add(event)
        if not self._timer.isActive():
            # The first of several is told at once, the rest together.
            since = time.monotonic() - self._told
            self._timer.start(0 if since >= FRAME else max(1, round((FRAME - since) * 1000)))
        match event:
            case StepAsked():
                self.tell()
                self.asked.emit(event.step)
            case TurnFinished():
                self.tell()
                self.finished.emit(event.outcome, event.words)
            case _:
                pass

    def tell(self) -> None:
        """Tells what has changed since it was last told."""
        self._timer.stop()
        self._told = time.monotonic()
        changed, self.rows.changed = self.rows.changed, set()
        self.changed.emit(changed)

    @property
    def busy(self) -> bool:
        return self.rows.busy

    def open_ask(self) -> AskRow | None:
        return self.rows.open_ask()
