"""What is large never holds the window's thread: a chat of 21,000 events, an output of 40,000 lines."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.chats.events import (
    AnswerText,
    ChatEvent,
    StepFinished,
    StepOutput,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.services import Services
from tests.ui.watchdog import Watchdog
from tests.ui.window_hands import CTRL, Person, use_window

LINES = 40_000


async def unheld(act: Callable[[], Awaitable[None]], undo: Callable[[], Awaitable[None]]) -> None:
    """Does it up to eight times. What holds the window does so each time; another program that is busy does not."""
    seen = []
    for _ in range(8):
        watchdog = Watchdog()
        watchdog.start()
        await act()
        watchdog.stop()
        if not watchdog.held:
            return
        seen.append(watchdog.words())
        await undo()
    raise AssertionError("each time:\n" + "\n".join(seen))


async def make_chat(services: Services, folder: Path, title: str, events: Iterator[ChatEvent]) -> None:
    chat = await services.store.make(folder=folder, place="computer", mode="ask", engine="commands", title=title)
    await services.store.append(chat.id, *events)


def a_chat(turns: int, output: str) -> Iterator[ChatEvent]:
    for number in range(turns):
        on = f"t{number}"
        yield UserMessage(turn=on, text=f"Question {number}: what is in the file?")
        yield TurnStarted(turn=on, engine="x", place="computer", mode="ask")
        yield AnswerText(turn=on, answer=on, text=f"Let me look, number {number}.\n\n- one\n- two\n\nAnd `code` then.")
        yield StepStarted(turn=on, step=on, tool="run_command", words="Ran make", command="make", place="computer")
        yield StepOutput(turn=on, step=on, stream="out", text=output[:100])
        yield StepFinished(turn=on, step=on, outcome="ok", code=0, text=output)
        yield TurnFinished(turn=on, outcome="done")


def test_a_chat_of_twenty_thousand_events(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    async def prepare(services: Services) -> None:
        await make_chat(services, tmp_path, "Long", a_chat(3000, "made\n" * 5))
        await make_chat(services, tmp_path, "Short", a_chat(1, "made\n"))

    async def script(person: Person) -> None:
        await person.sees("Question 0")

        async def there() -> None:
            await person.key(Qt.Key.Key_2, CTRL)
            await person.until(lambda: "Question 2999" in person.chat(), "the long chat's end is shown")

        async def back() -> None:
            await person.key(Qt.Key.Key_1, CTRL)
            await person.until(lambda: "Question 0" in person.chat(), "the short chat is shown")

        await there()  # letters of this kind are drawn for the first time
        await back()
        await unheld(there, back)
        # What is shown is left out of collections, as they would hold the window; so it must go without one.
        assert person.window.page.transcript is not None
        rows = weakref.ref(person.window.page.transcript.model.rows)
        assert not any(found is rows() for found in gc.get_objects()), "it is left out"
        await unheld(back, there)
        assert rows() is None, "a chat that is not shown any more is let go of"

        # Each of its rows is found where the scroll bar says.
        await there()
        view = person.find("Chat")
        await person._outside(view.setFocus)
        await person.key(Qt.Key.Key_Home)
        await person.until(lambda: "Question 0:" in person.chat(), "its beginning")
        await person.key(Qt.Key.Key_End)
        await person.until(lambda: "Question 2999" in person.chat(), "its end")

    use_window(conch_home, script, prepare=prepare)


def test_all_lines_of_a_long_output(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    printed = "".join(f"{number}\n" for number in range(LINES))

    async def prepare(services: Services) -> None:
        await make_chat(services, tmp_path, "One", a_chat(1, printed))

    async def script(person: Person) -> None:
        await person.click("Ran make")
        await person.until(lambda: person.there("Show all"), "there is more to show")

        async def show() -> None:
            await person.click("Show all")
            await person.until(lambda: person.there("What it printed"), "the box is there")
            box = person.find("What it printed")
            assert str(box.property("plainText")).startswith("0\n1\n2\n"), "its first lines are there at once"
            await person.until(lambda: f"\n{LINES - 1}" in str(box.property("plainText"))[-9:], "all of it is there")

        async def hide() -> None:
            await person._outside(person.find("Chat").setFocus)
            await person.key(Qt.Key.Key_End)
            await person.click("Show less")
            await person.until(lambda: not person.there("What it printed"), "the box is gone")
            await person.rest()

        await unheld(show, hide)
        await unheld(hide, show)

        # What is copied at once is all of it, however much is still to come.
        await person.click("Show all")
        await person.click("What it printed")
        await person.key(Qt.Key.Key_A, CTRL)
        await person.key(Qt.Key.Key_C, CTRL)
        assert QGuiApplication.clipboard().text() == printed.rstrip("\n")

    use_window(conch_home, script, prepare=prepare)


def test_the_first_answer_does_not_wait_for_its_parser() -> None:
    """It is loaded where the chat is read, in a thread. In a process of its own: here it is loaded already."""
    code = "import sys; from ui.page import read_rows; read_rows([]); print('markdown_it' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
