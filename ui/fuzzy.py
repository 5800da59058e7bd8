"""How well what was typed fits a title: letters in order, better together and at the start of words."""

from __future__ import annotations


def score(asked: str, title: str, words: str = "") -> float:
    """0 when it does not fit at all. Every word asked for must fit the title or ``words``."""
    total = 0.0
    for part in asked.casefold().split():
        best = max(_one(part, title.casefold()), 0.5 * _whole(part, words.casefold()))
        if best <= 0:
            return 0.0
        total += best
    return total


def _whole(part: str, words: str) -> float:
    at = words.find(part)
    if at < 0:
        return 0.0
    return 60.0 if at == 0 or not words[at - 1].isalnum() else 35.0


def _one(part: str, title: str) -> float:
    if (found := _whole(part, title)) > 0:
        return found + 40.0 * len(part) / max(len(title), 1)
    if len(part) < 3:
        return 0.0
    # Letters in order, with the gaps between them held against it; a slip of one letter still finds.
    at, gaps, missed = -1, 0, 0
    for letter in part:
        found_at = title.find(letter, at + 1)
        if found_at < 0:
            missed += 1
            continue
        gaps += found_at - at - 1 if at >= 0 else 0
        at = found_at
    if missed > (1 if len(part) > 3 else 0) or gaps > 2 * len(part):
        return 0.0
    return max(1.0, 25.0 - gaps - 8.0 * missed)
