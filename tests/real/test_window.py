"""The window over a real Docker and a real bubblewrap, used with the mouse and the keyboard alone."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.real.engines.dockerd import Dockerd
from tests.ui.watchdog import Watchdog
from tests.ui.window_hands import ALT, CTRL, Person, use_window

CHIP = "Where commands run"
# What only the place itself can answer: its name, its control groups and its process 1.
LOOK = "hostname; cat /proc/1/comm; id -u"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tidy-parser"
    made.mkdir()
    (made / "a.txt").write_text("what is in a\n")
    return made


async def ended(person: Person) -> None:
    await person.until(lambda: person.there("Send"), "it has ended", seconds=60)


async def run(person: Person, command: str, sees: str) -> None:
    """Sends a command and waits for words that it prints."""
    await ended(person)
    await person.send(command)
    await person.sees(sees, seconds=60)
    await ended(person)


def chip(person: Person) -> str:
    return person.find(CHIP).accessibleName()


async def pick_with_mouse(person: Person, place: str) -> None:
    await person.click(CHIP)
    await person.click(place)
    await person.until(lambda: chip(person) == f"{CHIP}: {place}", f"the chip says {place}")


async def pick_with_keyboard(person: Person, place: str) -> None:
    while not person.focused().startswith(CHIP):
        await person.key(Qt.Key.Key_Tab)
    await person.key(Qt.Key.Key_Down, ALT)
    await person.until(lambda: person.there("Where work runs"), "the picker is open")
    await person.type(place[:3])
    assert person.focused().startswith(place)
    await person.key(Qt.Key.Key_Return)
    await person.until(lambda: chip(person) == f"{CHIP}: {place}", f"the chip says {place}")


def test_a_chat_whose_commands_run_in_a_container_or_here(
    conch_home: Path, folder: Path, docker_host: Dockerd, need: Callable[..., None], qapp: QApplication
) -> None:
    need("bwrap")
    here = socket.gethostname()

    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.until(lambda: person.there(CHIP), "the chip is there, as a container is ready")
        assert chip(person) == f"{CHIP}: This computer"

        # With the mouse.
        await pick_with_mouse(person, "Docker")
        await person.send(f"{LOOK}; for n in 1 2 3; do echo line $((n * 111)); sleep 0.7; done; touch b.txt")
        await person.sees("line 111", seconds=60)
        assert "line 333" not in person.chat(), "the output comes while it runs"
        await person.sees("line 333")
        await ended(person)
        await person.sees("container")
        assert here not in person.chat()
        assert "docker-init" in person.chat()
        made = folder / "b.txt"
        assert made.exists()
        assert made.stat().st_uid == folder.stat().st_uid, "what it made is here, and the person's"
        assert "Ran in a container" in person.read_rows()

        # Here again: nothing is said of where.
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: chip(person) == f"{CHIP}: This computer", "new chats still run here")
        await run(person, "echo $((6 * 7123)) on $(hostname)", f"42738 on {here}")
        assert "container" not in person.chat()
        assert "Ran in a container" not in person.read_rows()

        # With the keyboard, in the same chat: each step says its own place.
        await pick_with_keyboard(person, "Docker")
        await run(person, "echo $((6 * 8123)) on $(cat /proc/1/comm)", "48738 on docker-init")
        await person.sees("container")
        await pick_with_keyboard(person, "This computer")
        await run(person, "echo $((6 * 9123)) on $(hostname)", f"54738 on {here}")

        # Docker as the default, from Settings' own row and seen in a new chat.
        await pick_with_mouse(person, "Docker")
        await person.click(CHIP)
        await person.click("Make this my default")
        await person.sees("New chats run in a container")
        await person.key(Qt.Key.Key_Escape)
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: person.there("Work folder"), "a new chat")
        assert chip(person) == f"{CHIP}: Docker"
        await run(person, "echo $((7 * 8123)) on $(cat /proc/1/comm)", "56861 on docker-init")

    async def again(person: Person) -> None:
        await person.sees("56861 on docker-init")
        assert "Ran in a container" in person.read_rows()
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: chip(person) == f"{CHIP}: Docker", "after a restart too")

    use_window(conch_home, script)
    use_window(conch_home, again)


def test_a_place_that_is_gone_runs_nothing_and_says_the_next_step(
    conch_home: Path, folder: Path, docker_host: Dockerd, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.until(lambda: person.there(CHIP), "the chip is there")
        await pick_with_mouse(person, "Docker")
        docker_host.stop()
        await person.send("touch ran; expr 98765 + 1")
        await person.sees("did not run", seconds=60)
        await ended(person)
        assert not (folder / "ran").exists(), "it ran nowhere"
        assert "98766" not in person.chat()
        await person.click(CHIP)
        await person.until(lambda: person.there("Container, needs you"), "it is said")

    use_window(conch_home, script)


@pytest.mark.parametrize("place", ["This computer", "Docker"])
def test_200_mb_never_hold_the_windows_thread(
    conch_home: Path,
    folder: Path,
    docker_host: Dockerd,
    need: Callable[..., None],
    qapp: QApplication,
    place: str,
) -> None:
    need("bwrap")
    size = 200 * 1024 * 1024

    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.until(lambda: person.there(CHIP), "the chip is there")
        if place != "This computer":
            await pick_with_mouse(person, place)
        await run(person, "expr 98765 + 1", "98766")
        seen = []
        # What holds the window does so each time. Another program that takes the processor from whoever has the
        # interpreter just then does not.
        for attempt in range(3):
            watchdog = Watchdog()
            await person.send(f"yes 'printed again and again' | head -c {size}; expr 87654 + {attempt}")
            watchdog.start()
            await person.until(lambda: person.there("Stop"), "it runs")
            await person.until(lambda: person.there("Send"), "it has ended", seconds=110)
            await person.sees(str(87654 + attempt))
            watchdog.stop()
            assert watchdog.ticks > 20
            assert re.search(r"not shown", person.chat()), "the row says how much is not shown"
            if not watchdog.held:
                return
            seen.append(watchdog.words())
        raise AssertionError("each time:\n" + "\n".join(seen))

    use_window(conch_home, script)
