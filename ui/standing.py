"""How the places and the engines stand, and what the person prefers, as the window shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.desk import Desk

if TYPE_CHECKING:
    from app.chats.events import ChatEvent
    from app.engines.base import EngineChoice
    from app.health.fixed import Fixed
    from workplaces.place import PlaceStatus


class Standing(QObject):
    """Signals:
    changed: how the places stand, or which is the default, is another.
    engines_changed: the engines, or what new chats begin with, are others.
    preferred: a preference is another; its name and value.
    fixed: Conch put something right by itself.
    """

    changed = Signal()
    engines_changed = Signal()
    preferred = Signal(str, object)
    fixed = Signal()

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self.places: list[PlaceStatus] = []
        self.looking = False
        self._ends: list[Callable[[], None]] = []
        desk.ready.connect(self._begin)
        desk.happened.connect(self._happened)

    def _begin(self) -> None:
        services = self._desk.services
        self._ends.append(services.preferences.subscribe(self._on_preference))
        self._ends.append(services.fixed.subscribe(self._on_fixed))
        self._ends.append(services.places.subscribe(self._on_places))
        self.engines_changed.emit()
        self.look()

    def end(self) -> None:
        for end in self._ends:
            end()
        self._ends.clear()

    # Places

    def place(self, name: str) -> PlaceStatus | None:
        return next((status for status in self.places if str(status.id) == name), None)

    @property
    def default_place(self) -> str:
        return self._desk.services.preferences.get("place") if self._desk.open else "computer"

    def look(self, *, reach: bool = False) -> None:
        """Asks in the background how each place stands. One look at a time. ``reach``: also the machines that were not
        used yet, which signs in to them."""
        if self._desk.open and not self.looking:
            self.looking = True
            self._desk.start(self._look(reach), "look at places")

    async def _look(self, reach: bool) -> None:
        places = self._desk.services.places
        try:
            if not self.places:
                self.places = await places.status()
                self.changed.emit()
            machines = [status.id for status in self.places if status.id.kind == "ssh"] if reach else []
            self.places = await (places.status(look=True, reach=machines) if machines else places.status(look=True))
        finally:
            self.looking = False
            self.changed.emit()

    def _on_places(self) -> None:
        """There are other places, or one that was asked for long has said how it stands."""
        if self._desk.open:
            self._desk.start(self._take(), "take in how places stand")

    async def _take(self) -> None:
        self.places = await self._desk.services.places.status()
        self.changed.emit()

    def _happened(self, event: ChatEvent) -> None:
        """Looks again when a command shows that a place stands otherwise than was thought."""
        from app.chats.events import StepFinished

        if isinstance(event, StepFinished):
            status = self.place(self._desk.shown.place)
            if event.outcome == "not_run" or (event.where and status is not None and not status.ready):
                self.look()

    # Engines and preferences

    def engines(self) -> list[EngineChoice]:
        return self._desk.services.engines.offered() if self._desk.open else []

    def make_default(self, place: str) -> None:
        self.prefer("place", place)

    def prefer(self, name: str, value: str | int | bool) -> None:
        """Keeps a preference; what is wrong with it is said."""
        self._desk.keep(self._prefer(name, value), f"set {name}")

    async def _prefer(self, name: str, value: str | int | bool) -> None:
        from app.preferences import BadPreference

        try:
            await self._desk.services.preferences.set(name, value)
        except BadPreference as error:
            self._desk.say(str(error))

    def fixes(self) -> list[Fixed]:
        """What Conch did by itself, newest first."""
        return self._desk.services.fixed.list() if self._desk.open else []

    def _on_fixed(self, _: Fixed) -> None:
        self.fixed.emit()

    def _on_preference(self, name: str, value: object) -> None:
        self.preferred.emit(name, value)
        if name in ("place", "container.image"):
            self.changed.emit()
        if name in ("mode", "engine", "model.base_url", "model.name"):
            self.engines_changed.emit()
        if name == "container.image":
            self.look()
