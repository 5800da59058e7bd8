"""A container as a place: one fresh box for each command, and nowhere else if that box cannot be."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workplaces.container.box import HOME, LONGEST_ARGUMENT, LONGEST_COMMAND, BoxAsk, Options, words_of
from workplaces.container.engine import Engine
from workplaces.container.finding import Engines
from workplaces.container.git import look_after, needs_look
from workplaces.container.ground import top_level
from workplaces.container.hosts_door import DoorAsk
from workplaces.container.hosts_doors import Doors, read_list
from workplaces.container.hosts_doors import about as about_hosts
from workplaces.container.image import Image, Images
from workplaces.container.life import Going, Life, OnLeft
from workplaces.container.limits import in_words
from workplaces.container.paths import shown_inside
from workplaces.container.proof import size
from workplaces.container.run import HUNG_LIMIT, NotNow, Run
from workplaces.container.spares import SpareRules, Spares, Want, want
from workplaces.container.sweep import House, Leftovers, owner, sweep
from workplaces.folder import WorkFolder, check_folder, shown
from workplaces.place import (
    CONTAINER,
    NextStep,
    PlaceStatus,
    PlaceUnavailable,
    RunRequest,
    RunResult,
    Stopped,
    WorkPlaceId,
)
from workplaces.seal.keys import linked_keys
from workplaces.threads import in_thread, to_the_end
from workplaces.words import PLACE_WORDS

_TRIES = 3
_REFILL_AFTER = 0.02  # whoever waits for a result has it first, and may be about to close
_GOING_LIMIT = 10.0  # how long an engine that answers may take to remove the last boxes


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a command is to run on, as it was looked at for this command."""

    folder: WorkFolder
    engine: Engine
    image: Image
    want: Want


class Container:
    """The container on this computer's engine.

    ``home`` is the folder in Conch's home that is its own; ``image``, ``options`` and ``protected`` are asked for every
    command. ``on_fixed`` is called on the loop with (what was done, why). ``env`` and ``person`` (the home folder) are
    this process's unless given. ``spares`` says how many boxes may be made ahead. ``hosts`` is the list of what an open
    box may reach, empty for everything; it is asked for every command. ``doors`` makes what gives boxes that list.
    """

    def __init__(
        self,
        home: Path,
        *,
        image: Callable[[], str],
        options: Callable[[], Options] = Options,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        on_fixed: Callable[[str, str], None] | None = None,
        env: Mapping[str, str] | None = None,
        person: Path | None = None,
        spares: SpareRules | None = None,
        hosts: Callable[[], str] = str,
        doors: Callable[..., Doors] = Doors,
    ) -> None:
        self._house = House(home)
        self._image = image
        self._options = options
        self._hosts = hosts
        self._protected = protected
        self._on_fixed = on_fixed or (lambda what, why: None)
        self._person = person
        self._engines = Engines(
            env=env, home=person, folder=home / "podman", on_fixed=lambda what, why: self._on_fixed(what, why)
        )
        self._images = Images(self._got)
        self._leftovers = Leftovers()
        self._doors = doors(lambda engine, name, late: self._leftovers.add(engine, name, late=late))
        self._going = Going()
        self._spares = Spares(spares or SpareRules(), self._going, self._on_left)
        self._opened: dict[str, int] = {}  # how many open commands a chat ran in a row

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
        limits = in_words(self._engines.last, self._options())
        about = PLACE_WORDS["container.about"].format(image=self._image(), folder=shown_inside(folder), limits=limits)
        return f"{about} {about_hosts(self._hosts())}".strip()

    async def standing(self, *, look: bool = False) -> PlaceStatus:
        """How the container stands: which engine, and whether its image is here. Never raises PlaceUnavailable."""
        try:
            engine = await self._engines.find(look=look)
            there = await self._images.there(engine, self._image())
        except PlaceUnavailable as error:
            sleeper = await self._engines.asleep(error)
            if sleeper is not None:
                line = PLACE_WORDS["wake.line"].format(engine=sleeper.source)
                details = {"engine": sleeper.source, "image": self._image(), "log": error.details}
                name = PLACE_WORDS["container.name"]
                return PlaceStatus(id=CONTAINER, name=name, line=line, standing="ready", seals=True, details=details)
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
                "limits": in_words(engine, self._options()),
                "allowed hosts": self._hosts() or "all",
                "runtimes": ", ".join(engine.facts.runtimes),
                "gpus": "yes" if engine.facts.gpus else "no",
                **({"passed over": passed} if (passed := self._engines.passed_over) else {}),
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
        """Takes the spares away, and waits for the boxes that still go.

        Boxes whose engine does not answer get one more moment; what is left goes at the next start.
        """
        self._spares.close()
        if not await in_thread(lambda: self._going.wait(HUNG_LIMIT), "conch-going"):
            engine = self._engines.last
            if engine is not None and await in_thread(lambda: engine.answers(HUNG_LIMIT), "conch-ping"):
                await in_thread(lambda: self._going.wait(_GOING_LIMIT), "conch-going")
        await self._doors.close()
        await in_thread(lambda: self._leftovers.wait(HUNG_LIMIT), "conch-leftovers")
        await in_thread(self._engines.close, "conch-engine")

    async def run(self, request: RunRequest) -> RunResult:
        """Runs one command in a fresh box. See ``WorkPlace.run``."""
        _check_command(request.command)
        began = time.monotonic()
        try:
            for attempt in range(1, _TRIES + 1):
                result = await self._attempt(request, first=attempt == 1, last=attempt == _TRIES)
                if result is not None:
                    return result
        except Stopped:
            raise
        except asyncio.CancelledError:
            raise Stopped(seconds=time.monotonic() - began) from None
        except PlaceUnavailable:
            self._spares.drop(request.chat)
            raise
        raise AssertionError("the last attempt gives a result or raises")

    async def _attempt(self, request: RunRequest, *, first: bool, last: bool) -> RunResult | None:
        """One box. None when nothing ran because what was known of the folder, engine or image is no longer so."""
        hosts = read_list(self._hosts(), open=request.open)
        # what was made ahead has the engine's network: it is not for a command that a list holds for
        ahead = first and hosts is None and self._spares.waits_for(request.chat, open=request.open)
        ground = await self._same_ground(request) if ahead else None
        ground = ground or await self._new_ground(request)
        engine, image = ground.engine, ground.image
        try:
            if hosts is None:
                result = await self._in_box(request, ground, first=first, ahead=ahead)
            else:
                runtime = self._options().runtime
                ask = DoorAsk(engine, image, hosts, _person(engine), self._house.installation(), owner(), runtime)
                result = await self._doors.through(ask, lambda door: self._behind(request, ground, door))
        except Stopped as stopped:
            said, _ = await to_the_end(_look_after(request, ground.folder, ""))
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
        said = await _look_after(request, ground.folder, result.output.text)
        return replace(result, note=f"{said} {result.note}".strip()) if said else result

    async def _in_box(self, request: RunRequest, ground: _Ground, *, first: bool, ahead: bool) -> RunResult:
        wanted = ground.want
        if ahead:
            life, early = self._spares.take(request.chat, wanted)
        else:
            life, early = None, first and self._spares.is_out(request.chat)
        if early:  # commands come faster than boxes are made: begin the next one together with this
            self._spares.refill(request.chat, wanted, early=True)
        return await self._run(request, ground, wanted, life)

    async def _behind(self, request: RunRequest, ground: _Ground, door: str) -> RunResult:
        """In a box that reaches only what is behind that door. It is made now: a door is for one box at a time."""
        folder, engine, image = ground.folder, ground.engine, ground.image
        wanted = await in_thread(lambda: self._want(request, folder, engine, image, True, door), "conch-body")
        return await self._run(request, ground, wanted, None)

    async def _run(self, request: RunRequest, ground: _Ground, wanted: Want, life: Life | None) -> RunResult:
        if life is None:
            life = Life(ground.engine, wanted.body, wanted.expected, on_left=self._on_left(ground.engine))
        run = Run(ground.engine, ground.image, ground.folder, request, life, wanted.expected, self._going)
        try:
            return await run.result()
        finally:
            if life.gave:
                self._refill(request, ground, listed=wanted is not ground.want)

    async def _new_ground(self, request: RunRequest) -> _Ground:
        """Looks at everything, one after the other, and gets what is missing. Raises PlaceUnavailable."""
        folder = await in_thread(lambda: self._look(request), "conch-folder")
        engine = await self._engines.awake(request.on_progress)
        if not _has(engine, self._options()):  # it may have been given what it lacked since it was asked
            engine = await self._engines.find(look=True)
        image = await self._images.ensure(engine, self._image(), request.on_progress)
        wanted = await in_thread(lambda: self._want(request, folder, engine, image, request.open), "conch-body")
        return _Ground(folder, engine, image, wanted)

    async def _same_ground(self, request: RunRequest) -> _Ground | None:
        """As above where a box waits and time is short: for the engine and the image that there were, which the engine
        looks up while the folder is looked at. None when one of them is another now."""
        engine = self._engines.last
        image = self._images.known(engine, self._image()) if engine is not None else None
        if engine is None or image is None:
            return None

        def look() -> _Ground | None:
            if not self._engines.same(engine):
                return None
            same = self._images.ask_same(engine, image)
            try:
                folder = self._look(request)
                wanted = self._want(request, folder, engine, image, request.open)
            finally:
                is_same = same()
            if is_same:
                return _Ground(folder, engine, image, wanted)
            self._images.forget(engine, image)
            return None

        return await in_thread(look, "conch-folder")

    def _look(self, request: RunRequest) -> WorkFolder:
        keys = map(Path, linked_keys(self._person or Path.home()))
        protected = dict.fromkeys((*request.protected, *self._protected(), self._house.folder, *keys))
        folder = check_folder(request.folder, protected, self._person)
        _check_for_box(folder)
        return folder

    def _refill(self, request: RunRequest, ground: _Ground, *, listed: bool) -> None:
        """The chat's next spare, once whoever waits for this command's result has it.

        It is sealed, as most commands are, unless the chat's last two were open and no list of hosts holds for them.
        The folder is looked at anew: the command may have changed it.
        """
        chat, engine, image = request.chat, ground.engine, ground.image
        if not chat:
            return
        count = self._opened[chat] = self._opened.get(chat, 0) + 1 if request.open else 0
        opened = count > 1 and not listed
        wish = RunRequest(command="", folder=request.folder, chat=chat, open=opened, protected=request.protected)

        def look() -> None:
            try:
                wanted = self._want(wish, self._look(wish), engine, image, opened)
            except (OSError, PlaceUnavailable):
                return
            self._spares.refill(chat, wanted)

        loop = asyncio.get_running_loop()
        loop.call_later(_REFILL_AFTER, lambda: threading.Thread(target=look, name="conch-spare", daemon=True).start())

    def _want(
        self, request: RunRequest, folder: WorkFolder, engine: Engine, image: Image, open: bool, door: str = ""
    ) -> Want:
        options = self._options()
        _check_options(options, engine)
        top = "" if engine.facts.native else top_level(folder)
        ask = BoxAsk(
            image=str(image.reference),
            folder=folder,
            open=open,
            user=_person(engine),
            empty=self._house.empty(),
            etc_hosts=self._house.etc_hosts(),
            top=top,
            options=options,
            volumes=image.volumes,
            chat=request.chat,
            installation=self._house.installation(),
            owner=owner(),
            door=door,
        )
        return want(engine, image, ask)

    def _on_left(self, engine: Engine) -> OnLeft:
        return lambda name, late: self._leftovers.add(engine, name, late=late)

    def _got(self, image: Image) -> None:
        self._on_fixed(PLACE_WORDS["image.fixed"], PLACE_WORDS["image.fixed.why"].format(size=size(image.size)))


async def _look_after(request: RunRequest, folder: WorkFolder, printed: str) -> str:
    if not needs_look(folder, printed, open=request.open):
        return ""
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


def _has(engine: Engine, options: Options) -> bool:
    return (not options.runtime or options.runtime in engine.facts.runtimes) and (not options.gpus or engine.facts.gpus)


def _check_options(options: Options, engine: Engine) -> None:
    """Refuses, with words, what the engine has not. A box without it is not what the person chose."""
    if _has(engine, options):
        return
    step = NextStep(PLACE_WORDS["container.options.next"], action="settings:container.runtime")
    if options.runtime and options.runtime not in engine.facts.runtimes:
        has = ", ".join(engine.facts.runtimes) or PLACE_WORDS["container.runtime.own"]
        words = PLACE_WORDS["container.runtime"].format(engine=engine.name, name=options.runtime, has=has)
        raise PlaceUnavailable(words, next_step=step)
    raise PlaceUnavailable(PLACE_WORDS["container.gpus"].format(engine=engine.name), next_step=step)


def _check_for_box(folder: WorkFolder) -> None:
    own = Path(HOME)
    if folder.path == own or own in folder.path.parents:
        raise PlaceUnavailable(PLACE_WORDS["container.folder-tmp"].format(folder=shown(folder.path)))


def _person(engine: Engine) -> str:
    """The person as the box knows them. Windows has no such numbers: the image's own user it is there."""
    return engine.facts.user(os.getuid(), os.getgid()) if hasattr(os, "getuid") else ""
