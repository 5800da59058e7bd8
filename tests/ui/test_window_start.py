"""The first start, folders, and chats that are there again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.chats.events import TurnFinished, UserMessage
from app.services import Services
from tests.ui.window_hands import Person, use_window


def test_a_first_start_is_three_lines_and_one_button(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    folder = tmp_path / "tidy-parser"
    folder.mkdir()

    async def script(person: Person) -> None:
        await person.sees("A chat whose commands run where you pick")
        assert person.focused() == "Choose a folder…"
        assert not person.there("Message"), "there is nothing to write in before there is a folder"
        await person.key(Qt.Key.Key_Return)
        await person.choose_folder(folder)
        await person.sees("What should be done in tidy-parser?")
        await person.until(lambda: person.focused() == "Message", "the message has the keyboard")
        await person.sees("New chat — on this computer — Conch")

    use_window(conch_home, script)


def test_a_button_that_is_pressed_too_early_does_what_it_says(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    folder = _made(tmp_path / "work")

    async def script(person: Person) -> None:
        await person.choose_folder(folder)
        await person.sees("What should be done in work?")

    use_window(conch_home, script, then=lambda focus: QTest.keyClick(focus, Qt.Key.Key_Return))


def test_what_is_typed_at_the_first_paint_is_in_the_message(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    """On a home that was never used, on one that was, and where a chat comes back instead of a new one."""
    work, other = _made(tmp_path / "work"), _made(tmp_path / "other")

    async def prepare(services: Services) -> None:
        await services.store.make(folder=work, place="computer", mode="ask", engine="commands", title="One")

    def reads(words: str, title: str) -> Callable[[Person], Awaitable[None]]:
        async def script(person: Person) -> None:
            await person.sees(title)
            await person.until(lambda: words in person.seen(), "what was typed is there")
            assert person.focused() == "Message"
            await person.type("!")
            assert person.find("Message").toPlainText() == f"{words}!"

        return script

    use_window(conch_home, reads("make test", "What should be done in work?"), folder=work, types="make test")
    both = "make test!\nmake lint"  # what was not sent then is there too
    use_window(conch_home, reads(both, "What should be done in other?"), folder=other, types="make lint")
    use_window(conch_home, reads("ls", "One — on this computer"), prepare=prepare, types="ls")


def test_a_folder_that_is_refused_at_the_start_leaves_what_was_typed(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    work = _made(tmp_path / "work")

    async def script(person: Person) -> None:
        await person.until(lambda: "is the whole disk" in person.toast(), "it says why")
        await person.sees("A chat whose commands run where you pick")
        await person.drop(work)
        await person.sees("What should be done in work?")
        assert person.find("Message").toPlainText() == "make test"

    use_window(conch_home, script, folder=Path("/"), types="make test")


def test_a_folder_is_chosen_by_dragging_it_and_remembered(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    folder = tmp_path / "my work"
    folder.mkdir()

    async def first(person: Person) -> None:
        await person.new_chat_on(folder)

    async def again(person: Person) -> None:
        await person.sees("What should be done in my work?")

    use_window(conch_home, first)
    use_window(conch_home, again)


def test_a_folder_that_no_command_may_have_is_said_and_not_taken(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    good, gone, file = tmp_path / "good", tmp_path / "gone", tmp_path / "a file"
    good.mkdir()
    file.touch()
    refused = {
        gone: "is not there",
        file: "is a file, not a folder",
        Path("/"): "is the whole disk",
        Path.home(): "your whole home folder",
        conch_home: "is protected",
    }

    async def script(person: Person) -> None:
        await person.new_chat_on(good)
        for folder, words in refused.items():
            await person.drop(folder)
            await person.until(lambda words=words: words in person.toast(), words)
            assert person.find("Work folder").accessibleName().endswith("good")

    use_window(conch_home, script)


def test_chats_are_there_again_with_what_was_said(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def prepare(services: Services) -> None:
        for title in ("Older", "Newer"):
            chat = await services.store.make(
                folder=tmp_path, place="computer", mode="ask", engine="commands", title=title
            )
            await services.store.append(
                chat.id, UserMessage(turn="t", text=f"this is {title}"), TurnFinished(turn="t", outcome="done")
            )

    async def script(person: Person) -> None:
        await person.sees("this is Newer")
        await person.click_row("Older")
        await person.sees("this is Older")
        assert "this is Newer" not in person.chat()
        await person.sees("Older — on this computer — Conch")

    use_window(conch_home, script, prepare=prepare)


def test_a_damaged_store_is_said_and_kept(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    conch_home.mkdir(mode=0o700)
    damaged = b"this is no database" * 500
    (conch_home / "chats.sqlite3").write_bytes(damaged)

    async def script(person: Person) -> None:
        await person.until(person.toast, "a sentence about the chats")
        assert "Traceback" not in person.seen()
        kept = [path for path in conch_home.iterdir() if path.is_file() and path.read_bytes() == damaged]
        assert kept, "what was there is kept aside"
        await person.new_chat_on(_made(tmp_path / "next"))

    use_window(conch_home, script)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
