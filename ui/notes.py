"""What the window says to the person, calmly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SORRY = "Something went wrong inside Conch. Your chats are safe, and the log in Conch's folder has the details."


@dataclass(frozen=True, slots=True)
class Note:
    """One calm sentence for the person. ``stays``: until it is closed; ``button`` with ``run`` is its one step."""

    words: str
    button: str = ""
    run: Callable[[], object] | None = None
    stays: bool = False
