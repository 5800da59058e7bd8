"""A screen reader can name everything, and the keyboard can reach everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QApplication, QWidget

from app.services import Services
from tests.ui.test_place_picker import ASLEEP, BOX, COMPUTER, DOCKER, DOWN, Standings
from tests.ui.window_hands import CTRL, Person, use_window

NAMED = {
    QAccessible.Role.Button,
    QAccessible.Role.PushButton,
    QAccessible.Role.CheckBox,
    QAccessible.Role.RadioButton,
    QAccessible.Role.EditableText,
    QAccessible.Role.ComboBox,
    QAccessible.Role.List,
    QAccessible.Role.ListItem,
    QAccessible.Role.Link,
}


def nameless(root: QWidget) -> list[str]:
    """What a screen reader would meet without a name."""
    found: list[str] = []

    def walk(interface: QAccessibleInterface | None, depth: int) -> None:
        if interface is None or depth > 40:
            return
        if interface.state().invisible:
            return
        if interface.role() in NAMED and not interface.text(QAccessible.Text.Name).strip():
            thing = interface.object()
            found.append(f"{interface.role().name} {type(thing).__name__} in {type(thing.parent()).__name__}")
        for number in range(min(interface.childCount(), 200)):
            walk(interface.child(number), depth + 1)

    walk(QAccessible.queryAccessibleInterface(root), 0)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_everything_has_a_name(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    standings = Standings(COMPUTER, DOCKER, BOX, ASLEEP, DOWN)

    async def prepare(services: Services) -> None:
        await services.store.make(folder=folder, place="container", mode="ask", engine="commands", title="One")

    def double(services: Services) -> None:
        services.places.status = standings.status  # type: ignore[method-assign]

    async def script(person: Person) -> None:
        shell = person.window.shell
        await person.until(lambda: person.there("Where commands run"), "the chip is there")
        assert nameless(shell) == []
        for chip in ("Where commands run", "How much goes ahead", "What answers"):
            await person.click(chip)
            await person.rest()
            assert nameless(shell) == [], chip
            await person.key(Qt.Key.Key_Escape)
        await person.key(Qt.Key.Key_K, CTRL)
        assert nameless(shell) == [], "palette"
        await person.key(Qt.Key.Key_Escape)
        await person.key(Qt.Key.Key_Comma, CTRL)
        for page in ("General", "Models", "Security", "Health", "Shortcuts", "About"):
            await person.click(page)
            await person.rest()
            assert nameless(shell) == [], page

    use_window(conch_home, script, prepare=prepare, before=double)


def test_tab_reaches_every_control_and_each_shows_a_ring(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    standings = Standings(COMPUTER, DOCKER)

    async def prepare(services: Services) -> None:
        await services.store.make(folder=folder, place="container", mode="ask", engine="commands", title="One")

    def double(services: Services) -> None:
        services.places.status = standings.status  # type: ignore[method-assign]

    async def script(person: Person) -> None:
        await person.until(lambda: person.there("Where commands run"), "the chip is there")
        await person.type("x")  # so that Send can be reached
        reached: dict[str, bool] = {}
        for _ in range(40):
            before = QApplication.focusWidget()
            unfocused = None
            await person.key(Qt.Key.Key_Tab)
            now = QApplication.focusWidget()
            assert now is not None
            assert now is not before, f"the focus is stuck at {person.focused()}"
            if person.focused() in reached:
                break
            focused = now.grab().toImage()
            now.clearFocus()
            unfocused = now.grab().toImage()
            now.setFocus(Qt.FocusReason.TabFocusReason)
            reached[person.focused()] = focused != unfocused
        for name in ("Search chats", "Settings", "New chat", "Chats", "Send"):
            assert name in reached
        for start in ("Find anything", "Where commands run", "How much goes ahead", "What answers", "Sealed"):
            assert any(one.startswith(start) for one in reached), start
        without = [name for name, ring in reached.items() if not ring and name != "Message"]  # its card has an edge
        assert without == []

    use_window(conch_home, script, prepare=prepare, before=double)
