"""WorkPlaces: what places there are, how each stands, and the one a turn uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workplaces.place import (
    COMPUTER,
    CONTAINER,
    NextStep,
    OnProgress,
    PlaceStatus,
    PlaceUnavailable,
    WorkPlace,
    WorkPlaceId,
)
from workplaces.words import PLACE_WORDS

if TYPE_CHECKING:
    from workplaces.computer.place import Computer
    from workplaces.container.place import Container
    from workplaces.ssh.machines import Copy, Machines

log = logging.getLogger(__name__)

DEFAULT_IMAGE = "docker.io/library/node:24-bookworm"
LOOK_LIMIT = 8.0  # how long a place may take to say how it stands before it is shown as being looked at
FRESH = 10.0  # how long what a place said is believed
REACHED_AT_ONCE = 4  # machines that are reached at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSettings:
    """What a person chose about places. Read anew for every command: the ``image`` of containers, their ``memory`` in
    GB, ``cpus``, ``runtime`` and ``gpus``, how many ``spares`` (boxes made ahead) there may be in all, and the
    ``hosts`` that an open one may reach (empty: all). ``ssh_hosts`` are the machines to show of those that the SSH
    settings name (none: all of them). ``leave`` are names of folders that no copy there gets, beside those that Conch
    leaves by itself; ``carry`` are of these the ones that it gets all the same."""

    image: str = DEFAULT_IMAGE
    memory: int = 4
    cpus: int = 2
    runtime: str = ""
    gpus: bool = False
    spares: int = 4
    hosts: str = ""
    ssh_hosts: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    carry: tuple[str, ...] = ()


OnFixed = Callable[[str, str], None]
"""Called with (what was done, why) each time a place put something right by itself."""


class WorkPlaces:
    """The places, built once.

    ``home`` is a folder of Conch's own (made 0700 when needed); ``settings`` is asked for every command;
    ``protected`` names what no command may touch, wherever it runs; ``output`` is the folder where long outputs are
    kept, which ``start`` empties of old ones. ``on_fixed`` is called on the loop; ``saving``, in any thread, says that
    the battery is to be saved. ``ssh_settings`` names the machines (``~/.ssh/config`` unless given).
    """

    def __init__(
        self,
        home: Path,
        *,
        settings: Callable[[], PlaceSettings] = PlaceSettings,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        on_fixed: OnFixed | None = None,
        output: Path | None = None,
        saving: Callable[[], bool] | None = None,
        ssh_settings: Path | None = None,
    ) -> None:
        self._home = home
        self._output = output
        self._saving = saving or (lambda: False)
        self._settings = settings
        self._protected = protected
        self._on_fixed = on_fixed
        self._ssh_settings = ssh_settings
        self._listeners: list[Callable[[], None]] = []
        self._reaching = asyncio.Semaphore(REACHED_AT_ONCE)
        self._watching: asyncio.Task[None] | None = None
        self._building: asyncio.Task[tuple[Computer, Container, Machines]] | None = None
        self._known: dict[WorkPlaceId, tuple[PlaceStatus, float]] = {}
        self._looking: dict[WorkPlaceId, asyncio.Task[PlaceStatus]] = {}
        self._housekeeping: asyncio.Task[None] | None = None

    async def status(
        self,
        *,
        look: bool = False,
        reach: Collection[WorkPlaceId] = (),
        on_progress: OnProgress | None = None,
    ) -> list[PlaceStatus]:
        """How each place stands. What was known a moment ago unless ``look``, which asks each again.

        Each is asked at the same time, and one that does not say in LOOK_LIMIT seconds stands as ``checking``, or as it
        last said; what it says later is what is known then, and listeners are told. A machine of the SSH settings is
        only asked when it was used or reached before, or is in ``reach``: reaching one signs in to it.
        """
        machines = await self._machines()
        chosen = self._settings().ssh_hosts
        names = [name for name in await machines.names() if not chosen or name in chosen]
        places = (COMPUTER, CONTAINER, *(WorkPlaceId("ssh", name) for name in names))
        return list(
            await asyncio.gather(
                *(
                    self._status(
                        place, place in reach or (look and (place.kind != "ssh" or machines.tried(place.host)))
                    )
                    for place in places
                )
            )
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """``listener`` is called, on the loop, when there are other places or one that was asked for long has said how
        it stands. Gives what ends that."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    async def for_turn(self, place: WorkPlaceId) -> WorkPlace:
        """The place, for one turn. Raises PlaceUnavailable. Never gives another place than the one asked for."""
        if place.kind == "cloud":
            step = NextStep(PLACE_WORDS["later.next"], action="choose-place")
            raise PlaceUnavailable(PLACE_WORDS["later"].format(name=PLACE_WORDS["cloud.name"]), next_step=step)
        computer, container, machines = await self._places()
        if place.kind == "ssh":
            return await machines.place(place.host)
        return computer if place.kind == "computer" else container

    async def copies(self, chat: str = "") -> list[Copy]:
        """The copies of work folders on the person's machines that this Conch knows of. Asks no machine."""
        return await (await self._machines()).copies(chat)

    async def copy_sizes(self, host: str) -> dict[str, int]:
        """All copies that lie on a machine, another Conch's too, by their names there, and how much room each takes
        (bytes). Signs in there. Raises PlaceUnavailable."""
        return await (await (await self._machines()).place(host)).sizes()

    async def remove_copy(self, host: str, name: str) -> None:
        """Removes a copy on a machine, nothing here. Raises PlaceUnavailable, also when some of it is left."""
        if not await (await (await self._machines()).place(host)).remove_copy(name):
            raise PlaceUnavailable(PLACE_WORDS["copy.left"].format(host=host))

    async def start(self) -> None:
        """Housekeeping at start: old output and boxes left behind go, in the background. Quick, and never raises."""
        if self._housekeeping is None:
            loop = asyncio.get_running_loop()
            self._housekeeping = loop.create_task(self._keep_house(), name="places-housekeeping")
            self._watching = loop.create_task(self._watch(), name="places-watch")

    async def close(self) -> None:
        """Lets go of the engine. Commands that still run are their callers' to stop first."""
        waiting = [task for task in (self._housekeeping, self._watching, *self._looking.values()) if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._building is not None:
            try:
                _, container, machines = await self._places()
            except Exception:  # noqa: BLE001
                return  # it could not be built, and whoever asked for it was told
            await asyncio.gather(container.close(), machines.close())

    async def _machines(self) -> Machines:
        return (await self._places())[2]

    async def _places(self) -> tuple[Computer, Container, Machines]:
        """Builds them once. In a thread: what they import takes longer than a window may wait."""
        if self._building is None or (self._building.done() and self._building.exception() is not None):
            self._building = asyncio.get_running_loop().create_task(asyncio.to_thread(self._build), name="places")
        return await asyncio.shield(self._building)

    def _build(self) -> tuple[Computer, Container, Machines]:
        from workplaces.computer.place import Computer
        from workplaces.container.box import Options
        from workplaces.container.place import Container
        from workplaces.container.spares import SpareRules
        from workplaces.mirror.mirror import Mirror
        from workplaces.mirror.scope import DEPENDENCIES
        from workplaces.ssh.machines import Machines

        def options() -> Options:
            chosen = self._settings()
            return Options(memory=chosen.memory, cpus=chosen.cpus, runtime=chosen.runtime, gpus=chosen.gpus)

        computer = Computer(self._home / "computer", protected=self._protected)
        container = Container(
            self._home / "container",
            image=lambda: self._settings().image,
            options=options,
            spares=SpareRules(most=lambda: self._settings().spares, saving=self._saving),
            protected=self._protected,
            on_fixed=self._on_fixed,
            hosts=lambda: self._settings().hosts,
        )

        def leave() -> frozenset[str]:
            chosen = self._settings()
            return DEPENDENCIES.difference(chosen.carry).union(chosen.leave)

        machines = Machines(
            self._home / "ssh",
            Mirror(self._home / "mirror"),
            settings=self._ssh_settings,
            protected=self._protected,
            leave=leave,
        )
        return computer, container, machines

    async def _status(self, place: WorkPlaceId, look: bool) -> PlaceStatus:
        loop = asyncio.get_running_loop()
        known, at = self._known.get(place, (None, 0.0))
        if known is not None and not look and loop.time() - at < FRESH:
            return known
        looking = self._looking.get(place)
        if looking is None or looking.done():
            looking = loop.create_task(self._look(place, look), name=f"look at {place}")
            self._looking[place] = looking
        await asyncio.wait({looking}, timeout=LOOK_LIMIT)
        if looking.done() and not looking.cancelled():
            return looking.result()
        looking.add_done_callback(lambda _: self._tell())
        return known or _checking(place)

    async def _look(self, place: WorkPlaceId, look: bool) -> PlaceStatus:
        try:
            computer, container, machines = await self._places()
            if place.kind == "ssh":
                status = await self._reach(machines, place.host, look)
            else:
                status = await (computer if place == COMPUTER else container).standing(look=look)
        except Exception as error:
            log.exception("%s did not say how it stands", place)
            status = _broken(place, error)
        self._known[place] = status, asyncio.get_running_loop().time()
        return status

    async def _reach(self, machines: Machines, host: str, look: bool) -> PlaceStatus:
        if not look and not machines.tried(host):
            return _not_reached(host)
        async with self._reaching:
            return await (await machines.place(host)).standing(look=look)

    async def _watch(self) -> None:
        await (await self._machines()).watch(self._tell)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:
                log.exception("a listener to the places failed")

    async def _keep_house(self) -> None:
        from workplaces.output import sweep

        try:
            if self._output is not None:
                await asyncio.to_thread(sweep, self._output)
            computer, container, machines = await self._places()
            await asyncio.gather(computer.sweep(), container.sweep(), machines.sweep())
        except Exception:
            log.exception("the places' housekeeping failed")


def _checking(place: WorkPlaceId) -> PlaceStatus:
    line = PLACE_WORDS["place.checking"]
    return PlaceStatus(id=place, name=_name(place), line=line, standing="checking", seals=_seals(place))


def _not_reached(host: str) -> PlaceStatus:
    """A machine nobody asked for yet. It may be picked: then it is reached, or says why it cannot be."""
    place = WorkPlaceId("ssh", host)
    line = PLACE_WORDS["ssh.first"]
    return PlaceStatus(id=place, name=host, line=line, standing="ready", seals=False, details={"reached": "not yet"})


def _broken(place: WorkPlaceId, error: Exception) -> PlaceStatus:
    return PlaceStatus(
        id=place,
        name=_name(place),
        line=PLACE_WORDS["place.broken"],
        standing="down",
        seals=_seals(place),
        details={"log": repr(error)},
    )


def _name(place: WorkPlaceId) -> str:
    return place.host if place.kind == "ssh" else PLACE_WORDS[f"{place.kind}.name"]


def _seals(place: WorkPlaceId) -> bool:
    return place.kind in ("computer", "container")
