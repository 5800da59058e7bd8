"""What a transcript shows, as data: the rows and the steps in them. No Qt.

A row that has nothing to show (a question that was answered) is ``hidden`` and has no height.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.chats.events import Answer, Outcome, StepChanged, StepFinished, StepProgress
from ui.transcript.blocks import safe
from workplaces.words import PLACE_WORDS

State = Literal["asked", "running"] | Outcome


@dataclass(slots=True, eq=False, kw_only=True)
class Step:
    """One thing that was done. ``began`` is seconds since 1970; ``text`` is what it printed, as far as it is kept."""

    id: str
    tool: str
    words: str
    command: str = ""
    place: str = ""
    open: bool = False
    by_person: bool = False
    began: float = 0.0
    state: State = "running"
    progress: StepProgress | None = None
    text: str = ""
    code: int | None = None
    seconds: float = 0.0
    left_out: int = 0
    file: str = ""
    where: str = ""
    said: str = ""
    next_label: str = ""
    next_command: str = ""
    next_action: str = ""
    changed: StepChanged | None = None

    @property
    def over(self) -> bool:
        return self.state not in ("asked", "running")

    @property
    def ran(self) -> bool:
        """Whether it ran, or is running, anywhere at all."""
        return self.state not in ("asked", "refused", "not_run")

    def take(self, event: StepFinished) -> None:
        """Ends the step as the event says."""
        self.state = event.outcome
        self.progress = None
        self.code, self.seconds = event.code, event.seconds
        # What came live is kept when a cut-off step has nothing better to say.
        self.text = safe(event.text) if event.text or event.outcome != "cut_off" else self.text
        self.left_out, self.file, self.where = event.left_out, event.file, event.where
        tried = PLACE_WORDS["hosts.tried"].format(tried=", ".join(event.tried)) if event.tried else ""
        self.said = f"{event.words} {tried}".strip()
        self.next_label, self.next_command, self.next_action = event.next_label, event.next_command, event.next_action


@dataclass(slots=True, eq=False, kw_only=True)
class Row:
    """``seq`` is the first event it shows; ``rev`` counts its changes; ``group`` names the message it belongs to."""

    index: int
    turn: str
    seq: int
    rev: int = 0

    @property
    def group(self) -> str:
        return f"a:{self.turn}"

    @property
    def hidden(self) -> bool:
        return False


@dataclass(slots=True, eq=False, kw_only=True)
class UserRow(Row):
    text: str
    sealed: bool = True

    @property
    def group(self) -> str:
        return f"u:{self.index}"


@dataclass(slots=True, eq=False, kw_only=True)
class ProseRow(Row):
    """One block of an answer's Markdown. ``live`` while more of it may come; ``first`` when it opens the answer."""

    answer: str
    text: str
    live: bool = False
    first: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class StoryRow(Row):
    """Steps that follow one another, in one card."""

    steps: list[Step] = field(default_factory=list)

    @property
    def shown(self) -> list[Step]:
        """A step that is being asked about is shown by its card alone."""
        return [step for step in self.steps if step.state != "asked"]

    @property
    def hidden(self) -> bool:
        return all(step.state == "asked" for step in self.steps)

    @property
    def running(self) -> Step | None:
        return next((step for step in reversed(self.steps) if step.state == "running"), None)


@dataclass(slots=True, eq=False, kw_only=True)
class AskRow(Row):
    step: Step
    title: str
    why: str
    can_always: bool = True
    answer: Answer | None = None
    over: bool = False

    @property
    def hidden(self) -> bool:
        return self.over or self.answer is not None


@dataclass(slots=True, eq=False, kw_only=True)
class NoteRow(Row):
    """How a turn ended, when not well."""

    outcome: Literal["stopped", "failed", "cut_off"]
    words: str
