"""The two rounds of a session: before a command, and after it. They run in a thread."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from workplaces.mirror import listing, plan
from workplaces.mirror.after import Lander
from workplaces.mirror.before import Pusher
from workplaces.mirror.changes import Changed, Sent
from workplaces.mirror.scope import PARTS, Scope, folds_names
from workplaces.mirror.talk import Trouble
from workplaces.mirror.there import There
from workplaces.mirror.work import Quiet, Work, skew
from workplaces.place import Changes

_ROUNDS: Final = 4
_NOTHING: Final[Mapping[str, bytes]] = {}


@dataclass(slots=True)
class Rounds:
    """``real`` is the folder here. ``ask`` is asked before a command's deletions empty it: (how many, of how many)."""

    work: Work
    real: Path
    ask: Callable[[int, int], bool]

    def before(self) -> Sent:
        """Brings the copy in step. Raises Trouble, Halted."""
        recovered = self._recover()
        files = size = removed = 0
        for number in range(_ROUNDS):
            over_there, here, shift = self._both_listings()
            doubt = self.work.doubts(over_there)
            quiet = self._quiet(here.entries, over_there)
            if number == 0 and not doubt and not over_there.missing and quiet.same(self.work.listings.pushed):
                break
            if number == 0:
                self._check(here)
                self._sweep(here)
            self.work.really_fresh(here.entries, here.clock)
            todo = plan.push(self.work.agreed.entries, here, over_there, self.work.scope, doubt=doubt)
            if number == 0:
                self._tell(todo, here, over_there)
            again = self._compare(todo, over_there)
            for path in todo.agree:
                self.work.agreed.put(path, plan.Entry(here.entries[path], over_there.entries[path]))
            for path in todo.drop:
                self.work.agreed.drop(path)
            if (
                number == 0
                and todo.nothing
                and not over_there.missing
                and not doubt
                and self._settled(here, over_there)
            ):
                self.work.listings.pushed = self._quiet(here.entries, over_there)
            if todo.anything or over_there.missing or doubt:
                pusher = Pusher(self.work, todo, here, over_there, shift)
                done, _ = pusher.push()
                files, size, removed = files + done.files, size + done.size, removed + done.removed
                again |= done.again
                for path in pusher.unreadable:
                    self.work.leave(path, "closed-here")
                if number == _ROUNDS - 1:
                    for path in done.stale:
                        self.work.leave(path, "busy")
            if not again:
                break
        self.work.agreed.meta["open"] = "1"
        return Sent(
            files=files,
            size=size,
            removed=removed,
            recovered=recovered,
            kept_twice=tuple(self.work.kept),
            left=tuple(self.work.left),
            notes=tuple(self.work.notes),
        )

    def _quiet(self, here: Mapping[str, bytes], over_there: There) -> Quiet:
        return Quiet(here, over_there.entries, self.work.agreed.version, self.work.scope)

    def _settled(self, here: listing.Snapshot, over_there: There) -> bool:
        """Whether all of it is known, and all that is known can be trusted by its times."""
        whole = over_there.sure and not over_there.unknown and not here.unknown
        return whole and not any(entry.fresh for entry in self.work.agreed.entries.values())

    def _recover(self) -> Changes:
        """What the last command changed comes first, when Conch ended or the line broke before it could come back."""
        if self.work.agreed.meta.get("open") != "1":
            return Changes()
        over_there = self.work.look()
        changes = Changes()
        if not over_there.missing and not self.work.doubts(over_there):
            try:
                changes, _ = self._bring(over_there)
            except Trouble as trouble:
                if trouble.key != "back":
                    raise
                self.work.notes.append(trouble.words)
        self.work.agreed.meta["open"] = "0"
        self.work.save()
        return changes

    def after(self) -> Changed:
        """Brings back what changed there. Raises Trouble, Halted."""
        over_there = self.work.look()
        quiet = self._quiet(_NOTHING, over_there)
        if quiet.same(self.work.listings.pulled):
            self.work.agreed.meta["open"] = "0"
            return Changed()
        changes, held_back = self._bring(over_there)
        self.work.agreed.meta["open"] = "0"
        told = changes or held_back or self.work.kept or self.work.left or self.work.notes
        if not told and over_there.sure and not over_there.unknown and quiet.same(self._quiet(_NOTHING, over_there)):
            self.work.listings.pulled = quiet
        return Changed(
            changes=changes,
            kept_twice=tuple(self.work.kept),
            left=tuple(self.work.left),
            notes=tuple(self.work.notes),
            held_back=held_back,
        )

    def _bring(self, over_there: There) -> tuple[Changes, int]:
        if not over_there.sure:
            self.work.note("unsure")
        self.work.scope = self._folding()
        todo = plan.pull(self.work.agreed.entries, over_there, self.work.scope)
        lander = Lander(self.work, todo, over_there, skew(over_there.clock, time.time_ns()), self.ask)
        return lander.land(), lander.held_back

    def _folding(self) -> Scope:
        return replace(self.work.scope, folds=folds_names(self.real, self.work.agreed.entries))

    def _both_listings(self) -> tuple[There, listing.Snapshot, int]:
        """Lists both sides at once: the one there takes its time on the line, the one here on the disk."""
        answer: list[There] = []
        failed: list[BaseException] = []
        seen_at: list[int] = []

        def ask() -> None:
            try:
                answer.append(self.work.look())
                seen_at.append(time.time_ns())
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)
            finally:
                self.work.talk.asked.set()

        asking = threading.Thread(target=ask, name="conch-mirror-list", daemon=True)
        self.work.talk.asked.clear()
        asking.start()
        # Starting it takes many small steps, each of which would wait for the listing here.
        self.work.talk.asked.wait()
        try:
            here = self.work.watched.snapshot()
        finally:
            asking.join()
        if failed:
            raise failed[0]
        return answer[0], here, skew(answer[0].clock, seen_at[0])

    def _check(self, here: listing.Snapshot) -> None:
        limits = self.work.limits
        if here.files > limits.files or len(here.entries) > limits.files * 4:
            raise Trouble("many", where=self.work.place, most=f"{limits.files:,}")
        if here.size > limits.size:
            raise Trouble("large", where=self.work.place, most=_amount(limits.size))

    def _sweep(self, here: listing.Snapshot) -> None:
        """Takes away what a crash left while it landed something."""
        for path in [path for path in here.entries if PARTS in path]:
            self.work.ground.sweep(path.rpartition("/")[0])

    def _tell(self, todo: plan.Push, here: listing.Snapshot, over_there: There) -> None:
        for path, key in todo.left:
            self.work.leave(path, key)
        agreed = self.work.agreed.entries
        if over_there.missing and agreed:
            self.work.note("new-copy")
        elif todo.resent:
            self.work.note("resent", count=todo.resent)
        if not here.files and agreed and any(entry.here and listing.is_file(entry.here) for entry in agreed.values()):
            self.work.note("here-empty")

    def _compare(self, todo: plan.Push, over_there: There) -> bool:
        """Settles what changed on both sides. Gives whether another round is due (something new lies here)."""
        if not todo.compare:
            return False
        got = self.work.fetch(todo.compare, over_there)
        kept = len(self.work.kept)
        for path in todo.compare:
            self.work.halt.check()
            if (one := got.get(path)) is None:
                self.work.leave(path, "closed-there")
                continue
            try:
                verdict = self.work.compare(path, one, over_there)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise
                self.work.leave(path, "refused")
                continue
            if verdict == "send":
                todo.send.append(path)
            elif verdict == "remove":
                todo.remove.append(path)
        todo.send.sort(key=plan.by_folder)
        todo.remove.sort(key=plan.by_folder)
        return len(self.work.kept) > kept


def _amount(size: int) -> str:
    return f"{size / 1e9:g} GB"
