"""What both rounds of a session share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from workplaces.mirror import listing, there
from workplaces.mirror.agreed import FRESH_HERE, FRESH_THERE, Agreed, Entry
from workplaces.mirror.changes import KeptTwice, Left
from workplaces.mirror.land import Ground, InTheWay
from workplaces.mirror.plan import copy_name, safe_place
from workplaces.mirror.scope import Scope
from workplaces.mirror.stop import Halt
from workplaces.mirror.talk import Got, Talk, Trouble
from workplaces.mirror.there import There
from workplaces.mirror.watch import Watched
from workplaces.words import PLACE_WORDS

_MOST_COPIES: Final = 99
_LONGEST_SKEW: Final = 5_000_000_000
_BILLION: Final = 1_000_000_000
_LATEST: Final = 4_000_000_000 * _BILLION


Verdict = Literal["settled", "send", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is carried. ``files`` and ``size`` (bytes) are the folder's; ``back`` is what may come back at once."""

    files: int = 50_000
    size: int = 1_000_000_000
    back: int = 512_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Quiet:
    """What both sides were, and what was agreed, when a round had nothing to do. The same again has nothing to do."""

    here: Mapping[str, bytes]
    there: Mapping[str, bytes]
    agreed: int
    scope: Scope

    def same(self, other: Quiet | None) -> bool:
        """Whether these are the very same listings (not only equal ones, which takes as long as a round)."""
        if other is None or self.here is not other.here or self.there is not other.there:
            return False
        return self.agreed == other.agreed and self.scope == other.scope


class Listings:
    """The last full listing of a copy, in memory, and whether it may be asked if that still holds.

    That is a hint which saves a listing, never the truth: the answer is not asked for again and again, not after long,
    and not believed when the clocks of the two machines went on at different speeds meanwhile.
    """

    _MOST_TIMES: Final = 20
    _LONGEST: Final = 600.0
    _LARGEST_DIFFERENCE: Final = 2.0

    def __init__(self) -> None:
        self._name = ""
        self._kept: There | None = None
        self._at = 0.0
        self._times = 0
        self.pushed: Quiet | None = None
        self.pulled: Quiet | None = None

    def keep(self, name: str, over_there: There) -> None:
        good = over_there.sure and not over_there.unknown and not over_there.missing and over_there.clock
        self._name, self._kept = (name, over_there) if good else ("", None)
        self._at = time.monotonic()
        self._times = 0

    def forget(self) -> None:
        self._name, self._kept = "", None

    def usable(self) -> str:
        """The name of the listing to ask about, empty when a full one is due."""
        if self._times >= self._MOST_TIMES or time.monotonic() - self._at > self._LONGEST:
            return ""
        return self._name

    def plausible(self, clock: int) -> bool:
        if self._kept is None:
            return False
        there_passed = (clock - self._kept.clock) / 1e9
        return abs(there_passed - (time.monotonic() - self._at)) < self._LARGEST_DIFFERENCE

    def again(self, over_there: There) -> There:
        self._times += 1
        if self._kept is None:
            raise RuntimeError("there is no listing to come back to")
        return replace(self._kept, word=over_there.word, clock=over_there.clock)


@dataclass(slots=True)
class Work:
    """One session's tools, and what it has to tell. For one thread at a time."""

    place: str
    agreed: Agreed
    ground: Ground
    talk: Talk
    scope: Scope
    halt: Halt
    limits: Limits
    listings: Listings
    watched: Watched
    kept: list[KeptTwice] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def look(self) -> There:
        """What is there. Raises Trouble, Halted."""
        known = self.listings.usable()
        over_there = self._look(known)
        if over_there.same:
            if known and self.listings.plausible(over_there.clock):
                return self.listings.again(over_there)
            over_there = self._look("")
        if not over_there.sure and not over_there.unknown:  # something vanished while it was listed
            over_there = self._look("")
        return over_there

    def _look(self, known: str) -> There:
        this = self.new_name()
        over_there = self.talk.look(known or "-", this)
        if over_there.same and not known:
            raise Trouble("broken", where=self.place, details="the same as what was not asked about")
        if not over_there.same:
            self.listed(this, over_there)
        return over_there

    def new_name(self) -> str:
        return os.urandom(8).hex()

    def listed(self, this: str, over_there: There) -> None:
        self.listings.keep(this, over_there)

    def forget_listing(self) -> None:
        self.listings.forget()

    def next_word(self) -> str:
        """The word that the copy's state gets next. It is written down here before anything happens there."""
        word = os.urandom(12).hex()
        self.agreed.meta["next"] = word
        self.save()
        return word

    def word_is(self, word: str) -> None:
        self.agreed.meta["word"] = word

    def save(self) -> None:
        """Keeps what was agreed. Raises Trouble."""
        import sqlite3

        try:
            self.agreed.save()
        except (sqlite3.Error, OSError) as error:
            raise Trouble("here", reason=str(error), details=repr(error)) from error

    def leave(self, path: str, key: str) -> None:
        """Tells once for a copy that something is not carried."""
        if self.agreed.tell(path, key):
            words = PLACE_WORDS[f"mirror.left.{key}"].format(path=shown(path), where=self.place)
            self.left.append(Left(path, key, words))

    def note(self, key: str, **values: object) -> None:
        words = PLACE_WORDS[f"mirror.{key}"].format(where=self.place, **values)
        if words not in self.notes:
            self.notes.append(words)

    def fetch(self, paths: Iterable[str], over_there: There) -> dict[str, Got]:
        """Brings files into the staging folder. Raises Trouble: with key ``back`` when it is more than may come."""
        wanted = list(paths)
        if not wanted:
            return {}
        if sum(there.fields(over_there.entries[path]).size for path in wanted) > self.limits.back:
            raise self.too_much_back()
        word = self.next_word()
        try:
            got = self.talk.pull(word, wanted, self.ground, self.limits.back)
            self.ground.settle([one.staged for one in got.values()])
        except OSError as error:
            raise Trouble("here", reason=error.strerror or str(error), details=repr(error)) from error
        except Trouble as trouble:
            if trouble.key == "much":
                raise self.too_much_back() from trouble
            raise
        self.word_is(word)
        return got

    def too_much_back(self) -> Trouble:
        return Trouble("back", where=self.place, most=str(self.limits.back // 1_000_000))

    def compare(self, path: str, got: Got, over_there: There) -> Verdict:
        """Settles a file that may have changed on both sides. Theirs has come as ``got``.

        "settled": nothing is to be done; "send": ours is to go there (theirs is kept beside it, or was the one that
        was agreed on); "remove": it is gone here, and theirs is the one that was agreed on. Raises InTheWay, OSError.
        """
        raw = over_there.entries[path]
        entry = self.agreed.entries.get(path)
        try:
            now = self.ground.look(path)
        except InTheWay:  # a file stands where its folder was
            now = None
        if now is None:
            self.ground.forget(got.staged)
            # Else it changed there: it comes after the command
            return "remove" if entry is not None and entry.digest == got.digest and entry.digest else "settled"
        if not listing.is_file(now):
            self.leave(path, "in-the-way")
            self.ground.forget(got.staged)
            return "settled"
        ours, sig = self.ground.digest(path)
        if ours == got.digest:
            self.ground.forget(got.staged)
            if self._new_mode(sig, raw, entry):
                self.agreed.put(path, Entry(None, raw, ours))
                return "send"
            self.agree(path, sig, raw, over_there.clock, ours)
            return "settled"
        if (entry is not None and entry.digest == got.digest and entry.digest) or self._was_sent(path, raw):
            # theirs is what was agreed on, or came from here: only ours changed
            self.ground.forget(got.staged)
            self.agreed.put(
                path, Entry(None, raw, got.digest, FRESH_THERE if there.fresh(raw, over_there.clock) else 0)
            )
            return "send"
        self.keep_twice(path, got, over_there)
        return "send"

    def _was_sent(self, path: str, raw: bytes) -> bool:
        """Whether a file there is one that was sent before Conch ended, or the line broke, and nobody wrote since."""
        found = there.fields(raw)
        return not found.mtime % _BILLION and (path, found.size, found.mtime // _BILLION) in self.agreed.sent

    def _new_mode(self, sig: bytes, raw: bytes, entry: Entry | None) -> bool:
        """Whether a file got another mode here, which is to go there."""
        mode = listing.unpack(sig).mode & 0o777
        if mode == there.fields(raw).mode:
            return False
        return entry is not None and entry.here is not None and listing.unpack(entry.here).mode & 0o777 != mode

    def keep_twice(self, path: str, got: Got, over_there: There) -> str:
        """Lands theirs beside ours. Afterwards ours is to go there. Raises InTheWay, OSError."""
        raw = over_there.entries[path]
        for number in range(1, _MOST_COPIES):
            name = copy_name(path, safe_place(self.place), number)
            now = self.ground.look(name)
            if now is None:
                outcome, _ = self.ground.land(got.staged, name, None, mode=there.fields(raw).mode & 0o666 | 0o600)
                if outcome == "done":
                    break
            elif listing.is_file(now) and self.ground.digest(name)[0] == got.digest:
                self.ground.forget(got.staged)
                break
        else:
            raise OSError(f"too many copies of {path!r}")
        self.kept.append(KeptTwice(path, name))
        self.agreed.put(path, Entry(None, raw, got.digest, FRESH_THERE if there.fresh(raw, over_there.clock) else 0))
        return name

    def agree(self, path: str, sig: bytes, raw: bytes, clock: int, digest: bytes) -> None:
        flags = FRESH_THERE if there.fresh(raw, clock) else 0
        if listing.fresh(sig, time.time_ns()):
            flags |= FRESH_HERE
        self.agreed.put(path, Entry(sig, raw, digest, flags))

    def doubts(self, over_there: There) -> bool:
        """Whether the copy there is another one than was left: put back from a backup, or made anew."""
        meta = self.agreed.meta
        known = {meta.get("word", ""), meta.get("next", "")} - {""}
        return bool(self.agreed.entries) and over_there.word not in known

    def really_fresh(self, here: Mapping[str, bytes], clock: int) -> None:
        """What was too fresh to trust by its time is compared by its content; what is not fresh any more is trusted."""
        for path in [path for path, entry in self.agreed.entries.items() if entry.fresh & FRESH_HERE]:
            entry = self.agreed.entries[path]
            if entry.here is None or here.get(path) != entry.here:
                continue
            self.halt.check()
            try:
                digest, sig = self.ground.digest(path)
            except (InTheWay, OSError):
                continue
            if digest != entry.digest or sig != entry.here:
                self.agreed.put(path, Entry(None, entry.there, entry.digest, entry.fresh & FRESH_THERE))
            elif not listing.fresh(sig, clock):
                self.agreed.put(path, Entry(entry.here, entry.there, entry.digest, entry.fresh & ~FRESH_HERE))


def skew(clock: int, now: int) -> int:
    """How far the clock there is ahead of ours (nanoseconds); 0 when that is not worth a thought."""
    if not clock or abs(clock - now) < _LONGEST_SKEW:
        return 0
    return clock - now


def sane_time(mtime: int) -> int | None:
    """A time that every file system can hold, None for one that is a lie."""
    return mtime if 0 <= mtime < _LATEST else None


def shown(path: str) -> str:
    """A path as a sentence can hold it: what does not print is written out."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in path)
