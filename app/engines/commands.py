"""The engine without a model: each message is a command for the chat's place."""

from __future__ import annotations

from typing import ClassVar

from app.engines.base import TurnContext


class Commands:
    id: ClassVar[str] = "commands"
    name: ClassVar[str] = "Commands"
    model: ClassVar[str] = ""

    async def answer(self, turn: TurnContext) -> None:
        await turn.command(turn.message, open=not turn.sealed)
