"""The whole of a long output, in a file that only its owner can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from io import BufferedWriter, FileIO
from pathlib import Path

LARGEST_SPILL = 512 * 1024 * 1024
SPILL_DAYS = 7
ALL_SPILLS = 4 * 1024 * 1024 * 1024
_SUFFIX = ".output"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Spill:
    """Takes bytes until ``most``, then only counts. A disk that is full ends it quietly: a command goes on without."""

    def __init__(self, folder: Path, most: int = LARGEST_SPILL) -> None:
        self._folder = folder
        self._left = most
        self._file: BufferedWriter | None = None
        self._path: Path | None = None
        self._failed = False

    @property
    def path(self) -> Path | None:
        """The file, None when nothing was written or it could not be."""
        return None if self._failed else self._path

    def write(self, data: bytes) -> None:
        if self._failed or self._left <= 0:
            return
        try:
            self._opened().write(data if len(data) <= self._left else data[: self._left])
            self._left -= len(data)
        except OSError:
            self._fail()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                self._fail()

    def _opened(self) -> BufferedWriter:
        if self._file is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(8)}{_SUFFIX}"
            path = self._folder / name
            self._file = BufferedWriter(FileIO(os.open(path, _FLAGS, 0o600), "wb"), 256 * 1024)
            self._path = path
        return self._file

    def _fail(self) -> None:
        """Half a file would be taken for the whole."""
        self._failed = True
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()


def sweep(folder: Path, days: float = SPILL_DAYS, most: int = ALL_SPILLS) -> int:
    """Removes spilled output older than ``days``, and the oldest of the rest while all are over ``most`` bytes.

    Gives how many went. Touches nothing else in the folder, follows no link, and never raises.
    """
    kept: list[tuple[float, int, Path]] = []
    gone = 0
    oldest = time.time() - days * 86400
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if not entry.name.endswith(_SUFFIX) or not entry.is_file(follow_symlinks=False):
                    continue
                seen = entry.stat(follow_symlinks=False)
                kept.append((seen.st_mtime, seen.st_size, Path(entry.path)))
    total = sum(size for _, size, _ in kept)
    for modified, size, path in sorted(kept):
        if modified >= oldest and total <= most:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
        total -= size
    return gone
