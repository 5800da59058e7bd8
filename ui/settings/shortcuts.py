"""Shortcuts: every key, from the same table that makes them work."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.actions import GROUP, Actions, keys_of
from ui.paint import round_box
from ui.settings.base import Pane, SettingRow
from ui.theme import Themes

# Keys that a widget handles itself where the focus is.
_WITHIN = (
    ("Message", "Send", "Enter"),
    ("Message", "Break the line", "Shift+Enter"),
    ("List of chats", "Open, or go up and down", "Enter, ↑ ↓"),
    ("List of chats", "Delete, with Undo", "Del"),
    ("Where work runs", "Go up and down, to an end, to a name", "↑ ↓, Home End, letters"),
)


class Shortcuts(Pane):
    crumbs = ("Shortcuts",)

    def __init__(self, themes: Themes, actions: Actions) -> None:
        super().__init__(themes)
        self.heading("Shortcuts", "Everything in Conch can be done with the keyboard.")
        groups: dict[str, list[tuple[str, str]]] = {}
        for action in actions:
            keys = keys_of(action)
            if keys and not action.objectName().startswith("chat"):
                groups.setdefault(action.property(GROUP), []).append((action.text().rstrip("…"), keys))
        first, last = keys_of(actions["chat1"]), keys_of(actions["chat9"])
        groups.setdefault("Chats", []).append(("Open a chat by its number from the top", f"{first} … {last[-1]}"))
        for group, words, keys in _WITHIN:
            groups.setdefault(group, []).append((words, keys))
        for name, rows in groups.items():
            self.heading(name, first=False)
            self.card([SettingRow(themes, words, control=Keys(themes, keys)) for words, keys in rows])


class Keys(QWidget):
    """A key in a small box."""

    def __init__(self, themes: Themes, keys: str) -> None:
        super().__init__()
        self.themes, self._keys = themes, keys
        self.setAccessibleName(keys)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self.themes.font("small"))
        px = self.themes.px
        return QSize(round(metrics.horizontalAdvance(self._keys)) + px(16), round(metrics.height()) + px(7))

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        round_box(painter, QRectF(self.rect()), 6, tokens.sunken, tokens.border)
        painter.setFont(self.themes.font("small"))
        painter.setPen(tokens.muted)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self._keys)
        painter.end()
