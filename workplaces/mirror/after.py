"""After a command: what changed there comes back. The machine there may say anything; see ``land.py``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from workplaces.mirror import listing, there, trust
from workplaces.mirror.agreed import FRESH_HERE, FRESH_THERE, Entry
from workplaces.mirror.land import InTheWay
from workplaces.mirror.plan import MANY, Pull
from workplaces.mirror.scope import folded, parents
from workplaces.mirror.talk import Got
from workplaces.mirror.there import There
from workplaces.mirror.work import Work, sane_time
from workplaces.place import Changes

_TICK: Final = 0.04
_FEW: Final = 100


class Lander:
    """Does one plan here. ``ask`` is asked before a command's deletions empty the folder: (how many, of how many)."""

    def __init__(self, work: Work, plan: Pull, over_there: There, skew: int, ask: Callable[[int, int], bool]) -> None:
        self._work = work
        self._plan = plan
        self._there = over_there
        self._skew = skew
        self._ask = ask
        self._added: set[str] = set()
        self._changed: set[str] = set()
        self._deleted: set[str] = set()
        self._landed: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self.held_back = 0

    def land(self) -> Changes:
        """Raises Trouble, Halted. Stopped in the middle, each file is whole, and the next round does the rest."""
        work, plan = self._work, self._plan
        for path, key in plan.left:
            work.leave(path, key)
        if work.scope.folds:
            self._names = {folded(path): path for path in work.agreed.entries}
        got = work.fetch(plan.fetch, self._there)
        made: list[str] = []
        try:
            self._delete()
            self._make(made)
            for path in plan.fetch:
                work.halt.check()
                if (one := got.get(path)) is None:
                    work.leave(path, "closed-there")
                    continue
                self._guarded(path, lambda path=path, one=one: self._file(path, one))  # type: ignore[misc]
        finally:
            self._modes(made)
            self._settle()
        for path in plan.drop:
            work.agreed.drop(path)
        return Changes(tuple(sorted(self._added)), tuple(sorted(self._changed)), tuple(sorted(self._deleted)))

    def _guarded(self, path: str, what: Callable[[], None]) -> None:
        """What cannot be done for one path is told, and the others go on."""
        try:
            what()
        except InTheWay:
            self._work.leave(path, "in-the-way")
        except OSError as error:
            if error.errno in _FULL:
                raise
            self._work.leave(path, "refused")

    # Deletions

    def _delete(self) -> None:
        work, plan = self._work, self._plan
        if not plan.remove and not plan.remove_folders:
            return
        blank = not any(there.is_file(raw) for raw in self._there.entries.values())
        if plan.remove and (self._there.missing or (blank and plan.of <= MANY)):
            self._hold_back("empty")
            return
        if plan.empties and not self._ask(len(plan.remove), plan.of):
            self._hold_back("emptied")
            return
        for path in plan.remove:
            work.halt.check()
            self._guarded(path, lambda path=path: self._remove(path))  # type: ignore[misc]
        for path in plan.remove_folders:
            if work.ground.remove_folder(path):
                work.agreed.drop(path)

    def _hold_back(self, key: str) -> None:
        self.held_back = len(self._plan.remove)
        self._work.note(key, count=self.held_back)

    def _remove(self, path: str) -> None:
        work = self._work
        entry = work.agreed.entries[path]
        if entry.here is None:
            return
        if entry.fresh & FRESH_HERE and not self._unchanged(path, entry):
            outcome = "changed"
        else:
            outcome = work.ground.remove(path, entry.here)
        work.agreed.drop(path)
        if outcome == "done":
            self._deleted.add(path)
        elif outcome == "linked":
            work.leave(path, "linked")
        else:
            work.note("kept", path=path)

    def _unchanged(self, path: str, entry: Entry) -> bool:
        """Whether a file here is the one that was agreed on, by its content: its time was too fresh to tell."""
        try:
            digest, sig = self._work.ground.digest(path)
        except FileNotFoundError:
            return True
        return sig == entry.here and digest == entry.digest

    # Folders

    def _make(self, made: list[str]) -> None:
        for path in self._plan.make:
            self._work.halt.check()
            self._guarded(path, lambda path=path: self._make_one(path, made))  # type: ignore[misc]

    def _make_one(self, path: str, made: list[str]) -> None:
        if not self._fits(path):
            return
        ground = self._work.ground
        try:
            if ground.make_folder(path):
                made.append(path)
            else:
                now = ground.look(path)
                self._work.agreed.put(path, Entry(now, self._there.entries[path]))
            self._names[folded(path)] = path
        except FileExistsError:
            self._work.leave(path, "in-the-way")
        except FileNotFoundError:  # the folder above was not listed, or could not be made
            self._work.leave(path, "in-the-way")

    def _modes(self, made: list[str]) -> None:
        work = self._work
        for path in sorted(made, key=lambda one: -one.count("/")):
            raw = self._there.entries[path]
            self._guarded(path, lambda path=path, raw=raw: work.ground.set_mode(path, there.fields(raw).mode))  # type: ignore[misc]
            if (now := self._look(path)) is not None:
                work.agreed.put(path, Entry(now, raw))
        for path in sorted(self._plan.modes, key=lambda one: -one.count("/")):
            raw, entry = self._there.entries[path], work.agreed.entries[path]
            now = self._look(path)
            if now is not None and now == entry.here:
                self._guarded(path, lambda path=path, raw=raw: work.ground.set_mode(path, there.fields(raw).mode))  # type: ignore[misc]
                now = self._look(path)
            if now is not None:
                work.agreed.put(path, Entry(now, raw))

    def _look(self, path: str) -> bytes | None:
        try:
            return self._work.ground.look(path)
        except OSError:
            return None

    # Files

    def _file(self, path: str, got: Got) -> None:
        work, ground = self._work, self._work.ground
        raw = self._there.entries[path]
        found = there.fields(raw)
        entry = work.agreed.entries.get(path)
        if not self._fits(path):
            return
        now = ground.look(path)
        unchanged = (
            now is not None
            and entry is not None
            and entry.here == now
            and (not entry.fresh & FRESH_HERE or self._unchanged(path, entry))
        )
        if unchanged and entry is not None and entry.digest and entry.digest == got.digest:
            self._same_content(path, raw, entry, got)
            return
        if now is not None and (not unchanged or not listing.is_file(now)):
            self._both(path, got)
            return
        if trust.is_settings(path) and self._adds_programs(path, got):
            work.leave(path, "runs")
            return
        mode = self._mode(now, raw, entry)
        mtime = sane_time(found.mtime - self._skew)
        outcome, landed = ground.land(got.staged, path, now, mode=mode, mtime=mtime)
        if outcome != "done" or landed is None:
            self._both(path, got)
            return
        (self._added if now is None else self._changed).add(path)
        self._landed[path] = landed
        self._names[folded(path)] = path
        whole = raw if got.size == found.size else None  # it changed while it was read there: it comes again
        work.agreed.put(path, Entry(landed, whole, got.digest, self._fresh_there(raw)))

    def _adds_programs(self, path: str, got: Got) -> bool:
        ground = self._work.ground
        try:
            ours: bytes | None = ground.content(path, trust.LARGEST)
        except FileNotFoundError:
            ours = None
        return trust.adds_programs(ground.staged_content(got.staged, trust.LARGEST), ours)

    def _same_content(self, path: str, raw: bytes, entry: Entry, got: Got) -> None:
        """Its times changed there, or its mode; not what it holds."""
        work, sig = self._work, entry.here
        work.ground.forget(got.staged)
        mode = self._mode(sig, raw, entry)
        if sig is not None and mode != listing.unpack(sig).mode & 0o777:
            work.ground.set_mode(path, mode)
            self._changed.add(path)
            sig = work.ground.look(path)
        work.agreed.put(path, Entry(sig, raw, entry.digest, entry.fresh & FRESH_HERE | self._fresh_there(raw)))

    def _both(self, path: str, got: Got) -> None:
        """It changed here too, or something is in its place."""
        work = self._work
        before = len(work.kept)
        work.compare(path, got, self._there)
        self._added.update(kept.copy for kept in work.kept[before:])

    def _mode(self, now: bytes | None, raw: bytes, entry: Entry | None) -> int:
        """The mode a file gets here: theirs, unless it did not change there and was another one here all along."""
        theirs = there.fields(raw).mode
        if now is None or entry is None or entry.there is None or not there.is_file(entry.there):
            return theirs
        return listing.unpack(now).mode & 0o777 if there.fields(entry.there).mode == theirs else theirs

    def _fresh_there(self, raw: bytes) -> int:
        return FRESH_THERE if there.fresh(raw, self._there.clock) else 0

    def _fits(self, path: str) -> bool:
        """Whether no other name here is the same one to this system."""
        if not self._work.scope.folds:
            return True
        for one in (path, *parents(path)):
            if self._names.get(folded(one), one) != one:
                self._work.leave(path, "folds")
                return False
        return True

    def _settle(self) -> None:
        """Looks at what landed once more, a moment later: an edit after this is seen by its time."""
        if len(self._landed) > _FEW:  # else they are compared by content before the next command, which is quicker
            self._work.halt.wait(_TICK)
        for path, landed in self._landed.items():
            now = self._look(path)
            entry = self._work.agreed.entries.get(path)
            if now is None or entry is None or not listing.same_content(now, landed):
                continue  # somebody wrote it since: it differs from what was agreed, which is what it is
            flags = entry.fresh & FRESH_THERE
            if listing.fresh(now, time.time_ns()):
                flags |= FRESH_HERE
            self._work.agreed.put(path, Entry(now, entry.there, entry.digest, flags))


_FULL: Final = frozenset((28, 122, 30))  # no space, over the quota, a disk that cannot be written
