"""Doors: each command that a list of allowed hosts holds for has one of its own (``hosts_door`` says what that is).

When its command is dead the door waits for the next one: no process of the command is left by then, and a network with
nothing but a loopback keeps nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from workplaces.container.hosts import BadHosts, HostList, Tried
from workplaces.container.hosts_door import Door, DoorAsk, OnDoorLeft, make_door, refuse
from workplaces.container.hosts_pipe import Pipe
from workplaces.container.hosts_proxy import Dial, Proxy, ProxyThread, Resolve, dial, look_up
from workplaces.place import NextStep, PlaceUnavailable, RunResult, Stopped
from workplaces.threads import in_thread, to_the_end
from workplaces.words import PLACE_WORDS

MOST_WAITING = 4
KEEP = 600.0  # seconds that a door waits for the next command
_PING_LIMIT = 1.0
_REMOVE_LIMIT = 5.0


def read_list(text: str, *, open: bool) -> HostList | None:
    """The list that holds for a command, None when none does. Raises PlaceUnavailable for a text that is no list."""
    if not open:
        return None
    try:
        return HostList.parse(text)
    except BadHosts as error:
        step = NextStep(PLACE_WORDS["hosts.next"], action="settings:container.hosts")
        raise PlaceUnavailable(str(error), next_step=step) from None


class Doors:
    """Gives each command that the list holds for a door of its own. Used on one loop.

    ``on_left`` is told, in some thread, of a door that could not be removed. ``resolve`` and ``dial`` are
    this computer's own unless given.
    """

    def __init__(
        self,
        on_left: OnDoorLeft,
        *,
        resolve: Resolve = look_up,
        dial: Dial = dial,
    ) -> None:
        self._on_left = on_left
        self._resolve = resolve
        self._dial = dial
        self._thread: ProxyThread | None = None
        self._waiting: list[Door] = []
        self._making: set[asyncio.Future[Door]] = set()
        self._removing: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def through(self, ask: DoorAsk | None, go: Callable[[str], Coroutine[Any, Any, RunResult]]) -> RunResult:
        """Runs ``go`` with the id of the door that its box is to share, empty when no list holds (``ask`` is None).

        What the command tried to reach and was refused is in the answer, or in the Stopped that is raised. Raises
        PlaceUnavailable or NotNow when there can be no door: nothing ran then.
        """
        if ask is None:
            return await go("")
        refuse(ask)
        door = await self._take(ask)
        proxy = Proxy(ask.hosts, Tried(), Tried(), self._resolve, self._dial)
        door.pipe.let(proxy.serve, proxy.hear_name)
        sure = False
        try:
            result = await go(door.box)
            sure = result.sure
        except Stopped as stopped:
            sure = stopped.sure
            await to_the_end(self._give_back(door, sure))
            stopped.tried = _targets(proxy)
            raise
        except BaseException:
            await to_the_end(self._give_back(door, sure))
            raise
        _, cancelled = await to_the_end(self._give_back(door, sure))
        if cancelled:
            late = Stopped(sure=result.sure, seconds=result.seconds, proof=result.proof)
            late.tried = _targets(proxy)
            raise late
        details = {**result.proof.details, "allowed hosts": str(ask.hosts)}
        note = " ".join(part for part in (result.note, note_of(proxy)) if part)
        return replace(result, tried=_targets(proxy), note=note, proof=replace(result.proof, details=details))

    async def close(self) -> None:
        """Takes away every door that waits or is still being made."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, []
        for door in waiting:
            self._remove(door)
        end = time.monotonic() + _REMOVE_LIMIT
        while (left := end - time.monotonic()) > 0:
            going: set[asyncio.Future[Any]] = {*self._making, *self._removing}
            if not going:
                break
            await asyncio.wait(going, timeout=left)
            await asyncio.sleep(0)  # what is done is taken out of the two sets
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    async def _take(self, ask: DoorAsk) -> Door:
        """A door that is there and answers, or a new one. Raises PlaceUnavailable."""
        while found := next((door for door in self._waiting if door.key == ask.key), None):
            self._waiting.remove(found)
            try:
                answers = await self._on_its_loop(found.pipe.ping(_PING_LIMIT))
            except BaseException:
                self._remove(found)
                raise
            if answers:
                return found
            self._remove(found)
        if self._thread is None:
            self._thread = ProxyThread()
        loop = self._thread.loop
        making = in_thread(lambda: make_door(ask, loop, self._on_left), "conch-door")
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._made_for_nobody)
            raise

    def _made_for_nobody(self, making: asyncio.Future[Door]) -> None:
        if not making.cancelled() and making.exception() is None:
            self._remove(making.result())

    async def _give_back(self, door: Door, sure: bool) -> None:
        """Hears what the command still said, and keeps the door, unless something of the command may be left."""
        if self._thread is None:  # closed meanwhile
            self._remove(door)
            return
        good = await self._on_its_loop(_finish(door.pipe))
        if good and sure and not self._closed:
            door.since = time.monotonic()
            self._waiting.append(door)
            if len(self._waiting) > MOST_WAITING:
                self._remove(self._waiting.pop(0))
            self._look_later()
        else:
            self._remove(door)

    def _on_its_loop(self, work: Coroutine[Any, Any, bool]) -> asyncio.Future[bool]:
        assert self._thread is not None  # noqa: S101 - a door was made, so there is one
        return self._thread.ask(work)

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting:
            soonest = min(door.since for door in self._waiting) + KEEP - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.1, soonest), self._drop_old)

    def _drop_old(self) -> None:
        old = [door for door in self._waiting if door.since + KEEP <= time.monotonic()]
        for door in old:
            self._waiting.remove(door)
            self._remove(door)
        self._look_later()

    def _remove(self, door: Door) -> None:
        door.pipe.close()

        def work() -> None:
            if not door.engine.remove(door.box):
                self._on_left(door.engine, door.box, False)

        going = in_thread(work, "conch-door-remove")
        self._removing.add(going)
        going.add_done_callback(self._removing.discard)


def about(text: str) -> str:
    """What the model is told of the list, empty when there is none."""
    try:
        hosts = HostList.parse(text)
    except BadHosts:
        return ""
    return PLACE_WORDS["hosts.about"].format(hosts=hosts) if hosts else ""


async def _finish(pipe: Pipe) -> bool:
    good = await pipe.ping(_PING_LIMIT)
    await pipe.shut()
    return good


def _targets(proxy: Proxy) -> tuple[str, ...]:
    left_out = proxy.tried.left_out + proxy.inward.left_out
    more = (PLACE_WORDS["hosts.more"].format(count=left_out),) if left_out else ()
    return (*dict.fromkeys((*proxy.tried.targets(), *proxy.inward.targets())), *more)


def note_of(proxy: Proxy) -> str:
    """What the model is told of what was refused. Empty when nothing was."""
    said = []
    if tried := proxy.tried.targets():
        words = PLACE_WORDS["hosts.note"].format(tried=", ".join(tried), hosts=proxy.hosts)
        said.append(words)
    if inward := proxy.inward.targets():
        said.append(PLACE_WORDS["hosts.note.inward"].format(tried=", ".join(inward)))
    return " ".join(said)
