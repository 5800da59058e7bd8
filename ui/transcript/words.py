"""What the transcript says in words: on the screen and to a screen reader. Pure, so that it is tested as text."""

from __future__ import annotations

from collections import Counter
from typing import Final

from app.chats.events import Outcome, StepProgress
from app.tools.words import todo
from ui.transcript.blocks import safe
from ui.transcript.rows import AskRow, NoteRow, ProseRow, Row, Step, StoryRow, UserRow
from workplaces.words import PLACE_WORDS

ENDED: Final[dict[Outcome, str]] = {
    "ok": "",
    "failed": "failed",
    "refused": "did not run",
    "not_run": "did not run",
    "stopped": "stopped",
    "timed_out": "took too long and was stopped",
    "cut_off": "cut off",
}
_NOTES: Final = {
    "stopped": "You stopped this.",
    "failed": "This could not be finished.",
    "cut_off": "Conch closed before this was finished.",
}
# What several steps of one tool are called together: one, many.
_TOOLS: Final[dict[str, tuple[str, str, str]]] = {
    "run_command": ("ran", "a command", "{n} commands"),
    "read_file": ("read", "a file", "{n} files"),
    "write_file": ("wrote", "a file", "{n} files"),
    "edit_file": ("edited", "a file", "{n} files"),
    "list_files": ("looked in", "a folder", "{n} folders"),
    "search_files": ("searched", "once", "{n} times"),
}
_NAMED: Final = 20
# How a changed file is named, by the event's word for it; and what two changes of one file are together.
_WAYS: Final = {"": "changed", "new: ": "added", "gone: ": "deleted"}
_TOGETHER: Final = {("new: ", ""): "new: ", ("gone: ", "new: "): ""}
_DOING: Final = {
    "Ran": "Running",
    "Listed": "Listing",
    "Read": "Reading",
    "Looked": "Looking",
    "Searched": "Searching",
    "Wrote": "Writing",
    "Edited": "Editing",
}


def seconds(value: float) -> str:
    """A length of time as a person says it: ``6.1 s``, ``42 s``, ``3 min 12 s``, ``1 h 05 min``."""
    if value < 9.95:
        return f"{max(value, 0.1):.1f} s"
    if value < 59.5:
        return f"{value:.0f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(value: int) -> str:
    """Bytes as a person says them, in decimal units: ``640 bytes``, ``12.4 MB``."""
    if value < 1000:
        return "1 byte" if value == 1 else f"{value} bytes"
    amount = float(value)
    for unit in ("KB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            break
    return f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"


def whole(event: StepProgress) -> bool:
    """Whether all of what was waited for is here, so that a bar would only stand still."""
    return 0 < event.total <= event.done


def progress(event: StepProgress, place: str) -> str:
    """``Getting docker.io/library/node · 312 MB of 1.1 GB``; when all of it is here, what the place does next."""
    if whole(event) and (then := PLACE_WORDS.get(f"{place.partition(':')[0]}.starting")):
        return then
    words = safe(event.words).rstrip("…. ")
    if event.total:
        return f"{words} · {size(event.done)} of {size(event.total)}"
    return f"{words} · {size(event.done)}" if event.done else words


def worked_at(step: Step) -> str:
    """What the step's chip says: empty for this computer, for a file tool, and for what ran nowhere."""
    if not step.ran:
        return ""
    if step.over and step.where:
        return safe(step.where)
    kind, _, host = step.place.partition(":")
    if kind == "ssh":
        return host
    return PLACE_WORDS.get(f"{kind}.where", "") if kind in ("container", "cloud") else ""


def worked_at_spoken(kind: str, where: str) -> str:
    """The chip read out in full: ``Ran in a container``, ``Ran on build-box``. Empty for this computer."""
    if not where:
        return ""
    return PLACE_WORDS["ran.in.container"] if kind == "container" else PLACE_WORDS["ran.on"].format(where=where)


def same_place(steps: list[Step]) -> bool:
    """Whether every command of them ran in one place, so that the row says it once."""
    return len({(step.place, worked_at(step)) for step in steps if step.place and step.ran}) <= 1


def chip_of(steps: list[Step]) -> tuple[str, str]:
    """The place's kind and the chip's words for steps that share a place; empty when there is no chip."""
    for step in steps:
        if step.place and (where := worked_at(step)):
            return step.place.partition(":")[0], where
    return "", ""


def ending(step: Step) -> str:
    """How a step ended, when not well: ``failed``, ``did not run``. Empty while it runs and when all went well."""
    state = step.state
    return "" if state == "asked" or state == "running" else ENDED[state]


def exit_code(step: Step) -> str:
    return f"exit {step.code}" if step.code is not None else ""


def deed(step: Step) -> str:
    """The step's words in their right tense: "Ran the tests", "Running the tests", "Run the tests"."""
    first, space, rest = step.words.partition(" ")
    if not step.over:
        return f"{_DOING.get(first, first)}{space}{rest}"
    return step.words if step.ran else todo(step.words)


def headline(steps: list[Step]) -> tuple[str, str]:
    """A story in words, and what is said after them in a quieter voice."""
    if len(steps) == 1:
        return deed(steps[0]), ending(steps[0])
    running = next((step for step in reversed(steps) if not step.over), None)
    if running is not None:
        return deed(running), f"step {len(steps)}"
    counts = Counter(step.tool if step.tool in _TOOLS else "" for step in steps)
    said: list[str] = []
    for tool, many in counts.items():
        verb, one, several = _TOOLS.get(tool, ("took", "a step", "{n} steps"))
        said.append(f"{verb} {one if many == 1 else several.format(n=many)}")
    words = ", ".join(said)
    words = words[:1].upper() + words[1:]
    ends = Counter(ending(step) for step in steps)
    after = ", ".join(f"{many} {end}" for end, many in ends.items() if end)
    return words, after


def changed(steps: list[Step]) -> tuple[str, str]:
    """``Changed 3 files`` and their names, a line each; empty where nothing is known to have changed.

    A file that several steps changed counts once, as far as they are named.
    """
    events = [step.changed for step in steps if step.changed is not None]
    if not events:
        return "", ""
    named: dict[str, str] = {}
    count = 0
    for event in events:
        count += event.count
        for before, way in _WAYS.items():
            for path in getattr(event, way):
                was = named.pop(path, None)
                count -= was is not None
                if was == "new: " and before == "gone: ":  # made by one and removed by another
                    count -= 1
                    continue
                named[path] = _TOGETHER.get((was or "", before), before)
    if not count:
        return "", ""
    if count == 1 and len(named) == 1:
        ((path, before),) = named.items()
        verb = {"": "Changed", "new: ": "Made", "gone: ": "Removed"}[before]
        return f"{verb} {safe(path)}", ""
    lines = [f"{before}{safe(path)}" for path, before in sorted(named.items())][:_NAMED]
    if count > len(lines):
        lines.append(f"and {count - len(lines):,} more")
    return f"Changed {count:,} files", "\n".join(lines)


def took(steps: list[Step]) -> str:
    total = sum(step.seconds for step in steps if step.ran)
    return seconds(total) if total >= 0.05 else ""


def tail(text: str, lines: int, width: int = 2000) -> tuple[list[str], bool]:
    """The last lines of an output, as a terminal would show them, and whether anything stands before them.

    Only the end of the text is looked at, however long it is.
    """
    cut = len(text) > lines * width
    ends = text[-lines * width :] if cut else text
    found = ends.rstrip("\n").split("\n")
    more = cut or len(found) > lines
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in found[-lines:]]
    return [safe(line if len(line) <= width else line[:width] + "…").expandtabs(8) for line in shown], more


def count_lines(text: str) -> int:
    """How many lines an output has. A last newline ends a line and begins none."""
    return text.count("\n") + (not text.endswith("\n")) if text.strip() else 0


def note(row: NoteRow) -> str:
    return row.words or _NOTES[row.outcome]


def not_shown(step: Step) -> str:
    return f"{size(step.left_out)} not shown." if step.left_out else ""


def spoken(row: Row) -> str:
    """The whole row, for a screen reader."""
    match row:
        case UserRow():
            return f"You: {row.text}"
        case ProseRow():
            from ui.transcript.markdown import plain

            return f"Answer: {plain(row.text)}" if row.first else plain(row.text)
        case StoryRow():
            return story_spoken(row.shown)
        case AskRow():
            return "" if row.hidden else _sentences([row.title, row.why, row.step.command])
        case NoteRow():
            return note(row)
    return ""


def story_spoken(steps: list[Step]) -> str:
    """``Ran the parser tests 20 times, exit 1. Ran in a container. 6.1 s``"""
    if not steps:
        return ""
    words, after = headline(steps)
    parts = [f"{words}, {after}" if after else words]
    if same_place(steps):
        parts.append(worked_at_spoken(*chip_of(steps)))
    else:
        parts.append("Ran in several places")
    parts.append(took(steps) if all(step.over for step in steps) else "Running")
    parts += [step.said for step in steps if step.said]
    parts.append(changed(steps)[0])
    return _sentences(parts)


def step_spoken(step: Step) -> str:
    """One step of several, with its own place."""
    after = ending(step)
    parts = [f"{deed(step)}, {after}" if after else deed(step)]
    parts.append(worked_at_spoken(*chip_of([step])))
    parts.append(took([step]) if step.over else "Running")
    parts.append(changed([step])[0])
    return _sentences(parts)


def _sentences(parts: list[str]) -> str:
    """Parts as sentences one after another, each ended once."""
    said = [part.strip().rstrip(".") for part in parts if part.strip()]
    return "".join(
        part if n == len(said) - 1 else part + (" " if part[-1:] in "?!:" else ". ") for n, part in enumerate(said)
    )
