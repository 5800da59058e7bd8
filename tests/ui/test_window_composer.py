"""The composer: what Enter does, drafts, the switch, and a command that runs and is stopped."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QPlainTextEdit

from app.services import Services
from tests.ui.window_hands import CTRL, SHIFT, Person, use_window

seals = pytest.mark.skipif(shutil.which("bwrap") is None, reason="a command on this computer needs bubblewrap")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").write_text("what is in a\n")
    return made


def written(person: Person) -> str:
    editor = person.find("Message")
    assert isinstance(editor, QPlainTextEdit)
    return editor.toPlainText()


def sealed(person: Person) -> bool:
    switch = person.find("Sealed")
    assert isinstance(switch, QAbstractButton)
    return switch.isChecked()


@seals
def test_enter_sends_and_shift_enter_breaks_the_line(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        assert not person.find("Send").isEnabled(), "there is nothing to send"
        await person.type("cat a.txt")
        await person.key(Qt.Key.Key_Return, SHIFT)
        await person.type("expr 98765 + 1")
        assert written(person) == "cat a.txt\nexpr 98765 + 1"
        await person.key(Qt.Key.Key_Return)
        await person.sees("what is in a")
        await person.sees("98766")
        assert written(person) == ""
        await person.until(lambda: person.there("Send"), "it has ended")
        await person.until(lambda: "cat a.txt" in person.rows(person.window.sidebar.list)[1], "it is in the list")

    use_window(conch_home, script)


def test_enter_ends_composing_and_never_sends(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        editor = person.find("Message")
        await person._outside(lambda: QApplication.sendEvent(editor, QInputMethodEvent("にほ", [])))
        await person.key(Qt.Key.Key_Return)
        await person.rest()
        assert person.chat() == ""
        done = QInputMethodEvent("", [])
        done.setCommitString("日本")
        await person._outside(lambda: QApplication.sendEvent(editor, done))
        assert written(person) == "日本", "no line was broken on the way"

    use_window(conch_home, script)


def test_each_chat_keeps_its_own_draft(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def prepare(services: Services) -> None:
        for title in ("One", "Two"):
            await services.store.make(folder=folder, place="computer", mode="ask", engine="commands", title=title)

    async def script(person: Person) -> None:
        await person.sees("Two — on")
        await person.type("half a thought")
        await person.key(Qt.Key.Key_2, CTRL)
        await person.sees("One — on")
        assert written(person) == ""
        await person.type("another")
        await person.key(Qt.Key.Key_1, CTRL)
        await person.sees("Two — on")
        assert written(person) == "half a thought"
        await person.key(Qt.Key.Key_2, CTRL)
        await person.until(lambda: written(person) == "another", "the other draft")

    use_window(conch_home, script, prepare=prepare)


def test_drafts_are_there_after_a_restart_and_the_switch_is_on_again(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    async def prepare(services: Services) -> None:
        for title in ("One", "Two"):
            await services.store.make(folder=folder, place="computer", mode="ask", engine="commands", title=title)

    async def script(person: Person) -> None:
        await person.sees("Two — on")
        await person.type("half a thought")
        await person.click("Sealed")
        await person.key(Qt.Key.Key_2, CTRL)
        await person.sees("One — on")
        assert sealed(person), "each chat has its own switch"
        await person.type("another")
        await person.key(Qt.Key.Key_1, CTRL)
        await person.sees("Two — on")
        assert not sealed(person)
        await person.key(Qt.Key.Key_N, CTRL)
        await person.sees("New chat — on")
        await person.type("for later")  # and the window is closed at once

    async def again(person: Person) -> None:
        await person.sees("Two — on")
        assert written(person) == "half a thought"
        assert sealed(person)
        assert "until you turn it on again or Conch closes" in person.find("Sealed").accessibleDescription()
        await person.key(Qt.Key.Key_2, CTRL)
        await person.until(lambda: written(person) == "another", "the other draft")
        await person.key(Qt.Key.Key_A, CTRL)
        await person.key(Qt.Key.Key_Backspace)
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: written(person) == "for later", "the new chat's draft")

    async def at_last(person: Person) -> None:
        await person.sees("Two — on")
        await person.key(Qt.Key.Key_2, CTRL)
        await person.sees("One — on")
        assert written(person) == "", "what was wiped out stays so"

    use_window(conch_home, script, prepare=prepare)
    use_window(conch_home, again)
    use_window(conch_home, at_last)
    for file in conch_home.glob("chats*"):
        assert file.stat().st_mode & 0o077 == 0, f"{file.name} is its owner's alone"


def test_a_draft_outlives_a_conch_that_is_killed(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    """What is written is on the disk a moment after the last key, not only when the window is closed."""

    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.type("half a thought")

        def kept() -> bool:
            with contextlib.closing(sqlite3.connect(f"file:{conch_home}/chats.sqlite3?mode=ro", uri=True)) as file:
                return file.execute("SELECT text FROM drafts").fetchall() == [("half a thought",)]

        await person.until(kept, "it is in the file")

    use_window(conch_home, script)


@seals
def test_what_was_sent_is_no_draft(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.type("expr 98765 + 1")
        await person.rest()
        await person.key(Qt.Key.Key_Return)
        await person.sees("98766")

    async def again(person: Person) -> None:
        await person.sees("98766")
        assert written(person) == ""
        await person.key(Qt.Key.Key_N, CTRL)
        await person.sees("New chat — on")
        assert written(person) == ""

    use_window(conch_home, script)
    use_window(conch_home, again)


@seals
def test_a_command_shows_that_it_works_and_esc_stops_it(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.send("expr 98765 + 1; sleep 60; touch never")
        await person.sees("98766")
        assert person.there("Stop what this chat is doing")
        assert not person.there("Send")
        assert any("working" in row for row in person.rows(person.window.sidebar.list))
        await person.key(Qt.Key.Key_Escape)
        await person.until(lambda: person.there("Send"), "it has stopped")
        await person.sees("stopped")
        assert not (folder / "never").exists()

    use_window(conch_home, script)


@seals
def test_what_is_typed_runs_sealed_until_the_switch_is_off(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()

    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.send(f"touch {outside}/sealed; expr 98765 + 1")
        await person.sees("98766")
        assert not (outside / "sealed").exists()
        await person.until(lambda: person.there("Send"), "it has ended")
        await person.click("Sealed")
        await person.send(f"touch {outside}/open; expr 87654 + 1")
        await person.until(lambda: (outside / "open").exists(), "an open command has the person's own reach")

    use_window(conch_home, script)


def test_the_mode_is_chosen_with_the_keyboard_and_kept(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def prepare(services: Services) -> None:
        await services.store.make(folder=folder, place="computer", mode="ask", engine="commands", title="One")

    async def script(person: Person) -> None:
        await person.sees("One — on")
        passed = [person.focused()]
        while not passed[-1].startswith("How much"):
            await person.key(Qt.Key.Key_Tab)
            passed.append(person.focused())
            assert len(passed) < 30, passed
        await person.key(Qt.Key.Key_Space)
        await person.until(lambda: person.focused().startswith("Ask first"), "the chosen row has the focus")
        await person.key(Qt.Key.Key_Down)
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: person.there("How much goes ahead without asking: Full trust"), "the chip says so")
        await person.until(lambda: person.focused().startswith("How much"), "the chip has the focus again")

    async def again(person: Person) -> None:
        await person.until(lambda: person.there("How much goes ahead without asking: Full trust"), "it was kept")

    use_window(conch_home, script, prepare=prepare)
    use_window(conch_home, again)
