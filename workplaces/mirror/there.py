"""What the other side says is there. It may say anything: nothing here believes more than it must."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from workplaces.mirror.carry import Broken, Incoming, TooMuch

MOST_ENTRIES: Final = 150_000
MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_RECORD: Final = 1024 * 1024
_FRACTION = re.compile(rb"\d\d:\d\d:\d\d\.(\d{1,9})")
_RAW = re.compile(
    rb"[-a-zA-Z?][-a-zA-Z.+@]{0,11} [0-7]{1,6} \d{1,19} -?\d{1,12}(?:\.\d{1,12})? -?\d{1,12}(?:\.\d{1,12})? \d{1,20}"
    rb"(?: [-0-9:.+ ]{20,80})?"
)
# An empty part, "." or "..", anywhere.
_ELSEWHERE = re.compile(rb"/(?:/|\Z|\.{1,2}(?:/|\Z))")
_BILLION: Final = 1_000_000_000
_TICK: Final = 30_000_000


class Fields(NamedTuple):
    """What an entry there claims. Times are nanoseconds of the clock there; ``coarse`` when they are whole seconds."""

    kind: str
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: str
    coarse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """A listing of the copy. ``entries`` holds each path with its signature, as the tools there wrote it.

    ``unknown`` are folders that could not be read; ``sure`` is False when something may be missing for another reason.
    ``missing`` is True when there is no copy at all, ``same`` when nothing has changed since the listing that was named
    (``entries`` is empty then). ``word`` is the state word beside it, ``clock`` the time there.
    """

    entries: Mapping[str, bytes] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    sure: bool = True
    missing: bool = False
    same: bool = False
    word: str = ""
    clock: int = 0


class Refused(Exception):
    """The script there said that it cannot. ``key`` is its word for why."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read_listing(stream: Incoming) -> There:
    """Reads a listing. Raises Broken when it is cut off or makes no sense, TooMuch when it is too long, Refused."""
    entries: dict[str, bytes] = {}
    unknown: set[str] = set()
    word, clock, missing, same, sure, ended = "", 0, False, False, True, False
    records = stream.records(_MOST_RECORD)
    for record in records:
        if ended:
            raise Broken("something after the end")
        if record[:1] != b"=":
            _add(entries, *_split(record))
        elif record[1:3] == b"B ":
            sure &= _batch(entries, record[3:], records)
        elif record[1:3] == b"E ":
            ended = True
            sure &= record[3:] == b"0" or bool(unknown)
        elif record[1:3] == b"U ":
            path = _path(record[3:])
            if path is None:
                raise Refused("copy-closed")
            unknown.add(path)
        elif record[1:3] == b"W ":
            word = record[3:67].decode("ascii", "replace")
        elif record[1:3] == b"C ":
            clock = fields(record[3:]).mtime if len(record) > 3 else 0
        elif record == b"=M":
            missing = True
        elif record == b"=S":
            same = True
        elif record[1:3] == b"! ":
            raise Refused(record[3:35].decode("ascii", "replace"))
        elif record[1:3] != b"T ":
            raise Broken("an unknown record")
        if len(entries) > MOST_ENTRIES or len(unknown) > MOST_ENTRIES:
            raise TooMuch
    if not ended:
        raise Broken("a listing without end")
    return There(
        entries=entries, unknown=frozenset(unknown), sure=sure, missing=missing, same=same, word=word, clock=clock
    )


def is_folder(raw: bytes) -> bool:
    return raw[:1] == b"d"


def is_file(raw: bytes) -> bool:
    return raw[:1] in b"f-"


def fields(raw: bytes) -> Fields:
    """A signature taken apart. Raises Broken when it is none."""
    parts = raw.split(b" ")
    try:
        kind = raw[:1].replace(b"-", b"f").decode("ascii")
        if is_folder(raw):
            return Fields(kind, int(parts[1], 8) & 0o777, 0, 0, 0, "", False)
        mtime, coarse = _time(parts[3])
        ctime, coarse_too = _time(parts[4])
        size = int(parts[2])
        if size < 0 or len(parts[2]) > 19:
            raise ValueError
        if len(parts) > 6:  # the seconds are told apart from their fractions
            fractions = _FRACTION.findall(raw)
            if len(fractions) == 2:
                mtime += int(fractions[0].ljust(9, b"0"))
                ctime += int(fractions[1].ljust(9, b"0"))
        coarse = coarse and coarse_too and mtime % _BILLION == 0 and ctime % _BILLION == 0
        return Fields(kind, int(parts[1], 8) & 0o777, size, mtime, ctime, parts[5].decode("ascii"), coarse)
    except (ValueError, IndexError, UnicodeDecodeError):
        raise Broken(f"no signature: {raw[:80]!r}") from None


def fresh(raw: bytes, clock: int) -> bool:
    """Whether a change right after ``clock`` (the time there) could leave this signature as it is."""
    if not is_file(raw):
        return False
    found = fields(raw)
    if not clock:
        return True
    if found.coarse:
        return max(found.mtime, found.ctime) // _BILLION >= clock // _BILLION - 1
    return found.ctime >= clock - _TICK


def _time(text: bytes) -> tuple[int, bool]:
    seconds, dot, rest = text.partition(b".")
    if len(seconds) > 12 or (rest and not rest.isdigit()):
        raise ValueError
    whole = int(seconds) * _BILLION
    part = int(rest[:9].ljust(9, b"0")) if rest else 0
    return (whole - part if seconds.startswith(b"-") else whole + part), not dot or part == 0


def _split(record: bytes) -> tuple[bytes, bytes]:
    """find's own form: six fields, then the name."""
    parts = record.split(b" ", 6)
    if len(parts) != 7:
        raise Broken("a short record")
    name = parts[6]
    return record[: len(record) - len(name) - 1], name


def _batch(entries: dict[str, bytes], count: bytes, records: object) -> bool:
    """stat's form: the signatures of many, a line each, then their names. False when the two do not go together."""
    following = iter(records)  # type: ignore[call-overload]
    try:
        expected = int(count) if len(count) < 8 else -1
        if not 0 <= expected <= MOST_ENTRIES:
            raise Broken("a batch of no size")
        lines = next(following).split(b"\n")[:-1]
        names = [next(following) for _ in range(expected)]
    except (ValueError, StopIteration):
        raise Broken("a batch that is cut off") from None
    if len(lines) != expected:
        return False  # one of them vanished between the two, and nobody knows which
    for line, name in zip(lines, names, strict=True):
        _add(entries, line, name)
    return True


def _path(name: bytes) -> str | None:
    """The path of a name as find gives it; None for the copy itself."""
    if name == b".":
        return None
    if name[:2] != b"./" or _ELSEWHERE.search(name, 1) is not None or len(name) < 3:
        raise Broken(f"a path that leads elsewhere: {name[:80]!r}")
    return name[2:].decode("utf-8", "surrogateescape")


def _add(entries: dict[str, bytes], raw: bytes, name: bytes) -> None:
    path = _path(name)
    if path is None:
        return
    if path in entries:
        raise Broken("a name that comes twice")
    if not raw or len(raw) > 400:
        raise Broken("no signature")
    if raw[:1] == b"d":  # its times and its size change with what is in it
        raw = b" ".join(raw.split(b" ", 2)[:2])
        fields(raw)
    elif _RAW.fullmatch(raw) is None:
        raise Broken(f"no signature: {raw[:80]!r}")
    entries[path] = raw
