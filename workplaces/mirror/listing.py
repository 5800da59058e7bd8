"""What is in a folder here, in one pass, and what became different between two such listings.

    before = snapshot(folder)
    …a command runs…
    changes = diff(before, snapshot(folder))

A *signature* (``Sig``) stands for one entry as it was: its kind, mode, size, times in nanoseconds, inode. It is kept
packed, because a folder may have 50,000 of them. Two equal signatures mean the same content, unless the entry was
*fresh*: changed so shortly before it was looked at that a later change could carry the same time.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from workplaces.mirror.scope import DEPENDENCIES
from workplaces.place import Changes

# A system's clock for files moves on in steps of up to 10 ms. Where times are whole seconds it is two (FAT).
_TICK: Final = 30_000_000
_COARSE_TICK: Final = 2_100_000_000

_PACK = struct.Struct("<cHQqqQ")
_KINDS: Final = {
    stat.S_IFREG: b"f",
    stat.S_IFDIR: b"d",
    stat.S_IFLNK: b"l",
    stat.S_IFIFO: b"p",
    stat.S_IFSOCK: b"s",
    stat.S_IFBLK: b"b",
    stat.S_IFCHR: b"c",
}


class Sig(NamedTuple):
    """An unpacked signature. ``kind`` is f, d, l, p, s, b, c or ? (find's letters); times are nanoseconds.

    A folder's is its kind and mode alone: its times change with what is in it, and that is listed anyway.
    """

    kind: str
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder as it was at ``clock`` (nanoseconds). Paths are relative, with ``/``.

    ``unknown`` are folders (and names) that could not be read: what lies under them is not known, which is not the
    same as not there. ``files`` and ``size`` count the plain files.
    """

    entries: Mapping[str, bytes]
    unknown: tuple[str, ...]
    clock: int
    files: int
    size: int


def pack(found: os.stat_result) -> bytes:
    """The signature of what a stat found."""
    mode = found.st_mode
    if stat.S_ISDIR(mode):
        return _PACK.pack(b"d", mode & 0o7777, 0, 0, 0, 0)
    kind = _KINDS.get(stat.S_IFMT(mode), b"?")
    return _PACK.pack(
        kind, mode & 0o7777, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & 0xFFFFFFFFFFFFFFFF
    )


def unpack(packed: bytes) -> Sig:
    kind, mode, size, mtime, ctime, inode = _PACK.unpack(packed)
    return Sig(kind.decode(), mode, size, mtime, ctime, inode)


def is_folder(packed: bytes) -> bool:
    return packed[:1] == b"d"


def is_file(packed: bytes) -> bool:
    return packed[:1] == b"f"


def same_content(one: bytes, other: bytes) -> bool:
    """Whether two signatures speak of one unchanged file, whatever happened to its name (a rename moves its ctime)."""
    first, second = unpack(one), unpack(other)
    return first._replace(ctime=0) == second._replace(ctime=0)


def fresh(packed: bytes, clock: int) -> bool:
    """Whether a change right after ``clock`` could leave this signature as it is."""
    sig = unpack(packed)
    if sig.kind != "f":
        return False
    coarse = sig.mtime % 1_000_000_000 == 0 and sig.ctime % 1_000_000_000 == 0
    return max(sig.ctime, sig.mtime if coarse else 0) >= clock - (_COARSE_TICK if coarse else _TICK)


def snapshot(
    folder: Path, *, leave: Collection[str] = DEPENDENCIES, closed: Collection[str] = (), most: int | None = None
) -> Snapshot:
    """Looks at everything in a folder once. No link is followed.

    ``leave`` are names of folders that are not gone into, ``closed`` relative paths that are left out. With ``most``
    it stops after that many entries (a folder without end). Raises OSError when the folder itself cannot be read.
    It touches the disk: call it in a thread.
    """
    clock = time.time_ns()
    base = os.fspath(folder)
    leave, closed = frozenset(leave), frozenset(closed)
    entries: dict[str, bytes] = {}
    unknown: list[str] = []
    files = size = 0
    packed, kind_of, folder_kind, file_kind = _PACK.pack, stat.S_IFMT, stat.S_IFDIR, stat.S_IFREG
    stack = [""]
    while stack:
        inside = stack.pop()
        prefix = inside + "/" if inside else ""
        try:
            found = os.scandir(f"{base}/{inside}" if inside else base)
        except OSError:
            if not inside:
                raise
            unknown.append(inside)
            continue
        try:
            with found:
                for entry in found:
                    path = prefix + entry.name
                    try:
                        seen = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone again: it is not there
                    except OSError:
                        unknown.append(path)
                        continue
                    if closed and path in closed:
                        continue
                    mode = seen.st_mode
                    kind = kind_of(mode)
                    if kind == file_kind:
                        files += 1
                        size += seen.st_size
                        entries[path] = packed(
                            b"f", mode & 0o7777, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino
                        )
                    elif kind == folder_kind:
                        entries[path] = packed(b"d", mode & 0o7777, 0, 0, 0, 0)
                        if entry.name not in leave:
                            stack.append(path)
                    else:
                        entries[path] = pack(seen)
        except OSError:
            unknown.append(inside)
            if not inside:
                raise
        if most is not None and len(entries) > most:
            break
    return Snapshot(entries, tuple(unknown), clock, files, size)


def diff(old: Snapshot, new: Snapshot) -> Changes:
    """What became different from ``old`` to ``new``. What could not be read in one of them is not called gone."""
    before, after = old.entries, new.entries
    added, changed = [], []
    for path, sig in after.items():
        was = before.get(path)
        if was == sig or is_folder(sig):
            continue
        if was is None or is_folder(was):
            if not under(path, old.unknown):
                added.append(path)
        else:
            changed.append(path)
    deleted = [
        path
        for path, sig in before.items()
        if not is_folder(sig) and (path not in after or is_folder(after[path])) and not under(path, new.unknown)
    ]
    return Changes(tuple(sorted(added)), tuple(sorted(changed)), tuple(sorted(deleted)))


def under(path: str, folders: Collection[str]) -> bool:
    """Whether a path is one of the folders or lies under one."""
    if not folders:
        return False
    if path in folders or "" in folders:
        return True
    at = path.rfind("/")
    while at > 0:
        if path[:at] in folders:
            return True
        at = path.rfind("/", 0, at)
    return False
