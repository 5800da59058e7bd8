"""What Conch did without being asked, when and why. Kept 30 days, one line of JSON each."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import files
from app.locks import FileLock

log = logging.getLogger(__name__)

DAYS = 30
MOST = 1000


@dataclass(frozen=True, slots=True)
class Fixed:
    """``at`` is seconds since 1970; ``what`` was done ("Opened Docker Desktop."), ``why`` it was."""

    at: float
    what: str
    why: str


OnFixed = Callable[[Fixed], None]


class FixedLog:
    """``note`` may be called from any thread, before ``open`` too; the file is written behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._all: list[Fixed] = []  # oldest first
        self._listeners: list[OnFixed] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="fixed")

    async def open(self) -> None:
        """Reads what was noted before, and forgets what is older than 30 days. Never raises for a file that is odd."""
        self._loop = asyncio.get_running_loop()
        before = await self._loop.run_in_executor(self._writer, self._read_and_trim)
        with self._lock:
            self._all = sorted({*before, *self._all}, key=lambda one: one.at)

    async def close(self) -> None:
        """Returns when everything noted is written."""
        self._loop = None
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.shutdown)

    def note(self, what: str, why: str) -> None:
        """Notes that this was done now, and why. Quick."""
        fixed = Fixed(time.time(), what, why)
        with self._lock:
            self._all.append(fixed)
            writer, loop = self._writer, self._loop
        if writer is not None:
            writer.submit(self._append, fixed)
        if loop is not None:
            loop.call_soon_threadsafe(self._tell, fixed)

    def list(self) -> list[Fixed]:
        """Newest first."""
        since = time.time() - DAYS * 86400
        with self._lock:
            return [one for one in reversed(self._all) if one.at >= since][:MOST]

    def subscribe(self, on_fixed: OnFixed) -> Callable[[], None]:
        """Calls ``on_fixed`` on the loop that ``open`` ran on for each new one. Gives back how to end that."""
        self._listeners.append(on_fixed)
        return lambda: self._listeners.remove(on_fixed) if on_fixed in self._listeners else None

    def _tell(self, fixed: Fixed) -> None:
        for listener in [*self._listeners]:
            listener(fixed)

    # -- in the writer's thread

    def _append(self, fixed: Fixed) -> None:
        try:
            with self._held(), open(self.path, "ab", opener=files.owner_only) as file:
                file.write(_line(fixed))
        except OSError as error:
            log.warning("what was fixed could not be noted", exc_info=error)

    def _held(self) -> FileLock:
        return FileLock(self.path.with_name(self.path.name + ".lock"))

    def _read_and_trim(self) -> tuple[Fixed, ...]:
        try:
            with self._held():
                lines = self.path.read_bytes().splitlines() if self.path.exists() else []
                since = time.time() - DAYS * 86400
                kept = [one for one in map(_parsed, lines) if one is not None and one.at >= since][-MOST:]
                if len(kept) != len(lines):
                    files.replace(self.path, b"".join(map(_line, kept)))
                return tuple(kept)
        except OSError as error:
            log.warning("what was fixed before could not be read", exc_info=error)
            return ()


def _line(fixed: Fixed) -> bytes:
    return json.dumps({"at": fixed.at, "what": fixed.what, "why": fixed.why}).encode() + b"\n"


def _parsed(line: bytes) -> Fixed | None:
    try:
        found: Any = json.loads(line)
        return Fixed(float(found["at"]), str(found["what"]), str(found["why"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
