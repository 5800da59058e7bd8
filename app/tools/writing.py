"""Putting a file in its place, whole or not at all: a temporary file beside it, fsync, rename."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass

from app.tools.base import ToolFailed, ToolRefused
from app.tools.folder import Folder, Parts, in_git, reason, show
from workplaces.repository.look import repository


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which file it was, and of when: a change between reading and writing is seen."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


def may_write(folder: Folder, parts: Parts) -> bool:
    """Whether a file is there already. Raises ToolFailed or ToolRefused for what may not be. Changes nothing."""
    if not parts:
        raise ToolFailed("That is the work folder itself, not a file.")
    if in_git(parts):
        raise ToolRefused(f"{show(parts)}: file tools never write in .git. Use git, in a command.")
    if _runs_by_git(folder, parts):
        raise ToolRefused(f"{show(parts)} is git's own data. File tools never write that. Use git, in a command.")
    for depth in range(len(parts)):
        with folder.directory(parts[:depth]) as parent:
            found = folder.look(parent, parts[: depth + 1])
        if found is None:
            return False
        if depth < len(parts) - 1:
            continue  # a link or a file on the way is refused by the next turn's opening
        _refuse(folder, parts, found)
    return True


def _runs_by_git(folder: Folder, parts: Parts) -> bool:
    """Whether git would read its settings or hooks there: it runs programs that these name."""
    found, path = repository(folder.real), folder.real.joinpath(*parts)
    if any(kept == path or kept in path.parents for kept in found.kept):
        return True
    return any(place in path.parents and (place != folder.real or parts == ("HEAD",)) for place in found.missing)


def _refuse(folder: Folder, parts: Parts, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ToolRefused(f"{show(parts)} is a link. File tools do not follow links.")
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{show(parts)} is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolRefused(f"{show(parts)} is not a plain file.")
    if folder.hides_identity(found):
        raise ToolRefused(f"{show(parts)} is a protected place: nothing may touch it.")
    if not found.st_mode & 0o222:
        raise ToolRefused(f"{show(parts)} is marked read-only.")


def put(folder: Folder, parts: Parts, data: bytes, *, expected: Stamp | None = None) -> bool:
    """Writes the file and gives whether it is new. Its mode and owner are kept; folders on the way are made.

    With ``expected`` it must still be that file, unchanged. Raises ToolFailed or ToolRefused; then what was stays.
    """
    may_write(folder, parts)
    with folder.directory(parts[:-1], make=True) as parent:
        found = folder.look(parent, parts)
        if found is not None:
            _refuse(folder, parts, found)
        if expected is not None and (found is None or Stamp.of(found) != expected):
            raise ToolFailed(f"{show(parts)} changed in the meantime. Read it again.")
        beside = f".conch-{secrets.token_hex(8)}.tmp"
        try:
            _write(parent, beside, data, found)
            os.rename(beside, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            raise ToolFailed(f"{show(parts)} was not written: {reason(error)}.") from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(beside, dir_fd=parent)
        with contextlib.suppress(OSError):
            os.fsync(parent)
    return found is None


def _write(parent: int, name: str, data: bytes, old: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    # A new file gets what the person's umask gives; one in place of another is never wider than it, even briefly.
    number = os.open(name, flags, 0o666 if old is None else 0o600, dir_fd=parent)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]
        if old is not None:
            with contextlib.suppress(OSError):  # only root may give a file away
                os.fchown(number, old.st_uid, old.st_gid)
            os.fchmod(number, stat.S_IMODE(old.st_mode) & 0o777)
        os.fsync(number)
    finally:
        os.close(number)
