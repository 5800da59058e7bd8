"""A folder here, listed once and then kept up by what the kernel tells of it (inotify(7), Linux).

    watched = Watched(folder)
    watched.start()              # lists it, in a thread
    mark = watched.mark()        # at once
    …a command runs…
    watched.since(mark)          # what became different, in a thread

What the kernel tells is a hint that saves a listing, never the truth: an overflow of its queue, a folder that cannot be
watched (too many watches, a network's file system, another system than Linux), or anything else in doubt means that the
folder is listed again and compared. Two things are told by no event and are found by the next listing alone: what is
written through a mapping that was made before, and what another machine does on a shared disk.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from workplaces.mirror import listing
from workplaces.mirror.disks import can_be_watched
from workplaces.mirror.listing import Snapshot, pack, snapshot, under
from workplaces.mirror.scope import DEPENDENCIES
from workplaces.place import Changes

MOST: Final = 50_000
"""Entries of a folder that is looked after. In one that has more nothing is known."""

_MOST_FOLDERS: Final = 20_000
_TICK: Final = 30_000_000  # nanoseconds that a file's time may lie behind the clock

_MOST_HINTS: Final = 20  # times that it is believed before it is listed anyway
_LONGEST: Final = 600.0  # seconds
_JUMP: Final = 2.0
_NO_TIMES: Final = sys.platform == "win32"  # of the last change of any kind


class Mark:
    """A moment. ``before`` holds, for each path that is known to be different since, how it was then."""

    __slots__ = ("at", "before", "doubt")

    def __init__(self) -> None:
        self.at = time.time_ns()
        self.before: dict[str, bytes | None] = {}
        self.doubt = False


class Watched:
    """``leave`` are names of folders that are not looked into; ``closed``, asked at each listing, gives the paths that
    are not looked at.

    ``start``, ``since`` and ``close`` touch the disk: call them in a thread. All may be called from any.
    """

    def __init__(
        self,
        folder: Path,
        *,
        leave: Collection[str] = DEPENDENCIES,
        closed: Callable[[], Collection[str]] = tuple,
        most: int = MOST,
    ) -> None:
        self.folder = folder
        self._leave = frozenset(leave)
        self._ask_closed = closed
        self._closed: frozenset[str] = frozenset()
        self._most = most
        self._lock = threading.Lock()  # for what is known
        self._reading = threading.Lock()  # for the kernel's queue, held for a moment
        self._heard: deque[tuple[bytes, tuple[Mark, ...]]] = deque()
        self._marks: list[Mark] = []
        self._entries: dict[str, bytes] = {}
        self._unknown: tuple[str, ...] = ()
        self._started = False
        self._too_many = False
        self._doubted = False
        self._over = False
        self._copy: Snapshot | None = None
        self._hints = 0
        self._listed_at = (0.0, 0.0)  # by both clocks
        self._kernel: Any = None
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}

    @property
    def watching(self) -> bool:
        """Whether the kernel tells what changes, so that nothing has to be listed again."""
        return self._kernel is not None

    def start(self) -> None:
        """Lists the folder. What went wrong is no trouble: then nothing is known of it, or it is listed each time."""
        with self._lock:
            if not self._started:
                self._list()

    def mark(self) -> Mark:
        """This moment: what changes from now on is given by ``since``. Takes some microseconds."""
        mark = Mark()
        self._hear()
        self._marks.append(mark)
        return mark

    def since(self, mark: Mark) -> Changes | None:
        """What became different since; None where that is not known. To be asked once for a mark."""
        self._hear()
        with self._lock:
            if self._started and self._kernel is not None:
                self._take()
            if not self._started or self._kernel is None or self._doubted or mark.doubt:
                self._list()
            self.forget(mark)
            return None if self._too_many else self._told(mark)

    def snapshot(self) -> Snapshot:
        """The folder as it is. ``entries`` is the very same mapping as before while nothing became different.

        Nobody may change it. Raises OSError when the folder cannot be read.
        """
        clock = time.time_ns()  # before anything is heard: what comes after it may not be in the answer
        self._hear()
        with self._lock:
            if self._started and self._kernel is not None:
                self._take()
            if not self._started or self._kernel is None or self._doubted or self._due():
                self._list()
            self._hints += 1
            if self._too_many or "" in self._unknown:
                return snapshot(self.folder, leave=self._leave, closed=self._closed, most=self._most)
            if self._copy is None:
                files = [listing.unpack(sig).size for sig in self._entries.values() if listing.is_file(sig)]
                self._copy = Snapshot(dict(self._entries), self._unknown, clock, len(files), sum(files))
            return replace(self._copy, clock=clock)

    def _due(self) -> bool:
        """Whether it is to be listed again although nothing is in doubt: now and then, and when the clock was set."""
        now, passed = time.time(), time.monotonic() - self._listed_at[1]
        jumped = abs(now - self._listed_at[0] - passed) > _JUMP
        return jumped or self._hints >= _MOST_HINTS or passed > _LONGEST

    def forget(self, mark: Mark) -> None:
        """Nobody asks for this one."""
        with self._reading, contextlib.suppress(ValueError):
            self._marks.remove(mark)

    def close(self) -> None:
        """Nothing is heard any more. Whoever still asks is answered by a listing."""
        with self._lock:
            self._over = True
            self._end()

    # What the kernel tells

    def _hear(self) -> None:
        """Takes what there is off the kernel's queue, as it came: it is understood later, in a thread."""
        with self._reading:
            if self._kernel is None:
                return
            try:
                while data := os.read(self._kernel.fileno(), 256 * 1024):
                    self._heard.append((data, tuple(self._marks)))
            except (BlockingIOError, ValueError):
                return
            except OSError:
                for mark in self._marks:
                    mark.doubt = True

    def _take(self) -> None:
        """Understands what was heard, in its order, and brings what is known up to date."""
        from inotify_simple import flags, parse_events

        another = flags.MOVED_FROM | flags.MOVED_TO | flags.DELETE | flags.CREATE
        gone = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.Q_OVERFLOW
        while self._heard:
            data, marks = self._heard.popleft()
            touched: dict[str, None] = {}
            for event in parse_events(data):
                at = self._folders.get(event.wd)
                if event.mask & flags.Q_OVERFLOW or (at == "" and event.mask & gone):
                    self._doubt()
                    return
                if event.mask & flags.IGNORED:
                    if at is not None and self._watches.get(at) == event.wd:
                        del self._watches[at]
                    self._folders.pop(event.wd, None)
                    continue
                if at is None or not event.name:
                    continue
                path = f"{at}/{event.name}" if at else event.name
                touched[path] = None
                # Also one that came: the kernel does not say that the one before is gone while somebody holds it open.
                if event.mask & flags.ISDIR and event.mask & another:
                    self._unwatch(path)
            try:
                for path in sorted(touched, key=lambda path: path.count("/")):
                    self._look(path, marks)
            except OSError:
                self._doubt()
                return

    def _doubt(self) -> None:
        """Whoever asks next lists it again, for all who asked."""
        self._doubted = True
        with self._reading:
            for mark in self._marks:
                mark.doubt = True

    def _look(self, path: str, marks: Collection[Mark]) -> None:
        """Looks at one path anew, and at what lies in it where it is a folder that was not known."""
        if path in self._closed or not self._leave.isdisjoint(path.split("/")[:-1]):
            return
        try:
            seen = (self.folder / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            self._gone(path, marks)
            return
        if not stat.S_ISDIR(seen.st_mode):
            if listing.is_folder(self._entries.get(path, b"")):
                self._gone(path, marks)
            self._now(path, pack(seen), marks)
            return
        self._now(path, pack(seen), marks)
        if path.rpartition("/")[2] in self._leave or path in self._watches:
            return
        # Another folder than was here, or a new one: what it holds may all be different.
        before = {one for one in self._entries if one.startswith(f"{path}/")}
        for one, sig in self._walk(path):
            before.discard(one)
            self._now(one, sig, marks)
        for one in before:
            self._now(one, None, marks)

    def _gone(self, path: str, marks: Collection[Mark]) -> None:
        if listing.is_folder(self._entries.get(path, b"")):
            self._unwatch(path)
            for one in [one for one in self._entries if one.startswith(f"{path}/")]:
                self._now(one, None, marks)
        self._now(path, None, marks)

    def _now(self, path: str, sig: bytes | None, marks: Collection[Mark]) -> None:
        was = self._entries.get(path)
        if was == sig:
            return
        self._copy = None
        if sig is None:
            del self._entries[path]
        else:
            self._entries[path] = sig
        for mark in marks:
            mark.before.setdefault(path, was)
        if len(self._entries) > self._most:
            self._too_many = True
            self._end()

    def _told(self, mark: Mark) -> Changes:
        added: list[str] = []
        changed: list[str] = []
        deleted: list[str] = []
        for path, was in mark.before.items():
            now = self._entries.get(path)
            if now == was:
                continue
            if now is not None and not listing.is_folder(now):
                (changed if was is not None and not listing.is_folder(was) else added).append(path)
            elif was is not None and not listing.is_folder(was):
                deleted.append(path)
        return Changes(tuple(sorted(added)), tuple(sorted(changed)), tuple(sorted(deleted)))

    # Watches

    def _walk(self, top: str) -> Iterator[tuple[str, bytes]]:
        """Watches a folder and all in it, each before it is listed, so that nothing slips in between."""
        stack = [top]
        while stack:
            inside = stack.pop()
            self._watch(inside)
            try:
                found = os.scandir(self.folder / inside)
            except FileNotFoundError:
                continue
            with found:
                for entry in found:
                    path = f"{inside}/{entry.name}" if inside else entry.name
                    if path in self._closed:
                        continue
                    try:
                        seen = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield path, pack(seen)
                    if stat.S_ISDIR(seen.st_mode) and entry.name not in self._leave:
                        stack.append(path)

    def _watch(self, inside: str) -> None:
        from inotify_simple import flags

        if len(self._watches) >= _MOST_FOLDERS:
            raise OSError(f"more than {_MOST_FOLDERS} folders")
        what = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.MODIFY | flags.CLOSE_WRITE
        how = flags.ATTRIB | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR | flags.DONT_FOLLOW
        with contextlib.suppress(FileNotFoundError):
            number = self._kernel.add_watch(self.folder / inside, what | how | flags.EXCL_UNLINK)
            self._folders[number], self._watches[inside] = inside, number

    def _unwatch(self, path: str) -> None:
        """The folder went away or has another name: events of it no longer tell where something is."""
        for one in [one for one in self._watches if one == path or one.startswith(f"{path}/")]:
            number = self._watches.pop(one)
            self._folders.pop(number, None)
            with contextlib.suppress(OSError):
                self._kernel.rm_watch(number)

    def _end(self) -> None:
        with self._reading:
            kernel, self._kernel = self._kernel, None
            self._heard.clear()
        self._folders.clear()
        self._watches.clear()
        if kernel is not None:
            kernel.close()

    # Listings

    def _list(self) -> None:
        """Lists all of it, watched where that can be, and notes for each mark what is different since."""
        old = self._entries if self._started else None
        was_unknown = self._unknown
        self._end()
        self._closed = frozenset(self._ask_closed())
        seen = self._listed()
        self._entries, self._unknown = dict(seen.entries), seen.unknown
        self._started, self._doubted, self._hints = True, False, 0
        self._listed_at = (time.time(), time.monotonic())
        if self._copy is not None and (self._copy.entries != self._entries or self._copy.unknown != self._unknown):
            self._copy = None
        self._too_many = len(self._entries) > self._most
        if self._too_many:
            self._end()
            self._entries = {}
            return
        with self._reading:
            marks = tuple(self._marks)
        for mark in marks:
            mark.doubt = False
            for path, was in self._different(old, was_unknown):
                now = self._entries.get(path)
                # What was different already when the mark was made shows by its time, where it has one.
                timeless = now is None or listing.is_folder(now) or _NO_TIMES
                if timeless or (now and listing.unpack(now).ctime >= mark.at - _TICK):
                    mark.before.setdefault(path, was)

    def _different(
        self, old: dict[str, bytes] | None, was_unknown: Collection[str]
    ) -> Iterator[tuple[str, bytes | None]]:
        if old is None:  # it is not known what there was: what is new by its time counts as changed
            if not _NO_TIMES:
                yield from ((path, b"") for path, now in self._entries.items() if not listing.is_folder(now))
            return
        for path, now in self._entries.items():
            if (was := old.get(path)) != now and not (was is None and under(path, was_unknown)):
                yield path, was
        for path, was in old.items():
            if path not in self._entries and not under(path, self._unknown):
                yield path, was

    def _listed(self) -> Snapshot:
        try:
            if not self._over and can_be_watched(self.folder):
                from inotify_simple import INotify

                self._kernel = INotify(nonblocking=True)
                entries = dict(islice(self._walk(""), self._most + 1))
                return Snapshot(entries, (), 0, 0, 0)
        except (OSError, ImportError):  # more than the kernel gives, a folder that may not be read: without, then
            self._end()
        try:
            return snapshot(self.folder, leave=self._leave, closed=self._closed, most=self._most)
        except OSError:
            return Snapshot({}, ("",), 0, 0, 0)
