"""The window over a real OpenSSH machine, used with the mouse and the keyboard alone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.real.engines.sshd import HOST, Sshd
from tests.real.test_window import CHIP, chip, ended, run
from tests.ui.window_hands import Person, use_window


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    path = tmp_path / "ssh-config"
    path.write_text("Host elsewhere\n  HostName nowhere.invalid\n")
    monkeypatch.setenv("CONCH_SSH_CONFIG", str(path))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tidy-parser"
    made.mkdir()
    (made / "a.txt").write_text("what is in a\n")
    return made


def test_a_chat_whose_commands_run_on_a_machine_that_was_just_added(
    conch_home: Path, folder: Path, settings: Path, machine: Sshd, qapp: QApplication
) -> None:
    here = os.uname().nodename

    async def script(person: Person) -> None:
        await person.new_chat_on(folder)
        await person.until(lambda: person.there(CHIP), "the chip is there, as the settings name a machine")
        assert HOST not in person.seen()
        with settings.open("a") as file:
            file.write(machine.settings())
        for _ in range(10):  # opened while the places are being looked at, the picker shows it the next time
            await person.click(CHIP)
            with contextlib.suppress(AssertionError):
                await person.until(lambda: person.there(HOST), "the machine is offered", seconds=2)
                break
            await person.key(Qt.Key.Key_Escape)
        await person.click(HOST)
        await person.until(lambda: chip(person) == f"{CHIP}: {HOST}", "the chip says so")
        await run(person, "echo $((6 * 7123)) on $(uname -n) as $(id -un); cat a.txt; date > b.txt", f"42738 on {HOST}")
        assert f"42738 on {HOST} as build" in person.chat()
        assert "what is in a" in person.chat()
        assert here not in person.chat()
        assert f"Ran on {HOST}" in person.read_rows()
        assert (folder / "b.txt").read_text().strip()
        (folder / "a.txt").write_text("changed here since\n")
        await run(person, "cat a.txt; rm b.txt; echo $((6 * 8123))", "48738")
        assert "changed here since" in person.chat()
        assert not (folder / "b.txt").exists()

        # A machine that cannot be reached runs nothing, and says why.
        # Not by the picker: while that is open the machines are reached, and one that is down is not picked there.
        person.window.desk.set_place("ssh:elsewhere")
        await person.until(lambda: chip(person).startswith(f"{CHIP}: elsewhere"), "the chip says so")
        await person.send("touch ran; expr 98765 + 1")
        await person.sees("cannot be found on the network", seconds=60)
        await ended(person)
        assert not (folder / "ran").exists()
        assert "98766" not in person.chat()
        assert chip(person).startswith(f"{CHIP}: elsewhere")

    use_window(conch_home, script)
    assert not machine.processes("conch-work")
