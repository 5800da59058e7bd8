"""The window: the sidebar, the page beside it, and what floats over both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QKeyCombination, Qt, QTimer
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QStackedWidget, QWidget

from ui.actions import Actions, keys_of
from ui.composer.editor import dropped_path
from ui.desk import Desk
from ui.page import ChatPage, FirstPage
from ui.shell import Shell
from ui.sidebar import Sidebar
from ui.standing import Standing
from ui.theme import SIDEBAR_WIDTH, Themes
from ui.toast import Toast

if TYPE_CHECKING:
    from ui.palette import Palette
    from ui.settings.shell import Settings

LOOK_AGAIN_MS = 4000
LOOKS = 45  # three minutes after a next step was copied, Conch stops looking by itself


class Window(QWidget):
    """What the shell shows. ``first_start`` begins with the three lines instead of an empty chat."""

    use_native_dialogs = True

    def __init__(self, themes: Themes, desk: Desk, shell: Shell, *, first_start: bool = False) -> None:
        super().__init__()
        self.themes, self.desk, self.shell = themes, desk, shell
        self.standing = Standing(desk)
        self._palette: Palette | None = None
        self._settings: Settings | None = None
        self._dialog: QFileDialog | None = None
        self._looks_left = 0
        self._ask_when_open = False
        self.setAcceptDrops(True)
        self.resize(shell.size())
        self.actions_ = Actions(self)
        self._add_actions()
        self.sidebar = Sidebar(themes, desk, keys_of(self.actions_["palette"]))
        self.page = ChatPage(themes, desk, self.standing, self)
        self.first = FirstPage(themes)
        self.sides = QStackedWidget()
        self.pages = QStackedWidget()
        self.sides.addWidget(self.sidebar)
        self.pages.addWidget(self.page)
        self.pages.addWidget(self.first)
        if first_start:
            self.pages.setCurrentWidget(self.first)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.sides)
        row.addWidget(self.pages, 1)
        self.toast = Toast(themes, self.pages)
        self._look_again = QTimer(self)
        self._look_again.setInterval(LOOK_AGAIN_MS)
        self._look_again.timeout.connect(self._keep_looking)
        self._wire()
        themes.changed.connect(self._rescale)
        self._rescale()
        self._move_in(first_start)

    def _rescale(self) -> None:
        self.sides.setFixedWidth(self.themes.px(SIDEBAR_WIDTH))

    def _move_in(self, first_start: bool) -> None:
        """Takes the place of the shell's first frame, and what was typed there."""
        text, at = self.shell.typed()
        keys = self.shell.early_keys()
        editor = self.page.composer.editor
        if text:
            editor.setPlainText(text)
            cursor = editor.textCursor()
            cursor.setPosition(at)
            editor.setTextCursor(cursor)
        self.shell.host(self)
        (self.first.button if first_start else editor).setFocus()
        for key in keys:
            self._early_key(key, first_start)

    def _early_key(self, key: QKeyCombination, first_start: bool) -> None:
        """Does what a key that came before the window was whole was meant to do."""
        pressed = QKeySequence(key)
        if (action := next((one for one in self.actions_ if one.shortcut() == pressed), None)) is not None:
            action.trigger()
        elif key.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and first_start:
            self._ask_when_open = True
        elif key.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.page.composer.send()
        elif key.key() == Qt.Key.Key_Backspace:
            self.page.composer.editor.textCursor().deletePreviousChar()

    def _wire(self) -> None:
        desk, standing, sidebar, page = self.desk, self.standing, self.sidebar, self.page
        sidebar.new_chat.connect(self.new_chat)
        sidebar.settings.connect(self.open_settings)
        sidebar.palette_asked.connect(self.open_palette)
        sidebar.chosen.connect(self.open_chat)
        page.folder_asked.connect(self.ask_folder)
        page.followed.connect(self.follow)
        page.link_asked.connect(self._ask_link)
        page.file_asked.connect(self._open_file)
        self.first.folder_asked.connect(self.ask_folder)
        desk.shown_changed.connect(self._show)
        desk.altered.connect(self._show)
        for signal in (desk.ready, desk.shown_changed, desk.altered):
            signal.connect(self._look_after)
        standing.changed.connect(self._show_needs)
        desk.said.connect(self.toast.say)
        standing.preferred.connect(self._on_preference)
        desk.ready.connect(self._ready)
        self.shell.activated.connect(self._activated)

    def _add_actions(self) -> None:
        add = self.actions_.add
        add("palette", "Find anything", self.open_palette, keys="Ctrl+K", group="Everywhere", listed=False)
        add("settings", "Settings", self.open_settings, keys="Ctrl+,", group="Everywhere")
        add("new", "New chat", self.new_chat, keys="Ctrl+N")
        add("folder", "New chat on another folder…", self.ask_folder, keys="Ctrl+O")
        add("search", "Search chats", self.search, keys="Ctrl+F")
        add("rename", "Rename this chat", self.rename, keys="F2")
        add("delete", "Delete this chat", lambda: self.desk.bin.delete(self.desk.shown.id), keys="Ctrl+Shift+Backspace")
        for number in range(1, 10):
            self._add_number(number)
        add("place", "Choose where commands run", self._open_places, keys="Ctrl+Shift+P", group="This chat")
        add("default", "Make this chat's place the default", self._make_default, group="This chat")
        add("write", "Go to the message", self._write, keys="Ctrl+L", group="This chat")
        add("answer", "Go to the question", self._focus_question, keys="Ctrl+J", group="This chat")
        add("stop", "Stop", self.desk.stop, group="This chat", said_keys="Esc")
        add("quit", "Quit Conch", self.shell.close, keys="Ctrl+Q", group="Everywhere")

    def _add_number(self, number: int) -> None:
        run: Callable[[], object] = lambda: self.sidebar.open_number(number)  # noqa: E731
        self.actions_.add(f"chat{number}", f"Open chat {number}", run, keys=f"Ctrl+{number}", listed=False)

    # What is shown

    def _show(self) -> None:
        shown = self.desk.shown
        if self.pages.currentWidget() in (self.page, self.first):
            nothing = not shown.id and shown.folder is None and self.desk.open
            self._to(self.first if nothing else self.page)
        self.shell.setWindowTitle(f"{self.page.title_words()} — Conch" if shown.folder is not None else "Conch")

    def _look_after(self) -> None:
        """A command of the chat that is shown may come soon: what it changes is known if its folder was listed. Where
        it works on a copy the place tells."""
        shown = self.desk.shown
        if self.desk.open and shown.folder is not None and not shown.place.startswith(("ssh:", "cloud")):
            self.desk.services.changes.prepare(shown.folder)

    def _to(self, page: QWidget) -> None:
        if self.pages.currentWidget() is not page:
            self.pages.setCurrentWidget(page)
            if page is self.page:
                self._focus_editor()
            elif page is self.first:
                self.first.button.setFocus()

    def _show_needs(self) -> None:
        status = self.standing.place(self.standing.default_place)
        needs = status is not None and status.standing in ("needs", "down")
        self.sidebar.settings_row.needs(f"{status.name}: {status.line}" if needs and status is not None else "")
        self._show()
        if status is not None and all(one.ready or one.standing == "later" for one in self.standing.places):
            self._look_again.stop()

    # What a person can do

    def open_chat(self, id: str, seq: int = 0) -> None:
        self.page.scroll_to(seq)
        self._leave_settings()
        self._to(self.page)
        self.desk.open_chat(id)
        self._focus_editor()

    def new_chat(self) -> None:
        self._leave_settings()
        self.desk.new_chat()
        self._show()
        if self.pages.currentWidget() is self.page:
            self._focus_editor()

    def search(self) -> None:
        self._leave_settings()
        self.sidebar.focus_search()

    def rename(self) -> None:
        self._leave_settings()
        self.sidebar.rename_shown()

    def _focus_editor(self) -> None:
        if self.pages.currentWidget() is not self.page:
            self.first.button.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
        self.page.composer.editor.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _write(self) -> None:
        self._leave_settings()
        self._focus_editor()

    def _focus_question(self) -> None:
        """The keyboard to the open ask card's first answer; nothing when nothing is asked."""
        self._leave_settings()
        if self.page.transcript is not None:
            self.page.transcript.focus_ask()

    def _open_places(self) -> None:
        if self.page.composer.isVisible():
            self.page.composer.open_places()

    def _make_default(self) -> None:
        self.standing.make_default(self.desk.shown.place)

    def open_palette(self) -> None:
        if self._palette is None:
            from ui.palette import Palette

            self._palette = Palette(self.themes, self)
        self._palette.open_centred()

    def open_settings(self, page: str = "", setting: str = "") -> None:
        """Shows Settings, at a page and a setting of it when they are named."""
        if self._settings is None:
            from ui.settings.shell import Settings

            self._settings = Settings(self.themes, self)
            self._settings.left.connect(self._leave_settings)
            self.sides.addWidget(self._settings.side)
            self.pages.addWidget(self._settings.page)
        self.sides.setCurrentWidget(self._settings.side)
        self.pages.setCurrentWidget(self._settings.page)
        self._settings.show_page(page, setting)

    def _leave_settings(self) -> None:
        if self._settings is None or self.pages.currentWidget() is not self._settings.page:
            return
        self.sides.setCurrentWidget(self.sidebar)
        self.pages.setCurrentWidget(self.page)
        self._show()
        self._focus_editor()

    # Folders

    def ask_folder(self) -> None:
        """Asks for a folder, without holding anything up meanwhile."""
        if not self.desk.open:
            self._ask_when_open = True
            return
        if self._dialog is not None:
            return
        start = self.desk.shown.folder or Path.home()
        dialog = self._dialog = QFileDialog(self, "Choose a folder to work on", str(start))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Choose")
        dialog.setOption(QFileDialog.Option.DontUseNativeDialog, not self.use_native_dialogs)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self._chosen(Path(path)))
        dialog.destroyed.connect(self._dialog_gone)
        dialog.open()

    def _dialog_gone(self) -> None:
        self._dialog = None
        self.shell.activateWindow()

    def _chosen(self, folder: Path) -> None:
        self._leave_settings()
        self.desk.choose_folder(folder)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.desk.open and dropped_path(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if path := dropped_path(event.mimeData()):
            event.acceptProposedAction()
            self._chosen(Path(path))

    # Next steps

    def follow(self, key: str) -> None:
        """Does a next step: ``place:NAME``, ``settings.PAGE``, ``settings:PREFERENCE``, ``choose-folder``."""
        if key.startswith("place:"):
            self._follow_place(key.removeprefix("place:"))
        elif key.startswith("settings"):
            name = key.removeprefix("settings")[1:]
            self.open_settings(*(("", name) if key.startswith("settings:") else (name, "")))
        elif key == "choose-folder":
            self.ask_folder()
        elif key == "choose-place":
            self._open_places()
        else:
            self.standing.look()

    def _follow_place(self, place: str) -> None:
        status = self.standing.place(place)
        step = status.next_step if status is not None else None
        if step is not None and step.command:
            QGuiApplication.clipboard().setText(step.command)
            picker = self.page.composer.place_picker
            if picker is not None and picker.is_open:
                picker.say_copied(place)
            self.desk.say(f"Copied: {step.command} — run it in a terminal. Conch notices when it is done.")
            self._looks_left = LOOKS
            self._look_again.start()
        elif step is not None and step.action:
            self.follow(step.action)
        else:
            self.standing.look()

    def _keep_looking(self) -> None:
        self._looks_left -= 1
        if self._looks_left <= 0:
            self._look_again.stop()
        self.standing.look()

    # Links and files: what a model wrote is shown before it is opened

    def _ask_link(self, url: str) -> None:
        from PySide6.QtCore import QUrl
        from PySide6.QtGui import QDesktopServices

        target = QUrl(url)
        if target.scheme() not in ("http", "https", "mailto"):
            self.desk.say(f"Conch does not open this link: {url}")
            return
        shown = target.toDisplayString()
        self.desk.say(f"The link goes to {shown}", button="Open", run=lambda: QDesktopServices.openUrl(target))

    def _open_file(self, path: str) -> None:
        from PySide6.QtCore import QUrl
        from PySide6.QtGui import QDesktopServices

        QDesktopServices.openUrl(QUrl.fromLocalFile(path))

    # Preferences that the window itself follows

    def _ready(self) -> None:
        preferences = self.desk.services.preferences
        for name in ("theme", "motion", "text.size"):
            self._on_preference(name, preferences.get(name))
        if self._ask_when_open:
            self.ask_folder()

    def _activated(self) -> None:
        if self.desk.open:
            self.standing.look()
            self.desk.start(self.desk.refresh(), "refresh")

    def _on_preference(self, name: str, value: Any) -> None:
        if name == "theme":
            self.themes.choose(value)
        elif name == "text.size":
            self.themes.choose_scale(int(value) / 100)
        elif name == "motion":
            # The preference says whether things move; ``Motion`` whether movement is reduced.
            self.themes.motion.choose({"on": "off", "off": "on"}.get(value, "system"))  # type: ignore[arg-type]

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            if self._settings is not None and self.pages.currentWidget() is self._settings.page:
                self._leave_settings()
            elif self.page.transcript is not None and self.page.transcript.dismiss_ask():
                pass  # as its card says: Esc does not allow it
            elif self.desk.shown.id in self.desk.working:
                self.desk.stop()
            elif self.toast.isVisible():
                self.toast.dismiss()
            else:
                self._focus_editor()
            event.accept()
            return
        super().keyPressEvent(event)
