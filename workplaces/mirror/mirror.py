"""The mirror: one copy of one folder on one other machine, kept in step round each command.

    mirror = Mirror(home.places / "mirror")
    async with mirror.session(chat, folder, far, protected=places) as session:
        sent = await session.before()
        …the command runs in session.copy there…
        changed = await session.after()

A session waits for its turn: commands for one copy run one at a time, in this process and in others. Cancelling it at
any moment leaves each file whole, old or new, on both sides, and the next session repairs the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from workplaces.mirror import listing, plan, scripts
from workplaces.mirror.after import Lander
from workplaces.mirror.agreed import Agreed
from workplaces.mirror.before import Pusher
from workplaces.mirror.carry import Broken, Incoming, TooMuch
from workplaces.mirror.changes import Changed, Sent
from workplaces.mirror.far import BOOTSTRAP, Far, FarLost, script
from workplaces.mirror.land import Ground
from workplaces.mirror.listing import Changes
from workplaces.mirror.locks import CopyLock
from workplaces.mirror.scope import DEPENDENCIES, folds_names, scope_of
from workplaces.mirror.stop import Halt, Halted, in_thread
from workplaces.mirror.talk import Talk, Trouble
from workplaces.mirror.there import There
from workplaces.mirror.work import Limits, Listings, Work, skew
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

FOLDER_THERE: Final = ".conch-work"
PARTS: Final = ".conch-part-"
_ROUNDS: Final = 4
_MOST_CACHED: Final = 4

Ask = Callable[[int, int], Awaitable[bool]]
Answer = TypeVar("Answer")


class Mirror:
    """All copies. ``home`` is a folder in Conch's home (made when needed, 0700): what was agreed lies there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._agreed: dict[Path, Agreed] = {}
        self._listings: dict[Path, Listings] = {}

    def session(
        self,
        copy_id: str,
        folder: Path,
        far: Far,
        *,
        protected: Iterable[Path] = (),
        leave: Collection[str] = DEPENDENCIES,
        ask: Ask | None = None,
        limits: Limits | None = None,
    ) -> Session:
        """A session for one command. ``copy_id`` (a chat's id) names the copy there.

        ``protected`` places are never carried, either way. ``leave`` are the folders that each side makes for itself.
        ``ask`` is asked, on the caller's loop, before a command's deletions empty the folder here: (how many files, of
        how many); without it the answer is no.
        """
        return Session(self, copy_id, folder, far, tuple(protected), frozenset(leave), ask, limits or Limits())

    def state(self, copy_id: str, far: Far) -> Path:
        """The folder that holds what is known of a copy."""
        return self._home / f"{plan.safe_place(far.name)}-{_short(far.name)}" / _safe(copy_id)

    def agreed_at(self, path: Path) -> Agreed:
        """What was agreed, kept in memory for the copies that were used last."""
        agreed = self._agreed.pop(path, None) or Agreed(path)
        self._agreed[path] = agreed
        while len(self._agreed) > _MOST_CACHED:
            self._agreed.pop(next(iter(self._agreed)))
        return agreed

    def listings_of(self, path: Path) -> Listings:
        """The last listing of a copy, kept as long as what was agreed is."""
        known = {one: listings for one, listings in self._listings.items() if one in self._agreed}
        known.setdefault(path, Listings())
        self._listings = known
        return known[path]

    async def sizes(self, far: Far) -> dict[str, int]:
        """The copies on a machine and how much room each takes there (bytes). Raises PlaceUnavailable."""
        halt = Halt()

        def work() -> dict[str, int]:
            found: dict[str, int] = {}
            for record in _plain(far, scripts.SIZES, [], halt):
                kilobytes, _, name = record.partition(b" ")
                if kilobytes.isdigit() and len(kilobytes) < 15:
                    found[name.decode("utf-8", "replace")] = int(kilobytes) * 1024
            return found

        return await _available(in_thread(work, halt))

    async def remove(self, far: Far, copy: str) -> bool:
        """Removes a copy there, and what was agreed about it here; False when something of it is still there.

        ``copy`` is its name there, as ``sizes`` gives it. The folder here is not touched. Raises PlaceUnavailable.
        """
        if not copy or copy.startswith(".") or "/" in copy or "\0" in copy:
            raise ValueError("not the name of a copy")
        halt = Halt()

        def work() -> bool:
            state = self.state(copy, far)
            with contextlib.ExitStack() as stack:
                if state.is_dir():
                    lock = CopyLock(state / "lock")
                    lock.take(halt)
                    stack.callback(lock.release)
                gone = b"=X" not in _plain(far, scripts.REMOVE, [copy], halt)
                for name in ("agreed.sqlite3", "agreed.sqlite3-journal"):
                    (state / name).unlink(missing_ok=True)
                self._agreed.pop(state / "agreed.sqlite3", None)
                return gone

        return await _available(in_thread(work, halt))


@dataclass(slots=True)
class _Open:
    """What a session holds while it is open."""

    lock: CopyLock
    agreed: Agreed
    staging: Path
    real: Path
    listings: Listings


class Session:
    """One command's mirror. ``copy`` is the folder there, from the home folder (``.conch-work/…``)."""

    def __init__(
        self,
        mirror: Mirror,
        copy_id: str,
        folder: Path,
        far: Far,
        protected: tuple[Path, ...],
        leave: frozenset[str],
        ask: Ask | None,
        limits: Limits,
    ) -> None:
        self._mirror = mirror
        self._copy_id = _safe(copy_id)
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
            self._open = await _available(in_thread(lambda: self._take(halt), halt))
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
        return await _available(in_thread(lambda: self._whole(self._before, halt), halt))

    async def after(self) -> Changed:
        """Brings back what changed there. What could not be is in the answer's ``trouble``; nothing is lost then."""
        halt = Halt()

        def work() -> Changed:
            try:
                return self._whole(self._after, halt)
            except Trouble as trouble:
                return Changed(trouble=trouble.words)

        return await in_thread(work, halt)

    # In a thread

    def _take(self, halt: Halt) -> _Open:
        try:
            real = self._folder.resolve(strict=True)
            state = self._mirror.state(self._copy_id, self._far)
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
                self._name = f"{self._copy_id}-{_short(os.fspath(real))}"
                state = state.parent / self._name
                state.mkdir(mode=0o700, exist_ok=True)
                lock = CopyLock(state / "lock")
                lock.take(halt)
            agreed = self._mirror.agreed_at(state / "agreed.sqlite3")
            agreed.load()
            staging = state / "in"
            staging.mkdir(mode=0o700, exist_ok=True)
            for leftover in staging.iterdir():
                leftover.unlink()
            self._open = _Open(lock, agreed, staging, real, self._mirror.listings_of(state / "agreed.sqlite3"))
            return self._open
        except (OSError, sqlite3.Error) as error:
            lock.release()
            raise Trouble("here", reason=getattr(error, "strerror", None) or str(error), details=repr(error)) from error
        except BaseException:
            lock.release()
            raise

    def _whole(self, what: Callable[[Work], Answer], halt: Halt) -> Answer:
        """Does one round, and keeps what it achieved, however it ends."""
        held = self._held()
        parts = f"{PARTS}{_short(os.fspath(held.staging))}-"
        try:
            with Ground(held.real, held.staging, parts) as ground:
                scope = scope_of(held.real, self._folder, self._protected, leave=self._leave, parts=PARTS)
                talk = Talk(self._far, self._name, self._leave, halt)
                work = Work(self._far.name, held.agreed, ground, talk, scope, halt, self._limits, held.listings)
                try:
                    answer = what(work)
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

    def _before(self, work: Work) -> Sent:
        recovered = self._recover(work)
        files = size = removed = 0
        for number in range(_ROUNDS):
            over_there, here, shift = self._both_listings(work)
            if number == 0:
                self._check(here)
                self._sweep(work, here)
            work.really_fresh(here.entries, here.clock)
            doubt = work.doubts(over_there)
            todo = plan.push(work.agreed.entries, here, over_there, work.scope, doubt=doubt)
            if number == 0:
                self._tell(work, todo, here, over_there)
            again = self._compare(work, todo, over_there)
            for path in todo.agree:
                work.agreed.put(path, plan.Entry(here.entries[path], over_there.entries[path]))
            for path in todo.drop:
                work.agreed.drop(path)
            if todo.anything or over_there.missing or doubt:
                pusher = Pusher(work, todo, here, over_there, shift)
                done, _ = pusher.push()
                files, size, removed = files + done.files, size + done.size, removed + done.removed
                again |= done.again
                for path in pusher.unreadable:
                    work.leave(path, "closed-here")
                if number == _ROUNDS - 1:
                    for path in done.stale:
                        work.leave(path, "busy")
            if not again:
                break
        work.agreed.meta["open"] = "1"
        return Sent(
            files=files,
            size=size,
            removed=removed,
            recovered=recovered,
            kept_twice=tuple(work.kept),
            left=tuple(work.left),
            notes=tuple(work.notes),
        )

    def _recover(self, work: Work) -> Changes:
        """What the last command changed comes first, when Conch ended or the line broke before it could come back."""
        if work.agreed.meta.get("open") != "1":
            return Changes()
        over_there = work.look()
        changes = Changes()
        if not over_there.missing and not work.doubts(over_there):
            try:
                changes, _ = self._bring(work, over_there)
            except Trouble as trouble:
                if trouble.key != "back":
                    raise
                work.notes.append(trouble.words)
        work.agreed.meta["open"] = "0"
        work.save()
        return changes

    def _after(self, work: Work) -> Changed:
        over_there = work.look()
        changes, held_back = self._bring(work, over_there)
        work.agreed.meta["open"] = "0"
        return Changed(
            changes=changes,
            kept_twice=tuple(work.kept),
            left=tuple(work.left),
            notes=tuple(work.notes),
            held_back=held_back,
        )

    def _bring(self, work: Work, over_there: There) -> tuple[Changes, int]:
        if not over_there.sure:
            work.note("unsure")
        work.scope = self._folding(work)
        todo = plan.pull(work.agreed.entries, over_there, work.scope)
        lander = Lander(work, todo, over_there, skew(over_there.clock, time.time_ns()), self._asked(work.halt))
        return lander.land(), lander.held_back

    def _folding(self, work: Work) -> plan.Scope:
        return replace(work.scope, folds=folds_names(self._held().real, work.agreed.entries))

    def _held(self) -> _Open:
        if self._open is None:
            raise RuntimeError("the session is not open")
        return self._open

    def _both_listings(self, work: Work) -> tuple[There, listing.Snapshot, int]:
        """Lists both sides at once: the one there takes its time on the line, the one here on the disk."""
        answer: list[There] = []
        failed: list[BaseException] = []
        seen_at: list[int] = []

        def ask() -> None:
            try:
                answer.append(work.look())
                seen_at.append(time.time_ns())
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        asking = threading.Thread(target=ask, name="conch-mirror-list", daemon=True)
        asking.start()
        try:
            here = listing.snapshot(
                self._held().real, leave=self._leave, closed=work.scope.protected, most=self._limits.files * 4
            )
        finally:
            asking.join()
        if failed:
            raise failed[0]
        return answer[0], here, skew(answer[0].clock, seen_at[0])

    def _check(self, here: listing.Snapshot) -> None:
        limits = self._limits
        if here.files > limits.files or len(here.entries) > limits.files * 4:
            raise Trouble("many", where=self._far.name, most=f"{limits.files:,}")
        if here.size > limits.size:
            raise Trouble("large", where=self._far.name, most=_amount(limits.size))

    def _sweep(self, work: Work, here: listing.Snapshot) -> None:
        """Takes away what a crash left while it landed something."""
        for path in [path for path in here.entries if PARTS in path]:
            work.ground.sweep(path.rpartition("/")[0])

    def _tell(self, work: Work, todo: plan.Push, here: listing.Snapshot, over_there: There) -> None:
        for path, key in todo.left:
            work.leave(path, key)
        agreed = work.agreed.entries
        if over_there.missing and agreed:
            work.note("new-copy")
        elif todo.resent:
            work.note("resent", count=todo.resent)
        if not here.files and agreed and any(entry.here and listing.is_file(entry.here) for entry in agreed.values()):
            work.note("here-empty")

    def _compare(self, work: Work, todo: plan.Push, over_there: There) -> bool:
        """Settles what changed on both sides. Gives whether another round is due (something new lies here)."""
        if not todo.compare:
            return False
        got = work.fetch(todo.compare, over_there)
        kept = len(work.kept)
        for path in todo.compare:
            work.halt.check()
            if (one := got.get(path)) is None:
                work.leave(path, "closed-there")
                continue
            try:
                verdict = work.compare(path, one, over_there)
            except OSError as error:
                if error.errno == 28:
                    raise
                work.leave(path, "refused")
                continue
            if verdict == "send":
                todo.send.append(path)
            elif verdict == "remove":
                todo.remove.append(path)
        todo.send.sort(key=plan.by_folder)
        todo.remove.sort(key=plan.by_folder)
        return len(work.kept) > kept

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


async def _available(work: Awaitable[Answer]) -> Answer:
    """Trouble, as a place says that it is not there."""
    try:
        return await work
    except Trouble as trouble:
        key = f"mirror.{trouble.key}.next"
        step = NextStep(PLACE_WORDS[key]) if key in PLACE_WORDS else None
        raise PlaceUnavailable(trouble.words, next_step=step, details=trouble.details) from trouble


def _plain(far: Far, text: str, words: list[str], halt: Halt) -> list[bytes]:
    """Runs a small script there and gives its records. Raises Trouble."""
    mark = os.urandom(12).hex()
    try:
        running = far.run(BOOTSTRAP, script(text, [mark, *words]))
        halt.follow(running)
        try:
            stream = Incoming(running.read, 4 * 1024 * 1024)
            stream.until_mark(mark.encode(), 1024 * 1024)
            records = list(stream.records(64 * 1024))
        except BaseException:
            running.stop()
            running.end()
            raise
        finally:
            halt.unfollow(running)
        running.end()
    except FarLost as lost:
        raise Trouble("lost", words=lost.words, details=lost.details) from lost
    except (Broken, TooMuch) as error:
        raise Trouble("broken", where=far.name, details=repr(error)) from error
    if not records or records[-1] != b"=E":
        raise Trouble("broken", where=far.name)
    return records[:-1]


def _write(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def _safe(copy_id: str) -> str:
    """A copy's name there: plain, short, never with a dot in front."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", copy_id).lstrip("-")[:80]
    return name if name == copy_id and name else f"{name or 'chat'}-{_short(copy_id)}"


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


def _amount(size: int) -> str:
    return f"{size / 1e9:g} GB"
