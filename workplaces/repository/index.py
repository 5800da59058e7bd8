"""The repositories inside a repository, as git's index lists them (gitformat-index(5)).

These, and no others, are entered by the commands of the outer one: ``.gitmodules`` only says where they came from.
Read here, because a library that knows the format takes longer to import than a command takes to run.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from workplaces.plain import read_plain

HASH = 20  # bytes of an object's name (SHA-1), unless the repository says otherwise
_GITLINK = 0o160000
_IN_FILE = struct.pack(">I", _GITLINK)  # a file without these bytes lists none
_MODE = 24  # where an entry's mode stands
_STAT = 40  # what comes before its hash
_EXTENDED = 0x4000
_SHA256 = re.compile(rb"(?im)^\s*objectformat\s*=\s*sha256\s*$")
_LARGEST = 1 << 30
_MOST_KNOWN = 64
# By the index's path: which file it was, and what it lists. A command asks for the same few again and again.
_known: dict[Path, tuple[tuple[int, int, int, int], tuple[bytes, ...]]] = {}


def gitlinks(git: Path, common: Path) -> tuple[bytes, ...]:
    """The paths, from the top of the working tree, at which the repository of the folder ``git`` lists another one.

    ``common`` is where its settings are. Without an index, or with one that git could not read either, there are none.
    """
    path = git / "index"
    try:
        seen = path.stat()
        which = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        known = _known.get(path)
        if known is None or known[0] != which:
            known = which, tuple(dict.fromkeys(_links(path, git, common)))
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[path] = known
    except (OSError, ValueError, IndexError, struct.error):
        return ()
    return known[1]


def _links(path: Path, git: Path, common: Path) -> Iterator[bytes]:
    data = read_plain(path, _LARGEST)
    shared = b"link" in data
    if _IN_FILE not in data and not shared:
        return
    hash_size = 32 if _SHA256.search(read_plain(common / "config", _LARGEST)) else HASH
    entries, rest = parse(data, hash_size)
    yield from entries
    if shared and (link := extensions(data, rest, hash_size).get(b"link")):  # it only adds to another ("split index")
        yield from parse(read_plain(git / f"sharedindex.{link[:hash_size].hex()}", _LARGEST), hash_size)[0]


def parse(data: bytes, hash_size: int) -> tuple[list[bytes], int]:
    """The paths of an index's gitlinks, and where its entries end. Raises ValueError or struct.error for no index."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index")
    found: list[bytes] = []
    at, name = 12, b""
    for _ in range(count):
        mode = struct.unpack_from(">I", data, at + _MODE)[0]
        flags = struct.unpack_from(">H", data, at + _STAT + hash_size)[0]
        start = at + _STAT + hash_size + (4 if flags & _EXTENDED else 2)
        if version == 4:
            start, strip = _number(data, start)
            name = name[: len(name) - strip]
        end = data.index(b"\0", start)
        name = (name if version == 4 else b"") + data[start:end]
        at = end + 1 if version == 4 else end + 8 - (end - at) % 8
        if mode == _GITLINK and name:
            found.append(name)
    return found, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of git's variable width ("offset encoding"): where it ends, and the number."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return at + 1, value


def extensions(data: bytes, at: int, hash_size: int) -> dict[bytes, bytes]:
    """What follows an index's entries, by name. Raises struct.error when that is cut off."""
    found = {}
    while at < len(data) - hash_size:
        name, size = struct.unpack_from(">4sI", data, at)
        found[name] = data[at + 8 : at + 8 + size]
        at += 8 + size
    return found
