"""Before a command: what changed here goes there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from workplaces.mirror import listing, there
from workplaces.mirror.agreed import FRESH_HERE, FRESH_THERE, Entry
from workplaces.mirror.carry import ENDING, Broken, header, padding
from workplaces.mirror.land import CHUNK, hasher
from workplaces.mirror.orders import Orders, top_above, tops_of
from workplaces.mirror.plan import Push
from workplaces.mirror.there import There
from workplaces.mirror.work import Work

_BILLION: Final = 1_000_000_000


@dataclass(slots=True)
class _File:
    """A file as it was sent. ``settled`` is False when it changed while it was read."""

    sig: bytes
    size: int
    mtime: int
    digest: bytes
    settled: bool


@dataclass(slots=True)
class Done:
    """What a push achieved. ``again``: something was not as it had been, so another look is due."""

    files: int = 0
    size: int = 0
    removed: int = 0
    again: bool = False
    stale: set[str] = field(default_factory=set)


class Pusher:
    """Sends one plan. The tar is made while it is sent, in the thread that feeds the other side."""

    def __init__(self, work: Work, plan: Push, here: listing.Snapshot, over_there: There, skew: int) -> None:
        self._work = work
        self._plan = plan
        self._here = here
        self._there = over_there
        self._skew = skew
        self._sent: dict[str, _File] = {}
        self._tops = tops_of(plan.make)
        self._orders = Orders(over_there)
        self.unreadable: list[str] = []

    def push(self) -> tuple[Done, There]:
        """Raises Trouble, Halted."""
        work = self._work
        work.agreed.sends(self._about_to_send())
        word, this = work.next_word(), work.new_name()
        stale, after = work.talk.push(word, this, self._tar())
        work.word_is(word)
        if self._orders.some and after.clock and not self._there.missing:
            after = self._composed(after)
            work.forget_listing()
        else:
            work.listed(this, after)
        done = Done()
        for number in stale:
            done.stale.update(self._orders.paths.get(number, ()))
        done.again = bool(stale) or any(not file.settled for file in self._sent.values())
        self._agree(after, done)
        work.agreed.arrived()
        return done, after

    def _about_to_send(self) -> Iterator[tuple[str, int, int]]:
        for path in self._plan.send:
            if (packed := self._here.entries.get(path)) is not None:
                sig = listing.unpack(packed)
                yield path, sig.size, max(0, (sig.mtime + self._skew) // _BILLION)

    # What is sent

    def _tar(self) -> Iterator[bytes]:
        plan, entries = self._plan, self._here.entries
        yield header(b"f", mode=0o700, folder=True)
        for path in plan.make:
            mode = listing.unpack(entries[path]).mode & 0o777
            yield header(b"f/" + _bytes(path), mode=mode | 0o700, folder=True)
        for path in plan.send:
            self._work.halt.check()
            yield from self._file(path)
        orders = self._make_orders()
        show = self._orders.show()
        yield header(b"show", mode=0o600, size=len(show)) + show + padding(len(show))
        yield header(b"orders", mode=0o600, size=len(orders)) + orders + padding(len(orders)) + ENDING

    def _file(self, path: str) -> Iterator[bytes]:
        ground = self._work.ground
        try:
            number = ground.open(path)
        except OSError:
            self.unreadable.append(path)
            return
        try:
            found = os.fstat(number)
            sig = listing.pack(found)
            mtime = max(0, (found.st_mtime_ns + self._skew) // _BILLION)
            mode = self._mode(path, found.st_mode & 0o777)
            try:
                data = os.read(number, CHUNK)
            except OSError:
                self.unreadable.append(path)
                return
            yield header(b"f/" + _bytes(path), mode=mode, size=found.st_size, mtime=mtime)
            hashed = hasher()
            left = found.st_size
            broken = False
            while left:
                if not data:  # it became shorter, or cannot be read on: the rest is filled, and it is sent again
                    broken = True
                    data = bytes(min(left, CHUNK))
                data = data[:left]
                hashed.update(data)
                left -= len(data)
                yield data
                try:
                    data = b"" if broken or not left else os.read(number, CHUNK)
                except OSError:
                    data = b""
            yield padding(found.st_size)
            settled = not broken and listing.pack(os.fstat(number)) == sig
            self._sent[path] = _File(sig, found.st_size, mtime, hashed.digest(), settled)
        finally:
            os.close(number)

    def _mode(self, path: str, ours: int) -> int:
        """The mode a file gets there: ours, unless it did not change here and was another one there all along."""
        raw = self._there.entries.get(path)
        entry = self._work.agreed.entries.get(path)
        if raw is None or entry is None or entry.here is None or not there.is_file(raw):
            return ours
        return there.fields(raw).mode if listing.unpack(entry.here).mode & 0o777 == ours else ours

    def _make_orders(self) -> bytes:
        plan, orders = self._plan, self._orders
        sent = [path for path in plan.send if path in self._sent]
        if self._there.missing:
            orders.make_copy()
            orders.paths[0] = [*sent, *plan.make]
        else:
            orders.remove(plan.remove)
            orders.remove_folders(plan.remove_folders)
            members: dict[str, list[str]] = {}
            for path, top in self._tops.items():
                members.setdefault(top, []).append(path)
            into: list[str] = []
            for path in sent:
                above = top_above(path, self._tops)
                if above is None:
                    into.append(path)
                else:
                    members[above].append(path)
            orders.put_tops(sorted(members), lambda top: members[top])
            orders.put(into, {*plan.remove, *plan.remove_folders})
        entries = self._here.entries
        narrow = [
            (path, mode) for path in plan.make if (mode := listing.unpack(entries[path]).mode & 0o777) & 0o700 != 0o700
        ]
        orders.modes([*plan.modes, *narrow])
        return orders.text()

    # What came of it

    def _composed(self, after: There) -> There:
        """What was there before, with what was looked at afterwards."""
        entries = dict(self._there.entries)
        for paths in self._orders.paths.values():
            for path in paths:
                entries.pop(path, None)
        entries.update(after.entries)
        return replace(self._there, entries=entries, word=after.word, clock=after.clock)

    def _agree(self, after: There, done: Done) -> None:
        """Only what the listing afterwards shows is agreed on."""
        agreed, entries, plan = self._work.agreed, after.entries, self._plan
        for path, file in self._sent.items():
            raw = entries.get(path)
            if raw is None or not _landed(raw, file):
                continue
            flags = 0
            if listing.fresh(file.sig, self._here.clock):
                flags |= FRESH_HERE
            if there.fields(raw).coarse and there.fresh(raw, after.clock):
                flags |= FRESH_THERE  # else a later change has another time: this one is a whole second
            agreed.put(path, Entry(file.sig if file.settled else None, raw, file.digest, flags))
            done.files += 1
            done.size += file.size
        for path in (*plan.make, *(path for path, _ in plan.modes)):
            raw = entries.get(path)
            if raw is not None and there.is_folder(raw):
                agreed.put(path, Entry(self._here.entries[path], raw))
        removed = set(plan.remove)
        for path in (*plan.remove, *plan.remove_folders):
            if path in self._sent or path in self._here.entries or path in entries or not after.sure:
                continue
            if not listing.under(path, after.unknown):
                agreed.drop(path)
                done.removed += path in removed


def _landed(raw: bytes, file: _File) -> bool:
    """Whether a signature from there is that of the file as it was sent, and not of what someone wrote since."""
    try:
        found = there.fields(raw)
    except Broken:
        return False
    return there.is_file(raw) and found.size == file.size and found.mtime == file.mtime * _BILLION


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
