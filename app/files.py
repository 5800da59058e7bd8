"""Files of Conch's own: the owner's alone, and whole at every moment."""

from __future__ import annotations

import os
from pathlib import Path


def owner_only(path: str, flags: int) -> int:
    """An opener for ``open``: what it makes is mode 0600."""
    return os.open(path, flags, 0o600)


def write_new(path: Path, data: bytes) -> None:
    """Makes the file with that in it, on the disk when this returns. Raises FileExistsError, or another OSError."""
    with open(path, "xb", opener=owner_only) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Puts that in the file's place in one step: at every moment it is whole, old or new. Raises OSError.

    Through a link, so that a file kept elsewhere stays there.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    try:
        write_new(beside, data)
        os.replace(beside, target)  # noqa: PTH105 - the one call that says atomic on every system
    finally:
        beside.unlink(missing_ok=True)
