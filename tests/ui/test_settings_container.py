"""Settings › the container: what a box is made from and may use, and what its engine has to give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.ui.test_place_picker import COMPUTER, DOCKER
from tests.ui.test_settings import kept, open_settings, use
from tests.ui.window_hands import Person

IMAGE = "mcr.microsoft.com/devcontainers/python:3.13"
STRONG = replace(
    DOCKER,
    details={
        **DOCKER.details,
        "engine": "Docker 28.3",
        "endpoint": "unix:///run/docker.sock",
        "found": "DOCKER_HOST",
        "limits": "At most 4 GB of memory.",
        "runtimes": "io.containerd.runc.v2, runc, runsc",
        "gpus": "yes",
    },
)


def test_limits_are_chosen_and_kept(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        for press, name, value in (
            ("Memory: 8", "container.memory", 8),
            ("Processors: 1", "container.cpus", 1),
            ("Made ahead: None", "container.spares", 0),
        ):
            await person.click(press)
            await person.until(lambda name=name, value=value: kept(conch_home).get(name) == value, "it is kept")
        assert not person.there("Graphics processors: On"), "this engine has none"
        assert not person.there("Isolation: gVisor"), "nor anything stronger"

    use(conch_home, script)


def test_what_a_stronger_engine_has_is_offered(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        await person.sees("Docker 28.3 unix:///run/docker.sock (DOCKER_HOST). At most 4 GB of memory.")
        await person.click("Isolation: gVisor")
        await person.until(lambda: kept(conch_home).get("container.runtime") == "runsc", "it is kept")
        await person.click("Graphics processors: On")
        await person.until(lambda: kept(conch_home).get("container.gpus") is True, "it is kept")
        assert not person.there("Isolation: runc")

    async def again(person: Person) -> None:
        """Another engine now, which has neither: what was chosen is still seen, and can be taken back."""
        await open_settings(person, "Security")
        await person.click("Isolation: As the engine")
        await person.until(lambda: kept(conch_home).get("container.runtime") == "", "it is kept")
        await person.click("Graphics processors: Off")
        await person.until(lambda: kept(conch_home).get("container.gpus") is False, "it is kept")
        await person.until(lambda: not person.there("Graphics processors: Off"), "nothing is left to choose")

    use(conch_home, script, COMPUTER, STRONG)
    use(conch_home, again)


def test_the_allowed_hosts_are_typed_and_what_is_none_says_so(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        await person.replace("Allowed hosts", "pypi.org *.org")
        await person.key(Qt.Key.Key_Return)
        await person.sees("“*.org” would let through nearly everything")
        assert "container.hosts" not in kept(conch_home)
        await person.replace("Allowed hosts", "pypi.org, *.npmjs.org")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: kept(conch_home).get("container.hosts") == "pypi.org, *.npmjs.org", "it is kept")
        await person.until(lambda: "would let through" not in person.seen(), "nothing is wrong any more")

    async def again(person: Person) -> None:
        await open_settings(person, "Security")
        await person.replace("Allowed hosts", "x")
        await person.key(Qt.Key.Key_Backspace)
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: kept(conch_home).get("container.hosts") == "", "everything is reached again")

    use(conch_home, script)
    use(conch_home, again)


def test_a_folders_own_image_is_offered_and_taken_when_pressed(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        folder = conch_home.parent / "project"
        (folder / ".devcontainer").mkdir(parents=True)
        (folder / ".devcontainer" / "devcontainer.json").write_text(f'{{"image": "{IMAGE}"}} // ours')
        await open_settings(person, "Security")
        await person.rest()
        assert not person.there(f"Use the image {IMAGE}"), "no chat is on that folder"
        await person.key(Qt.Key.Key_Escape)
        await person.new_chat_on(folder)
        await open_settings(person, "Security")
        await person.until(lambda: person.there(f"Use the image {IMAGE}"), "it is offered")
        await person.sees(f"{IMAGE}, from .devcontainer/devcontainer.json in the chat's folder")
        assert "container.image" not in kept(conch_home), "and not taken"
        await person.click(f"Use the image {IMAGE}")
        await person.until(lambda: kept(conch_home).get("container.image") == IMAGE, "it is kept")
        await person.until(lambda: not person.there(f"Use the image {IMAGE}"), "it is not offered any more")

    use(conch_home, script)
