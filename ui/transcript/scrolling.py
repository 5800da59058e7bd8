"""The scroll bar of the transcript: it follows what the rows' heights are known to be, and moves what shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView


class Scrolling:
    """``value`` is how far down the bar is; ``syncing`` that it is being set, and nobody moved it."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view
        self.value = 0
        self.syncing = False
        self._refining = QTimer(view)
        self._refining.setInterval(0)
        self._refining.timeout.connect(self._refine)

    def sync(self) -> None:
        """Sets the bar to where the rows are."""
        view, bar = self._view, self._view.verticalScrollBar()
        if bar.isSliderDown():
            return  # the person holds it
        height = view.viewport().height()
        self.syncing = True
        most = max(0, view.arrangement.total - height)
        bar.setRange(0, most)
        bar.setPageStep(height)
        bar.setSingleStep(3 * view.look.line // 2)
        bar.setValue(most if view.arrangement.pinned else view.arrangement.value)
        self.value = bar.value()
        self.syncing = False
        if view.arrangement.heights.rough and not self._refining.isActive():
            self._refining.start()

    def _refine(self) -> None:
        """Guesses some more of what is out of sight, while nothing else is to be done."""
        heights = self._view.arrangement.heights
        heights.refine()
        if not heights.rough:
            self._refining.stop()
            self.sync()

    def rest(self) -> None:
        """Nothing is seen of it for now."""
        self._refining.stop()

    def moved(self) -> bool:
        """The bar was moved: has the rows follow. False when it only follows them."""
        if self.syncing:
            return False
        view, bar = self._view, self._view.verticalScrollBar()
        value, by = bar.value(), bar.value() - self.value
        self.value = value
        if value >= bar.maximum():
            view.arrangement.pinned = True
        elif value == 0:
            view.arrangement.go(0)
        elif abs(by) <= 3 * view.viewport().height() and not bar.isSliderDown():
            view.arrangement.move(by)
        else:
            view.arrangement.go(value)
        return True
