"""Widgets side by side that go on to a second line where there is no room for them on one."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget


class Flow(QWidget):
    """As high as its lines need for the width it is given. Hidden widgets take no room."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self._gap = gap
        self.items: list[QWidget] = []
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def add(self, widget: QWidget) -> None:
        widget.setParent(self)
        self.items.append(widget)

    def _arrange(self, width: int, *, move: bool) -> int:
        """Gives the height for ``width``, and puts the widgets there with ``move``."""
        left = top = high = 0
        for item in self.items:
            if item.isHidden():
                continue
            hint = item.sizeHint()
            wide = min(hint.width(), max(1, width))
            if left and left + wide > width:
                left, top, high = 0, top + high + self._gap, 0
            if move:
                item.setGeometry(left, top, wide, hint.height())
            left += wide + self._gap
            high = max(high, hint.height())
        return top + high

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(width, move=False)

    def sizeHint(self) -> QSize:
        wide = sum(item.sizeHint().width() + self._gap for item in self.items if not item.isHidden())
        return QSize(wide, self._arrange(self.width() or wide, move=False))

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._arrange(self.width() or 80, move=False))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        height = self._arrange(self.width(), move=True)
        if height != self.minimumHeight() or height != self.maximumHeight():
            self.setFixedHeight(height)
