"""WorkPlacePicker: seen when there is a choice, used with the mouse and with the keyboard alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.services import Services
from tests.ui.window_hands import ALT, CTRL, SHIFT, Person, use_window
from ui.popover import Popover
from workplaces.place import NextStep, PlaceStatus, WorkPlaceId

COMPUTER = PlaceStatus(
    id=WorkPlaceId("computer"), name="This computer", line="In the sealed box.", standing="ready", seals=True
)
DOCKER = PlaceStatus(
    id=WorkPlaceId("container"), name="Docker", line="A fresh, locked-down box.", standing="ready", seals=True
)
DOWN = replace(
    DOCKER,
    line="Docker is not running.",
    standing="needs",
    next_step=NextStep("Start Docker", command="sudo systemctl start docker"),
)
BOX = PlaceStatus(
    id=WorkPlaceId("ssh", "build-box"), name="build-box", line="Your machine, over SSH.", standing="ready", seals=False
)
ASLEEP = replace(BOX, id=WorkPlaceId("ssh", "gpu-desk"), name="gpu-desk", line="Isn't answering.", standing="down")

CHIP = "Where commands run"


class Standings:
    """Stands in for the places' own answer, so that each can stand as a test wants it."""

    def __init__(self, *statuses: PlaceStatus) -> None:
        self.statuses = list(statuses)
        self.looks = 0

    async def status(
        self, *, look: bool = False, reach: Collection[WorkPlaceId] = (), on_progress: Any = None
    ) -> list[PlaceStatus]:
        self.looks += look
        return list(self.statuses)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def use(home: Path, script: Any, standings: Standings, folder: Path, *, place: str = "computer") -> None:
    async def prepare(services: Services) -> None:
        if not await services.store.chats():
            await services.store.make(folder=folder, place=place, mode="ask", engine="commands", title="One")

    def double(services: Services) -> None:
        services.places.status = standings.status  # type: ignore[method-assign]

    use_window(home, script, prepare=prepare, before=double)


def chip(person: Person) -> str:
    return person.find(CHIP).accessibleName()


async def open_picker(person: Person, *, keyboard: bool = False) -> None:
    if keyboard:
        while not person.focused().startswith(CHIP):
            await person.key(Qt.Key.Key_Tab)
        await person.key(Qt.Key.Key_Down, ALT)
    else:
        await person.click(CHIP)
    await person.until(lambda: person.there("Where work runs"), "the picker is open")


def test_there_is_no_chip_where_there_is_no_choice(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    standings = Standings(COMPUTER, DOWN)

    async def script(person: Person) -> None:
        await person.until(lambda: standings.looks, "the places were asked")
        await person.rest()
        assert not person.there(CHIP)
        standings.statuses[1] = DOCKER
        person.window.standing.look()
        await person.until(lambda: person.there(CHIP), "the chip is there once a container is ready")
        assert chip(person) == "Where commands run: This computer"

    use(conch_home, script, standings, folder)


def test_a_chat_that_runs_elsewhere_has_its_chip_and_how_the_place_stands(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        await person.until(lambda: "Docker, needs you" in chip(person), "the chip names the place and its state")
        assert person.window.shell.windowTitle() == "One — in a container (Docker) — Conch"

    use(conch_home, script, Standings(COMPUTER, DOWN), folder, place="container")


def test_a_place_is_picked_with_the_mouse_and_kept(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    standings = Standings(COMPUTER, DOCKER, BOX)

    async def script(person: Person) -> None:
        await open_picker(person)
        await person.click("Docker")
        await person.until(lambda: chip(person) == "Where commands run: Docker", "the chip says so")
        assert not person.there("Where work runs"), "the picker is closed"
        await person.until(
            lambda: any("in a container" in row for row in person.rows(person.window.sidebar.list)), "row"
        )
        await person.until(lambda: person.window.page.composer.place_chip.still, "the glide ends")

    async def again(person: Person) -> None:
        await person.until(lambda: chip(person) == "Where commands run: Docker", "it was kept")

    use(conch_home, script, standings, folder)
    use(conch_home, again, standings, folder)


def test_the_keyboard_alone_is_enough(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    standings = Standings(COMPUTER, DOCKER, BOX, ASLEEP)

    async def script(person: Person) -> None:
        await person.until(lambda: person.there(CHIP), "the chip is there")
        await open_picker(person, keyboard=True)
        assert person.focused().startswith("This computer"), "it begins at the chat's own place"
        walk = [
            (Qt.Key.Key_Down, "Docker"),
            (Qt.Key.Key_Down, "build-box"),
            (Qt.Key.Key_End, "gpu-desk"),
            (Qt.Key.Key_Down, "This computer"),
            (Qt.Key.Key_Up, "gpu-desk"),
            (Qt.Key.Key_Home, "This computer"),
        ]
        for key, name in walk:
            await person.key(key)
            assert person.focused().startswith(name)
        await person.type("bu")
        assert person.focused().startswith("build-box"), "letters go to a name"
        await person.key(Qt.Key.Key_Escape)
        assert not person.there("Where work runs")
        assert person.focused() == "Where commands run: This computer", "Esc changes nothing and gives the focus back"
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: person.there("Where work runs"), "Enter opens it too")
        await person.key(Qt.Key.Key_Down)
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: chip(person) == "Where commands run: Docker", "Enter picks")
        assert person.focused().startswith(CHIP)

    use(conch_home, script, standings, folder)


def test_many_places_are_searched(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    boxes = [replace(BOX, id=WorkPlaceId("ssh", f"box-{number}"), name=f"box-{number}") for number in range(20)]
    standings = Standings(COMPUTER, DOCKER, BOX, *boxes)

    def names(person: Person) -> list[str]:
        rows = [row for row in person.window.page.composer.place_picker.rows if row.isVisible()]
        return [row.choice.title for row in sorted(rows, key=lambda row: row.y())]

    async def script(person: Person) -> None:
        await open_picker(person)
        assert person.there("Search: Where work runs")
        assert len(names(person)) == 23
        await person.type("box17")
        await person.until(lambda: names(person)[:1] == ["box-17"], "what fits best comes first")
        assert "Docker" not in names(person)
        await person.key(Qt.Key.Key_Down)
        assert person.focused().startswith("box-17")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: chip(person) == "Where commands run: box-17", "it is picked")
        await open_picker(person)
        assert len(names(person)) == 23, "what was searched for is over"
        await person.type("nothing like it")
        await person.until(lambda: names(person) == [], "none fits")
        await person.key(Qt.Key.Key_Return)
        await person.key(Qt.Key.Key_Escape)
        assert not person.there("Where work runs")
        await open_picker(person, keyboard=True)
        await person.type("docker")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: chip(person) == "Where commands run: Docker", "Enter takes the first that fits")

    use(conch_home, script, standings, folder)


def test_a_place_that_is_not_ready_is_not_picked_but_its_next_step_is_there(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    standings = Standings(COMPUTER, DOWN, BOX, ASLEEP)

    async def script(person: Person) -> None:
        await open_picker(person)
        QGuiApplication.clipboard().clear()
        await person.click("Docker, needs you")
        await person.until(lambda: QGuiApplication.clipboard().text() == "sudo systemctl start docker", "it is copied")
        await person.sees("Copied")
        assert "sudo systemctl start docker" in person.toast()
        assert person.there("Where work runs"), "the picker stays"
        assert chip(person) == "Where commands run: This computer"
        looks = standings.looks
        await person.click("gpu-desk", at=QPoint(80, 20))
        await person.until(lambda: standings.looks > looks, "it is tried again")
        standings.statuses[1] = DOCKER
        person.window.standing.look()
        await person.until(lambda: person.there("Docker, ready"), "the row is another where it stands")
        await person.click("Docker, ready")
        await person.until(lambda: chip(person) == "Where commands run: Docker", "and can be picked now")

    use(conch_home, script, standings, folder)


def test_a_place_is_made_the_default_and_new_chats_begin_there(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    standings = Standings(COMPUTER, DOCKER)

    async def script(person: Person) -> None:
        await person.until(lambda: person.there(CHIP), "the chip is there")
        await open_picker(person)
        await person.sees("New chats run on this computer")
        assert not person.there("Make this my default"), "it is the default already"
        await person.click("Docker")
        await open_picker(person)
        await person.click("Make this my default")
        await person.sees("New chats run in a container")
        await person.key(Qt.Key.Key_Escape)
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: chip(person) == "Where commands run: Docker", "a new chat begins there")

    async def again(person: Person) -> None:
        await person.key(Qt.Key.Key_N, CTRL)
        await person.until(lambda: chip(person) == "Where commands run: Docker", "after a restart too")

    use(conch_home, script, standings, folder)
    use(conch_home, again, standings, folder)


def test_at_a_place_that_cannot_seal_the_switch_says_open(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.until(lambda: person.there("Open"), "the switch says that commands run open")
        assert not person.find("Open").isEnabled()

    use(conch_home, script, Standings(COMPUTER, BOX), folder, place="ssh:build-box")


def test_with_reduced_motion_the_mark_is_there_at_once(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.services.preferences.set("motion", "off")
        await open_picker(person)
        await person.click("Docker")
        await person.until(lambda: chip(person) == "Where commands run: Docker", "the chip says so")
        assert person.window.page.composer.place_chip.still

    use(conch_home, script, Standings(COMPUTER, DOCKER), folder)


def test_the_mark_glides_and_glints_once(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.services.preferences.set("motion", "on")
        place = person.window.page.composer.place_chip
        await open_picker(person)
        still = place.grab().toImage()
        await person.click("Docker")
        await person.until(lambda: not place.still, "something moves")
        pictures = [place.grab().toImage()]
        while not place.still:
            await person.rest()
            pictures.append(place.grab().toImage())
        assert any(one != still and one != pictures[-1] for one in pictures), "it was seen on its way"

    use(conch_home, script, Standings(COMPUTER, DOCKER), folder)


def test_the_keyboard_opens_the_picker_where_no_place_is_ready_but_this_computer(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        assert not person.there(CHIP)
        await person.key(Qt.Key.Key_P, CTRL | SHIFT)
        await person.until(lambda: person.there("Where work runs"), "the picker is open")
        await person.sees("Docker is not running.")

    use(conch_home, script, Standings(COMPUTER, DOWN), folder)


def test_a_command_that_could_not_run_lets_the_chip_say_how_its_place_stands(
    conch_home: Path, folder: Path, qapp: QApplication
) -> None:
    standings = Standings(COMPUTER, DOCKER)

    async def script(person: Person) -> None:
        await person.until(lambda: chip(person) == f"{CHIP}: Docker", "the place is ready")
        standings.statuses = [COMPUTER, DOWN]
        folder.rmdir()
        await person.send("true")
        await person.sees("did not run")
        await person.until(lambda: chip(person).startswith(f"{CHIP}: Docker, "), "the chip says how it stands")

    use(conch_home, script, standings, folder, place="container")


def test_every_chip_opens_with_the_same_key(conch_home: Path, folder: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        def cards() -> list[str]:
            return [card.accessibleName() for card in person.window.findChildren(Popover) if card.isVisible()]

        for chip_name, card in (("How much goes ahead", "Without asking"), ("What answers", "What answers")):
            await person.key(Qt.Key.Key_L, CTRL)
            while not person.focused().startswith(chip_name):
                await person.key(Qt.Key.Key_Tab)
            await person.key(Qt.Key.Key_Down, ALT)
            assert cards() == [card]
            await person.key(Qt.Key.Key_Escape)
            assert cards() == []

    use(conch_home, script, Standings(COMPUTER, DOCKER), folder)
