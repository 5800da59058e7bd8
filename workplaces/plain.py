"""Reading small files that anybody may have put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_plain(path: Path, most: int) -> bytes:
    """What a plain file holds, links followed. Raises OSError, also for what is no plain file (reading a pipe would
    wait for ever), and ValueError when it holds more than ``most`` bytes."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(number, "rb") as file:  # noqa: PTH123 - a descriptor
        seen = os.fstat(number)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(f"{path} is not a plain file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} holds more than {most} bytes")
    return data
