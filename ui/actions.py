"""Everything a person can do with a key, once: palette, Shortcuts page and window keys are made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

GROUP = "group"
LISTED = "listed"


class Actions(QObject):
    """The registry. An action lives on the window, so its key works wherever the focus is in it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._all: dict[str, QAction] = {}

    def add(
        self,
        name: str,
        words: str,
        run: Callable[[], object],
        *,
        keys: str = "",
        group: str = "Chats",
        said_keys: str = "",
        listed: bool = True,
    ) -> QAction:
        """Adds an action. ``said_keys`` is shown for a key that a widget handles itself (Esc, Enter).

        ``listed`` False keeps it out of the palette (it makes no sense there) but not out of the Shortcuts page.
        """
        action = QAction(words, self)
        action.setObjectName(name)
        if keys:
            action.setShortcut(QKeySequence(keys))
        action.setProperty(GROUP, group)
        action.setProperty(LISTED, listed)
        action.setProperty("said_keys", said_keys)
        action.triggered.connect(lambda *_: run())
        self._window.addAction(action)
        self._all[name] = action
        return action

    def __getitem__(self, name: str) -> QAction:
        return self._all[name]

    def __iter__(self) -> Iterator[QAction]:
        return iter(self._all.values())


def keys_of(action: QAction) -> str:
    """An action's key as this system writes it; empty when it has none."""
    said: str = action.property("said_keys") or ""
    return said or action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
