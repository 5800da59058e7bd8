"""Find anything: one list for actions, chats, places and settings, with the keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QListView

from app.chats.events import AnswerText, TurnFinished, UserMessage
from app.services import Services
from tests.ui.test_place_picker import COMPUTER, DOCKER, Standings
from tests.ui.window_hands import CTRL, SHIFT, Person, use_window
from ui.fuzzy import score


def found(person: Person) -> list[str]:
    view = person.find("What was found", QListView)
    assert isinstance(view, QListView)
    return person.rows(view)


def use(home: Path, script: object, folder: Path) -> None:
    standings = Standings(COMPUTER, DOCKER)

    async def prepare(services: Services) -> None:
        for title in ("Rename the branch", "Fix the parser"):
            chat = await services.store.make(
                folder=folder, place="computer", mode="ask", engine="commands", title=title
            )
            await services.store.append(
                chat.id,
                UserMessage(turn="t", text=f"please: {title}"),
                AnswerText(turn="t", answer="a", text=f"It was the hippopotamus, in {title}."),
                TurnFinished(turn="t", outcome="done"),
            )

    def double(services: Services) -> None:
        services.places.status = standings.status  # type: ignore[method-assign]

    use_window(home, script, prepare=prepare, before=double)  # type: ignore[arg-type]


def test_a_chat_is_found_and_opened(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.sees("please: Fix the parser")
        await person.key(Qt.Key.Key_K, CTRL)
        assert person.focused() == "Find anything"
        await person.type("rnam bran")
        await person.until(lambda: "Rename the branch" in found(person)[0], "letters in order find it")
        await person.key(Qt.Key.Key_Return)
        await person.sees("please: Rename the branch")
        assert not person.there("What was found")
        assert person.focused() == "Message"

    use(conch_home, script, tmp_path)


def test_words_in_messages_are_found(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.sees("please: Fix the parser")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.type("hippopotamus")
        await person.until(lambda: sum("hippopotamus" in row for row in found(person)) == 2, "both are found")
        row = next(n for n, text in enumerate(found(person)) if "Rename" in text)
        for _ in range(row):
            await person.key(Qt.Key.Key_Down)
        await person.key(Qt.Key.Key_Return)
        await person.sees("please: Rename the branch")

    use(conch_home, script, tmp_path)


def test_a_setting_and_an_action_are_found(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.sees("please: Fix the parser")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.type("where work")
        await person.until(lambda: "Where work runs" in found(person)[0], "the setting is found")
        await person.key(Qt.Key.Key_Return)
        await person.sees("Where new chats run their commands.")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.type("new chat")
        await person.until(lambda: found(person)[0].startswith("New chat"), "the action is found, with its key")
        assert "Ctrl+N" in found(person)[0]
        await person.key(Qt.Key.Key_Return)
        await person.sees(f"What should be done in {tmp_path.name}?")

    use(conch_home, script, tmp_path)


def test_this_chats_place_is_changed_from_it(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.until(lambda: person.there("Where commands run"), "the places are known")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.type("run this chat docker")
        await person.until(lambda: "Run this chat in Docker" in found(person)[0], "it is offered")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: person.there("Where commands run: Docker"), "the chat runs there now")

    use(conch_home, script, tmp_path)


def test_esc_closes_it_and_nothing_found_is_said(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.sees("please: Fix the parser")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.type("zzzzqqq")
        await person.sees("Nothing is called that.")
        await person.key(Qt.Key.Key_Escape)
        assert not person.there("Find anything: ")
        assert person.focused() == "Message"

    use(conch_home, script, tmp_path)


def test_a_card_closes_when_a_key_puts_the_keyboard_elsewhere(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        await person.until(lambda: person.there("Where commands run"), "the places are known")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.key(Qt.Key.Key_L, CTRL)
        await person.until(lambda: not person.there("What was found"), "the palette is closed")
        await person.type("hello")
        assert person.window.page.composer.editor.toPlainText() == "hello"

        # One card at a time, and at the end the keyboard is where it was before the first.
        await person.key(Qt.Key.Key_P, CTRL | SHIFT)
        await person.until(lambda: person.there("Where work runs"), "the picker is open")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.until(lambda: not person.there("Where work runs"), "the picker is closed")
        assert person.focused() == "Find anything"
        await person.key(Qt.Key.Key_Escape)
        assert person.focused() == "Message"

    use(conch_home, script, tmp_path)


@pytest.mark.parametrize(
    ("asked", "better", "worse"),
    [
        ("new", "New chat", "Renew nothing"),
        ("set", "Settings", "Offset"),
        ("thme", "Theme", "The model's name"),
    ],
)
def test_what_fits_better_comes_first(asked: str, better: str, worse: str) -> None:
    assert score(asked, better) > score(asked, worse)


def test_every_word_must_fit() -> None:
    assert score("new zebra", "New chat") == 0
    assert score("theme dark", "Theme", "light or dark") > 0
