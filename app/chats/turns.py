"""One message to its answer. Several chats at once, each stopped at any point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.chats.events import Answer, ChatEvent
from app.chats.store import ChatStore
from app.engines.catalog import Catalog
from workplaces.service import WorkPlaces

OnEvent = Callable[[str, ChatEvent], None]


class Busy(Exception):
    """The chat's turn still runs."""


class Turns:
    """``protected`` names what nothing may touch; ``output`` is the folder (0700) for the whole of long outputs."""

    def __init__(
        self,
        store: ChatStore,
        places: WorkPlaces,
        catalog: Catalog,
        *,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        output: Path | None = None,
    ) -> None:
        raise NotImplementedError

    def send(self, chat: str, text: str, *, sealed: bool = True) -> None:
        """Starts the turn and returns. ``!command`` runs that command, whatever the engine. Raises Busy while one runs."""

    async def stop(self, chat: str) -> None:
        """Stops the chat's turn; returns when it has ended and every process of it is dead at its place."""

    def answer(self, chat: str, step: str, answer: Answer) -> None:
        """Answers an ask card. Ignored when nothing asks."""

    def busy(self, chat: str) -> bool: ...

    def subscribe(self, on_event: OnEvent) -> Callable[[], None]:
        """Calls ``on_event(chat, event)`` on the loop for each event once it is kept. Gives back how to end that."""
        ...

    async def close(self) -> None:
        """Stops every turn and waits for each."""
