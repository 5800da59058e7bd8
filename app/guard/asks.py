"""What waits for the person's answer. An ask that nobody answers waits; it never becomes a yes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from app.chats.events import Answer, ChatEvent, StepAnswered, StepAsked


class Asks:
    """The asks that wait, by chat and step. Used on one loop."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], asyncio.Future[Answer]] = {}

    def begin(self, chat: str, step: str) -> asyncio.Future[Answer]:
        """An ask that waits for its answer, until ``end``."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[chat, step] = future
        return future

    def end(self, chat: str, step: str) -> None:
        """Takes the ask away, answered or not."""
        self._waiting.pop((chat, step), None)

    def answer(self, chat: str, step: str, answer: Answer) -> None:
        """Answers an ask. Ignored when it does not wait (any more), so a second press does nothing."""
        future = self._waiting.get((chat, step))
        if future is not None and not future.done():
            future.set_result(answer)

    def asking(self, chat: str) -> bool:
        return any(waiting == chat for waiting, _ in self._waiting)


def allowed_in(history: Iterable[ChatEvent]) -> set[str]:
    """What was allowed for good in a chat, read from its own events, so it is the same after a restart."""
    keys: dict[str, str] = {}
    allowed: set[str] = set()
    for event in history:
        if isinstance(event, StepAsked) and event.can_always:
            keys[event.step] = event.key
        elif isinstance(event, StepAnswered) and event.answer == "chat" and (key := keys.get(event.step)):
            allowed.add(key)
    return allowed
