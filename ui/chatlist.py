"""The chats in the sidebar: a model of them by day, and how a row is drawn. Only rows in sight cost anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QFont, QPainter, QPen
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.marks import paint_dot, paint_mark
from ui.paint import elided, round_box
from ui.theme import RADIUS, Themes

if TYPE_CHECKING:
    from app.chats.store import Chat, Hit

AT_ONCE = 200
CHAT_ROLE = Qt.ItemDataRole.UserRole
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Item:
    """A heading (``id`` empty), a chat, or a search hit in a chat (``seq`` to scroll to)."""

    title: str
    id: str = ""
    place: str = ""
    working: bool = False
    snippet: str = ""
    seq: int = 0
    said: str = ""


def by_day(chats: Iterable[Chat], today: date) -> list[tuple[str, list[Chat]]]:
    """The chats under Today, Yesterday, This week, This month and Earlier, in the order they come."""
    bounds = (
        ("Today", today),
        ("Yesterday", today - timedelta(days=1)),
        ("This week", today - timedelta(days=today.weekday())),
        ("This month", today.replace(day=1)),
    )
    starts = [(name, time.mktime(day.timetuple())) for name, day in bounds]
    groups: dict[str, list[Chat]] = {}
    for chat in chats:
        name = next((name for name, start in starts if chat.changed >= start), "Earlier")
        groups.setdefault(name, []).append(chat)
    return list(groups.items())


def place_words(place: str) -> str:
    """A place's name for a sentence about a chat: ``in a container``, ``on build-box``."""
    kind, _, host = place.partition(":")
    return {"container": "in a container", "cloud": "in the cloud", "ssh": f"on {host}"}.get(kind, "")


class ChatModel(QAbstractListModel):
    """``rename`` is called when a title was edited in its row."""

    def __init__(self, rename: Callable[[str, str], None]) -> None:
        super().__init__()
        self._items: list[Item] = []
        self._rename = rename
        self._chats: list[Chat] = []
        self._working: set[str] = set()
        self._most = AT_ONCE

    @property
    def items(self) -> list[Item]:
        return self._items

    def show_chats(self, chats: list[Chat], working: set[str]) -> None:
        """Shows the chats by day; of very many, more are made as the person scrolls to them."""
        self._chats, self._working = chats, working
        self._take(self._by_day())

    def _by_day(self) -> list[Item]:
        items: list[Item] = []
        for name, group in by_day(self._chats[: self._most], date.today()):  # noqa: DTZ011 - the person's own day
            items.append(Item(name))
            items.extend(self._item(chat, chat.id in self._working) for chat in group)
        return items

    def show_found(self, titled: list[Chat], hits: list[Hit], working: set[str]) -> None:
        self._chats = []
        items: list[Item] = []
        if titled:
            items.append(Item("Chats"))
            items.extend(self._item(chat, chat.id in working) for chat in titled)
        if hits:
            items.append(Item("In messages"))
            for hit in hits:
                snippet = " ".join(hit.snippet.replace("[[", "").replace("]]", "").split())
                items.append(
                    Item(hit.chat.title or "New chat", hit.chat.id, hit.chat.place, False, snippet, hit.seq, snippet)
                )
        self._take(items)

    @staticmethod
    def _item(chat: Chat, working: bool) -> Item:
        title = chat.title or "New chat"
        said = [title, place_words(chat.place), "working" if working else ""]
        return Item(title, chat.id, chat.place, working, said=", ".join(part for part in said if part))

    def _take(self, items: list[Item]) -> None:
        old = self._items
        if items == old:
            return
        if [(item.id, item.seq, bool(item.snippet)) for item in items] == [
            (item.id, item.seq, bool(item.snippet)) for item in old
        ]:
            self._items = items
            for row, (item, before) in enumerate(zip(items, old, strict=True)):
                if item != before:
                    self.dataChanged.emit(self.index(row), self.index(row))
            return
        self.beginResetModel()
        self._items = items
        self.endResetModel()

    def row_of(self, id: str) -> int:
        return next((row for row, item in enumerate(self._items) if item.id == id), -1)

    def canFetchMore(self, parent: Index) -> bool:
        return len(self._chats) > self._most

    def fetchMore(self, parent: Index) -> None:
        self._most += AT_ONCE
        more = self._by_day()
        self.beginInsertRows(QModelIndex(), len(self._items), len(more) - 1)
        self._items = more
        self.endInsertRows()

    # QAbstractListModel

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._items)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not 0 <= index.row() < len(self._items):
            return None
        item = self._items[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return item.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return item.said or item.title
            case Qt.ItemDataRole.ToolTipRole:
                return None
            case Qt.ItemDataRole.UserRole:
                return item
            case _:
                return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        item = self._items[index.row()]
        title = str(value).strip()
        if item.id and title and title != item.title:
            self._rename(item.id, title)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not 0 <= index.row() < len(self._items) or not self._items[index.row()].id:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable


class ChatDelegate(QStyledItemDelegate):
    """``turn`` is how far the working marks have turned, in degrees."""

    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self.themes = themes
        self.turn = 0

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        item = index.data(CHAT_ROLE)
        return QSize(100, self.themes.px(54 if isinstance(item, Item) and item.snippet else 37))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item: Item = index.data(CHAT_ROLE)
        tokens, px = self.themes.tokens, self.themes.px
        rect = QRectF(option.rect)
        painter.save()
        if not item.id:
            font = self.themes.font("small", weight=QFont.Weight.Medium)
            painter.setFont(font)
            painter.setPen(tokens.faint)
            words = rect.adjusted(px(10), 0, -px(10), -px(7))
            painter.drawText(words, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft, item.title)
            painter.restore()
            return
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        row = rect.adjusted(0, 1, 0, -1)
        if chosen:
            round_box(painter, row, RADIUS["control"], tokens.surface, tokens.border if not tokens.dark else None)
        elif state & QStyle.StateFlag.State_MouseOver:
            round_box(painter, row, RADIUS["control"], tokens.tint(tokens.text, 0.05, tokens.sidebar))
        focused = state & QStyle.StateFlag.State_HasFocus
        if focused and state & QStyle.StateFlag.State_KeyboardFocusChange:
            round_box(painter, row, RADIUS["control"], None, tokens.accent, width=2)
        right = row.right() - px(10)
        if item.working:
            self._paint_working(painter, QPointF(right - px(7), row.center().y()))
            right -= px(22)
        elif item.place and item.place != "computer":
            side = px(14)
            at = QRectF(right - side, row.center().y() - side / 2, side, side)
            paint_mark(painter, at, item.place, tokens.place(item.place))
            right -= px(22)
        left = row.left() + px(10)
        font = self.themes.font()
        painter.setFont(font)
        painter.setPen(tokens.text)
        line = QRectF(left, row.top(), right - left, row.height())
        if item.snippet:
            line = QRectF(left, row.top() + px(7), right - left, px(19))
        title = elided(item.title, font, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, title)
        if item.snippet:
            small = self.themes.font("small")
            painter.setFont(small)
            painter.setPen(tokens.muted)
            below = line.translated(0, px(20))
            found = elided(item.snippet, small, below.width())
            painter.drawText(below, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, found)
        painter.restore()

    def _paint_working(self, painter: QPainter, center: QPointF) -> None:
        tokens = self.themes.tokens
        if self.themes.motion.reduced:
            paint_dot(painter, center, tokens.accent, radius=self.themes.px(4))
            return
        radius = self.themes.px(5.5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        box = QRectF(center.x() - radius, center.y() - radius, 2 * radius, 2 * radius)
        painter.setPen(QPen(tokens.tint(tokens.accent, 0.25, tokens.sidebar), 2))
        painter.drawEllipse(box)
        painter.setPen(QPen(tokens.accent, 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawArc(box, -self.turn * 16, 100 * 16)

    # Renaming in place

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setAccessibleName("Chat's title")
        editor.setFont(self.themes.font())
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect.adjusted(2, 3, -2, -3))
