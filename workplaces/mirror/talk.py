"""Asks the other side: list, bring, take. One call is one command there."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from workplaces.mirror import scripts
from workplaces.mirror.carry import Broken, Incoming, TarReader, TooMuch
from workplaces.mirror.far import BOOTSTRAP, Far, FarLost, script
from workplaces.mirror.land import Ground
from workplaces.mirror.orders import pull_list
from workplaces.mirror.stop import Halt, Halted
from workplaces.mirror.there import MOST_BYTES, Refused, There, read_listing
from workplaces.words import PLACE_WORDS

_MOST_NOISE: Final = 1024 * 1024
_MOST_RECORD: Final = 1024
_END: Final = b"=E "
# Words of the scripts that have a sentence of their own; any other is not understood.
_KEYS: Final = {"home", "home-closed", "copy-closed", "link", "no-stat", "no-tar", "space"}


class Trouble(Exception):
    """It could not be done. ``words`` is a sentence for the person; nothing is half done."""

    def __init__(self, key: str, *, details: str = "", words: str = "", **values: str) -> None:
        self.key = key
        self.words = words or PLACE_WORDS[f"mirror.{key}"].format(**values)
        self.details = details
        super().__init__(self.words)


@dataclass(frozen=True, slots=True)
class Got:
    """A file that came: where it is kept, its size in bytes, the hash of its content."""

    staged: str
    size: int
    digest: bytes


class Talk:
    """The copy's name there, and how to ask about it. Blocking; ``halt`` ends whatever runs."""

    def __init__(self, far: Far, copy: str, leave: Collection[str], halt: Halt) -> None:
        self._far = far
        self._copy = copy
        names = sorted(leave)
        self._leave = [_expression(names), *([_pattern(name) for name in names] or ["/"])]
        self._halt = halt
        self.asked = threading.Event()  # set once a question is on its way

    def look(self, since: str, this: str) -> There:
        """What is there; ``same`` when that is known to be what was there at the listing ``since`` ("-": none).

        This listing is ``this``. Raises Trouble, Halted.
        """
        with self._asked(scripts.LIST, ["", since, this, *self._leave], (), MOST_BYTES) as stream:
            return read_listing(stream)

    def push(self, word: str, this: str, tar: Iterable[bytes]) -> tuple[set[int], There]:
        """Sends a tar with its orders; afterwards the copy's word is ``word``.

        Gives the numbers of the groups that were not done because something was not as it had been, and what is there
        now, as the listing ``this``; or only what was touched, when its orders say so. Raises Trouble, Halted, and what
        the tar raised.
        """
        stale: set[int] = set()
        with self._asked(scripts.PUSH, [word, "-", this, *self._leave], tar, MOST_BYTES) as stream:
            while (record := stream.record(_MOST_RECORD)) != b"=L":
                if record is None:
                    raise Broken("ended before its listing")
                if record.startswith(b"=! "):
                    raise Refused(record[3:35].decode("ascii", "replace"))
                if not (record.startswith(b"=Z ") and record[3:].isdigit() and len(record) < 12):
                    raise Broken("an unknown record")
                stale.add(int(record[3:]))
            return stale, read_listing(stream)

    def pull(self, word: str, paths: Sequence[str], ground: Ground, most: int) -> dict[str, Got]:
        """Brings files, into the staging folder. Nothing but plain files that were asked for is taken.

        Raises Trouble (with key ``back`` when more than ``most`` bytes come), Halted.
        """
        asked = {path.encode("utf-8", "surrogateescape"): path for path in paths}
        got: dict[str, Got] = {}
        stream_most = most + 4096 * len(asked) + _MOST_NOISE
        with self._asked(scripts.PULL, [word], pull_list(paths), stream_most) as stream:
            go = stream.record(_MOST_RECORD) or b""
            if go.startswith(b"=! "):
                raise Refused(go[3:35].decode("ascii", "replace"))
            if go != b"=T go":
                raise Broken("no tar")
            reader = TarReader(stream, _END)
            while (part := reader.next()) is not None:
                self._halt.check()
                name = part.name.removeprefix(b"./")
                path = asked.get(name)
                if path is None or path in got:
                    continue
                staged = f"in-{os.urandom(8).hex()}"
                if part.kind == "0":
                    got[path] = Got(staged, *ground.stage(staged, reader.content()))
                elif part.kind == "1":
                    # A second name of one file there. Only one that was asked for and has come can be meant.
                    first = got.get(asked.get(part.link.removeprefix(b"./"), ""))
                    if first is not None:
                        most -= first.size
                        if most < 0:
                            raise TooMuch
                        got[path] = Got(staged, *ground.stage_again(staged, first.staged))
            if not reader.ending.startswith(b"=E yes "):
                raise Broken("the list did not get there whole")
            stream.finish()
        return got

    @contextmanager
    def _asked(self, text: str, words: list[str], rest: Iterable[bytes], most: int) -> Iterator[Incoming]:
        mark = os.urandom(12).hex()
        where = self._far.name
        self._halt.check()
        try:
            running = self._far.run(BOOTSTRAP, script(text, [mark, self._copy, *words], rest))
        except FarLost as lost:
            raise Trouble("lost", words=lost.words, details=lost.details) from lost
        self._halt.follow(running)
        self.asked.set()
        try:
            stream = Incoming(self._reading(running.read), most)
            try:
                stream.until_mark(mark.encode(), _MOST_NOISE)
                yield stream
            except BaseException as error:
                running.stop()
                said = self._end(running.end, isinstance(error, Broken))
                self._halt.check()
                raise self._explained(error, where, said) from error
            self._end(running.end, True)
        finally:
            self._halt.unfollow(running)

    def _reading(self, read: Callable[[], bytes]) -> Callable[[], bytes]:
        def checked() -> bytes:
            self._halt.check()
            return read()

        return checked

    def _end(self, end: Callable[[], tuple[int | None, bytes]], matters: bool) -> str:
        try:
            code, errors = end()
        except FarLost as lost:
            self._halt.check()
            if matters:
                raise Trouble("lost", words=lost.words, details=lost.details) from lost
            return lost.details
        return f"code {code}: {errors[:2000].decode('utf-8', 'replace')}"

    def _explained(self, error: BaseException, where: str, said: str) -> BaseException:
        details = f"{error!r} {said}"
        if isinstance(error, FarLost):
            return Trouble("lost", words=error.words, details=f"{error.details} {said}")
        if isinstance(error, Refused):
            return Trouble(f"there.{error.key}" if error.key in _KEYS else "broken", where=where, details=details)
        if isinstance(error, Broken):
            return Trouble("broken", where=where, details=details)
        if isinstance(error, TooMuch):
            return Trouble("much", where=where, details=details)
        if isinstance(error, OSError | sqlite3.Error):
            return Trouble("here", reason=getattr(error, "strerror", None) or str(error), details=details)
        return error


def _expression(names: Sequence[str]) -> str:
    """The same as one regular expression for GNU find's -regex, in its own form."""
    quoted = ("".join("\\" + letter if letter in ".[*+?^$\\" else letter for letter in name) for name in names)
    return r".*/\(" + r"\|".join(quoted) + r"\)" if names else "/"


def _pattern(name: str) -> str:
    """A name as find's -name takes it, when it is meant as it is."""
    return "".join("\\" + letter if letter in "*?[]\\" else letter for letter in name)


__all__ = ["Got", "Halted", "Talk", "Trouble"]
