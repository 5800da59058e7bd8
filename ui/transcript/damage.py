"""What has to be painted anew when the rows in sight have moved or changed."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QRegion

from ui.transcript.arrangement import Placed
from ui.transcript.sheet import Sheet

Shown = dict[int, tuple[int, Sheet]]  # each row's top and sheet


class Damage(NamedTuple):
    """``shift``: how far everything moved, in pixels; ``area``: what is to be painted after that."""

    shift: int
    area: QRegion


def shown(placed: list[Placed]) -> Shown:
    return {one.row: (one.y, one.sheet) for one in placed}


def damage(before: Shown, now: Shown, size: QSize, column: tuple[int, int], foot: int) -> Damage:
    """Compares what the window shows with what it is to show.

    ``column`` is the left edge and the width that rows paint in; ``foot`` the height below the last row that changed.
    """
    window = QRect(0, 0, size.width(), size.height())
    everything = Damage(0, QRegion(window))
    kept = {row for row, (_, sheet) in now.items() if row in before and before[row][1] is sheet}
    shifts = {now[row][0] - before[row][0] for row in kept}
    if len(shifts) != 1:
        return everything
    shift = shifts.pop()
    if abs(shift) >= size.height():
        return everything
    # Apart, not united: a row that left at the top and one that grew at the end would make up the whole window.
    area = QRegion()
    left, wide = column
    for row in now.keys() | before.keys():
        if row in kept:
            continue
        y, sheet = now.get(row, (0, None))
        old_y, old = before.get(row, (0, None))
        same = 0  # what of the row, from its top, is as it was
        if sheet is not None and old is not None and y == old_y + shift:
            same = sheet.same_as(old)
        if sheet is not None:
            area += QRect(left, y + same, wide, sheet.height - same) & window
        if old is not None:
            area += QRect(left, old_y + shift + same, wide, old.height - same) & window
    end = max((y + sheet.height for y, sheet in now.values()), default=0)
    return Damage(shift, area + (QRect(left, end, wide, foot) & window))
