"""Settings: the pages at the left with a search over all of them, the page at the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from ui.buttons import Button
from ui.fuzzy import score
from ui.page import Header
from ui.paint import keyboard_focus, round_box
from ui.settings.base import Pane
from ui.settings.index import PAGES, Found, settings_index
from ui.theme import RADIUS, Themes, Tokens
from ui.widgets import Field, Ground, Label

if TYPE_CHECKING:
    from ui.window import Window


class _Row(Button):
    """A page, or a setting that was found."""

    def __init__(self, themes: Themes, words: str) -> None:
        super().__init__(themes, words, kind="quiet", align="left")
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        row = QRectF(self.rect())
        if self.isChecked():
            round_box(painter, row, RADIUS["control"], tokens.surface, tokens.border if not tokens.dark else None)
        elif self.underMouse():
            round_box(painter, row, RADIUS["control"], tokens.tint(tokens.text, 0.05, tokens.sidebar))
        if keyboard_focus(self):
            round_box(painter, row, RADIUS["control"], None, tokens.accent, width=2)
        self._paint_label(painter, tokens.text)
        painter.end()


class _Back(Button):
    def _label_font(self) -> QFont:
        return self.themes.font(weight=QFont.Weight.DemiBold)

    def _colors(self, tokens: Tokens) -> tuple[QColor | None, QColor | None, QColor]:
        ground, border, _ = super()._colors(tokens)
        return ground, border, tokens.text


class Settings(QObject):
    """``side`` goes where the sidebar is, ``page`` where the chat is.

    Signals:
        left: back to the chats.
    """

    left = Signal()

    def __init__(self, themes: Themes, window: Window) -> None:
        super().__init__(window)
        self.themes, self._window = themes, window
        self._panes: dict[str, Pane] = {}
        self._rows: dict[str, _Row] = {}
        self._found: list[_Row] = []
        self.side = Ground(themes, "sidebar", edge="right")
        self.page = Ground(themes, "canvas")
        self._build_side()
        self._header = Header(themes)
        self._stack = QStackedWidget()
        layout = QVBoxLayout(self.page)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._header)
        layout.addWidget(self._stack, 1)

    def _build_side(self) -> None:
        themes = self.themes
        self._back = _Back(themes, "Settings", kind="quiet", mark="back", align="left", name="Back to the chats")
        self._back.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._back.clicked.connect(self.left)
        self.search = Field(themes, name="Search settings", placeholder="Search settings", mark="search")
        self.search.textChanged.connect(self._find)
        self.search.returnPressed.connect(self._open_first)
        self._nothing = Label(themes, "Nothing is called that.", role="muted", size="small")
        self._nothing.setContentsMargins(10, 0, 0, 0)
        self._nothing.hide()
        self._list = QVBoxLayout()
        self._list.setSpacing(2)
        for name, title in PAGES.items():
            row = _Row(themes, title)
            row.clicked.connect(lambda *_, name=name: self.show_page(name))
            self._rows[name] = row
            self._list.addWidget(row)
        layout = QVBoxLayout(self.side)
        layout.setContentsMargins(10, 10, 10, 14)
        layout.setSpacing(10)
        layout.addWidget(self._back)
        layout.addWidget(self.search)
        layout.addWidget(self._nothing)
        layout.addLayout(self._list)
        layout.addStretch(1)
        self._keys = _Keys(self)
        self.side.installEventFilter(self._keys)

    # Pages

    def show_page(self, page: str = "", setting: str = "") -> None:
        """Shows a page, the one of ``setting`` when only that is given, or the one that was shown last."""
        if not page and setting:
            page = next((found.page for found in settings_index() if found.name == setting), "")
        page = page if page in PAGES else next((name for name, row in self._rows.items() if row.isChecked()), "general")
        pane = self._panes.get(page)
        if pane is None:
            pane = self._panes[page] = self._make(page)
            self._stack.addWidget(pane)
        for name, row in self._rows.items():
            row.setChecked(name == page)
        self._stack.setCurrentWidget(pane)
        self._header.show_words(pane.crumbs[0], "".join(f"› {crumb} " for crumb in pane.crumbs[1:]).rstrip())
        pane.entered()
        if setting:
            pane.reveal(setting)
        else:
            self._rows[page].setFocus(Qt.FocusReason.OtherFocusReason)

    def _make(self, page: str) -> Pane:
        themes, desk, standing = self.themes, self._window.desk, self._window.standing
        if page == "models":
            from ui.settings.models import Models

            return Models(themes, desk, standing)
        if page == "security":
            from ui.settings.places import Places

            places = Places(themes, desk, standing)
            places.followed.connect(self._window.follow)
            return places
        if page == "health":
            from ui.settings.health import Health

            return Health(themes, desk, standing)
        if page == "shortcuts":
            from ui.settings.shortcuts import Shortcuts

            return Shortcuts(themes, self._window.actions_)
        if page == "about":
            from ui.settings.about import About

            return About(themes, desk)
        from ui.settings.general import General

        return General(themes, desk, standing)

    # Search

    def _find(self, text: str) -> None:
        for row in self._found:
            row.hide()
            row.deleteLater()
        self._found = []
        asked = text.strip()
        for row in self._rows.values():
            row.setVisible(not asked)
        found = self._best(asked) if asked else []
        for one in found:
            row = _Row(self.themes, one.title)
            row.setAccessibleName(f"{one.title}, in {one.group}")
            row.clicked.connect(lambda *_, one=one: self._go(one))
            self._list.addWidget(row)
            self._found.append(row)
        self._nothing.setVisible(bool(asked) and not found)

    @staticmethod
    def _best(asked: str) -> list[Found]:
        scored = [(score(asked, one.title, f"{one.words} {one.group}"), one) for one in settings_index()]
        return [one for points, one in sorted(scored, key=lambda pair: -pair[0]) if points > 0]

    def _open_first(self) -> None:
        if self._found:
            self._found[0].click()

    def _go(self, one: Found) -> None:
        self.search.clear()
        self.show_page(one.page, one.name)


class _Keys(QObject):
    """Up and Down go through the pages and what was found."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._settings = settings

    def eventFilter(self, watched: QObject, event: object) -> bool:
        if not isinstance(event, QKeyEvent) or event.type() != QKeyEvent.Type.KeyPress:
            return False
        step = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}.get(Qt.Key(event.key()))
        if step is None or not isinstance(watched, QWidget):
            return False
        stops = [one for one in watched.findChildren(QWidget) if isinstance(one, (Field, _Row)) and one.isVisible()]
        stops.sort(key=lambda one: one.y())
        focused = QApplication.focusWidget()
        if focused in stops:
            stops[(stops.index(focused) + step) % len(stops)].setFocus(Qt.FocusReason.TabFocusReason)
            return True
        return False
