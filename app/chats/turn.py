"""One turn: from a message to its end, and what its engine sees of it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from app.chats.events import AnswerText, ChatEvent, StepStarted, TurnFinished, TurnStarted, UserMessage
from app.chats.recorder import Recorder
from app.chats.steps import OUR_FAULT, Shared, Steps
from app.chats.store import StoreTrouble
from app.engines.base import EngineTrouble, ToolAnswer, ToolCall, ToolSpec
from app.engines.commands import Commands
from app.guard.asks import allowed_in
from app.tools import command as commands
from app.tools import files
from workplaces.folder import check_folder
from workplaces.place import PlaceUnavailable

log = logging.getLogger(__name__)

TEXT_EVERY = 0.08
"""Seconds of an answer that go into one event."""
CHANGES_PATIENCE = 0.5
"""Seconds that a turn's end waits for what its last command changed."""
ABOUT_PATIENCE = 5.0
"""Seconds that a place may take to say what it is, before the model is asked without that."""


class Turn:
    """It is the ``TurnContext`` that its engine sees."""

    def __init__(
        self, shared: Shared, chat: str, text: str, sealed: bool, *, show: Callable[[ChatEvent], None]
    ) -> None:
        self.id = secrets.token_hex(8)
        self.chat = chat
        self.message = text
        self.sealed = sealed
        self.folder = Path()
        self.history: Sequence[ChatEvent] = ()
        self.task: asyncio.Task[None] | None = None
        self._stopping = False
        self._begun = False
        self._ending = False
        self._shared = shared
        self._recorder = Recorder(shared.store, chat, self.id, tasks=shared.tasks, show=show, on_failed=self.stop)
        self._steps = Steps(shared, chat, put=self._put, show=self._recorder.show, kept=self._recorder.kept)
        self._show = show
        self._tokens: list[int | None] = [None, None]
        self._answer = ""
        self._text: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._about: tuple[str, float, str] = ("", 0.0, "")
        self._recorder.put(UserMessage(text=text, sealed=sealed))

    # -- its life

    async def run(self) -> None:
        """Runs the turn to its end, whatever that is. Never raises."""
        self._begun = True
        outcome: Literal["done", "stopped", "failed"] = "done"
        words = ""
        try:
            if self._stopping:
                raise asyncio.CancelledError
            await self._work()
        except asyncio.CancelledError:
            outcome = "stopped"
        except EngineTrouble as trouble:
            outcome, words = ("failed" if trouble.failed else "done"), trouble.words
            if trouble.details:
                log.warning("the engine: %s", trouble.details)
        except StoreTrouble as trouble:
            outcome, words = "failed", trouble.words
        except Exception:
            log.exception("a turn failed")
            outcome, words = "failed", OUR_FAULT
        self._ending = True
        await self._steps.settled(CHANGES_PATIENCE)
        tokens_in, tokens_out = self._tokens
        end = TurnFinished(outcome=outcome, words=words, tokens_in=tokens_in, tokens_out=tokens_out)
        self._put(end)
        try:
            await self._recorder.kept()
        except StoreTrouble as trouble:
            # It could not be kept, so it is only said: better than a chat that seems to work for ever.
            self._show(msgspec.structs.replace(end, turn=self.id, outcome="failed", words=trouble.words))

    def stop(self) -> None:
        """Asks it to end. It has ended when its task is done."""
        first, self._stopping = not self._stopping, True
        # A task that is cancelled before its first step never runs, and so would never say that it ended.
        if first and self._begun and not self._ending and self.task is not None:
            self.task.cancel()

    async def _work(self) -> None:
        typed = self.message.lstrip()
        chat = await self._shared.store.chat(self.chat)
        by_command = typed.startswith("!") or chat.engine == Commands.id
        engine_id = Commands.id if by_command else chat.engine
        model = next((one.model for one in self._shared.catalog.offered() if one.id == engine_id), "")
        self._put(TurnStarted(engine=engine_id, place=chat.place, mode=chat.mode, model=model))
        self.folder = self._steps.folder = chat.folder
        self._steps.protected = await asyncio.to_thread(self._shared.protected)
        if by_command:
            await self.command(typed.removeprefix("!").strip(), open=not self.sealed)
            return
        # In a thread: what an engine imports takes longer than a window may wait.
        engine = await asyncio.to_thread(self._shared.catalog.engine, engine_id)
        try:
            await asyncio.to_thread(check_folder, chat.folder, self._steps.protected)
        except PlaceUnavailable as error:
            after = f" {error.next_step.label}." if error.next_step else ""
            raise EngineTrouble(f"{error.words}{after}", details=error.details) from None
        before = await self._shared.store.events(self.chat)
        self.history = [event for event in before if event.turn != self.id]
        self._steps.allowed = allowed_in(self.history)
        await engine.answer(self)

    # -- what the engine is given

    async def about_place(self) -> str:
        chat = await self._shared.store.chat(self.chat)
        place, at, text = self._about
        if place == chat.place and time.monotonic() - at < ABOUT_PATIENCE:
            return text
        try:
            async with asyncio.timeout(ABOUT_PATIENCE):
                text = (await self._steps.place(chat)).about(self.folder)
        except PlaceUnavailable as error:
            text = f"{chat.place}, which is not ready now: {error.words}"
        except TimeoutError:
            text = f"{chat.place}, which does not answer now."
        self._about = (chat.place, time.monotonic(), text)
        return text

    async def tools(self) -> list[ToolSpec]:
        return [commands.spec(await self.about_place()), *files.SPECS]

    def used(self, tokens_in: int | None, tokens_out: int | None) -> None:
        for at, tokens in enumerate((tokens_in, tokens_out)):
            if tokens is not None:
                self._tokens[at] = (self._tokens[at] or 0) + tokens

    def say(self, text: str) -> None:
        if not text:
            return
        self._text.append(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TEXT_EVERY, self._end_text)

    async def call(self, call: ToolCall) -> ToolAnswer:
        return await self._steps.call(call)

    async def command(self, command: str, *, open: bool) -> None:
        if not command:
            raise EngineTrouble("There is no command to run. Type one after the “!”.")
        await self._steps.command(command, open=open)

    # -- recording

    def _put(self, event: ChatEvent) -> None:
        self._end_text()
        if isinstance(event, StepStarted):
            self._answer = ""  # what is said after a step is another stretch of the answer
        self._recorder.put(event)

    def _end_text(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._text:
            self._answer = self._answer or secrets.token_hex(6)
            text = "".join(self._text)
            self._text.clear()
            self._recorder.put(AnswerText(answer=self._answer, text=text))
