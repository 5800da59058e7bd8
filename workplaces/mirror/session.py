"""One command's mirror: the lock, what was agreed, and the threads that the two rounds run in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from workplaces.mirror.agreed import Agreed
from workplaces.mirror.carry import Broken
from workplaces.mirror.changes import Changed, Sent
from workplaces.mirror.copies import Copies, safe, short
from workplaces.mirror.far import Far
from workplaces.mirror.land import Ground
from workplaces.mirror.locks import CopyLock
from workplaces.mirror.rounds import Rounds
from workplaces.mirror.scope import PARTS, scope_of
from workplaces.mirror.stop import Halt, Halted, in_thread
from workplaces.mirror.talk import Talk, Trouble
from workplaces.mirror.work import Limits, Listings, Work
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

FOLDER_THERE: Final = ".conch-work"

Ask = Callable[[int, int], Awaitable[bool]]
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Open:
    """What a session holds while it is open."""

    lock: CopyLock
    agreed: Agreed
    staging: Path
    real: Path
    listings: Listings
    agreed_at: Path


class Session:
    """One command's mirror. ``copy`` is the folder there, from the home folder (``.conch-work/…``)."""

    def __init__(
        self,
        copies: Copies,
        copy_id: str,
        folder: Path,
        far: Far,
        protected: tuple[Path, ...],
        leave: frozenset[str],
        ask: Ask | None,
        limits: Limits,
    ) -> None:
        self._copies = copies
        self._copy_id = safe(copy_id)
        self._folder = folder
        self._far = far
        self._protected = protected
        self._leave = leave
        self._ask = ask
        self._limits = limits
        self._open: _Open | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name = self._copy_id

    @property
    def copy(self) -> str:
        return f"{FOLDER_THERE}/{self._name}"

    async def __aenter__(self) -> Session:
        self._loop = asyncio.get_running_loop()
        halt = Halt()
        try:
            self._open = await available(in_thread(lambda: self._take(halt), halt))
        except asyncio.CancelledError:
            if self._open is not None:
                self._open.lock.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.lock.release()
            self._open = None

    async def before(self) -> Sent:
        """Brings the copy in step with the folder here. Raises PlaceUnavailable: then nothing may run."""
        halt = Halt()
        return await available(in_thread(lambda: self._whole(Rounds.before, halt), halt))

    async def after(self) -> Changed:
        """Brings back what changed there. What could not be is in the answer's ``trouble``; nothing is lost then."""
        halt = Halt()

        def work() -> Changed:
            try:
                return self._whole(Rounds.after, halt)
            except Trouble as trouble:
                return Changed(trouble=trouble.words)

        return await in_thread(work, halt)

    # In a thread

    def _take(self, halt: Halt) -> _Open:
        if os.open not in os.supports_dir_fd:  # Windows: a folder cannot be held while something is done in it
            raise Trouble("system")
        try:
            real = self._folder.resolve(strict=True)
            state = self._copies.state(self._copy_id, self._far)
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = CopyLock(state / "lock")
            lock.take(halt)
        except OSError as error:
            raise Trouble("here", reason=error.strerror or str(error), details=repr(error)) from error
        try:
            # A chat that moves on to another folder gets another copy: the two must never meet.
            bound = state / "folder"
            mine = os.fsencode(real)
            if not bound.exists():
                _write(bound, mine)
            elif bound.read_bytes() != mine:
                lock.release()
                self._name = f"{self._copy_id}-{short(os.fspath(real))}"
                state = state.parent / self._name
                state.mkdir(mode=0o700, exist_ok=True)
                lock = CopyLock(state / "lock")
                lock.take(halt)
            agreed = self._copies.agreed_at(state / "agreed.sqlite3")
            agreed.load()
            staging = state / "in"
            staging.mkdir(mode=0o700, exist_ok=True)
            for leftover in staging.iterdir():
                leftover.unlink()
            known = state / "agreed.sqlite3"
            self._open = _Open(lock, agreed, staging, real, self._copies.listings_of(known), known)
            return self._open
        except (OSError, sqlite3.Error) as error:
            lock.release()
            raise Trouble("here", reason=getattr(error, "strerror", None) or str(error), details=repr(error)) from error
        except BaseException:
            lock.release()
            raise

    def _whole(self, what: Callable[[Rounds], Answer], halt: Halt) -> Answer:
        """Does one round, and keeps what it achieved, however it ends."""
        held = self._open
        if held is None:
            raise RuntimeError("the session is not open")
        parts = f"{PARTS}{short(os.fspath(held.staging))}-"
        try:
            with Ground(held.real, held.staging, parts) as ground:
                scope = scope_of(held.real, self._folder, self._protected, leave=self._leave, parts=PARTS)
                talk = Talk(self._far, self._name, self._leave, halt)
                watched = self._copies.watched_of(held.agreed_at, held.real, scope, self._limits.files * 4)
                work = Work(
                    self._far.name, held.agreed, ground, talk, scope, halt, self._limits, held.listings, watched
                )
                try:
                    answer = what(Rounds(work, held.real, self._asked(halt)))
                except BaseException:
                    with contextlib.suppress(Trouble):
                        work.save()
                    raise
                work.save()
                return answer
        except OSError as error:
            raise Trouble("here", reason=error.strerror or str(error), details=repr(error)) from error
        except Broken as error:
            raise Trouble("broken", where=self._far.name, details=str(error)) from error

    def _asked(self, halt: Halt) -> Callable[[int, int], bool]:
        ask, loop = self._ask, self._loop
        if ask is None or loop is None:
            return lambda count, of: False

        async def asking(count: int, of: int) -> bool:
            return await ask(count, of)

        def wait(count: int, of: int) -> bool:
            answer = asyncio.run_coroutine_threadsafe(asking(count, of), loop)
            while True:
                try:
                    return answer.result(0.1)
                except TimeoutError:
                    if answer.done():
                        raise
                    if halt.stopped:
                        answer.cancel()
                        raise Halted from None

        return wait


async def available(work: Awaitable[Answer]) -> Answer:
    """Trouble, as a place says that it is not there."""
    try:
        return await work
    except Trouble as trouble:
        key = f"mirror.{trouble.key}.next"
        step = NextStep(PLACE_WORDS[key]) if key in PLACE_WORDS else None
        raise PlaceUnavailable(trouble.words, next_step=step, details=trouble.details) from trouble


def _write(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)
