"""What can happen in a chat. A chat *is* its events, in order; everything shown is made from them.

An event is written to the store before anyone is shown it, so a crash in mid-turn loses nothing that was seen. The
exception is ``StepProgress`` (an image coming), which is only ever shown.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Mode = Literal["plan", "ask", "edit", "auto", "full"]
Answer = Literal["once", "chat", "no"]
Outcome = Literal["ok", "failed", "refused", "not_run", "stopped", "timed_out", "cut_off"]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """``turn`` groups what one message led to. ``seq`` and ``at`` (seconds since 1970) are set by the store."""

    turn: str = ""
    seq: int = 0
    at: float = 0.0


class ChatMade(Event, frozen=True, kw_only=True, tag="chat.made"):
    folder: str
    place: str
    mode: Mode
    engine: str


class ChatChanged(Event, frozen=True, kw_only=True, tag="chat.changed"):
    """The person changed something of the chat. Only what is set changed."""

    title: str | None = None
    folder: str | None = None
    place: str | None = None
    mode: Mode | None = None
    engine: str | None = None


class UserMessage(Event, frozen=True, kw_only=True, tag="message.user"):
    """``sealed`` False: what the person typed as a command runs open (the *Sealed* switch was off)."""

    text: str
    sealed: bool = True


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    engine: str
    place: str
    mode: Mode
    model: str = ""


class AnswerText(Event, frozen=True, kw_only=True, tag="answer.text"):
    """A piece of the answer's Markdown, appended to the ``answer`` it names."""

    answer: str
    text: str


class StepStarted(Event, frozen=True, kw_only=True, tag="step.started"):
    """A tool call or a command of the person's. ``words`` says it in words; ``command`` is the exact command.

    ``place`` is where it will run (a WorkPlaceId), empty for a file tool, which always works on the work folder here.
    """

    step: str
    tool: str
    words: str
    command: str = ""
    arguments: dict[str, Any] = {}
    place: str = ""
    open: bool = False
    by_person: bool = False


class StepAsked(Event, frozen=True, kw_only=True, tag="step.asked"):
    """The guard asks. ``title`` is the question, ``why`` says what it would mean; ``key`` is what "always in this chat"
    remembers."""

    step: str
    title: str
    why: str
    can_always: bool = True
    key: str = ""


class StepAnswered(Event, frozen=True, kw_only=True, tag="step.answered"):
    step: str
    answer: Answer


class StepProgress(Event, frozen=True, kw_only=True, tag="step.progress"):
    """Something long a step waits for. Not kept. ``done`` and ``total`` are bytes, 0 = not known."""

    step: str
    words: str
    done: int = 0
    total: int = 0


class StepOutput(Event, frozen=True, kw_only=True, tag="step.output"):
    """Clean text that the command printed, batched. Past 64 KB of a step only the keeper's tail is shown."""

    step: str
    stream: Literal["out", "err"]
    text: str


class StepFinished(Event, frozen=True, kw_only=True, tag="step.finished"):
    """How a step ended. ``text`` is the whole of what is kept of its output, folded; ``words`` says what went wrong
    and the next step, for the person; ``where`` is what the row says, empty for this computer; ``proof`` is the
    place's Proof as a plain mapping; ``tried`` is what it tried to reach and was refused (``host:port``);
    ``next_label``/``next_command``/``next_action`` the one next step."""

    step: str
    outcome: Outcome
    code: int | None = None
    seconds: float = 0.0
    text: str = ""
    size: int = 0
    left_out: int = 0
    file: str = ""
    where: str = ""
    proof: dict[str, Any] = {}
    words: str = ""
    note: str = ""
    tried: tuple[str, ...] = ()
    next_label: str = ""
    next_command: str = ""
    next_action: str = ""


class StepChanged(Event, frozen=True, kw_only=True, tag="step.changed"):
    """Which files of the work folder became different while a command ran, by their paths in it. Comes after the step's
    end, and not at all when none did or that is not known. ``count`` is how many; of very many not all are named."""

    step: str
    count: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn.finished"):
    """``words`` is empty when all went well."""

    outcome: Literal["done", "stopped", "failed", "cut_off"]
    words: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


ChatEvent = (
    ChatMade
    | ChatChanged
    | UserMessage
    | TurnStarted
    | AnswerText
    | StepStarted
    | StepAsked
    | StepAnswered
    | StepProgress
    | StepOutput
    | StepFinished
    | StepChanged
    | TurnFinished
)
