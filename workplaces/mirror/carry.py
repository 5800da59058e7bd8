"""Bytes to and from the other side: a tar written here, and a tar from there that is read as what anyone may have sent.

No program unpacks what comes. ``TarReader`` only says what the next part claims to be and hands out its bytes; what
may become of them is decided in ``land.py``. The format is tar's old one with GNU's long names, which every tar reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

BLOCK: Final = 512
_LONG: Final = 100
_MOST_NAME: Final = 64 * 1024
_ZEROS: Final = bytes(BLOCK)


class Broken(Exception):
    """What came is cut off, or is not what it should be. ``str(error)`` is for the log."""


class TooMuch(Exception):
    """More came than may come."""


class Incoming:
    """A stream from there, with a limit. ``read`` gives the next bytes, ``b""`` at the end."""

    def __init__(self, read: Callable[[], bytes], most: int) -> None:
        self._read = read
        self._most = most
        self._held = bytearray()
        self._at = 0
        self.taken = 0

    def _more(self) -> bool:
        data = self._read()
        if not data:
            return False
        self.taken += len(data)
        if self.taken > self._most:
            raise TooMuch
        if self._at:
            del self._held[: self._at]
            self._at = 0
        self._held += data
        return True

    def until_mark(self, mark: bytes, most: int) -> None:
        """Skips what rc files printed, up to and with a line that is the mark. Raises Broken when it does not come."""
        line = b"\n" + mark + b"\n"
        while (at := self._held.find(line, self._at)) < 0:
            if len(self._held) > most:
                raise Broken("no mark")
            if not self._more():
                raise Broken(f"ended before its mark: {bytes(self._held[-200:])!r}")
        self._at = at + len(line)

    def record(self, most: int) -> bytes | None:
        """The next record, without its NUL; None at the end. Raises Broken for one that is cut off or too long."""
        start = self._at
        while (at := self._held.find(b"\0", start)) < 0:
            held = len(self._held) - self._at
            if held > most:
                raise Broken("a record without end")
            if not self._more():
                if held:
                    raise Broken("ended in a record")
                return None
            start = self._at + held
        record = bytes(self._held[self._at : at])
        self._at = at + 1
        return record

    def records(self, most: int) -> Iterator[bytes]:
        """The records up to the end, many at a time where they are small."""
        rest = bytes(self._held[self._at :])
        self._held.clear()
        self._at = 0
        while True:
            *whole, rest = rest.split(b"\0")
            yield from whole
            if len(rest) > most:
                raise Broken("a record without end")
            data = self._read()
            if not data:
                if rest:
                    raise Broken("ended in a record")
                return
            self.taken += len(data)
            if self.taken > self._most:
                raise TooMuch
            rest += data

    def exactly(self, count: int) -> bytes:
        """The next bytes, that many. Raises Broken at a premature end."""
        while len(self._held) - self._at < count:
            if not self._more():
                raise Broken("ended too early")
        data = bytes(self._held[self._at : self._at + count])
        self._at += count
        return data

    def finish(self) -> None:
        """Reads to the end, at which nothing may come any more. Raises Broken."""
        if self._at != len(self._held) or self._more():
            raise Broken("something after the end")

    def pieces(self, count: int) -> Iterator[bytes]:
        """The next ``count`` bytes, in pieces as they come."""
        while count:
            if self._at == len(self._held) and not self._more():
                raise Broken("ended too early")
            data = bytes(self._held[self._at : self._at + count])
            self._at += len(data)
            count -= len(data)
            yield data


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of a tar claims to be. ``kind`` is tar's type flag; "0" is a plain file, "1" a hard link to
    ``link``."""

    name: bytes
    kind: str
    size: int
    mode: int
    mtime: int
    link: bytes


class TarReader:
    """Reads tars that follow one another. A block that starts with ``end`` ends it: ``ending`` then holds that block.

    For each part the caller must take ``content`` to its end (or ``skip``) before it asks for the next.
    """

    def __init__(self, stream: Incoming, end: bytes) -> None:
        self._stream = stream
        self._end = end
        self._left = 0
        self._padding = 0
        self.ending = b""

    def next(self) -> Part | None:
        """The next part, None at the end. Raises Broken for anything that is no tar, and for one that just stops."""
        if self._left or self._padding:
            self.skip()
        name = link = b""
        path = ""
        while True:
            block = self._stream.exactly(BLOCK)
            if block == _ZEROS:
                if name or link or path:
                    raise Broken("a long name without its part")
                continue
            if not _sums_up(block):
                if block.startswith(self._end):
                    self.ending = block
                    return None
                raise Broken("not a tar")
            kind = chr(block[156] or 48)
            size = _number(block[124:136])
            if size < 0:
                raise Broken("a negative size")
            if kind in "LKxg":
                if size > _MOST_NAME:
                    raise Broken("a name that is too long")
                text = self._stream.exactly(size)
                self._stream.exactly(-size % BLOCK)
                if kind == "L":
                    name = text.split(b"\0", 1)[0]
                elif kind == "K":
                    link = text.split(b"\0", 1)[0]
                elif kind == "x":
                    fields = _pax(text)
                    name, link = fields.get(b"path", name), fields.get(b"linkpath", link)
                    path = _digits(fields.get(b"size", b""))
                continue
            if path:
                size = int(path)
            self._left = 0 if kind in "123456" else size
            self._padding = -self._left % BLOCK
            return Part(
                name or _name(block),
                "0" if kind == "7" else kind,
                self._left,
                _number(block[100:108]) & 0o777,
                _number(block[136:148]),
                link or block[157:257].split(b"\0", 1)[0],
            )

    def content(self) -> Iterator[bytes]:
        """The bytes of the part that ``next`` gave, in pieces."""
        for data in self._stream.pieces(self._left):
            self._left -= len(data)
            yield data
        self._stream.exactly(self._padding)
        self._padding = 0

    def skip(self) -> None:
        """Leaves out what is left of the part."""
        for _ in self.content():
            pass


def header(name: bytes, *, mode: int, size: int = 0, mtime: int = 0, folder: bool = False) -> bytes:
    """What stands before a part's bytes."""
    if folder:
        name += b"/"
    before = b""
    if len(name) > _LONG:
        before = _block(b"././@LongLink", 0o644, len(name) + 1, 0, b"L") + name + b"\0" + padding(len(name) + 1)
        name = name[:_LONG]
    return before + _block(name, mode, size, mtime, b"5" if folder else b"0")


def padding(size: int) -> bytes:
    """What fills up the last block of that many bytes."""
    return bytes(-size % BLOCK)


ENDING: Final = bytes(2 * BLOCK)


def _block(name: bytes, mode: int, size: int, mtime: int, kind: bytes) -> bytes:
    mtime = min(max(mtime, 0), 0o77777777777)
    # mode, uid, gid, size, mtime, checksum (as spaces), type, link, magic
    start = name.ljust(_LONG, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode & 0o777, 0, 0, size, mtime)
    block = (start + b" " * 8 + kind + bytes(100) + b"ustar  \0").ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _sums_up(block: bytes) -> bool:
    try:
        return _number(block[148:156]) == sum(block[:148]) + 8 * 32 + sum(block[156:])
    except Broken:
        return False


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # base 256, for what has no room in octal
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        return -1 if field[0] == 0xFF else value
    text = field.split(b"\0", 1)[0].strip()
    if not text:
        return 0
    try:
        return int(text, 8)
    except ValueError:
        raise Broken("not a number in a tar") from None


def _name(block: bytes) -> bytes:
    name = block[:_LONG].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0":  # the POSIX form has room for the folder apart
        before = block[345:500].split(b"\0", 1)[0]
        if before:
            return before + b"/" + name
    return name


def _digits(text: bytes) -> str:
    if text and not (text.isdigit() and len(text) < 20):
        raise Broken("a size that is no number")
    return text.decode("ascii")


def _pax(text: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    while text:
        length, _, _ = text.partition(b" ")
        if not (length.isdigit() and len(length) < 8 and len(length) + 1 < int(length) <= len(text)):
            raise Broken("a broken field in a tar")
        field, text = text[len(length) + 1 : int(length) - 1], text[int(length) :]
        key, _, value = field.partition(b"=")
        fields[key] = value
    return fields
