"""The folder here, held by descriptors: nothing in this file can reach outside of it.

Every folder on the way is opened by itself, from the one above, and never through a link; what is done is done in a
folder that is held, so a link that is put in between changes nothing. A file lands by rename, and only over what was
expected there: where the system can (Linux), the two are exchanged and what came out is looked at once more.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, Literal

from workplaces.mirror import listing
from workplaces.mirror.carry import Broken
from workplaces.mirror.renames import exchange, move_new

CHUNK: Final = 256 * 1024
_FOLDER: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_SYNCED: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_SINGLY: Final = 64
_HELD: Final = 48

Outcome = Literal["done", "changed", "linked", "blocked"]


class InTheWay(OSError):
    """Something that is no real folder stands on the way to a path."""


class Ground:
    """The work folder here. ``parts`` is how names of temporary files of ours begin. For one thread at a time."""

    def __init__(self, folder: Path, staging: Path, parts: str) -> None:
        self._root = os.open(folder, _FOLDER)
        try:
            self._staging = os.open(staging, _FOLDER)
        except OSError:
            os.close(self._root)
            raise
        self._parts = parts
        self._held: dict[str, int] = {}
        self._count = 0
        self.identity = _identity(os.fstat(self._root))

    def close(self) -> None:
        self._let_go()
        os.close(self._staging)
        os.close(self._root)

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Looking

    def look(self, path: str) -> bytes | None:
        """The signature of what is at a path, None when nothing is. Raises InTheWay, OSError."""
        try:
            parent, name = self._parent(path)
            return listing.pack(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> int:
        """Opens a plain file for reading. Raises OSError when it is none, or not there."""
        parent, name = self._parent(path)
        number = os.open(name, _READ, dir_fd=parent)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise OSError(errno.EINVAL, "not a plain file", path)
        return number

    def digest(self, path: str) -> tuple[bytes, bytes]:
        """The hash of a file's content, and the signature it had before it was read. Raises OSError."""
        number = self.open(path)
        try:
            sig = listing.pack(os.fstat(number))
            hashed = hasher()
            while data := os.read(number, CHUNK):
                hashed.update(data)
            return hashed.digest(), sig
        finally:
            os.close(number)

    def content(self, path: str, most: int) -> bytes:
        """The start of a file, at most a little over ``most`` bytes. Raises OSError."""
        return _start(self.open(path), most)

    def staged_content(self, name: str, most: int) -> bytes:
        """The same of a staged file."""
        return _start(os.open(name, _READ, dir_fd=self._staging), most)

    # What comes is first kept apart

    def stage(self, name: str, pieces: Iterator[bytes]) -> tuple[int, bytes]:
        """Keeps what came under a name of ours, apart from the work folder: its size and its hash. Raises OSError."""
        hashed = hasher()
        size = 0
        number = os.open(name, _WRITE, 0o600, dir_fd=self._staging)
        try:
            for data in pieces:
                hashed.update(data)
                size += len(data)
                view = memoryview(data)
                while view:
                    view = view[os.write(number, view) :]
        finally:
            os.close(number)
        return size, hashed.digest()

    def stage_again(self, name: str, other: str) -> tuple[int, bytes]:
        """Keeps a second one with the content of a first: a hard link there becomes a file of its own here."""
        number = os.open(other, _READ, dir_fd=self._staging)
        try:
            return self.stage(name, iter(lambda: os.read(number, CHUNK), b""))
        finally:
            os.close(number)

    def settle(self, names: Collection[str]) -> None:
        """Puts staged files on the disk itself, so that a power cut leaves the old file or the whole new one.

        Not each of many by itself: that takes milliseconds a file, and the system can write all there is at once.
        Raises OSError.
        """
        if len(names) > _SINGLY and hasattr(os, "sync"):
            os.sync()
            return
        for name in names:
            number = os.open(name, _SYNCED, dir_fd=self._staging)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def forget(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._staging)

    # Changing

    def land(
        self, staged: str, path: str, expected: bytes | None, *, mode: int, mtime: int | None = None
    ) -> tuple[Outcome, bytes | None]:
        """Puts a staged file at a path, over what was expected there and nothing else.

        Gives what came of it, and the signature of what landed. Raises InTheWay, OSError; the folder is as it was then.
        """
        parent, name = self._parent(path)
        number = os.open(
            staged, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), dir_fd=self._staging
        )
        try:
            if mtime is not None:
                os.utime(number, ns=(mtime, mtime))
            os.fchmod(number, mode & 0o777)
            try:
                outcome = self._swap(self._staging, staged, parent, name, expected)
                landed = listing.pack(os.fstat(number))
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                outcome, landed = self._land_afar(number, parent, name, expected, mode, mtime)
        finally:
            os.close(number)
        return outcome, landed if outcome == "done" else None

    def _land_afar(
        self, number: int, parent: int, name: str, expected: bytes | None, mode: int, mtime: int | None
    ) -> tuple[Outcome, bytes]:
        """Lands a file that was kept on another file system: first beside where it goes, then by rename."""
        part = f"{self._parts}{os.urandom(6).hex()}"
        self._copy(number, parent, part, mode, mtime)
        try:
            landed = listing.pack(os.stat(part, dir_fd=parent, follow_symlinks=False))
            return self._swap(parent, part, parent, name, expected), landed
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=parent)

    def _copy(self, number: int, parent: int, part: str, mode: int, mtime: int | None) -> None:
        """Writes a staged file beside where it will land: another file system, so it cannot be renamed there."""
        into = os.open(part, _WRITE, 0o600, dir_fd=parent)
        try:
            os.lseek(number, 0, os.SEEK_SET)
            while data := os.read(number, CHUNK):
                view = memoryview(data)
                while view:
                    view = view[os.write(into, view) :]
            os.fchmod(into, mode & 0o777)
            if mtime is not None:
                os.utime(into, ns=(mtime, mtime))
            os.fsync(into)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=parent)
            raise
        finally:
            os.close(into)

    def _swap(self, at: int, part: str, parent: int, name: str, expected: bytes | None) -> Outcome:
        if expected is None:
            return "done" if move_new(at, part, parent, name) else "changed"
        if self._seen(parent, name) != expected:
            return "changed"
        if not exchange(at, part, parent, name):
            os.replace(part, name, src_dir_fd=at, dst_dir_fd=parent)
            return "done"
        came_out = self._seen(at, part)
        if came_out is None or not listing.same_content(came_out, expected):
            # Somebody wrote it in that moment: theirs goes back, and ours is kept beside it.
            exchange(at, part, parent, name)
            return "changed"
        os.unlink(part, dir_fd=at)
        return "done"

    def remove(self, path: str, expected: bytes) -> Outcome:
        """Removes a plain file that is still what was expected and has no other name. Raises InTheWay, OSError."""
        try:
            parent, name = self._parent(path)
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return "done"
        if not stat.S_ISREG(found.st_mode) or listing.pack(found) != expected:
            return "changed"
        if found.st_nlink != 1:
            return "linked"
        part = f"gone-{os.urandom(6).hex()}"
        try:
            move_new(parent, name, self._staging, part)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            os.unlink(name, dir_fd=parent)
            return "done"
        came_out = self._seen(self._staging, part)
        if came_out is None or not listing.same_content(came_out, expected):
            if not move_new(self._staging, part, parent, name):
                raise OSError(errno.EEXIST, "a file came in the way", path)
            return "changed"
        os.unlink(part, dir_fd=self._staging)
        return "done"

    def make_folder(self, path: str) -> bool:
        """Makes a folder (0700). False when there is one already. Raises InTheWay, FileExistsError, OSError."""
        parent, name = self._parent(path)
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return False
            raise
        return True

    def remove_folder(self, path: str) -> bool:
        """Removes an empty folder; False when it is not empty, or no folder."""
        self._let_go()
        try:
            parent, name = self._parent(path)
            os.rmdir(name, dir_fd=parent)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def set_mode(self, path: str, mode: int) -> None:
        """Gives a file or a folder its mode. Raises InTheWay, OSError."""
        parent, name = self._parent(path)
        number = os.open(name, _READ, dir_fd=parent)
        try:
            os.fchmod(number, mode & 0o777)
        finally:
            os.close(number)

    def sweep(self, folder: str) -> None:
        """Removes temporary files that a crash left in a folder."""
        with contextlib.suppress(OSError):
            parent = self._folder(folder)
            for name in os.listdir(parent):  # noqa: PTH208 - a descriptor
                if name.startswith(self._parts):
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=parent)

    # The folders on the way

    def _seen(self, parent: int, name: str) -> bytes | None:
        try:
            return listing.pack(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def _parent(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise Broken(f"not a name: {path!r}")
        return self._folder(folder), name

    def _folder(self, path: str) -> int:
        """Opens a folder, the ones above it first. Valid until the next call."""
        if not path:
            return self._root
        held = self._held.get(path)
        if held is not None and self._still(path, held):
            return held
        at = self._root
        opened: list[int] = []
        try:
            for name in path.split("/"):
                if name in ("", ".", ".."):
                    raise Broken(f"not a path: {path!r}")
                at = os.open(name, _FOLDER, dir_fd=at)
                opened.append(at)
        except OSError as error:
            for number in opened:
                os.close(number)
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise InTheWay(error.errno, "not a real folder", path) from None
            raise
        for number in opened[:-1]:
            os.close(number)
        if held is not None:
            os.close(self._held.pop(path))
        if len(self._held) >= _HELD:
            oldest = next(iter(self._held))
            os.close(self._held.pop(oldest))
        self._held[path] = at
        return at

    def _still(self, path: str, held: int) -> bool:
        """Whether the folder that is held still bears its name, as far as one look tells. What is held is inside, or
        was: this only keeps files from landing in a folder that was moved away."""
        above, _, name = path.rpartition("/")
        parent = self._held.get(above) if above else self._root
        if parent is None:
            return False
        try:
            return _identity(os.stat(name, dir_fd=parent, follow_symlinks=False)) == _identity(os.fstat(held))
        except OSError:
            return False

    def _let_go(self) -> None:
        for number in self._held.values():
            os.close(number)
        self._held.clear()


def hasher() -> hashlib.blake2b:
    """The hash that contents are compared by."""
    return hashlib.blake2b(digest_size=20)


def _start(number: int, most: int) -> bytes:
    with os.fdopen(number, "rb") as file:
        return file.read(most + 1)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
