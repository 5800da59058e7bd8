"""How a turn ends that nobody ended: Conch was killed, or the computer went off, while it ran."""

from __future__ import annotations

from app.chats.events import ChatEvent, StepAnswered, StepAsked, StepFinished, StepOutput, StepStarted, TurnFinished
from workplaces.output import fold
from workplaces.place import BadPlace, WorkPlaceId
from workplaces.words import PLACE_WORDS

TURN_WORDS = "Conch was closed before this was done."
STEP_WORDS = "Conch was closed while this ran, so how it ended is not known."
ASKED_WORDS = "Conch was closed before you answered, so this did not run."


def end_cut_off(turn: str, events: list[ChatEvent]) -> list[ChatEvent]:
    """The events that end such a turn: each step that began and did not end, with what it had printed, and the turn."""
    begun: dict[str, StepStarted] = {}
    asked: set[str] = set()
    printed: dict[str, list[str]] = {}
    for event in events:
        match event:
            case StepStarted():
                begun[event.step] = event
            case StepAsked():
                asked.add(event.step)
            case StepAnswered():
                asked.discard(event.step)
            case StepOutput():
                printed.setdefault(event.step, []).append(event.text)
            case StepFinished():
                begun.pop(event.step, None)
    ended: list[ChatEvent] = []
    for step in begun.values():
        if step.step in asked:
            ended.append(StepFinished(turn=turn, step=step.step, outcome="not_run", words=ASKED_WORDS))
        else:
            text = "".join(printed.get(step.step, []))
            ended.append(
                StepFinished(
                    turn=turn,
                    step=step.step,
                    outcome="cut_off",
                    text=fold(text),
                    size=len(text.encode("utf-8", "replace")),
                    where=_where(step.place),
                    words=STEP_WORDS,
                )
            )
    return [*ended, TurnFinished(turn=turn, outcome="cut_off", words=TURN_WORDS)]


def _where(place: str) -> str:
    """What the row says of the place, empty for this computer."""
    try:
        named = WorkPlaceId.parse(place)
    except BadPlace:
        return ""
    return named.host or ("" if named.kind == "computer" else PLACE_WORDS[f"{named.kind}.where"])
