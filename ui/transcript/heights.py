"""The heights of all rows, guessed or known, and where each row begins. Quick for a hundred thousand of them."""

from __future__ import annotations

from collections.abc import Iterable

_BLOCK = 256


class Heights:
    """Heights in whole pixels, summed by blocks of 256 rows."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._all = list(heights)
        self._sums = [sum(self._all[at : at + _BLOCK]) for at in range(0, len(self._all), _BLOCK)]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> int:
        return self._all[index]

    @property
    def total(self) -> int:
        return sum(self._sums)

    def append(self, height: int) -> None:
        if len(self._all) % _BLOCK == 0:
            self._sums.append(0)
        self._all.append(height)
        self._sums[-1] += height

    def set(self, index: int, height: int) -> None:
        self._sums[index // _BLOCK] += height - self._all[index]
        self._all[index] = height

    def offset(self, index: int) -> int:
        """Where row ``index`` begins."""
        block = index // _BLOCK
        return sum(self._sums[:block]) + sum(self._all[block * _BLOCK : index])

    def at(self, y: int) -> int:
        """The row that ``y`` lies in; the last one when it lies below them all. There must be a row."""
        block = 0
        while block < len(self._sums) - 1 and y >= self._sums[block]:
            y -= self._sums[block]
            block += 1
        index = block * _BLOCK
        while index < len(self._all) - 1 and y >= self._all[index]:
            y -= self._all[index]
            index += 1
        return index
