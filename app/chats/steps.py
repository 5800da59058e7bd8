"""The steps of a turn: each judged, asked about, run and recorded, whichever engine wants it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from app.changes.recorder import Going, Recorder
from app.changes.told import event_of
from app.chats.events import Answer, ChatEvent, Mode, Outcome, StepAnswered, StepAsked, StepFinished, StepStarted
from app.chats.store import Chat, ChatStore
from app.engines.base import ToolAnswer, ToolCall
from app.engines.catalog import Catalog
from app.guard.asks import Asks
from app.guard.judge import judge
from app.guard.modes import Ask, Refuse, Step
from app.tasks import Tasks
from app.tools import command as commands
from app.tools import files
from app.tools.answers import COMMAND, for_model
from app.tools.base import BadCall, Planned, ToolFailed, ToolRefused, bounded
from app.tools.words import command_words
from workplaces.place import LONGEST_TIMEOUT, BadPlace, Changes, PlaceUnavailable, WorkPlace, WorkPlaceId
from workplaces.service import WorkPlaces

log = logging.getLogger(__name__)

NOT_ALLOWED = "You did not allow this."
NOT_ALLOWED_NOTE = (
    "The person did not allow this, so it was not done. Do not do it another way. Ask them what they want instead."
)
ASKED_BY_PLACE = "Shall this go ahead?"
STOPPED = "Stopped before it was done."
OUR_FAULT = "Something went wrong in Conch itself. What came before is kept; try again. The log says what it was."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What every turn uses."""

    store: ChatStore
    places: WorkPlaces
    catalog: Catalog
    asks: Asks
    tasks: Tasks
    changes: Recorder
    protected: Callable[[], tuple[Path, ...]]
    output: Path | None


class _Said(asyncio.CancelledError):
    """The turn was stopped, and the step's row already says how the step itself ended."""


class Steps:
    """``put`` keeps an event, ``show`` only shows it, ``kept`` waits until all that was put is kept.

    ``folder``, ``protected`` and ``allowed`` (what was allowed for good in this chat) are set when the turn begins.
    """

    def __init__(
        self,
        shared: Shared,
        chat: str,
        *,
        put: Callable[[ChatEvent], None],
        show: Callable[[ChatEvent], None],
        kept: Callable[[], Awaitable[None]],
    ) -> None:
        self.folder = Path()
        self.protected: tuple[Path, ...] = ()
        self.allowed: set[str] = set()
        self._shared = shared
        self._chat = chat
        self._put = put
        self._show = show
        self._kept = kept
        self._telling: set[asyncio.Task[None]] = set()

    async def call(self, call: ToolCall) -> ToolAnswer:
        """A tool call of an engine's. Never raises for what a model can do wrong."""
        try:
            if call.name == COMMAND:
                return await self._run(commands.read(call.arguments), call.arguments, by_person=False)
            if call.name in files.NAMES:
                return await self._file(call)
            names = ", ".join((COMMAND, *sorted(files.NAMES)))
            raise BadCall(f"There is no tool “{call.name[:80]}”. There are: {names}.")
        except BadCall as error:
            return ToolAnswer(text=f"Nothing was done. {error}", ok=False, understood=False)

    async def command(self, command: str, *, open: bool) -> None:
        """A command that the person typed."""
        # They watch it and have Stop, so no time is set for them but the longest there is.
        asked = commands.Command(text=command, open=open, timeout=LONGEST_TIMEOUT)
        await self._run(asked, {"command": command}, by_person=True)

    async def place(self, chat: Chat) -> WorkPlace:
        """The chat's place as it is set now. Raises PlaceUnavailable."""
        try:
            named = WorkPlaceId.parse(chat.place)
        except BadPlace as error:
            raise PlaceUnavailable(str(error)) from None
        return await self._shared.places.for_turn(named)

    # -- a command

    async def _run(self, asked: commands.Command, arguments: dict[str, Any], *, by_person: bool) -> ToolAnswer:
        # The place is asked for anew each time: the person may have changed it since the turn began.
        chat = await self._shared.store.chat(self._chat)
        found: WorkPlace | PlaceUnavailable
        try:
            found = await self.place(chat)
        except PlaceUnavailable as error:
            found = error
        # What a place cannot seal is judged, and run, as open.
        opened = asked.open or not (isinstance(found, PlaceUnavailable) or found.seals)
        started = StepStarted(
            step=secrets.token_hex(8),
            tool=COMMAND,
            words=command_words(asked.text),
            command=asked.text,
            arguments=bounded(arguments),
            place=chat.place,
            open=opened,
            by_person=by_person,
        )
        self._put(started)
        if isinstance(found, PlaceUnavailable):
            if found.details:
                log.info("%s is not there: %s", chat.place, found.details)
            return self._finish(started, commands.not_run(started.step, found))
        step = Step(
            tool=COMMAND,
            arguments=arguments,
            command=asked.text,
            folder=self.folder,
            place=chat.place,
            open=opened,
            reason=asked.reason,
            by_person=by_person,
        )
        if (refused := await self._judged(step, started, chat.mode)) is not None:
            return self._finish(started, refused)
        known: list[Changes] = []
        setting = commands.Setting(
            chat=self._chat,
            folder=self.folder,
            protected=self.protected,
            spill=self._shared.output,
            ask=lambda words: self._asked(Ask(title=ASKED_BY_PLACE, why=words, can_always=False), started),
            on_changed=known.append,
        )
        # Where commands work on a copy the place tells, and the folder here is not listed a second time for it.
        going = self._shared.changes.begin(self.folder) if found.id.in_folder else None
        finished: StepFinished | None = None
        try:
            finished = await commands.run(
                found, asked, setting, step=started.step, open=opened, put=self._put, show=self._show
            )
            return self._finish(started, finished)
        except Exception:
            self._put(StepFinished(step=started.step, outcome="failed", words=OUR_FAULT))
            raise
        finally:
            if finished is not None and finished.outcome == "not_run":
                if going is not None:
                    going.forget()
            else:
                task = self._shared.tasks.start(self._tell(started.step, going, known), f"changes of {started.step}")
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    async def _tell(self, step: str, going: Going | None, known: list[Changes]) -> None:
        """Says what the command changed: what became different here meanwhile, or what its place knows."""
        changes = await going.ended() if going is not None else known[0] if known else None
        if changes:
            self._put(event_of(step, changes))

    async def settled(self, limit: float) -> None:
        """Waits until what was changed is said, ``limit`` seconds at most: later it is said all the same."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=limit)

    # -- a file tool

    async def _file(self, call: ToolCall) -> ToolAnswer:
        planned = files.FileTools(self.folder, self.protected).plan(call.name, call.arguments)
        chat = await self._shared.store.chat(self._chat)
        started = StepStarted(
            step=secrets.token_hex(8), tool=call.name, words=planned.words, arguments=bounded(call.arguments)
        )
        step = Step(tool=call.name, arguments=call.arguments, folder=self.folder, changes=planned.changes)
        self._put(started)
        begun = time.monotonic()
        try:
            await planned.check()
            if (refused := await self._judged(step, started, chat.mode)) is not None:
                return self._finish(started, refused)
            begun = time.monotonic()
            finished = await self._planned(planned, started)
        except ToolFailed as error:
            finished = _failed(started, error)
        except _Said:
            raise
        except asyncio.CancelledError:
            self._put(StepFinished(step=started.step, outcome="not_run", words=STOPPED))
            raise
        except Exception:
            self._put(StepFinished(step=started.step, outcome="failed", words=OUR_FAULT))
            raise
        return self._finish(started, msgspec.structs.replace(finished, seconds=round(time.monotonic() - begun, 3)))

    async def _planned(self, planned: Planned, started: StepStarted) -> StepFinished:
        if not planned.changes:
            return _done(started, await planned.run())
        # A write that has begun comes to its end, also when the turn is stopped, so that the row says what is so.
        work: asyncio.Task[StepFinished] = self._shared.tasks.start(
            _outcome(planned, started), f"{started.tool} of {self._chat}"
        )
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            await asyncio.wait([work])
            self._put(work.result())
            raise _Said from None
        return work.result()

    # -- the guard

    async def _judged(self, step: Step, started: StepStarted, mode: Mode) -> StepFinished | None:
        """How the step ends when it does not go ahead; None when it does, and its row is kept."""
        try:
            verdict = await asyncio.to_thread(judge, step, mode, frozenset(self.allowed), protected=self.protected)
            if isinstance(verdict, Refuse):
                note = f"Not done. {verdict.words} Do not do it another way."
                return StepFinished(step=started.step, outcome="refused", words=verdict.words, note=note)
            if isinstance(verdict, Ask) and not await self._asked(verdict, started):
                return StepFinished(step=started.step, outcome="refused", words=NOT_ALLOWED, note=NOT_ALLOWED_NOTE)
            await self._kept()
        except asyncio.CancelledError:
            if step.tool == COMMAND:  # a file tool says so itself
                self._put(StepFinished(step=started.step, outcome="not_run", words=STOPPED))
            raise
        return None

    async def _asked(self, ask: Ask, started: StepStarted) -> bool:
        # It can be answered before anyone sees it.
        waiting = self._shared.asks.begin(self._chat, started.step)
        self._put(StepAsked(step=started.step, title=ask.title, why=ask.why, can_always=ask.can_always, key=ask.key))
        try:
            answer: Answer = await waiting
        finally:
            self._shared.asks.end(self._chat, started.step)
        if answer == "chat" and not (ask.can_always and ask.key):
            answer = "once"
        if answer == "chat":
            self.allowed.add(ask.key)
        self._put(StepAnswered(step=started.step, answer=answer))
        return answer != "no"

    def _finish(self, started: StepStarted, finished: StepFinished) -> ToolAnswer:
        self._put(finished)
        return ToolAnswer(text=for_model(started, finished), ok=finished.outcome == "ok")


def _done(started: StepStarted, text: str) -> StepFinished:
    return StepFinished(step=started.step, outcome="ok", text=text, size=len(text.encode("utf-8", "replace")))


def _failed(started: StepStarted, error: ToolFailed) -> StepFinished:
    outcome: Outcome = "refused" if isinstance(error, ToolRefused) else "failed"
    return StepFinished(step=started.step, outcome=outcome, words=str(error))


async def _outcome(planned: Planned, started: StepStarted) -> StepFinished:
    try:
        return _done(started, await planned.run())
    except ToolFailed as error:
        return _failed(started, error)
