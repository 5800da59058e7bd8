"""The sidebar: a new chat, the search, the chats by day, and the way to Settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QListView, QMenu, QSizePolicy, QVBoxLayout, QWidget

from ui.buttons import Button
from ui.chatlist import CHAT_ROLE, ChatDelegate, ChatModel, Item
from ui.desk import Desk
from ui.marks import paint_dot, paint_mark
from ui.paint import keyboard_focus, round_box
from ui.theme import Themes, scrollbar_style
from ui.widgets import Field, Ground

if TYPE_CHECKING:
    from app.chats.store import Hit

TURN_MS = 60
SEARCH_MS = 120
MOST_TITLED = 200


class _Brand(QWidget):
    """Conch's mark and name."""

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self.updateGeometry)
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(self.themes.px(120), self.themes.px(30))

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens, px = self.themes.tokens, self.themes.px
        painter = QPainter(self)
        side = px(19)
        paint_mark(painter, QRectF(px(5), (self.height() - side) / 2, side, side), "shell", tokens.accent, width=1.5)
        painter.setFont(self.themes.font(weight=QFont.Weight.DemiBold))
        painter.setPen(tokens.text)
        words = QRectF(px(35), 0, self.width(), self.height())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, "Conch")
        painter.end()


class KeyHint(Button):
    """A key as a small box, which does the same when pressed."""

    def __init__(self, themes: Themes, keys: str, *, name: str) -> None:
        super().__init__(themes, keys, kind="quiet", size="small", name=name)

    def _cap_font(self) -> QFont:
        font = QFont(self.themes.font("small", weight=QFont.Weight.DemiBold))
        font.setPixelSize(max(8, self.themes.px(11)))
        return font

    def sizeHint(self) -> QSize:
        wide = QFontMetricsF(self._cap_font()).horizontalAdvance(self.text())
        return QSize(round(wide) + 2 * self.themes.px(6), super().sizeHint().height() - self.themes.px(7))

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        ring = keyboard_focus(self)
        border = tokens.accent if ring else tokens.tint(tokens.text, 0.14, tokens.sidebar)
        ground = tokens.tint(tokens.text, 0.05, tokens.sidebar) if self.underMouse() else None
        round_box(painter, QRectF(self.rect()), 6, ground, border, width=2 if ring else 1)
        painter.setFont(self._cap_font())
        painter.setPen(tokens.faint)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text())
        painter.end()


class SettingsRow(Button):
    """The row at the foot of the sidebar, with a dot when something needs the person."""

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "Settings", kind="quiet", mark="gear", align="left")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._needs = ""

    def needs(self, words: str) -> None:
        """``words`` say what needs the person; empty when nothing does."""
        self._needs = words
        self.setAccessibleName(f"Settings. {words}" if words else "Settings")
        self.setToolTip(words)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._needs:
            painter = QPainter(self)
            at = QRectF(self.rect()).center()
            at.setX(self.width() - self.themes.px(15))
            paint_dot(painter, at, self.themes.tokens.warn, radius=self.themes.px(3.5))
            painter.end()


class ChatView(QListView):
    """The list. Up and Down move, Enter opens, Delete deletes with Undo, F2 renames.

    Signals:
        chosen: the chat to open, and the event to scroll to (0: none).
        deleted, copied
    """

    chosen = Signal(str, int)
    deleted = Signal(str)
    copied = Signal(str)

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes
        self.setAccessibleName("Chats")
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSelectionMode(QListView.SelectionMode.SingleSelection)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.clicked.connect(self._open)
        themes.changed.connect(self._retheme)
        self._retheme()

    def _retheme(self) -> None:
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Base, self.themes.tokens.sidebar)
        self.setPalette(palette)
        self.verticalScrollBar().setStyleSheet(scrollbar_style(self.themes.tokens))
        self.scheduleDelayedItemsLayout()

    def item(self, index: QModelIndex) -> Item | None:
        found = index.data(CHAT_ROLE)
        return found if isinstance(found, Item) and found.id else None

    def _open(self, index: QModelIndex) -> None:
        if (item := self.item(index)) is not None:
            self.chosen.emit(item.id, item.seq)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open(index)
        elif event.key() == Qt.Key.Key_Delete and (item := self.item(index)):
            self.deleted.emit(item.id)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        keyboard = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if keyboard else self.indexAt(event.pos())
        item = self.item(index)
        if item is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self._act("Rename", lambda: self.edit(index), menu))
        menu.addAction(self._act("Copy folder path", lambda: self.copied.emit(item.id), menu))
        menu.addSeparator()
        menu.addAction(self._act("Delete", lambda: self.deleted.emit(item.id), menu))
        at = self.visualRect(index).bottomLeft() if keyboard else event.pos()
        menu.popup(self.viewport().mapToGlobal(at))

    @staticmethod
    def _act(words: str, run: object, menu: QMenu) -> QAction:
        action = QAction(words, menu)
        action.triggered.connect(run)
        return action


class Sidebar(Ground):
    """Signals:
    new_chat, settings, palette: the person asks for them.
    chosen: a chat to open, and the event in it to scroll to.
    """

    new_chat = Signal()
    settings = Signal()
    palette_asked = Signal()
    chosen = Signal(str, int)

    def __init__(self, themes: Themes, desk: Desk, palette_keys: str) -> None:
        super().__init__(themes, "sidebar", edge="right")
        self._desk = desk
        self._hits: list[Hit] = []
        self._hits_for = ""
        self.search = Field(themes, name="Search chats", placeholder="Search chats", mark="search")
        self.search.setClearButtonEnabled(False)
        self._model = ChatModel(desk.rename)
        self.list = ChatView(themes)
        self.list.setModel(self._model)
        self._delegate = ChatDelegate(themes, self.list)
        self.list.setItemDelegate(self._delegate)
        self.settings_row = SettingsRow(themes)
        self.new_button = Button(themes, "New chat", mark="plus", align="left")
        self.new_button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        hint = KeyHint(themes, palette_keys.replace("+", " "), name=f"Find anything, {palette_keys}")

        top = QHBoxLayout()
        top.setContentsMargins(0, 0, 4, 0)
        top.addWidget(_Brand(themes), 1)
        top.addWidget(hint)
        head = QVBoxLayout()
        head.setContentsMargins(4, 0, 4, 0)
        head.setSpacing(10)
        head.addLayout(top)
        head.addWidget(self.new_button)
        head.addWidget(self.search)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 14, 11, 14)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.settings_row)

        hint.clicked.connect(self.palette_asked)
        self.new_button.clicked.connect(self.new_chat)
        self.settings_row.clicked.connect(self.settings)
        self.list.chosen.connect(self.chosen)
        self.list.deleted.connect(desk.bin.delete)
        self.list.copied.connect(self._copy_folder)
        self.search.textEdited.connect(self._typed)
        desk.chats_changed.connect(self._changed)
        desk.shown_changed.connect(self._mark_shown)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self.refresh)
        self._search_soon = QTimer(self)
        self._search_soon.setSingleShot(True)
        self._search_soon.setInterval(SEARCH_MS)
        self._search_soon.timeout.connect(self._look_in_messages)
        self._turning = QTimer(self)
        self._turning.setInterval(TURN_MS)
        self._turning.timeout.connect(self._turn)

    # The list

    def _changed(self) -> None:
        self._soon.start()

    def refresh(self) -> None:
        """Shows the chats as they are now."""
        text = self.search.text().strip()
        chats, working = self._desk.listed(), self._desk.working
        if text:
            folded = text.casefold()
            titled = [chat for chat in chats if folded in (chat.title or "New chat").casefold()]
            hits = self._hits if self._hits_for == text else []
            self.list.setUniformItemSizes(False)
            self._model.show_found(titled[:MOST_TITLED], hits, working)
        else:
            self.list.setUniformItemSizes(True)
            self._model.show_chats(chats, working)
        self._mark_shown()
        spins = bool(working) and not self.themes.motion.reduced
        if spins != self._turning.isActive():
            self._turning.start() if spins else self._turning.stop()

    def _mark_shown(self) -> None:
        row = self._model.row_of(self._desk.shown.id) if self._desk.shown.id else -1
        if row < 0:
            self.list.clearSelection()
            self.list.setCurrentIndex(QModelIndex())
        elif self.list.currentIndex().row() != row:
            self.list.setCurrentIndex(self._model.index(row))

    def _turn(self) -> None:
        if not self._desk.working:
            self._turning.stop()
        self._delegate.turn = (self._delegate.turn + 24) % 360
        for row, item in enumerate(self._model.items):
            if item.working:
                self.list.update(self._model.index(row))

    # Search

    def _typed(self) -> None:
        self._search_soon.start()
        self.refresh()

    def _look_in_messages(self) -> None:
        text = self.search.text().strip()
        if text and self._desk.open:
            self._desk.start(self._find(text), "search chats")

    async def _find(self, text: str) -> None:
        hits = await self._desk.search(text)
        if self.search.text().strip() == text:
            # A chat that was found by its title is listed by its title already.
            self._hits, self._hits_for = [hit for hit in hits if hit.seq > 1], text
            self.refresh()

    def focus_search(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.search.hasFocus():
            if event.key() == Qt.Key.Key_Escape and self.search.text():
                self.search.clear()
                self._typed()
                return
            if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._enter_list()
                return
        super().keyPressEvent(event)

    def _enter_list(self) -> None:
        self.list.setFocus(Qt.FocusReason.TabFocusReason)
        if not self.list.currentIndex().isValid():
            first = next((row for row, item in enumerate(self._model.items) if item.id), -1)
            if first >= 0:
                self.list.setCurrentIndex(self._model.index(first))

    # What a row can do

    def rename_shown(self) -> None:
        """Edits the title of the open chat, or of the row the focus is on, in its row."""
        index = self.list.currentIndex()
        if self.list.item(index) is not None:
            self.list.edit(index)

    def open_number(self, number: int) -> None:
        """Opens the nth chat from the top, 1 being the first."""
        rows = [item for item in self._model.items if item.id]
        if 0 < number <= len(rows):
            self.chosen.emit(rows[number - 1].id, 0)

    def _copy_folder(self, id: str) -> None:
        if (chat := self._desk.chat(id)) is not None:
            QGuiApplication.clipboard().setText(str(chat.folder))
            self._desk.say("Copied the folder's path.")
