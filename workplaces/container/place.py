"""A container as a place: one fresh box for each command, and nowhere else if that box cannot be."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workplaces.container.box import HOME, LONGEST_ARGUMENT, LONGEST_COMMAND, BoxAsk, Expected, expected, seal, words_of
from workplaces.container.engine import Engine, Engines
from workplaces.container.git import look_after
from workplaces.container.hosts_door import DoorAsk
from workplaces.container.hosts_doors import Doors, read_list
from workplaces.container.hosts_doors import about as about_hosts
from workplaces.container.image import Image, Images
from workplaces.container.proof import size
from workplaces.container.run import HUNG_LIMIT, NotNow, Run
from workplaces.container.sweep import House, Leftovers, owner, sweep
from workplaces.container.threads import in_thread, to_the_end
from workplaces.folder import WorkFolder, check_folder, shown
from workplaces.place import (
    CONTAINER,
    PlaceStatus,
    PlaceUnavailable,
    RunRequest,
    RunResult,
    Stopped,
    WorkPlaceId,
)
from workplaces.seal.keys import linked_keys
from workplaces.words import PLACE_WORDS

_TRIES = 3


class Container:
    """The container on this computer's engine.

    ``home`` is the folder in Conch's home that is its own; ``image`` and ``protected`` are asked for every command.
    ``on_fixed`` is called on the loop with (what was done, why). ``env`` and ``person`` (the home folder) are this
    process's unless given. ``hosts`` is the list of what an open box may reach, empty for everything; it is asked for
    every command. ``doors`` makes what gives boxes that list.
    """

    def __init__(
        self,
        home: Path,
        *,
        image: Callable[[], str],
        protected: Callable[[], tuple[Path, ...]] = tuple,
        on_fixed: Callable[[str, str], None] | None = None,
        env: Mapping[str, str] | None = None,
        person: Path | None = None,
        hosts: Callable[[], str] = str,
        doors: Callable[..., Doors] = Doors,
    ) -> None:
        self._house = House(home)
        self._image = image
        self._hosts = hosts
        self._protected = protected
        self._on_fixed = on_fixed or (lambda what, why: None)
        self._person = person
        self._engines = Engines(env=env, home=person)
        self._images = Images(self._got)
        self._leftovers = Leftovers()
        self._doors = doors(lambda engine, name, late: self._leftovers.add(engine, name, late=late))

    @property
    def id(self) -> WorkPlaceId:
        return CONTAINER

    @property
    def seals(self) -> bool:
        return True

    @property
    def where(self) -> str:
        return PLACE_WORDS["container.where"]

    def about(self, folder: Path) -> str:
        about = PLACE_WORDS["container.about"].format(image=self._image(), folder=shown(folder))
        return f"{about} {about_hosts(self._hosts())}".strip()

    async def standing(self, *, look: bool = False) -> PlaceStatus:
        """How the container stands: which engine, and whether its image is here. Never raises PlaceUnavailable."""
        try:
            engine = await self._engines.find(look=look)
            there = await self._images.there(engine, self._image())
        except PlaceUnavailable as error:
            return PlaceStatus(
                id=CONTAINER,
                name=PLACE_WORDS["container.name"],
                line=error.words,
                standing="needs" if error.need else "down",
                seals=True,
                next_step=error.next_step,
                need=error.need,
                details={"log": error.details},
            )
        return PlaceStatus(
            id=CONTAINER,
            name=engine.facts.name,
            line=PLACE_WORDS["container.line" if there else "container.first"],
            standing="ready",
            seals=True,
            details={
                "engine": engine.name,
                "endpoint": engine.endpoint.address,
                "found": engine.endpoint.source,
                "image": self._image(),
                "image here": "yes" if there else "no",
                "allowed hosts": self._hosts() or "all",
            },
        )

    async def sweep(self) -> int:
        """Removes boxes that an ended Conch of this installation left behind. Gives how many; never raises."""
        try:
            engine = await self._engines.find()
            count = await in_thread(lambda: sweep(engine, self._house.installation()), "conch-sweep")
        except Exception:  # noqa: BLE001 - no engine, or one that answers with anything: there is nothing to sweep
            return 0
        if count:
            self._on_fixed(PLACE_WORDS["container.fixed"], PLACE_WORDS["container.fixed.why"].format(count=count))
        return count

    async def close(self) -> None:
        """Gives boxes whose engine did not answer one more moment; what is left goes at the next start."""
        await self._doors.close()
        await in_thread(lambda: self._leftovers.wait(HUNG_LIMIT), "conch-leftovers")
        self._engines.close()

    async def run(self, request: RunRequest) -> RunResult:
        """Runs one command in a fresh box. See ``WorkPlace.run``."""
        began = time.monotonic()
        try:
            for attempt in range(1, _TRIES + 1):
                result = await self._attempt(request, last=attempt == _TRIES)
                if result is not None:
                    return result
        except Stopped:
            raise
        except asyncio.CancelledError:
            raise Stopped(seconds=time.monotonic() - began) from None
        raise AssertionError("the last attempt gives a result or raises")

    async def _attempt(self, request: RunRequest, *, last: bool) -> RunResult | None:
        """One box. None when nothing ran because what was known of the folder, engine or image is no longer so."""
        _check_command(request.command)
        folder = await in_thread(lambda: self._folder(request), "conch-folder")
        _check_for_box(folder)
        hosts = read_list(self._hosts(), open=request.open)
        engine = await self._engines.find()
        image = await self._images.ensure(engine, self._image(), request.on_progress)

        async def go(door: str) -> RunResult:
            body, wanted = await in_thread(lambda: self._body(request, folder, engine, image, door), "conch-body")
            run = Run(engine, image, folder, request, body, wanted)
            return await run.result(lambda name, late: self._leftovers.add(engine, name, late=late))

        try:
            ask = DoorAsk(engine, image, hosts, _person(), self._house.installation(), owner()) if hosts else None
            result = await self._doors.through(ask, go)
        except Stopped as stopped:
            said, _ = await to_the_end(_look_after(request, folder, ""))
            stopped.words = f"{stopped.words} {said}".strip()
            raise
        except NotNow as changed:
            if changed.engine:
                self._engines.forget(engine)
            if changed.image:
                self._images.forget(engine, image)
            if last:
                raise changed.words from None
            return None
        said = await _look_after(request, folder, result.output.text)
        return replace(result, note=f"{said} {result.note}".strip()) if said else result

    def _folder(self, request: RunRequest) -> WorkFolder:
        keys = map(Path, linked_keys(self._person or Path.home()))
        protected = dict.fromkeys((*request.protected, *self._protected(), self._house.folder, *keys))
        return check_folder(request.folder, protected, self._person)

    def _body(
        self, request: RunRequest, folder: WorkFolder, engine: Engine, image: Image, door: str
    ) -> tuple[dict[str, Any], Expected]:
        ask = BoxAsk(
            image=str(image.reference),
            command=request.command,
            folder=folder,
            open=request.open,
            user=_person(),
            empty=self._house.empty(),
            volumes=image.volumes,
            chat=request.chat,
            installation=self._house.installation(),
            owner=owner(),
            door=door,
        )
        return seal(ask, engine.facts), expected(folder, engine.facts)

    def _got(self, image: Image) -> None:
        self._on_fixed(PLACE_WORDS["image.fixed"], PLACE_WORDS["image.fixed.why"].format(size=size(image.size)))


async def _look_after(request: RunRequest, folder: WorkFolder, printed: str) -> str:
    return await in_thread(lambda: look_after(folder, printed, open=request.open), "conch-git")


def _check_command(command: str | tuple[str, ...]) -> None:
    """Refuses, with words, what no box can be given: nothing, what is not text, and more than the kernel takes."""
    words = words_of(command)
    if not words or not words[0]:
        raise PlaceUnavailable(PLACE_WORDS["container.empty"])
    try:
        lengths = [len(word.encode("utf-8")) for word in words]
    except UnicodeEncodeError:
        raise PlaceUnavailable(PLACE_WORDS["container.not-text"]) from None
    if any("\0" in word for word in words):
        raise PlaceUnavailable(PLACE_WORDS["container.not-text"])
    if max(lengths) > LONGEST_ARGUMENT or sum(lengths) > LONGEST_COMMAND:
        raise PlaceUnavailable(PLACE_WORDS["container.too-long"])


def _check_for_box(folder: WorkFolder) -> None:
    own = Path(HOME)
    if folder.path == own or own in folder.path.parents:
        raise PlaceUnavailable(PLACE_WORDS["container.folder-tmp"].format(folder=shown(folder.path)))


def _person() -> str:
    """The person as the box knows them. Windows has no such numbers: the image's own user it is there."""
    return f"{os.getuid()}:{os.getgid()}" if hasattr(os, "getuid") else ""
