"""A model that calls for a command, in the window: set up in Settings, asked about, run in a real container."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.doubles.openai import Answer, Call, OpenAIDouble
from tests.real.engines.dockerd import Dockerd
from tests.ui.window_hands import CTRL, Person, use_window


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tidy-parser"
    made.mkdir()
    return made


async def set_up_a_model(person: Person, address: str) -> None:
    await person.key(Qt.Key.Key_Comma, CTRL)
    await person.click("Models")
    await person.replace("The model's address", address)
    await person.replace("The model's name", "double-1")
    await person.key(Qt.Key.Key_Tab)
    await person.key(Qt.Key.Key_Escape)


async def choose(person: Person, chip: str, row: str) -> None:
    await person.click(chip)
    await person.click(row)
    await person.until(lambda: person.there(f"{chip}: {row.partition(',')[0]}"), f"the chip says {row}")


def test_the_model_asks_and_its_command_runs_where_the_chat_runs(
    conch_home: Path, folder: Path, docker_host: Dockerd, qapp: QApplication
) -> None:
    looks = "cat /proc/1/comm; touch made-by-the-model"

    with OpenAIDouble() as double:
        double.script(
            [
                Answer(text="I'll look first.", calls=[Call("run_command", {"command": looks})]),
                Answer(text="It runs as **docker-init**:\n\n```sh\nls\n```\n", piece=4, delay=0.01),
                Answer(calls=[Call("run_command", {"command": "touch by-the-keyboard"})]),
                "I made it.",
                Answer(calls=[Call("run_command", {"command": "touch never"})]),
                "I left it.",
            ]
        )

        async def script(person: Person) -> None:
            await person.new_chat_on(folder)
            await set_up_a_model(person, double.base_url)
            await choose(person, "What answers", "double-1")
            await choose(person, "Where commands run", "Docker")

            await person.send("What runs as process 1?")
            await person.sees("I'll look first.")
            await person.until(lambda: person.there("Allow once"), "the model's command is asked about")
            assert looks in person.chat()
            assert not (folder / "made-by-the-model").exists(), "nothing runs before it is allowed"
            await person.click("Allow once")
            await person.sees("It runs as docker-init:", seconds=60)
            await person.until(lambda: person.there("Send"), "it has ended")
            assert (folder / "made-by-the-model").exists()
            assert "container" in person.chat()

            # The keyboard finds the card and allows it.
            await person.send("Make a file.")
            await person.until(lambda: person.there("Allow once"), "it is asked about")
            await person.key(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
            await person.until(lambda: person.focused().startswith("Allow once"), "the first answer has the focus")
            await person.key(Qt.Key.Key_Space)
            await person.sees("I made it.")
            assert (folder / "by-the-keyboard").exists()

            # Esc says no, as the card says; the turn goes on.
            await person.send("Make another file.")
            await person.until(lambda: person.there("Allow once"), "it is asked about")
            await person.key(Qt.Key.Key_Escape)
            await person.sees("I left it.")
            assert not (folder / "never").exists()

        use_window(conch_home, script)
        told = double.requests[1].messages[-1]
        assert "docker-init" in str(told), "the model was told what its command printed"
        assert "container" in str(told).lower(), "and where it ran"
