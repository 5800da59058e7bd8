"""Find anything: actions, chats, places and settings in one list, by any of their letters; the keyboard is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QFont, QFontMetricsF, QKeyEvent, QPainter, QPalette
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.actions import LISTED, keys_of
from ui.fuzzy import score
from ui.marks import paint_mark
from ui.paint import elided, round_box
from ui.place_words import run_chat_words
from ui.popover import Popover
from ui.theme import RADIUS, Themes, scrollbar_style
from ui.widgets import Field, Label

if TYPE_CHECKING:
    from app.chats.store import Chat
    from ui.window import Window

SHOWN = 60
CHATS_AT_FIRST = 6
AT_ONCE = 400  # chats that are looked through on the window's thread; the older ones in another
SEARCH_MS = 100
ENTRY = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Entry:
    """``group`` says what it is; ``words`` is what is searched beside the title."""

    title: str
    group: str
    run: Callable[[], object]
    keys: str = ""
    mark: str = ""
    words: str = ""


class _Model(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def show_entries(self, entries: list[Entry]) -> None:
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.entries)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not 0 <= index.row() < len(self.entries):
            return None
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(part for part in (entry.title, entry.group, entry.keys) if part)
        return entry if role == ENTRY else None


class _Delegate(QStyledItemDelegate):
    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self.themes = themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(100, self.themes.px(36))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        entry: Entry = index.data(ENTRY)
        tokens, px = self.themes.tokens, self.themes.px
        row = QRectF(option.rect)
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            round_box(painter, row, RADIUS["control"], tokens.accent_soft)
        left = row.left() + px(12)
        if entry.mark:
            side = px(15)
            at = QRectF(left, row.center().y() - side / 2, side, side)
            paint_mark(painter, at, entry.mark, tokens.place(entry.mark))
        left += px(26)
        small = self.themes.font("small")
        right = row.right() - px(12)
        aside = entry.keys or entry.group
        wide = QFontMetricsF(small).horizontalAdvance(aside)
        painter.setFont(small)
        painter.setPen(tokens.muted)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(right - wide - 2, row.top(), wide + 2, row.height()), middle, aside)
        font = self.themes.font(weight=QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(tokens.text)
        room = right - wide - px(14) - left
        title = elided(entry.title, font, room)
        painter.drawText(QRectF(left, row.top(), room + 2, row.height()), middle, title)
        painter.restore()


def best(asked: str, entries: list[Entry]) -> list[Entry]:
    """The entries that fit, the best first."""
    scored = [(score(asked, entry.title, entry.words), entry) for entry in entries]
    fits = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
    return [entry for _, entry in fits[:SHOWN]]


def best_chats(asked: str, chats: list[Chat]) -> list[Chat]:
    """The same for chats, some more of them. Takes its time over thousands: not for the window's thread."""
    scored = [(score(asked, chat.title, str(chat.folder)), chat) for chat in chats]
    return [chat for points, chat in sorted(scored, key=lambda pair: -pair[0])[:SHOWN] if points > 0]


class Palette(Popover):
    """Opened with Ctrl+K. What is chosen runs after the palette has closed."""

    def __init__(self, themes: Themes, window: Window) -> None:
        super().__init__(themes, window, name="Find anything", veil=True)
        self._window = window
        hint = "Find a chat, a setting, an action…"
        self.field = Field(themes, name="Find anything", placeholder=hint, mark="search")
        self.field.setParent(self)
        self.list = QListView(self)
        self.list.setAccessibleName("What was found")
        self.list.setFrameShape(QListView.Shape.NoFrame)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._model = _Model()
        self.list.setModel(self._model)
        self.list.setItemDelegate(_Delegate(themes, self.list))
        self.list.clicked.connect(self._run)
        self._nothing = Label(themes, "Nothing is called that.", role="muted")
        self._nothing.setParent(self)
        self._nothing.hide()
        self._hits: list[Entry] = []
        self._older: list[Entry] = []
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SEARCH_MS)
        self._soon.timeout.connect(self._search_messages)
        self.field.textEdited.connect(self._typed)
        self.opened.connect(self._begin)
        window.desk.ready.connect(self._show_if_open)

    def _begin(self) -> None:
        self.field.clear()
        self._hits, self._older = [], []
        self._show()

    def _show_if_open(self) -> None:
        if self.isVisible():
            self._show()

    # What there is

    def _everything(self) -> list[Entry]:
        window, desk = self._window, self._window.desk
        entries = [
            Entry(action.text().rstrip("…"), "", action.trigger, keys_of(action))
            for action in window.actions_
            if action.property(LISTED)
        ]
        for status in window.standing.places:
            place = str(status.id)
            if status.ready and place != desk.shown.place:
                run = self._later(desk.set_place, place)
                entries.append(Entry(run_chat_words(status), "Place", run, mark=place, words="where place"))
        if not desk.open:
            return entries  # what is behind the settings is still being imported
        from ui.settings.index import settings_index

        for found in settings_index():
            run = self._later(window.open_settings, found.page, found.name)
            entries.append(Entry(found.title, f"Settings › {found.group}", run, mark="gear", words=found.words))
        return entries

    def _chats(self, chats: list[Chat]) -> list[Entry]:
        window = self._window
        return [
            Entry(
                chat.title or "New chat",
                "Chat",
                self._later(window.open_chat, chat.id),
                mark=chat.place if chat.place != "computer" else "",
                words=str(chat.folder),
            )
            for chat in chats
        ]

    @staticmethod
    def _later(run: Callable[..., object], *arguments: str) -> Callable[[], object]:
        return lambda: run(*arguments)

    # Finding

    def _typed(self) -> None:
        self._hits, self._older = [], []
        self._show()
        self._soon.start()

    def _show(self) -> None:
        asked = self.field.text().strip()
        chats = self._window.desk.listed()
        if not asked:
            shown = self._chats(chats[:CHATS_AT_FIRST]) + self._everything()
        else:
            shown = best(asked, self._everything() + self._chats(chats[:AT_ONCE])) + self._older + self._hits
        self._model.show_entries(shown)
        self._nothing.setVisible(not shown)
        if shown:
            self.list.setCurrentIndex(self._model.index(0))
        if self.isVisible():
            self.fit()

    def _search_messages(self) -> None:
        asked = self.field.text().strip()
        if len(asked) > 1 and self._window.desk.open and self.isVisible():
            self._window.desk.start(self._find(asked), "search messages")

    async def _find(self, asked: str) -> None:
        import asyncio

        older = self._window.desk.listed()[AT_ONCE:]
        titled = best(asked, self._chats(await asyncio.to_thread(best_chats, asked, older))) if older else []
        hits = await self._window.desk.search(asked, most=20)
        if not self.isVisible() or self.field.text().strip() != asked:
            return
        self._hits = [
            Entry(
                " ".join(hit.snippet.replace("[[", "").replace("]]", "").split()),
                hit.chat.title or "New chat",
                lambda hit=hit: self._window.open_chat(hit.chat.id, hit.seq),  # type: ignore[misc]
                mark="search",
            )
            for hit in hits
            if hit.seq > 1
        ]
        self._older = titled
        if self._hits or self._older:
            row = self.list.currentIndex().row()
            self._show()
            self.list.setCurrentIndex(self._model.index(max(0, row)))

    # Popover

    def first_focus(self) -> QWidget:
        return self.field

    def wanted_size(self, most_height: int) -> tuple[int, int]:
        px = self.themes.px
        width = min(px(580), self.window().width() - 48)
        field = self.field.sizeHint().height() + px(4)
        rows = min(len(self._model.entries), 9)
        body = max(px(36) * rows, px(44))
        height = min(px(10) * 3 + field + body, most_height)
        card = self.card_rect().topLeft()
        self.field.setGeometry(card.x() + px(10), card.y() + px(10), width - px(20), field)
        top = card.y() + px(20) + field
        self.list.setGeometry(card.x() + px(10), top, width - px(20), height - field - px(30))
        self._nothing.setGeometry(card.x() + px(22), top, width - px(44), px(36))
        palette = QPalette(self.list.palette())
        palette.setColor(QPalette.ColorRole.Base, self.themes.tokens.surface)
        self.list.setPalette(palette)
        self.list.verticalScrollBar().setStyleSheet(scrollbar_style(self.themes.tokens))
        return width, height

    def keyPressEvent(self, event: QKeyEvent) -> None:
        rows = len(self._model.entries)
        row = self.list.currentIndex().row()
        page = 8
        moves = {Qt.Key.Key_Down: row + 1, Qt.Key.Key_Up: row - 1}
        pages = {Qt.Key.Key_PageDown: min(rows - 1, row + page), Qt.Key.Key_PageUp: max(0, row - page)}
        key = Qt.Key(event.key())
        if rows and key in moves:
            self.list.setCurrentIndex(self._model.index(moves[key] % rows))
        elif rows and key in pages:
            self.list.setCurrentIndex(self._model.index(pages[key]))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._run(self.list.currentIndex())
        else:
            super().keyPressEvent(event)
            return
        event.accept()

    def _run(self, index: QModelIndex) -> None:
        entry = index.data(ENTRY)
        if isinstance(entry, Entry):
            self.shut()
            entry.run()
