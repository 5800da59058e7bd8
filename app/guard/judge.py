"""The one question every step is put to, whoever wants it and whatever the mode."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from app.chats.events import Mode
from app.guard.modes import Allow, Ask, Refuse, Step, Verdict
from app.guard.protected import names_protected
from app.tools.answers import COMMAND
from app.tools.folder import show
from app.tools.words import command_words, todo
from workplaces.words import PLACE_WORDS

CHANGES_KEY = "change files"


def judge(step: Step, mode: Mode, allowed: Collection[str], *, protected: Collection[Path] = ()) -> Verdict:
    """Whether the step goes ahead, is asked about, or is refused. It may look at the disk: use it in a thread.

    ``allowed`` holds the keys of what the person allowed for good in this chat. A protected place is refused whoever
    asks and whatever the mode. What a person typed is theirs, so it is not asked about.
    """
    if step.command and (place := names_protected(step.command, protected, step.folder)):
        named = show(str(place))
        return Refuse(f"The command names {named}, a protected place: nothing may touch it, wherever it runs.")
    if step.by_person or mode == "full" or not step.changes:
        return Allow()
    if mode == "plan":
        return Refuse("This chat only reads and plans, so nothing is run or changed in it.")
    key = key_of(step)
    if key in allowed:
        return Allow("You said always in this chat.")
    if mode == "edit" and step.tool != COMMAND:
        return Allow()
    # Edit freely and Auto ask about what they do not cover yet, as Ask first does.
    return _ask(step, key)


def key_of(step: Step) -> str:
    """What "always in this chat" remembers: this very command, sealed or open, at this place; or changes to files."""
    if step.tool != COMMAND:
        return CHANGES_KEY
    return f"{step.place} {'open' if step.open else 'sealed'}: {step.command}"


def _ask(step: Step, key: str) -> Ask:
    if step.tool != COMMAND:
        path = step.arguments.get("path")
        what = show(path) if isinstance(path, str) else "a file"
        return Ask(f"Change {what}?", "“Always” means every change to files of the work folder.", key=key)
    why = "It runs sealed: no network, and .git is read-only."
    if step.open:
        why = "It leaves the box: it has the network, and may write to .git."
        why += f" The reason given: {show(step.reason)}" if step.reason else ""
    title = f"{todo(command_words(step.command))} {_where(step.place)}?"
    return Ask(title, f"{why} “Always” means this very command there.", key=key)


def _where(place: str) -> str:
    if place == "container":
        return "in a container"
    return f"on {PLACE_WORDS['computer.where'] if place == 'computer' else place.removeprefix('ssh:')}"
