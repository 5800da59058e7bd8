"""How a turn ends that nobody ended: Conch was killed, or the computer went off, while it ran."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from app.chats.events import ChatEvent, StepAnswered, StepAsked, StepFinished, StepOutput, StepStarted, TurnFinished
from workplaces.clean import Cleaner
from workplaces.output import HEAD, Kept, OutputKeeper, fold
from workplaces.place import BadPlace, WorkPlaceId
from workplaces.words import PLACE_WORDS

TURN_WORDS = "Conch was closed before this was done."
STEP_WORDS = "Conch was closed while this ran, so how it ended is not known."
ASKED_WORDS = "Conch was closed before you answered, so this did not run."

_LONG = HEAD // 2
"""Characters: with less than so much of its output kept, nothing of a step's is elsewhere."""
_BEGINNING = 4096


def end_cut_off(turn: str, events: list[ChatEvent], output: Path | None = None) -> list[ChatEvent]:
    """The events that end such a turn: each step that began and did not end, with what it had printed, and the turn.

    ``output`` is the folder for the whole of long outputs: of a step that printed more than is kept as it comes, the
    rest is read there. Touches the disk then.
    """
    begun: dict[str, StepStarted] = {}
    asked: set[str] = set()
    printed: dict[str, list[StepOutput]] = {}
    for event in events:
        match event:
            case StepStarted():
                begun[event.step] = event
            case StepAsked():
                asked.add(event.step)
            case StepAnswered():
                asked.discard(event.step)
            case StepOutput():
                printed.setdefault(event.step, []).append(event)
            case StepFinished():
                begun.pop(event.step, None)
    ended: list[ChatEvent] = []
    for step in begun.values():
        if step.step in asked:
            ended.append(StepFinished(turn=turn, step=step.step, outcome="not_run", words=ASKED_WORDS))
            continue
        kept = _printed(printed.get(step.step, []), output, step.at)
        ended.append(
            StepFinished(
                turn=turn,
                step=step.step,
                outcome="cut_off",
                text=fold(kept.text),
                size=kept.size,
                left_out=kept.left_out,
                file=str(kept.file) if kept.file else "",
                where=_where(step.place),
                words=STEP_WORDS,
            )
        )
    return [*ended, TurnFinished(turn=turn, outcome="cut_off", words=TURN_WORDS)]


def _printed(pieces: list[StepOutput], output: Path | None, since: float) -> Kept:
    """What a step had printed, as far as it is still somewhere."""
    text = "".join(piece.text for piece in pieces)
    if output is not None and len(text) >= _LONG and (file := _whole(output, text, since)) is not None:
        with contextlib.suppress(OSError):
            return _read(file)
    keeper = OutputKeeper()
    for piece in pieces:
        keeper.feed(piece.stream, piece.text.encode("utf-8", "replace"))
    return keeper.finish()


def _whole(output: Path, text: str, since: float) -> Path | None:
    """The file with the whole of it. Nothing says which one it is, so it must begin as the step did, and be alone."""
    found = []
    with contextlib.suppress(OSError):
        for file in output.glob("*.output"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime >= since:
                    with file.open("rb") as opened:
                        begins = Cleaner().feed(opened.read(4 * _BEGINNING))
                    if begins[:_BEGINNING] == text[:_BEGINNING]:
                        found.append(file)
    return found[0] if len(found) == 1 else None


def _read(file: Path) -> Kept:
    keeper = OutputKeeper()
    with file.open("rb") as opened:
        while piece := opened.read(1024 * 1024):
            keeper.feed("out", piece)
    return replace(keeper.finish(), file=file)


def _where(place: str) -> str:
    """What the row says of the place, empty for this computer."""
    try:
        named = WorkPlaceId.parse(place)
    except BadPlace:
        return ""
    return named.host or ("" if named.kind == "computer" else PLACE_WORDS[f"{named.kind}.where"])
