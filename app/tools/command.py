"""``run_command``: one command at the chat's place, and nowhere else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.chats.events import Outcome, StepFinished, StepProgress
from app.engines.base import ToolSpec
from app.tools.answers import COMMAND
from app.tools.base import BadCall, take_flag, take_number, take_text
from app.tools.output import OutputPump, Put
from workplaces.output import Kept, OutputKeeper, fold
from workplaces.place import (
    DEFAULT_TIMEOUT,
    LONGEST_TIMEOUT,
    Ask,
    Changes,
    PlaceUnavailable,
    Progress,
    Proof,
    RunRequest,
    RunResult,
    Stopped,
    WorkPlace,
)
from workplaces.words import PLACE_WORDS

LONGEST_COMMAND = 1024 * 1024
PROGRESS_EVERY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as it was asked for. ``timeout`` is seconds."""

    text: str
    open: bool = False
    reason: str = ""
    timeout: float = DEFAULT_TIMEOUT


def spec(about: str) -> ToolSpec:
    """The tool, as a model is told of it. ``about`` is what the place says of itself."""
    return ToolSpec(
        name=COMMAND,
        description=(
            f"Runs a shell command (/bin/sh) in the work folder, at the place that the person picked. {about} "
            "Standard input is empty. Each command starts anew: a cd or a variable does not last."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The shell command."},
                "open": {
                    "type": "boolean",
                    "description": "Ask to leave the box: for the network, or to write to .git. False unless given.",
                },
                "reason": {"type": "string", "description": "Why it must be open, in one sentence for the person."},
                "timeout": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": int(LONGEST_TIMEOUT),
                    "description": f"Seconds after which it is ended. {DEFAULT_TIMEOUT:g} unless given.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    )


def read(arguments: dict[str, Any]) -> Command:
    """Reads a model's call. Raises BadCall."""
    text = take_text(arguments, "command")
    if not text.strip() or "\0" in text:
        raise BadCall("“command” holds no command.")
    if len(text) > LONGEST_COMMAND:
        raise BadCall("“command” is too long. Put it into a file of the work folder.")
    return Command(
        text=text,
        open=take_flag(arguments, "open"),
        reason=take_text(arguments, "reason", default="", empty=True)[:500],
        timeout=take_number(arguments, "timeout", default=int(DEFAULT_TIMEOUT), least=1, most=int(LONGEST_TIMEOUT)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a command runs with, beside itself. ``spill`` is the folder for the whole of a long output; ``ask``
    asks the person what the place must not decide; ``on_changed`` is told what changed by a place that knows it."""

    chat: str
    folder: Path
    protected: tuple[Path, ...] = ()
    spill: Path | None = None
    ask: Ask | None = None
    on_changed: Callable[[Changes], None] | None = None


async def run(
    place: WorkPlace, command: Command, setting: Setting, *, step: str, open: bool, put: Put, show: Put
) -> StepFinished:
    """Runs it and gives how it ended; ``put`` keeps what it prints as it comes, ``show`` only shows.

    When it is cancelled it puts how the step ended by itself, once the place says that all of it is dead, and raises.
    """
    pump = OutputPump(step, keep=put, show=show)
    keeper = OutputKeeper(on_text=pump.text, spill_folder=setting.spill)
    request = RunRequest(
        command=command.text,
        folder=setting.folder,
        open=open,
        timeout=command.timeout,
        chat=setting.chat,
        protected=setting.protected,
        output=keeper,
        on_progress=_progress(step, show),
        ask=setting.ask,
    )
    begun = time.monotonic()
    try:
        result = await place.run(request)
    except PlaceUnavailable as error:
        pump.end()
        return not_run(step, error)
    except asyncio.CancelledError as stop:
        seconds = time.monotonic() - begun
        kept = await asyncio.to_thread(keeper.finish)
        pump.end()
        put(await _stopped(step, place, stop, kept, seconds))
        raise
    pump.end()
    if result.changed is not None and setting.on_changed is not None:
        setting.on_changed(result.changed)
    return await _ended(step, place, result)


def not_run(step: str, error: PlaceUnavailable) -> StepFinished:
    """The place is not there: nothing ran anywhere, and the row says the one next step."""
    after = error.next_step
    return StepFinished(
        step=step,
        outcome="not_run",
        words=error.words,
        next_label=after.label if after else "",
        next_command=after.command if after else "",
        next_action=after.action if after else "",
    )


async def _ended(step: str, place: WorkPlace, result: RunResult) -> StepFinished:
    outcome: Outcome = "ok" if result.code == 0 else "failed"
    words = []
    if result.timed_out:
        outcome = "timed_out"
        words.append(PLACE_WORDS["ended.timed-out"].format(span=_span(result.seconds)))
    elif result.code is None:
        words.append(PLACE_WORDS["ended.unseen"])
    if not result.sure:
        words.append(result.note or PLACE_WORDS["ended.unsure"])
    return await _finished(
        step, place, outcome, result.output, result.seconds, result.proof,
        code=result.code, words=" ".join(words), note=result.note, tried=result.tried,
    )  # fmt: skip


async def _stopped(
    step: str, place: WorkPlace, stop: asyncio.CancelledError, kept: Kept, seconds: float
) -> StepFinished:
    words, proof = "", None
    tried: tuple[str, ...] = ()
    if isinstance(stop, Stopped):
        proof, tried = stop.proof, stop.tried
        seconds = stop.seconds or seconds
        words = stop.words or ("" if stop.sure else PLACE_WORDS["ended.unsure"])
    return await _finished(step, place, "stopped", kept, seconds, proof, words=words, tried=tried)


async def _finished(
    step: str,
    place: WorkPlace,
    outcome: Outcome,
    kept: Kept,
    seconds: float,
    proof: Proof | None,
    *,
    code: int | None = None,
    words: str = "",
    note: str = "",
    tried: tuple[str, ...] = (),
) -> StepFinished:
    text = fold(kept.text) if len(kept.text) < 8192 else await asyncio.to_thread(fold, kept.text)
    return StepFinished(
        step=step,
        outcome=outcome,
        code=code,
        seconds=round(seconds, 3),
        text=text,
        size=kept.size,
        left_out=kept.left_out,
        file=str(kept.file) if kept.file else "",
        where=place.where,
        proof=plain(proof) if proof else {},
        words=words,
        note=note,
        tried=tried,
    )


def plain(proof: Proof) -> dict[str, Any]:
    return {
        "place": proof.place,
        "target": proof.target,
        "folder": proof.folder,
        "network": proof.network,
        "sealed": proof.sealed,
        "details": {str(name): str(value) for name, value in proof.details.items()},
    }


def _progress(step: str, show: Put) -> Any:
    last, said = 0.0, ""

    def on_progress(progress: Progress) -> None:
        nonlocal last, said
        now = time.monotonic()
        whole = progress.total and progress.done >= progress.total
        if progress.words != said or whole or now - last >= PROGRESS_EVERY:
            last, said = now, progress.words
            show(StepProgress(step=step, words=progress.words, done=progress.done, total=progress.total))

    return on_progress


def _span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{round(seconds)} {'second' if round(seconds) == 1 else 'seconds'}"
    minutes = round(seconds / 60)
    return f"{minutes} minutes"
