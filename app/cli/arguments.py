"""Reading what was typed. By hand: a command after ``--`` must stay as it is, and argparse is slow to import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.screen import BadUse
from workplaces.place import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, BadPlace, WorkPlaceId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """What ``conch run`` was asked. ``place`` None: the one that new chats use."""

    command: str | tuple[str, ...]
    place: WorkPlaceId | None
    folder: Path | None
    open: bool
    timeout: float
    json: bool


def run_arguments(given: Sequence[str]) -> RunArguments:
    """Reads what follows ``conch run``. The command begins after ``--``, or at the first word that is no option."""
    options, command = options_of(
        "conch run", given, values=("--place", "--folder", "--timeout"), flags=("--open", "--json")
    )
    if not command or not command[0]:
        raise BadUse("There is no command to run. Give one after --, as in: conch run -- ls -l")
    place = options.get("--place")
    try:
        named = WorkPlaceId.parse(place) if place is not None else None
    except BadPlace as error:
        raise BadUse(str(error)) from None
    folder = options.get("--folder")
    if folder == "":
        raise BadUse("--folder takes the path of a folder.")
    return RunArguments(
        command=command[0] if len(command) == 1 else tuple(command),
        place=named,
        folder=Path(folder) if folder is not None else None,
        open="--open" in options,
        timeout=seconds(options["--timeout"]) if "--timeout" in options else DEFAULT_TIMEOUT,
        json="--json" in options,
    )


def seconds(text: str) -> float:
    """A time limit as typed. Raises BadUse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 0 < value <= LONGEST_TIMEOUT:  # not so for nan either
        return value
    raise BadUse(f"“{text}” is no time limit. --timeout takes seconds, more than 0 and at most {LONGEST_TIMEOUT:.0f}.")


def options_of(
    who: str, given: Sequence[str], *, values: Iterable[str] = (), flags: Iterable[str] = ()
) -> tuple[Mapping[str, str], list[str]]:
    """The options in front, and the rest: what follows ``--``, or begins with the first word that is no option.

    Raises BadUse for an option that is not known, lacks its value or has one too many.
    """
    values, flags = tuple(values), tuple(flags)
    found: dict[str, str] = {}
    rest = list(given)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in flags:
            if equals:
                raise BadUse(f"{name} takes no value.")
        elif name in values:
            if not equals:
                if not rest or rest[0] == "--":
                    raise BadUse(f"{name} needs a value.")
                value = rest.pop(0)
        else:
            raise BadUse(_unknown(who, name, (*values, *flags)))
        if name in found:
            raise BadUse(f"{name} is given twice.")
        found[name] = value
    return found, rest


def _unknown(who: str, name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"{name} is not an option of {who}." + (f" Did you mean {near[0]}?" if near else f" See {who} --help.")
