"""One command in one box: its time limit, Stop, and what is made of how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from workplaces.container.box import Expected
from workplaces.container.engine import Engine
from workplaces.container.image import Image
from workplaces.container.life import Ended, Life
from workplaces.container.proof import note, prove
from workplaces.container.threads import in_thread, is_done, to_the_end
from workplaces.container.trouble import elsewhere, no_tools, not_begun, not_made, silent
from workplaces.folder import WorkFolder
from workplaces.place import CONTAINER, LONGEST_TIMEOUT, PlaceUnavailable, RunRequest, RunResult, Stopped
from workplaces.words import PLACE_WORDS

START_LIMIT = 60.0  # an engine that was asked to start a box and says nothing for so long is told to be lost
STOP_LIMIT = 15.0  # how long an engine that answers may take to kill
HUNG_LIMIT = 1.0  # how long one that does not answer is waited for


class NotNow(Exception):
    """Nothing ran, because what was known before is no longer so. Worth another try; ``words`` if it is the last."""

    def __init__(self, words: PlaceUnavailable, *, engine: bool = False, image: bool = False) -> None:
        super().__init__(words.words)
        self.words = words
        self.engine = engine
        self.image = image


class Run:
    """Runs one box for one request. ``body`` is what the engine is told, ``expected`` what its first line must say."""

    def __init__(
        self,
        engine: Engine,
        image: Image,
        folder: WorkFolder,
        request: RunRequest,
        body: Mapping[str, Any],
        expected: Expected,
    ) -> None:
        self._engine = engine
        self._image = image
        self._folder = folder
        self._request = request
        self._body = body
        self._expected = expected

    async def result(self, on_left: Callable[[str, bool], None]) -> RunResult:
        """Raises NotNow and PlaceUnavailable when nothing ran, Stopped when cancelled.

        ``on_left`` is called, in some thread, with the name of a box that could not be removed, and whether it may yet
        have to appear.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        started: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not started.done():
                started.set_result(None)

        def on_started() -> None:
            loop.call_soon_threadsafe(tell)

        life = Life(self._engine, self._body, self._request.output, on_started=on_started, on_left=on_left)
        done = in_thread(life.run, "conch-box")
        try:
            in_time = await self._watch(done, started)
        except asyncio.CancelledError:
            ended, _ = await to_the_end(self._end(life, done))
            raise self._stopped(life, ended, loop.time() - began) from None
        if in_time:
            return await self._finished(life, done.result(), loop.time() - began)
        ended, cancelled = await to_the_end(self._end(life, done))
        if cancelled:
            raise self._stopped(life, ended, loop.time() - began)
        if ended is not None and not ended.started:
            raise silent(self._engine, "it did not start a box in time")
        return await self._timed_out(life, ended, loop.time() - began)

    async def _watch(self, done: asyncio.Future[Ended], started: asyncio.Future[None]) -> bool:
        """Waits for the end. False when the time is over: the command's own, which begins when it does."""
        waiting: set[asyncio.Future[Any]] = {done, started}
        await asyncio.wait(waiting, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if done.done() or not started.done():
            return done.done()
        limit = min(max(self._request.timeout, 0.0), LONGEST_TIMEOUT)
        return await is_done(done, limit)

    async def _end(self, life: Life, done: asyncio.Future[Ended]) -> Ended | None:
        """Ends the command. Gives how it ended, None when its end was not seen."""
        never_started = life.halt()
        if not never_started:
            in_thread(life.kill, "conch-kill")
        if await is_done(done, HUNG_LIMIT):
            return done.result()
        if never_started:  # and never will be; its thread takes the box away once the engine answers
            return Ended(started=False)
        answers = await in_thread(lambda: self._engine.answers(HUNG_LIMIT), "conch-ping")
        if answers and await is_done(done, STOP_LIMIT):
            return done.result()
        await is_done(in_thread(life.let_go, "conch-let-go"), HUNG_LIMIT)
        return None

    def _stopped(self, life: Life, ended: Ended | None, seconds: float) -> Stopped:
        if ended is not None and not ended.started:
            return Stopped(seconds=seconds)
        sure = ended is not None and ended.sure
        proof = prove(self._engine, self._image, self._folder, life.box, ended, open=self._request.open)
        words = "" if sure else PLACE_WORDS["container.unsure"].format(engine=self._engine.name)
        return Stopped(sure=sure, words=words, seconds=ended.seconds if ended else seconds, proof=proof)

    async def _timed_out(self, life: Life, ended: Ended | None, seconds: float) -> RunResult:
        sure = ended is not None and ended.sure
        said = note(self._request, self._engine, self._image, self._folder, ended) if ended else ""
        unsure = "" if sure else PLACE_WORDS["container.unsure"].format(engine=self._engine.name)
        return RunResult(
            code=None,
            output=await in_thread(self._request.output.finish, "conch-output"),
            seconds=ended.seconds if ended else seconds,
            where=CONTAINER,
            proof=prove(self._engine, self._image, self._folder, life.box, ended, open=self._request.open),
            timed_out=True,
            note=f"{unsure} {said}".strip(),
            sure=sure,
        )

    async def _finished(self, life: Life, ended: Ended, seconds: float) -> RunResult:
        if not ended.started:
            raise self._not_started(ended)
        self._refuse_other_ground(ended)
        return RunResult(
            code=ended.code,
            output=await in_thread(self._request.output.finish, "conch-output"),
            seconds=ended.seconds or seconds,
            where=CONTAINER,
            proof=prove(self._engine, self._image, self._folder, life.box, ended, open=self._request.open),
            note=note(self._request, self._engine, self._image, self._folder, ended),
            sure=ended.sure,
        )

    def _not_started(self, ended: Ended) -> Exception:
        import docker.errors

        problem = ended.problem
        if isinstance(problem, docker.errors.APIError):
            words = not_made(self._engine, self._image, self._folder, problem)
            gone = isinstance(problem, docker.errors.NotFound) and "image" in str(problem.explanation).lower()
            return NotNow(words, image=True) if gone else words
        return NotNow(silent(self._engine, str(problem)), engine=True)

    def _refuse_other_ground(self, ended: Ended) -> None:
        """Raises when the box ended before its command: it saw another folder, or never came as far."""
        if ended.line is None:
            if ended.lost or not ended.sure or ended.code is None:
                return
            raise not_begun(self._engine, self._image, self._folder, ended)
        if ended.line.fits(self._expected):
            return
        if not ended.line.folder:
            raise no_tools(self._image, repr(ended.line))
        if ended.line.same_folder(self._expected):
            raise NotNow(PlaceUnavailable(PLACE_WORDS["container.changed"], details=repr(ended.line)))
        raise NotNow(elsewhere(self._engine, self._folder, f"{ended.line!r} {self._expected!r}"))
