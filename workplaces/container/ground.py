"""Which folder a box sees, where the engine is behind a virtual machine and the numbers of files are others there.

Then the names, sizes and times of what lies at the top of the folder have to do. An empty one cannot be told apart: a
path that the engine does not share is an empty folder to it.
"""

from __future__ import annotations

import hashlib
import os
import re

from workplaces.folder import WorkFolder, shown
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

# The same in the box: of a folder the size is its file system's own matter. $@ are names that are covered there.
LOOK = """\
skip() { for x do [ "$f" != "$x" ] || return 0; done; return 1; }
s=$(for f in * .[!.]* ..?*; do skip "$@" || printf '%s\\0' "$f"; done |
xargs -0 stat -c '%f %s %Y %n' -- 2>/dev/null |
sed -e 's/^4... [0-9]* /folder /' -e 's/^[0-9a-f]* /file /' | LC_ALL=C sort | sha256sum)
s=${s%% *}"""


def covered_names(folder: WorkFolder) -> tuple[str, ...]:
    """What lies at the top of the folder and looks otherwise in a box."""
    return tuple(cover.inside.name for cover in folder.covers if len(cover.inside.parts) == 1)


def top_level(folder: WorkFolder) -> str:
    """The digest of what is there, as ``LOOK`` makes it. Touches the disk. Raises PlaceUnavailable when that is
    nothing, or cannot be read."""
    covered = covered_names(folder)
    lines: list[bytes] = []
    try:
        with os.scandir(folder.real) as entries:
            for entry in entries:
                if entry.name not in covered:
                    lines += _line(entry).split(b"\n")
    except OSError as error:
        raise PlaceUnavailable(
            PLACE_WORDS["folder.closed"].format(folder=shown(folder.path)), details=str(error)
        ) from None
    if not lines:
        step = NextStep(PLACE_WORDS["container.empty-folder.next"], action="choose-folder")
        raise PlaceUnavailable(PLACE_WORDS["container.empty-folder"].format(folder=shown(folder.path)), next_step=step)
    return hashlib.sha256(b"".join(line + b"\n" for line in sorted(map(_as_there, lines)))).hexdigest()


def _line(entry: os.DirEntry[str]) -> bytes:
    seen = entry.stat(follow_symlinks=False)
    return f"{seen.st_mode:x} {seen.st_size} {seen.st_mtime_ns // 10**9} ".encode() + os.fsencode(entry.name)


def _as_there(line: bytes) -> bytes:
    """What sed makes of a line (a name may hold some more)."""
    return re.sub(rb"^[0-9a-f]* ", b"file ", re.sub(rb"^4... [0-9]* ", b"folder ", line))
