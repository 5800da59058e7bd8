"""One message to its answer. Several chats at once, each stopped at any point."""

from __future__ import annotations

from collections.abc import Callable

from app.chats.events import Answer, ChatEvent

OnEvent = Callable[[str, ChatEvent], None]


class Turns:
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
