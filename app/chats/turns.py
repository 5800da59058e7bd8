"""One message to its answer. Several chats at once, each stopped at any point."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from app.changes.recorder import Recorder
from app.chats.events import Answer, ChatEvent, TurnFinished
from app.chats.steps import Shared
from app.chats.store import ChatStore
from app.chats.turn import Turn
from app.engines.catalog import Catalog
from app.guard.asks import Asks
from app.tasks import Tasks
from workplaces.service import WorkPlaces

log = logging.getLogger(__name__)

OnEvent = Callable[[str, ChatEvent], None]


class Busy(Exception):
    """The chat's turn still runs."""

    def __init__(self) -> None:
        super().__init__("This chat is still at work. Stop it first, or wait until it is done.")


class Turns:
    """``protected`` names what nothing may touch; ``output`` is the folder (0700) for the whole of long outputs."""

    def __init__(
        self,
        store: ChatStore,
        places: WorkPlaces,
        catalog: Catalog,
        *,
        changes: Recorder | None = None,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        output: Path | None = None,
    ) -> None:
        self._tasks = Tasks()
        self._asks = Asks()
        self._shared = Shared(
            store=store,
            places=places,
            catalog=catalog,
            asks=self._asks,
            tasks=self._tasks,
            changes=changes or Recorder(protected),
            protected=protected,
            output=output,
        )
        self._running: dict[str, Turn] = {}
        self._listeners: list[OnEvent] = []

    def send(self, chat: str, text: str, *, sealed: bool = True) -> None:
        """Starts the turn and returns; on the loop. ``!command`` runs that command, whatever the engine.

        Raises Busy while one runs.
        """
        if chat in self._running:
            raise Busy
        turn = Turn(self._shared, chat, text, sealed, show=lambda event: self._tell(chat, event))
        self._running[chat] = turn
        turn.task = self._tasks.start(self._run(turn), f"turn of {chat}")

    async def stop(self, chat: str) -> None:
        """Stops the chat's turn; returns when it has ended and every process of it is dead at its place."""
        turn = self._running.get(chat)
        if turn is not None and turn.task is not None:
            turn.stop()
            await asyncio.wait([turn.task])

    def answer(self, chat: str, step: str, answer: Answer) -> None:
        """Answers an ask card. Ignored when nothing asks."""
        self._asks.answer(chat, step, answer)

    def busy(self, chat: str) -> bool:
        return chat in self._running

    def subscribe(self, on_event: OnEvent) -> Callable[[], None]:
        """Calls ``on_event(chat, event)`` on the loop for each event once it is kept. Gives back how to end that.

        StepProgress, and output past what is kept of a step, are only shown: their ``seq`` is 0. When TurnFinished
        comes the chat is not busy any more.
        """
        self._listeners.append(on_event)

        def end() -> None:
            if on_event in self._listeners:
                self._listeners.remove(on_event)

        return end

    async def close(self) -> None:
        """Stops every turn and waits for each."""
        turns = list(self._running.values())
        for turn in turns:
            turn.stop()
        if tasks := [turn.task for turn in turns if turn.task is not None]:
            await asyncio.wait(tasks)
        await self._tasks.close()

    async def _run(self, turn: Turn) -> None:
        try:
            await turn.run()
        finally:
            if self._running.get(turn.chat) is turn:
                del self._running[turn.chat]

    def _tell(self, chat: str, event: ChatEvent) -> None:
        if isinstance(event, TurnFinished):
            self._running.pop(chat, None)
        for listener in list(self._listeners):
            try:
                listener(chat, event)
            except Exception:
                log.exception("whoever watches a chat failed")
