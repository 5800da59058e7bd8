"""Boxes that outlived their Conch.

A box dies with its Conch, but for one moment: bubblewrap sees to that only once the box is made, and a Conch that is
killed in those two or three milliseconds leaves a command that nobody follows. Its box bears a name by which the next
Conch on the same home finds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
from pathlib import Path


def box_name(home: Path) -> str:
    """What the boxes of one home are called in a list of processes."""
    return "conch-box-" + hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def sweep_boxes(home: Path) -> int:
    """Ends the boxes of this home whose Conch is gone. Gives how many; never raises (Linux; elsewhere does nothing)."""
    if sys.platform != "linux":
        return 0
    name = box_name(home)
    gone = 0
    with contextlib.suppress(OSError):
        ours = _namespace("self")
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                if (
                    _called(entry.name) == name
                    and _namespace(entry.name) != ours
                    and _called(_parent(entry.name)) != name
                ):
                    os.kill(int(entry.name), signal.SIGKILL)
                    gone += 1
    return gone


def _called(pid: str) -> str:
    """The name a process was started by, its argv[0]."""
    return os.fsdecode(Path("/proc", pid, "cmdline").read_bytes().split(b"\0")[0])


def _parent(pid: str) -> str:
    return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1]


def _namespace(pid: str) -> int:
    return Path("/proc", pid, "ns", "pid").stat().st_ino
