"""Small ways of looking that the places' tests share: at a folder, at processes, at this process itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil


def number() -> str:
    """A number of seconds nobody else sleeps: what a test's processes are found by. Over 100 days, under 68 years."""
    return str(10_000_000 + secrets.randbelow(2_000_000_000))


def processes(mark: str) -> list[str]:
    """The command lines that hold ``mark``, of every process this computer's kernel shows us, boxes included."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mark in line and state not in "ZX":
            found.append(line)
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0, what: str = "") -> None:
    """Polls until the condition holds; fails when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in {seconds} s: {what or condition}"
        await asyncio.sleep(0.01)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


Listing = dict[bytes, tuple[object, ...]]


def listing(folder: Path) -> Listing:
    """Everything in a folder: kind, mode, size, time and content of each entry, links not followed."""
    found: Listing = {}
    root = os.fsencode(folder)
    for base, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = base + b"/" + name
            seen = os.lstat(path)
            content = b""
            if stat.S_ISREG(seen.st_mode):
                content = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).digest()
            elif stat.S_ISLNK(seen.st_mode):
                content = os.fsencode(Path(os.fsdecode(path)).readlink())
            times = () if stat.S_ISDIR(seen.st_mode) else (seen.st_mtime_ns, seen.st_size)
            found[os.path.relpath(path, root)] = (seen.st_mode, seen.st_ino, seen.st_uid, *times, content)
    return found


def held() -> tuple[int, int, int]:
    """What this process holds: open files, threads, children."""
    me = psutil.Process()
    return me.num_fds(), threading.active_count(), len(me.children(recursive=True))


@asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """Runs beside its block; gives how long, in seconds, the loop once let it wait (one entry: the longest)."""
    longest = [0.0]

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest[0] = max(longest[0], time.monotonic() - before - 0.005)

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        try:
            yield longest
        finally:
            beating.cancel()
