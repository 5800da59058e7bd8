"""What a model is told of a step: made from the step's own events, so it is the same at once and a year later."""

from __future__ import annotations

from app.chats.events import StepFinished, StepStarted
from workplaces.words import PLACE_WORDS

MOST_OUTPUT = 30_000
COMMAND = "run_command"


def for_model(started: StepStarted, finished: StepFinished | None, *, most: int = MOST_OUTPUT) -> str:
    """The step's answer: what happened and where, then what it gave, at most ``most`` characters of it."""
    if finished is None:
        return "Conch was closed before this was done. How it ended is not known."
    if finished.outcome == "refused":
        return finished.note or f"Not done. {finished.words}"
    if finished.outcome == "not_run":
        step = f" {finished.next_label}." if finished.next_label else ""
        return f"{finished.words}{step} {PLACE_WORDS['model.did-not-run']}"
    if started.tool != COMMAND:
        head = finished.words if finished.outcome != "ok" else ""
        return "\n".join(part for part in (head, cut(finished.text, most)) if part) or "Done."
    parts = [_ended(started, finished)]
    if finished.outcome != "ok" and finished.words:
        parts.append(finished.words)
    if finished.note and finished.note not in finished.words:
        parts.append(finished.note)
    parts.append(_output(finished, most))
    return "\n".join(parts)


def _ended(started: StepStarted, finished: StepFinished) -> str:
    folder = finished.proof.get("folder")
    target = finished.proof.get("target")
    named = f" ({_short(str(target))})" if target and finished.where else ""
    parts = [_where(started, finished) + named]
    if folder:
        parts.append(f"in {folder}")
    if finished.proof:
        parts.append("sealed" if finished.proof.get("sealed") else "open")
        parts.append("with network" if finished.proof.get("network") else "without network")
    took = f"{finished.seconds:.1f} s"
    match finished.outcome:
        case "timed_out":
            how = f"Ended after {took}, the time it was given; it may have done a part of its work."
        case "stopped":
            how = f"The person stopped it after {took}; it may have done a part of its work."
        case "cut_off":
            how = "How it ended is not known."
        case _:
            how = f"Exit code {finished.code}, after {took}."
    return f"Ran {', '.join(parts)}. {how}"


def _short(target: str) -> str:
    """A box's name as people write it: the first 12 of its 64 letters."""
    return target[:12] if len(target) == 64 and target.isalnum() else target


def _where(started: StepStarted, finished: StepFinished) -> str:
    if started.place == "computer" or not started.place:
        return f"on {PLACE_WORDS['computer.where']}"
    if started.place == "container":
        return PLACE_WORDS["ran.in.container"].removeprefix("Ran ")
    return PLACE_WORDS["ran.on"].format(where=finished.where or started.place).removeprefix("Ran ")


def _output(finished: StepFinished, most: int) -> str:
    if not finished.text.strip():
        return "It printed nothing." if not finished.size else f"It printed {finished.size:,} bytes that are no text."
    text = cut(finished.text, most)
    left = f", {finished.left_out:,} of {finished.size:,} bytes are not shown" if finished.left_out else ""
    return f"Output{left}:\n{text}"


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text, with a line between them that says how much is not shown."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 5, most * 3 // 5
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters are not shown …]\n{text[-tail:]}"
