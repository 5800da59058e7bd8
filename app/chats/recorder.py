"""The way of a turn's events: into the store, then to whoever watches, in the order they were put."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from app.chats.events import ChatEvent
from app.chats.store import ChatStore, StoreTrouble
from app.tasks import Tasks

log = logging.getLogger(__name__)


class Recorder:
    """What is put while a write is on its way goes with the next one, so a flood of events costs few writes.

    When the store fails nothing more is shown, as what is shown must be kept; ``on_failed`` is called once.
    """

    def __init__(
        self,
        store: ChatStore,
        chat: str,
        turn: str,
        *,
        tasks: Tasks,
        show: Callable[[ChatEvent], None],
        on_failed: Callable[[], None],
    ) -> None:
        self._store = store
        self._chat = chat
        self._turn = turn
        self._tasks = tasks
        self._show = show
        self._on_failed = on_failed
        self._waiting: list[tuple[ChatEvent, bool]] = []
        self._writing: asyncio.Task[None] | None = None
        self.failed: StoreTrouble | None = None

    def put(self, event: ChatEvent) -> None:
        """Keeps the event, then shows it."""
        self._add(event, True)

    def show(self, event: ChatEvent) -> None:
        """Only shows the event, in its turn."""
        self._add(event, False)

    async def kept(self) -> None:
        """Waits until what was put so far is kept. Raises StoreTrouble when it could not be."""
        while self._writing is not None:
            # Asked for by one who may be cancelled; the writing goes on.
            await asyncio.shield(self._writing)
        if self.failed is not None:
            raise self.failed

    def _add(self, event: ChatEvent, keep: bool) -> None:
        if self.failed is not None:
            return
        self._waiting.append((msgspec.structs.replace(event, turn=self._turn), keep))
        if self._writing is None:
            self._writing = self._tasks.start(self._write(), f"keeping events of {self._chat}")

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                stored = [event for event, keep in batch if keep]
                kept = iter(await self._store.append(self._chat, *stored) if stored else ())
                for event, keep in batch:
                    self._show(next(kept) if keep else event)
        except StoreTrouble as trouble:
            self._fail(trouble)
        except Exception as error:
            log.exception("the chat's events were not kept")
            self._fail(StoreTrouble(f"The chat could not be kept ({type(error).__name__})."))
        finally:
            self._writing = None

    def _fail(self, trouble: StoreTrouble) -> None:
        self.failed = trouble
        self._waiting.clear()
        self._on_failed()
