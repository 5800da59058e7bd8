"""Which engine is used: the one that the person named, else the first of the known ones that answers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from workplaces.container.asking import TRY_LIMIT, try_engine
from workplaces.container.contexts import BadEndpoint, Endpoint, endpoints
from workplaces.container.engine import NEED, Engine
from workplaces.container.machine import machines
from workplaces.container.podman_service import PodmanService
from workplaces.container.refusals import NoEngine, Unusable, in_words, passed_over
from workplaces.container.waking import Sleeper, Waking
from workplaces.place import NextStep, OnProgress, PlaceUnavailable
from workplaces.threads import in_thread
from workplaces.words import PLACE_WORDS


class Engines:
    """Finds the engine once for everyone who asks, and keeps it until it is forgotten or the person names another.

    ``folder`` is Conch's own, for a Podman service that it starts where no engine listens (none without one). ``env``
    and ``home`` are this process's and the person's unless given. ``on_fixed`` is called on the loop with (what was
    done, why) when an engine was woken; ``waking`` wakes them, unless given as this system does.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        home: Path | None = None,
        folder: Path | None = None,
        on_fixed: Callable[[str, str], None] | None = None,
        waking: Waking | None = None,
    ) -> None:
        self._env = os.environ if env is None else env
        self._home = home
        self._waking = waking or Waking(on_fixed or (lambda what, why: None), env=self._env, home=home or Path.home())
        self._service = PodmanService(folder, self._env) if folder is not None else None
        self._engine: Engine | None = None
        self._from: tuple[Endpoint, ...] = ()
        self._passed = ""
        self._looking: asyncio.Future[Engine] | None = None
        self._looked_at = 0
        self._lock = threading.Lock()

    @property
    def last(self) -> Engine | None:
        """The engine that was found last, if it is still the one to use."""
        return self._engine

    @property
    def passed_over(self) -> str:
        """Which engines were tried before it and cannot be used, in words. Empty when none was."""
        return self._passed

    async def find(self, *, look: bool = False) -> Engine:
        """The engine to use. Raises PlaceUnavailable. What was found before is given at once unless ``look``."""
        looking = self._looking
        if (
            looking is None
            or looking.done()
            or looking.get_loop() is not asyncio.get_running_loop()
            or self._looked_at != self._waking.count  # it may have looked where one was not awake yet
        ):
            self._looked_at = self._waking.count
            self._looking = looking = in_thread(lambda: self._find(look), "conch-engine")
        return await asyncio.shield(looking)

    def same(self, engine: Engine) -> bool:
        """Whether it is still the one that ``find`` would give at once. Reads the settings that name it, so it touches
        the disk, and asks no engine."""
        try:
            return self._known(endpoints(self._env, self._home or Path.home())) is engine
        except BadEndpoint:
            return False

    async def awake(self, on_progress: OnProgress | None = None) -> Engine:
        """As ``find``, for a command: an engine that is here and sleeps is woken for it, with its progress."""
        before = self._waking.count
        try:
            return await self.find()
        except NoEngine as error:
            if self._waking.count == before:  # else one was woken for another command while this one looked
                engine = await self._waking.wake(error.failures, on_progress)
                if engine is None:
                    raise
                engine.close()  # it is found like any other, so that it is kept as what was found there
        return await self.find(look=True)

    async def asleep(self, error: PlaceUnavailable) -> Sleeper | None:
        """The engine that a command would wake after this error, None when there is none."""
        if not isinstance(error, NoEngine):
            return None
        failures = error.failures
        found = await in_thread(lambda: self._waking.possible(failures), "conch-sleepers")
        return found[0] if found else None

    def forget(self, engine: Engine) -> None:
        """Looks anew next time: this one did not answer."""
        with self._lock:
            if self._engine is engine:
                self._engine = None

    def close(self) -> None:
        """Lets go of the engine, and ends the Podman service that Conch started, if it did. Blocks for a moment."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        if self._service is not None:
            self._service.close()

    def _find(self, look: bool) -> Engine:
        try:
            named = endpoints(self._env, self._home or Path.home())
        except BadEndpoint as error:
            step = NextStep(PLACE_WORDS["engine.next.context"])
            raise PlaceUnavailable(str(error), need=NEED, next_step=step) from None
        known = self._known(named)
        if known is not None and not look:
            return known
        known = self.last
        failures: list[Unusable] = []
        for candidate in self._candidates(named):
            if isinstance(candidate, Unusable):
                failures.append(candidate)
                continue
            try:
                if known is not None and known.endpoint == candidate and known.answers(TRY_LIMIT):
                    found = known
                else:
                    found = try_engine(candidate)
            except Unusable as failure:
                failures.append(failure)
                continue
            with self._lock:
                self._engine, self._from, self._passed = found, named, passed_over(failures)
            return found
        with self._lock:
            self._engine = None
        raise in_words(failures, self._env)

    def _known(self, named: tuple[Endpoint, ...]) -> Engine | None:
        with self._lock:
            known = self._engine
            return known if known is not None and self._from == named and self._still_there(known) else None

    def _candidates(self, named: tuple[Endpoint, ...]) -> Iterator[Endpoint | Unusable]:
        """Where to try, one after the other. What has to be asked or started first comes last, if it comes to that."""
        yield from named
        if any(endpoint.explicit for endpoint in named):
            return
        yield from machines(self._env, self._home or Path.home())
        if self._service is not None and sys.platform == "linux" and self._service.possible():
            try:
                yield self._service.start()
            except Unusable as failure:
                yield failure

    def _still_there(self, engine: Engine) -> bool:
        """A service of Conch's own ends when nobody has asked it for a while; the next command starts it again."""
        service = self._service
        return service is None or not service.is_at(engine.endpoint) or service.running()
