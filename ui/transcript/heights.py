"""The heights of all rows, guessed or known, and where each row begins. Quick for a hundred thousand of them.

Guessing every row of a long chat at once would hold the window, so a block of rows is guessed when it is looked at, or
by ``refine``; until then its height is what so many typical rows have.
"""

from __future__ import annotations

from collections.abc import Callable

_BLOCK = 256
_SAMPLE = 64  # rows that say what is typical


class Heights:
    """Heights in whole pixels, summed by blocks of 256 rows."""

    def __init__(self, count: int = 0, guess: Callable[[int], int] = lambda _: 0) -> None:
        self._count = self._first = count  # of the first ones each is guessed when it must be
        self._guess = guess
        sample = [guess(row) for row in range(0, count, count // _SAMPLE + 1)]
        typical = sum(sample) / max(1, len(sample))
        self._blocks: list[list[int] | None] = [None] * -(-count // _BLOCK)
        self._sums = [round(typical * min(_BLOCK, count - at)) for at in range(0, count, _BLOCK)]
        self._next = len(self._blocks)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return self._block(index // _BLOCK)[index % _BLOCK]

    def _block(self, number: int) -> list[int]:
        found = self._blocks[number]
        if found is None:
            first = number * _BLOCK
            found = self._blocks[number] = [self._guess(row) for row in range(first, min(first + _BLOCK, self._first))]
            self._sums[number] = sum(found)
        return found

    @property
    def rough(self) -> bool:
        """Whether some rows are not even guessed yet."""
        return self._next > 0

    def refine(self) -> None:
        """Guesses the rows of one more block, from the end on."""
        while self._next > 0:
            self._next -= 1
            if self._blocks[self._next] is None:
                self._block(self._next)
                return

    @property
    def total(self) -> int:
        return sum(self._sums)

    def append(self, height: int) -> None:
        if self._count % _BLOCK == 0:
            self._blocks.append([])
            self._sums.append(0)
        self._block(len(self._blocks) - 1).append(height)
        self._sums[-1] += height
        self._count += 1

    def set(self, index: int, height: int) -> None:
        number = index // _BLOCK
        block = self._block(number)
        self._sums[number] += height - block[index % _BLOCK]
        block[index % _BLOCK] = height

    def offset(self, index: int) -> int:
        """Where row ``index`` begins."""
        number = index // _BLOCK
        within = sum(self._block(number)[: index % _BLOCK])
        return sum(self._sums[:number]) + within

    def at(self, y: int) -> int:
        """The row that ``y`` lies in; the last one when it lies below them all. There must be a row."""
        number = 0
        while number < len(self._sums) - 1 and y >= self._sums[number]:
            y -= self._sums[number]
            number += 1
        index, heights = 0, self._block(number)
        while index < len(heights) - 1 and y >= heights[index]:
            y -= heights[index]
            index += 1
        return number * _BLOCK + index
