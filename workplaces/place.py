"""The shapes every place shares: its name, what it is asked to run, and what it answers.

A *place* is where a chat's commands run. This module is the whole contract between a place and whoever uses one; it
knows nothing of chats, models or windows. Times are seconds, sizes are bytes, paths are absolute.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from workplaces.output import Kept, OutputKeeper
from workplaces.words import PLACE_WORDS

DEFAULT_TIMEOUT = 120.0
LONGEST_TIMEOUT = 3600.0

PlaceKind = Literal["computer", "container", "ssh", "cloud"]

# A host name as ssh takes it. The first character may not be "-": such a name would read as an option.
_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]%][A-Za-z0-9_.@:\[\]%-]{0,254}")


class BadPlace(ValueError):
    """A text that names no place. ``str(error)`` is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class WorkPlaceId:
    """The name of a place: ``computer``, ``container``, ``ssh:<host>`` or ``cloud``."""

    kind: PlaceKind
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> WorkPlaceId:
        """Reads a place's name. Raises BadPlace, with words, for anything that is not one."""
        name = text.strip()
        if name in ("computer", "container", "cloud"):
            return cls(name)  # type: ignore[arg-type]  # narrowed by the line above
        if name.startswith("ssh:"):
            host = name.removeprefix("ssh:")
            if _HOST.fullmatch(host):
                return cls("ssh", host)
            raise BadPlace(PLACE_WORDS["bad.host"].format(host=host))
        raise BadPlace(PLACE_WORDS["bad.place"].format(place=text))

    @property
    def in_folder(self) -> bool:
        """Whether commands there work in the work folder itself, and not on a copy of it."""
        return self.kind in ("computer", "container")

    def __str__(self) -> str:
        return f"ssh:{self.host}" if self.kind == "ssh" else self.kind


COMPUTER = WorkPlaceId("computer")
CONTAINER = WorkPlaceId("container")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something long is (an image coming, an engine waking). ``done``, ``total``: bytes, 0 = not known."""

    words: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[Progress], None]
Ask = Callable[[str], Awaitable[bool]]
"""Asks the person a question, a whole sentence, on the caller's loop. True is yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One command to run at a place.

    ``command`` is a shell line (``/bin/sh`` reads it) or a program and its arguments, kept literal. ``open`` asks for
    the command to leave the box. ``output`` takes what the command prints, as it comes, and still holds it when the
    command was stopped. ``on_progress`` is called on the caller's loop. ``ask`` is for what a place must not do by
    itself (a command that deleted most of the copy there); without it the answer is no.
    """

    command: str | tuple[str, ...]
    folder: Path
    open: bool = False
    timeout: float = DEFAULT_TIMEOUT
    chat: str = ""
    protected: tuple[Path, ...] = ()
    output: OutputKeeper = field(default_factory=OutputKeeper)
    on_progress: OnProgress | None = None
    ask: Ask | None = None

    def words(self) -> str:
        """The command as one line, quoted as a shell would need it, for a row or a log."""
        import shlex

        return self.command if isinstance(self.command, str) else shlex.join(self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What exactly ran a command. Every field was read back, never assumed.

    ``target`` names the one thing that ran it (a box id, a host, this computer's name). ``folder`` is the work folder
    as the command saw it. ``details`` holds what only that place has (engine, image digest, seal and its version…).
    """

    place: str
    target: str
    folder: str
    network: bool
    sealed: bool
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What became different: everything that is not a folder, in the order of its name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted((*self.added, *self.changed, *self.deleted)))

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a command ended.

    ``code`` is the command's own exit code, 128+n when signal n ended it, None when it timed out or its end was not
    seen. ``changed`` is what it changed, None where the place does not tell. ``note`` is for the model.
    ``sure`` is False when some process of it may still be running there. ``tried`` names what it tried to reach and was
    refused (``host:port``), where a list of allowed hosts held; each once, bounded, safe to show.
    """

    code: int | None
    output: Kept
    seconds: float
    where: WorkPlaceId
    proof: Proof
    timed_out: bool = False
    changed: Changes | None = None
    note: str = ""
    sure: bool = True
    tried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NextStep:
    """The one thing to do next. ``command`` is a line to copy, ``action`` a name the app knows, either may be empty."""

    label: str
    command: str = ""
    action: str = ""


class PlaceUnavailable(Exception):
    """The place is not there, and nothing ran anywhere.

    ``words`` is one sentence for the person; ``next`` the one next step; ``need`` the program a feature leans on that
    is missing (``bubblewrap``, ``container``…), if that is it; ``details`` is for the log.
    """

    def __init__(
        self, words: str, *, next_step: NextStep | None = None, need: str | None = None, details: str = ""
    ) -> None:
        super().__init__(words)
        self.words = words
        self.next_step = next_step
        self.need = need
        self.details = details

    def for_model(self) -> str:
        """What the model is told: what happened, the next step, and not to run it another way."""
        step = f" {self.next_step.label}." if self.next_step else ""
        return f"{self.words}{step} {PLACE_WORDS['model.did-not-run']}"


class Stopped(asyncio.CancelledError):
    """Raised by ``WorkPlace.run`` when it was cancelled, once the command's process tree is dead in the place.

    ``sure`` is False when that could not be seen; ``words`` then says so.
    """

    def __init__(self, *, sure: bool = True, words: str = "", seconds: float = 0.0, proof: Proof | None = None) -> None:
        super().__init__(words)
        self.sure = sure
        self.words = words
        self.seconds = seconds
        self.proof = proof
        self.tried: tuple[str, ...] = ()  # as in RunResult


class WorkPlace(Protocol):
    """One place, ready for a turn."""

    @property
    def id(self) -> WorkPlaceId: ...

    @property
    def seals(self) -> bool:
        """Whether it can keep the box's promise: no network, ``.git`` read-only."""
        ...

    @property
    def where(self) -> str:
        """What a row says after its words: ``container``, ``build-box``; empty for this computer."""
        ...

    def about(self, folder: Path) -> str:
        """What the command tool's description says about this place, for the model."""
        ...

    async def run(self, request: RunRequest) -> RunResult:
        """Runs the command here and nowhere else.

        Raises PlaceUnavailable when nothing ran, and Stopped when cancelled, after its whole tree is dead.
        """
        ...


Standing = Literal["ready", "needs", "down", "checking", "later"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceStatus:
    """How a place stands. ``line`` is one sentence; ``next_step`` the one thing that would make it ready.

    ``name`` is what a chip says ("This computer", "Docker"); ``where`` what a row says ("container").
    """

    id: WorkPlaceId
    name: str
    line: str
    standing: Standing
    seals: bool
    next_step: NextStep | None = None
    need: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.standing == "ready"
