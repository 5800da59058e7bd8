"""Which disks tell of all that changes on them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

_DISKS: Final = frozenset("ext2 ext3 ext4 xfs btrfs tmpfs f2fs zfs overlay bcachefs jfs reiserfs vfat exfat".split())  # noqa: SIM905


def can_be_watched(folder: Path) -> bool:
    """Whether all that changes there is told: on a disk of this computer, with no other one inside. Raises OSError."""
    if not sys.platform.startswith("linux"):
        return False
    within, best, kind = str(folder.resolve()).rstrip("/") + "/", "", ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        for line in lines:
            fields = line.split(" ")
            point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4]).rstrip("/") + "/"
            if point != within and point.startswith(within):
                return False
            if within.startswith(point) and len(point) >= len(best):
                best, kind = point, fields[fields.index("-") + 1]
    return kind in _DISKS
