"""A window on a home of its own, with real services, standing still so that it can be drawn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget

from app.home import Home
from app.services import Services
from ui.start import Opened
from ui.window import Window
from workplaces.place import NextStep, PlaceStatus, WorkPlaceId

FAMILIES = ("Inter", "JetBrains Mono")
SIZE = QSize(1180, 780)


class Stage:
    def __init__(self, home: Home, services: Services, window: Window) -> None:
        self.home, self.services, self.window = home, services, window

    async def settle(self, seconds: float = 0.15) -> None:
        """Lets what was begun come to rest."""
        await asyncio.sleep(seconds)  # Qt's own loop runs meanwhile; running it from here would nest it

    async def places(self, *statuses: PlaceStatus) -> None:
        """Shows these places in place of this machine's own."""

        async def status(*, look: bool = False, reach: object = (), on_progress: object = None) -> list[PlaceStatus]:
            return list(statuses)

        self.services.places.status = status  # type: ignore[method-assign,assignment]
        while self.window.standing.looking:  # at this machine's own
            await self.settle(0.02)
        self.window.standing.places = []
        self.window.standing.look()
        await self.settle()

    def save(self, path: Path) -> None:
        if not self.window.shell.grab().save(str(path)):
            raise OSError(f"{path} could not be written")


@contextlib.asynccontextmanager
async def stage(home: Path, theme: Literal["light", "dark"]) -> AsyncIterator[Stage]:
    """Opens the window on ``home`` and closes it at the end."""
    here = Home(home)
    here.prepare()
    opened = Opened(here, families=FAMILIES)
    opened.shell.resize(SIZE)
    opened.shell.show()
    window = opened.window
    window.themes.choose(theme)
    window.themes.motion.choose("on")  # reduced: nothing moves while it is drawn
    services = Services(here)
    await services.preferences.set("theme", theme)
    await services.preferences.set("motion", "off")
    shown = Stage(here, services, window)
    try:
        await window.desk.begin(services)
        window.page.prepare()
        while window.desk._loading:  # a busy machine takes longer to read the chat
            await shown.settle(0.02)
        await shown.settle()
        yield shown
    finally:
        window.standing.end()
        await window.desk.end()
        await services.close()
        window.shell.finish()
        window.shell.deleteLater()


def ready(place: str, name: str, line: str) -> PlaceStatus:
    return PlaceStatus(
        id=WorkPlaceId.parse(place), name=name, line=line, standing="ready", seals=place in ("computer", "container")
    )


def places() -> Sequence[PlaceStatus]:
    """Every kind of place, in every way one can stand."""
    return (
        ready("computer", "This computer", "In the sealed box: writes to the work folder, no network, no keys."),
        ready("container", "Docker", "A fresh, locked-down box for each command."),
        ready("ssh:build-box", "build-box", "Your machine, over SSH. Works on a copy of the folder."),
        PlaceStatus(
            id=WorkPlaceId.parse("ssh:gpu-desk"),
            name="gpu-desk",
            line="Isn't answering. It may be asleep or off the network.",
            standing="down",
            seals=False,
        ),
        PlaceStatus(
            id=WorkPlaceId.parse("cloud"),
            name="Daytona",
            line="A sandbox in the cloud. Needs a key.",
            standing="needs",
            seals=False,
            next_step=NextStep("Add a key", action="settings.keys"),
        ),
    )


def widget_named(root: QWidget, name: str) -> QWidget:
    """The visible widget with this accessible name."""
    return next(one for one in root.findChildren(QWidget) if one.accessibleName() == name and one.isVisible())
