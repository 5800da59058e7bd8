"""Through the window by Tab alone: the chat lies before the message, and a question is one step away."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app.chats.events import AnswerText, StepFinished, StepStarted, TurnFinished, TurnStarted, UserMessage
from app.services import Services
from tests.doubles.openai import Answer, Call, OpenAIDouble
from tests.ui.window_hands import SHIFT, Person, use_window


def test_a_question_is_one_step_before_the_message(conch_home: Path, tmp_path: Path, qapp: QApplication) -> None:
    writes = [Answer(calls=[Call("write_file", {"path": f"{name}.txt", "content": "made"})]) for name in ("one", "two")]

    async def prepare(services: Services) -> None:
        await services.preferences.set("model.base_url", double.base_url)
        await services.preferences.set("model.name", "double-1")
        await services.store.make(folder=tmp_path, place="computer", mode="ask", engine="openai", title="One")

    async def script(person: Person) -> None:
        await person.sees("One — on")
        await person.send("Make a file.")
        await person.until(lambda: person.there("Allow once"), "it is asked about")
        assert person.focused() == "Message"
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        assert person.focused().startswith("Allow once")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: (tmp_path / "one.txt").exists(), "it was allowed")
        assert person.focused() == "Message", "and the person goes on writing"
        await person.sees("Made.")

        # Tab goes on from the answers to the message again.
        await person.send("Make another.")
        await person.until(lambda: person.there("Allow once"), "it is asked about")
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        reached = [person.focused()]
        while person.focused() != "Message" and len(reached) < 9:
            await person.key(Qt.Key.Key_Tab)
            reached.append(person.focused())
        said = [name.partition(":")[0] for name in reached]
        assert said == ["Allow once", "Always in this chat", "Don't allow", "Message"]
        await person.key(Qt.Key.Key_Escape)
        await person.sees("Left.")
        assert not (tmp_path / "two.txt").exists()

    with OpenAIDouble() as double:
        double.script([writes[0], "Made.", writes[1], "Left."])
        use_window(conch_home, script, prepare=prepare)


def test_the_chat_lies_before_the_message_and_shows_a_ring(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    async def prepare(services: Services) -> None:
        chat = await services.store.make(folder=tmp_path, place="computer", mode="ask", engine="commands", title="One")
        await services.store.append(
            chat.id,
            UserMessage(turn="t", text="make"),
            TurnStarted(turn="t", engine="commands", place="computer", mode="ask"),
            StepStarted(turn="t", step="s", tool="run_command", words="Ran make", command="make", place="computer"),
            StepFinished(turn="t", step="s", outcome="ok", code=0),
            AnswerText(turn="t", answer="a", text="All is well."),
            TurnFinished(turn="t", outcome="done"),
        )

    async def script(person: Person) -> None:
        await person.sees("All is well.")
        await person.until(lambda: person.focused() == "Message", "the message has the keyboard")
        without = edge(person)
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        assert person.focused().startswith("Ran make"), "from below, the last button comes first"
        assert edge(person) == without, "the button has the ring"
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        assert person.focused() == "Chat"
        await person.until(lambda: edge(person) != without, "a ring is round the chat")
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        assert person.focused() == "Settings"
        assert edge(person) == without
        reached = []
        for _ in range(3):
            await person.key(Qt.Key.Key_Tab)
            reached.append(person.focused().partition(".")[0])
        assert reached == ["Chat", "Ran make", "Message"]
        assert edge(person) == without

    use_window(conch_home, script, prepare=prepare)


def test_a_long_outputs_box_shows_a_ring_when_tab_comes_to_it(
    conch_home: Path, tmp_path: Path, qapp: QApplication
) -> None:
    async def prepare(services: Services) -> None:
        chat = await services.store.make(folder=tmp_path, place="computer", mode="ask", engine="commands", title="One")
        await services.store.append(
            chat.id,
            UserMessage(turn="t", text="make"),
            TurnStarted(turn="t", engine="commands", place="computer", mode="ask"),
            StepStarted(turn="t", step="s", tool="run_command", words="Ran make", command="make", place="computer"),
            StepFinished(turn="t", step="s", outcome="failed", code=1, text="made\n" * 100),
            TurnFinished(turn="t", outcome="done"),
        )

    async def script(person: Person) -> None:
        await person.click("Show all 100 lines")
        await person.until(lambda: person.there("What it printed"), "the box is there")
        before = edge(person, "What it printed")
        await person.click("Message")
        for _ in range(6):
            await person.key(Qt.Key.Key_Backtab, SHIFT)
            if person.focused().startswith("What it printed"):
                break
        await person.until(lambda: edge(person, "What it printed") != before, "a ring is round the box")
        await person.key(Qt.Key.Key_Backtab, SHIFT)
        await person.until(lambda: edge(person, "What it printed") == before, "it is gone with the keyboard")

    use_window(conch_home, script, prepare=prepare)


def edge(person: Person, name: str = "Chat") -> QImage:
    """What is seen at the left edge of it."""
    widget = person.find(name)
    return widget.grab(widget.rect().adjusted(0, 0, 10 - widget.width(), 0)).toImage()
