"""Caches of Conch's own, one folder for each work folder: what a command plants in them is used nowhere else."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

_DAYS = 60.0


def cache_folder(home: Path, work: Path) -> Path:
    """The folder for the commands on ``work`` (a real path), made now and its owner's alone. Raises OSError."""
    name = hashlib.sha256(os.fsencode(work)).hexdigest()[:32]
    folder = home / "caches" / name
    try:
        os.utime(folder)  # in use: ``sweep_caches`` goes by it
    except FileNotFoundError:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def sweep_caches(home: Path, days: float = _DAYS) -> int:
    """Removes the caches that no command used for ``days``. Gives how many; never raises, and follows no link."""
    gone = 0
    with contextlib.suppress(OSError):
        for folder in (home / "caches").iterdir():
            with contextlib.suppress(OSError):
                if not folder.is_symlink() and folder.stat().st_mtime < time.time() - days * 86400:
                    shutil.rmtree(folder)
                    gone += 1
    return gone
