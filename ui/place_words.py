"""How a place stands, in the window's words and dots; and a place's words where its status is not known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workplaces.words import PLACE_WORDS

if TYPE_CHECKING:
    from workplaces.place import PlaceStatus

_STANDING = {
    "ready": ("good", "Ready"),
    "needs": ("warn", "Needs you"),
    "down": ("bad", "Not answering"),
    "checking": ("faint", "Looking…"),
    "later": ("faint", "Not yet"),
}


def dot_of(status: PlaceStatus | None) -> str:
    """The token of a place's dot; empty for this computer when it is ready, which goes without saying."""
    if status is None or (status.ready and status.id.kind == "computer"):
        return ""
    return _STANDING[status.standing][0]


def standing_words(status: PlaceStatus) -> str:
    return _STANDING[status.standing][1]


def name_of(place: str, status: PlaceStatus | None) -> str:
    """What a chip says: ``Docker``, ``build-box``, ``This computer``."""
    if status is not None:
        return status.name
    kind, _, host = place.partition(":")
    return host if kind == "ssh" else PLACE_WORDS.get(f"{kind}.name", place)


def runs_words(place: str) -> str:
    """Where, as the end of a sentence: ``on this computer``, ``in a container``, ``on build-box``, ``in the cloud``."""
    kind, _, host = place.partition(":")
    return {"container": "in a container", "cloud": "in the cloud", "ssh": f"on {host}"}.get(kind, "on this computer")


def run_chat_words(status: PlaceStatus) -> str:
    """What the palette offers: ``Run this chat on build-box``."""
    if status.id.kind == "computer":
        return "Run this chat on this computer"
    return f"Run this chat {'on' if status.id.kind == 'ssh' else 'in'} {status.name}"


def line_of(status: PlaceStatus) -> str:
    """The place's one sentence, with a next step that is only words after it."""
    step = status.next_step
    if status.ready or step is None or step.command or step.action:
        return status.line
    return f"{status.line} {step.label}."


def step_of(status: PlaceStatus) -> tuple[str, str]:
    """What can be pressed to get on: its label, and its key for the window; both empty when there is nothing."""
    if status.ready or status.standing in ("checking", "later"):
        return "", ""
    step = status.next_step
    label = step.label if step is not None and (step.command or step.action) else "Try again"
    return label, f"place:{status.id}"
