"""One command in one box: its time limit, Stop, and what is made of how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from workplaces.container.box import Expected
from workplaces.container.engine import Engine
from workplaces.container.image import Image
from workplaces.container.life import Ended, Going, Life, live
from workplaces.container.proof import note, prove
from workplaces.container.trouble import elsewhere, no_tools, not_begun, not_made, silent
from workplaces.container.wire import BadAnswer
from workplaces.folder import WorkFolder
from workplaces.place import CONTAINER, LONGEST_TIMEOUT, PlaceUnavailable, Proof, RunRequest, RunResult, Stopped
from workplaces.threads import in_thread, is_done, to_the_end
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
    """Runs one command in one box: ``life``, made or not yet. ``expected`` is what its first line must say."""

    def __init__(
        self,
        engine: Engine,
        image: Image,
        folder: WorkFolder,
        request: RunRequest,
        life: Life,
        expected: Expected,
        going: Going,
    ) -> None:
        self._engine = engine
        self._image = image
        self._folder = folder
        self._request = request
        self._life = life
        self._expected = expected
        self._going = going
        self._proof: Proof | None = None

    async def result(self) -> RunResult:
        """Raises NotNow and PlaceUnavailable when nothing ran, Stopped when cancelled.

        When all of the command was seen to be dead the result comes at once, and the box goes behind it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        life = self._life
        in_time: asyncio.Future[bool] = loop.create_future()  # False when the time is over
        limit = loop.call_later(START_LIMIT, _settle, in_time, False)
        told: list[Ended] = []

        def given() -> None:
            nonlocal limit
            limit.cancel()
            if not in_time.done():  # the command's own time begins when it does
                own = min(max(self._request.timeout, 0.0), LONGEST_TIMEOUT)
                limit = loop.call_later(own, _settle, in_time, False)
                self._proof = self._prove(life, Ended(line=life.line, seen=life.seen))  # while the command runs

        def ended(how: Ended) -> None:
            told.append(how)
            _settle(in_time, True)

        def say(what: Callable[..., None], *words: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(what, *words)

        def work() -> Ended:
            request, on_given, on_ended = self._request, lambda: say(given), lambda how: say(ended, how)
            return live(life, self._going, request.command, request.output, on_given=on_given, on_ended=on_ended)

        gone = in_thread(work, "conch-box")
        gone.add_done_callback(lambda _: _settle(in_time, True))
        try:
            is_over = await in_time
        except asyncio.CancelledError:
            how, _ = await to_the_end(self._end(life, gone))
            raise self._stopped(life, how, loop.time() - began) from None
        finally:
            limit.cancel()
        if is_over:
            return await self._finished(life, told[0] if told else gone.result(), loop.time() - began)
        how, cancelled = await to_the_end(self._end(life, gone))
        if cancelled:
            raise self._stopped(life, how, loop.time() - began)
        if how is not None and not how.started:
            raise silent(self._engine, "it did not start a box in time")
        return await self._timed_out(life, how, loop.time() - began)

    async def _end(self, life: Life, done: asyncio.Future[Ended]) -> Ended | None:
        """Ends the command and its box. Gives how it ended, None when its end was not seen."""
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
        proof = self._prove(life, ended)
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
            proof=self._prove(life, ended),
            timed_out=True,
            note=f"{unsure} {said}".strip(),
            sure=sure,
        )

    async def _finished(self, life: Life, ended: Ended, seconds: float) -> RunResult:
        if not ended.started:
            raise self._not_started(life, ended)
        output = self._request.output
        return RunResult(
            code=ended.code,
            output=output.finish() if ended.clean else await in_thread(output.finish, "conch-output"),
            seconds=ended.seconds or seconds,
            where=CONTAINER,
            proof=self._prove(life, ended),
            note=note(self._request, self._engine, self._image, self._folder, ended),
            sure=ended.sure,
        )

    def _prove(self, life: Life, ended: Ended | None) -> Proof:
        if self._proof is not None and ended is not None and ended.line and ended.seen is life.seen:
            return self._proof
        return prove(self._engine, self._image, self._folder, life, ended, open=self._request.open)

    def _not_started(self, life: Life, ended: Ended) -> Exception:
        """Why the command was not given to the box. A box that was made ahead of it says so only for itself."""
        import docker.errors

        if life.ahead:
            return NotNow(silent(self._engine, repr(ended.problem)))
        problem, line = ended.problem, ended.line
        if isinstance(problem, docker.errors.APIError):
            words = not_made(self._engine, self._image, self._folder, problem)
            gone = isinstance(problem, docker.errors.NotFound) and "image" in str(problem.explanation).lower()
            return NotNow(words, image=True) if gone else words
        if line is not None and not line.fits(self._expected):
            if not line.folder:
                return no_tools(self._image, repr(line))
            if line.same_folder(self._expected):
                return NotNow(PlaceUnavailable(PLACE_WORDS["container.changed"], details=repr(line)))
            return NotNow(elsewhere(self._engine, self._folder, f"{line!r} {self._expected!r}"))
        if ended.code is not None or isinstance(problem, BadAnswer):
            return not_begun(self._engine, self._image, self._folder, ended)
        return NotNow(silent(self._engine, str(problem)), engine=True)


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)
