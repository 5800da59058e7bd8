"""What is folded away and what is open. What the person chose stays; the rest follows how a step goes."""

from __future__ import annotations

import time

from ui.transcript.rows import Step, StoryRow

# A command quicker than this never unfolds by itself: the card would only flicker.
SETTLE = 0.6


class Folds:
    """``chosen`` holds what the person opened or closed, by name; ``whole`` what is shown in its whole length;
    ``wrapped`` the code whose lines wrap; ``shifts`` how far a block is moved sideways, in pixels."""

    def __init__(self) -> None:
        self.chosen: dict[str, bool] = {}
        self.whole: set[str] = set()
        self.wrapped: set[str] = set()
        self.shifts: dict[int, dict[str, float]] = {}
        self.rev = 0

    def choose(self, name: str, opened: bool) -> None:
        self.chosen[name] = opened
        self.rev += 1

    def flip(self, names: set[str], name: str) -> None:
        names.symmetric_difference_update({name})
        self.rev += 1

    def step_open(self, step: Step) -> bool:
        """Open while it runs, and after it when it did not end well; what the person ran themselves stays open."""
        if (chosen := self.chosen.get(step.id)) is not None:
            return chosen
        if step.by_person:
            return True
        if step.over:
            return step.state != "ok"
        return bool(step.text) and time.time() - step.began > SETTLE

    def card_open(self, row: StoryRow) -> bool:
        """Whether a card of several steps shows them."""
        if (chosen := self.chosen.get(card_name(row))) is not None:
            return chosen
        return any(self.step_open(step) or not step.over for step in row.shown)


def card_name(row: StoryRow) -> str:
    return f"card:{row.index}"
