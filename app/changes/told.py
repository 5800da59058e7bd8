"""What changed, as an event of a chat."""

from __future__ import annotations

from typing import Final

from app.chats.events import StepChanged
from workplaces.place import Changes

MOST_NAMED: Final = 200
"""Files that an event names. How many there were is said anyway."""


def event_of(step: str, changes: Changes) -> StepChanged:
    """The event: of very many files the first of each kind are named."""
    room = MOST_NAMED
    named = []
    for paths in (changes.changed, changes.added, changes.deleted):
        named.append(paths[:room])
        room -= len(named[-1])
    changed, added, deleted = named
    return StepChanged(step=step, count=len(changes.all), added=added, changed=changed, deleted=deleted)
