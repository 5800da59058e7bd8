"""The sidebar: rename, delete with Undo, search, and keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.chats.events import AnswerText, TurnFinished, UserMessage
from app.services import Services
from tests.ui.window_hands import CTRL, Person, use_window


@pytest.fixture
def three(tmp_path: Path) -> Callable[[Services], Awaitable[None]]:
    """Three chats; Apples was changed last."""

    async def prepare(services: Services) -> None:
        for title in ("Cherries", "Bananas", "Apples"):
            chat = await services.store.make(
                folder=tmp_path, place="computer", mode="ask", engine="commands", title=title
            )
            await services.store.append(
                chat.id,
                UserMessage(turn="t", text=f"about {title}"),
                AnswerText(turn="t", answer="a", text=f"A long answer with the word quince in {title}."),
                TurnFinished(turn="t", outcome="done"),
            )

    return prepare


def titles(person: Person) -> list[str]:
    return [row for row in person.rows(person.window.sidebar.list) if row not in ("Today", "Chats", "In messages")]


def test_keys_open_chats_by_their_number(
    conch_home: Path, qapp: QApplication, three: Callable[[Services], Awaitable[None]]
) -> None:
    async def script(person: Person) -> None:
        await person.until(lambda: titles(person) == ["Apples", "Bananas", "Cherries"], "newest first")
        await person.key(Qt.Key.Key_3, CTRL)
        await person.sees("about Cherries")
        await person.key(Qt.Key.Key_1, CTRL)
        await person.sees("about Apples")
        assert person.focused() == "Message"

    use_window(conch_home, script, prepare=three)


def test_the_list_is_walked_with_the_arrow_keys(
    conch_home: Path, qapp: QApplication, three: Callable[[Services], Awaitable[None]]
) -> None:
    async def script(person: Person) -> None:
        await person.sees("about Apples")
        await person.key(Qt.Key.Key_F, CTRL)
        assert person.focused() == "Search chats"
        await person.key(Qt.Key.Key_Down)
        assert person.focused() == "Chats"
        await person.key(Qt.Key.Key_Down)
        await person.key(Qt.Key.Key_Return)
        await person.sees("about Bananas")

    use_window(conch_home, script, prepare=three)


def test_a_chat_is_renamed_in_its_row(
    conch_home: Path, qapp: QApplication, three: Callable[[Services], Awaitable[None]]
) -> None:
    async def script(person: Person) -> None:
        await person.sees("about Apples")
        await person.key(Qt.Key.Key_F2)
        await person.until(lambda: person.focused() == "Chat's title", "the title can be edited")
        await person.key(Qt.Key.Key_A, CTRL)
        await person.type("Pears")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: titles(person)[0] == "Pears", "the new title is in the list")
        await person.sees("Pears — on this computer — Conch")

    async def again(person: Person) -> None:
        await person.until(lambda: "Pears" in titles(person), "it is still called that")

    use_window(conch_home, script, prepare=three)
    use_window(conch_home, again)


def test_a_chat_is_deleted_and_comes_back_with_undo(
    conch_home: Path, qapp: QApplication, three: Callable[[Services], Awaitable[None]]
) -> None:
    async def script(person: Person) -> None:
        await person.sees("about Apples")
        await person.click_row("Bananas")
        await person.sees("about Bananas")
        await person.key(Qt.Key.Key_F, CTRL)
        await person.key(Qt.Key.Key_Down)
        await person.key(Qt.Key.Key_Delete)
        await person.until(lambda: titles(person) == ["Apples", "Cherries"], "it is gone from the list")
        await person.until(lambda: "Deleted “Bananas”" in person.toast(), "it is said")
        await person.sees("about Apples")
        await person.click("Undo")
        await person.until(lambda: titles(person) == ["Apples", "Bananas", "Cherries"], "it is back")
        await person.sees("about Bananas")

    use_window(conch_home, script, prepare=three)


def test_search_finds_titles_and_words_in_messages(
    conch_home: Path, qapp: QApplication, three: Callable[[Services], Awaitable[None]]
) -> None:
    async def script(person: Person) -> None:
        await person.sees("about Apples")
        await person.key(Qt.Key.Key_F, CTRL)
        await person.type("cherr")
        await person.until(lambda: titles(person)[0] == "Cherries", "found by its title")
        await person.key(Qt.Key.Key_Escape)
        await person.until(lambda: len(titles(person)) == 3, "Esc shows them all again")
        await person.type("quince in banan")
        await person.until(lambda: any("quince in Bananas" in row for row in titles(person)), "found by what was said")
        await person.click_row("quince in Bananas")
        await person.sees("about Bananas")

    use_window(conch_home, script, prepare=three)
