"""What an engine is: the thing that answers a chat.

An engine is handed a ``TurnContext`` and calls back into it: it *says* text as it comes and *calls* tools. Judging,
asking, running and recording happen behind ``call``, in one place, so every engine is held to the same rules. A loop of
our own (an API), a program with a loop of its own (an agent) and no model at all fit the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from app.chats.events import ChatEvent
from workplaces.place import NextStep


class EngineTrouble(Exception):
    """The answer ended early. ``words`` is what happened and the one next step, for the person; ``details`` is logged.

    What was said before it is kept. ``failed`` False: the answer stands, and the words only add to it.
    """

    def __init__(self, words: str, *, failed: bool = True, details: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.failed = failed
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it. ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What an engine asks to be done. ``arguments`` were parsed from what the model wrote and are not trusted."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What the model is told. ``understood`` False: the call made no sense, nothing was tried and nobody was asked."""

    text: str
    ok: bool = True
    understood: bool = True


class TurnContext(Protocol):
    """One turn, as its engine sees it. All of it is used on the loop that the turn runs on."""

    @property
    def chat(self) -> str: ...

    @property
    def folder(self) -> Path:
        """The work folder. The same for the whole turn, as the model was told of it."""
        ...

    @property
    def message(self) -> str:
        """What the person wrote."""
        ...

    @property
    def sealed(self) -> bool:
        """What the person typed as a command is to run sealed."""
        ...

    @property
    def history(self) -> Sequence[ChatEvent]:
        """What happened in the chat before this message."""
        ...

    async def about_place(self) -> str:
        """What is to be said of the place where the chat's commands run *now*. It can change within a turn."""
        ...

    async def tools(self) -> list[ToolSpec]:
        """What may be called now."""
        ...

    def say(self, text: str) -> None:
        """Appends a piece to the answer. Pieces are batched; after a step a new stretch of the answer begins."""
        ...

    async def call(self, call: ToolCall) -> ToolAnswer:
        """Judges, asks about, runs and records one tool call. Never raises for what a model can do wrong."""
        ...

    async def command(self, command: str, *, open: bool) -> None:
        """Runs a command that the person typed."""
        ...

    def used(self, tokens_in: int | None, tokens_out: int | None) -> None:
        """Adds tokens, as the server reported them."""
        ...


class Engine(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str:
        """The model's name, empty when there is none."""
        ...

    async def answer(self, turn: TurnContext) -> None:
        """Answers the message and returns when the answer is whole. Raises EngineTrouble. Cancelling it stops it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine as it is offered. ``line`` is one sentence; ``next_step`` what would make it ready.

    ``places`` are the kinds of place (``computer``, ``container``…) where its commands can run.
    """

    id: str
    name: str
    line: str
    ready: bool
    places: tuple[str, ...]
    model: str = ""
    next_step: NextStep | None = None
