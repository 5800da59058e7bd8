"""A person before the window: looks for words and names, and uses only the mouse and the keyboard.

The window is the real one over the real services, on Qt's own loop. Events are sent from outside any task, because
sending one lets Qt's loop turn, and a task must never be entered from within another.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QAccessible, QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QListView, QWidget

from app.home import Home
from app.services import Services
from ui.garbage import Sweeper
from ui.loop import run
from ui.start import Opened
from ui.toast import Toast
from ui.window import Window

LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier
CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
ALT = Qt.KeyboardModifier.AltModifier
PATIENCE = 20.0


class Person:
    """``home`` is where the window keeps things."""

    def __init__(self, home: Home, services: Services, window: Window) -> None:
        self.home, self.services, self.window = home, services, window

    # Waiting

    async def until(self, true: Callable[[], object], what: str, *, seconds: float = PATIENCE) -> None:
        """Waits until it is so. Fails, and says what is seen, when it does not become so in time."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while not true():
            if clock() > end:
                raise AssertionError(f"not within {seconds:.0f} s: {what}\nseen:\n{self.seen()}")
            await asyncio.sleep(0.01)

    async def sees(self, words: str, *, seconds: float = PATIENCE) -> None:
        await self.until(lambda: words in self.seen(), f"“{words}” is seen", seconds=seconds)

    async def rest(self) -> None:
        """Lets what was begun on the loop come to its end, for what must *not* happen."""
        await asyncio.sleep(0.1)

    async def _outside(self, act: Callable[[], object]) -> None:
        done = asyncio.get_running_loop().create_future()

        def go() -> None:
            try:
                act()
            except Exception as error:  # handed to the test
                done.set_exception(error)
            else:
                done.set_result(None)

        QTimer.singleShot(0, go)
        await done

    # Seeing

    def seen(self) -> str:
        """The words on the window: names and texts of what is visible, the chat's rows included."""
        said: list[str] = [self.window.shell.windowTitle()]
        for widget in self.window.findChildren(QWidget):
            if not widget.isVisible():
                continue
            if isinstance(widget, QListView):
                said += self.rows(widget)
            text = getattr(widget, "text", None) or getattr(widget, "toPlainText", None)
            said.append(str(text()) if callable(text) else "")
            if isinstance(widget, QAbstractButton):
                said.append(f"{widget.accessibleName()} {widget.accessibleDescription()}")
        return "\n".join(one for one in (*said, self.chat()) if one.strip())

    def rows(self, view: QListView) -> list[str]:
        model = view.model()
        role = Qt.ItemDataRole.AccessibleTextRole
        return [str(model.index(row, 0).data(role)) for row in range(model.rowCount())]

    def chat(self) -> str:
        """All words that the transcript draws in the window now, from the top down."""
        view = self.window.page.transcript
        if view is None or not view.isVisible():
            return ""
        area = view.viewport().rect()
        lines = []
        for _, top, sheet in view.placed:
            for text in sheet.texts:
                if top + text.y <= area.bottom() and top + text.y + text.laid.height >= 0:
                    lines.append(text.text.replace("\u2028", "\n"))
        return "\n".join(lines)

    def read_rows(self) -> str:
        """What a screen reader reads of the chat, a row a line."""
        view = self.window.page.transcript
        interface = QAccessible.queryAccessibleInterface(view) if view is not None and view.isVisible() else None
        if interface is None:
            return ""
        rows = (interface.child(number) for number in range(interface.childCount()))
        return "\n".join(row.text(QAccessible.Text.Name) for row in rows if row is not None)

    def toast(self) -> str:
        toast = self.window.findChild(Toast)
        return toast.accessibleName() if toast is not None and toast.isVisible() else ""

    def find(self, name: str, kind: type[QWidget] = QWidget) -> QWidget:
        """The visible widget with this accessible name, or whose name begins with it."""
        seen = [one for one in self.window.findChildren(kind) if one.isVisible() and one.accessibleName()]
        found = [one for one in seen if one.accessibleName() == name] or [
            one for one in seen if one.accessibleName().startswith(name)
        ]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} of “{name}”; there are {[one.accessibleName() for one in seen]}")
        return found[0]

    def there(self, name: str) -> bool:
        return any(
            one.isVisible() and one.accessibleName().startswith(name) for one in self.window.findChildren(QWidget)
        )

    def focused(self) -> str:
        """The accessible name of what has the keyboard."""
        widget = QApplication.focusWidget()
        return widget.accessibleName() if widget is not None else ""

    # Doing

    async def click(self, name: str, *, at: QPoint | None = None) -> None:
        await self.until(lambda: self.there(name), f"“{name}” is there")
        widget = self.find(name)
        await self._outside(lambda: QTest.mouseClick(widget, LEFT, NONE, at or widget.rect().center()))

    async def click_row(self, words: str) -> None:
        """Clicks a row of a list."""
        view, row = self._row(words)
        at = view.visualRect(view.model().index(row, 0)).center()
        await self._outside(lambda: QTest.mouseClick(view.viewport(), LEFT, NONE, at))

    def _row(self, words: str) -> tuple[QListView, int]:
        for view in self.window.findChildren(QListView):
            if view.isVisible():
                for row, text in enumerate(self.rows(view)):
                    if words in text:
                        return view, row
        raise AssertionError(f"no row says “{words}”:\n{self.seen()}")

    async def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
        widget = QApplication.focusWidget() or self.window.shell
        await self._outside(lambda: QTest.keyClick(widget, key, modifiers))

    async def type(self, text: str) -> None:
        for letter in text:
            await self._outside(
                lambda letter=letter: QTest.keyClicks(QApplication.focusWidget() or self.window.shell, letter)
            )

    async def replace(self, field: str, text: str) -> None:
        """Types over what a line editor holds."""
        widget = self.find(field, QLineEdit)
        await self.click(field)
        await self._outside(lambda: QTest.keyClick(widget, Qt.Key.Key_A, CTRL))
        await self._outside(lambda: QTest.keyClicks(widget, text))

    async def drop(self, *paths: Path) -> None:
        """Drags files or folders from elsewhere and lets go of them over the middle of the window."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        at = QPointF(self.window.rect().center())
        copy = Qt.DropAction.CopyAction

        def act() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the newer constructor is not bound everywhere
                enter = QDragEnterEvent(at.toPoint(), copy, data, LEFT, NONE)
            QApplication.sendEvent(self.window, enter)
            if enter.isAccepted():
                QApplication.sendEvent(self.window, QDropEvent(at, copy, data, LEFT, NONE))

        await self._outside(act)

    async def choose_folder(self, folder: Path) -> None:
        """Answers the folder dialog that is open, with the keyboard."""
        from PySide6.QtWidgets import QFileDialog

        await self.until(lambda: self.window.findChild(QFileDialog), "the folder dialog is open")
        dialog = self.window.findChild(QFileDialog)
        field = dialog.findChild(QLineEdit)
        await self._outside(lambda: QTest.keyClick(field, Qt.Key.Key_A, CTRL))
        await self._outside(lambda: QTest.keyClicks(field, str(folder)))
        await self._outside(lambda: QTest.keyClick(field, Qt.Key.Key_Return))

    # What a person does often

    async def new_chat_on(self, folder: Path) -> None:
        """A new chat on a folder, by dragging it there."""
        await self.drop(folder)
        await self.until(
            lambda: self.there("Work folder") and folder.name in self.find("Work folder").accessibleName(),
            f"a new chat is on {folder.name}",
        )

    async def send(self, text: str) -> None:
        await self.until(lambda: self.there("Message"), "the message can be written")
        await self._outside(lambda: self.find("Message").setFocus())
        await self.type(text)
        await self.key(Qt.Key.Key_Return)


def use_window(
    home: Path,
    script: Callable[[Person], Awaitable[None]],
    *,
    prepare: Callable[[Services], Awaitable[None]] | None = None,
    before: Callable[[Services], None] | None = None,
    folder: Path | None = None,
    types: str = "",
    then: Callable[[QWidget], object] = lambda _: None,
) -> None:
    """Opens the window on ``home``, lets the script use it, and closes it as the person would.

    ``prepare`` may fill the store before the window opens; ``before`` may put a double into the services it is given.
    ``folder`` is what Conch is started with, and ``types`` what the person types as soon as something is painted;
    ``then`` is given what has the keyboard once the window is whole and its services are not there yet.
    """
    app = QApplication.instance() or QApplication(["conch"])
    if not isinstance(app, QApplication):
        raise TypeError("another kind of Qt application runs")
    app.setQuitOnLastWindowClosed(False)

    async def main() -> int:
        here = Home(home)
        here.prepare()
        if prepare is not None:
            earlier = Services(here)
            await earlier.start()
            await prepare(earlier)
            await earlier.close()
        opened = Opened(here, folder=folder)
        opened.shell.show()
        opened.shell.activateWindow()
        for letter in types:
            QTest.keyClicks(opened.shell.focusWidget() or opened.shell, letter)
        window = opened.window
        window.use_native_dialogs = False
        then(opened.shell.focusWidget() or opened.shell)
        sweeper.idle = lambda: not window.desk.working  # as ``ui.start`` has it, with the next line
        window.desk.loaded.connect(sweeper.settle)
        services = Services(here)
        if before is not None:
            before(services)
        person = Person(here, services, window)
        try:
            await window.desk.begin(services, folder)
            window.page.prepare()
            sweeper.settle()
            await asyncio.sleep(0.05)
            await script(person)
        finally:
            window.standing.end()
            await window.desk.end()
            await services.close()
            window.shell.finish()
            window.shell.deleteLater()
        return 0

    sweeper = Sweeper()
    run(app, main(), sweeper)
