"""SELinux's labels, where it is enforcing and the engine keeps to it (docker-run(1), "Volume mounts").

A box may then touch only what has its label. The work folder gets a private one, the same for each box of that folder:
a label of its own for each box would take the folder away from the one before. **This was never run on a system with
SELinux**; what the engines are told is tested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workplaces.folder import WorkFolder, shown
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

RELABEL = "Relabel"  # in a mount of ours: which label its source is given
PRIVATE, SHARED = "Z", "z"
_ENFORCE = Path("/sys/fs/selinux/enforce")
_CATEGORIES = 1024


def enforcing() -> bool:
    """Whether SELinux refuses what it does not allow, rather than only writing it down."""
    try:
        return _ENFORCE.read_text().strip() == "1"
    except OSError:
        return False


def label(folder: WorkFolder) -> tuple[str, ...]:
    """The private label of a folder's boxes: two categories, as engines choose them, told from which folder it is."""
    digest = hashlib.sha256(f"{folder.device}:{folder.inode}".encode()).digest()
    first = int.from_bytes(digest[:4], "big") % _CATEGORIES
    second = (first + 1 + int.from_bytes(digest[4:8], "big") % (_CATEGORIES - 1)) % _CATEGORIES
    return (f"label=level:s0:c{min(first, second)},c{max(first, second)}",)


def as_binds(body: Mapping[str, Any]) -> dict[str, Any]:
    """What Docker is told: its structured mounts know no labels, so a mount with one is told in its older words.

    Raises PlaceUnavailable for a path that these words cannot hold.
    """
    host = body["HostConfig"]
    mounts = [mount for mount in host.get("Mounts") or () if RELABEL not in mount]
    labelled = [mount for mount in host.get("Mounts") or () if RELABEL in mount]
    if not labelled:
        return dict(body)
    for mount in labelled:
        if ":" in mount["Source"] or ":" in mount["Target"]:
            step = NextStep(PLACE_WORDS["folder.next"], action="choose-folder")
            words = PLACE_WORDS["container.selinux"].format(folder=shown(Path(mount["Target"])))
            raise PlaceUnavailable(words, next_step=step)
    binds = [_bind(mount) for mount in labelled]
    return {**body, "HostConfig": {**host, "Mounts": mounts, "Binds": [*host.get("Binds", ()), *binds]}}


def _bind(mount: Mapping[str, Any]) -> str:
    options = ["ro" if mount["ReadOnly"] else "rw", mount["BindOptions"]["Propagation"], mount[RELABEL]]
    return f"{mount['Source']}:{mount['Target']}:{','.join(options)}"
