"""The work folder as the file tools see it: nothing outside it, nothing through a link, no protected place.

A path is never handed to the system whole. Each part of it is opened from the folder before it, by descriptor, with
``O_NOFOLLOW`` (openat(2)), so a link that is swapped in between changes nothing. Standard library only: the search
worker loads this file in a process of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.tools.base import ToolFailed, ToolRefused

Parts = tuple[str, ...]
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

# What a package manager or a build puts there: not the person's own files.
DEPENDENCIES = {
    "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    "bower_components", ".gradle", ".terraform", "target", "vendor", ".next", ".nuxt", "site-packages",
}  # fmt: skip


class Folder:
    """``path`` is as the person named it; ``protected`` what nothing may touch. Touches the disk: use it in a thread.

    Every method raises ToolRefused for a path that may not be touched and ToolFailed for one that cannot.
    """

    def __init__(self, path: Path, protected: Iterable[Path] = ()) -> None:
        if not SUPPORTED:
            raise ToolFailed("File tools do not work on this system yet.")
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve would follow links, absolute keeps ".."
        self.real = Path(os.path.realpath(path))
        self._hidden: list[Parts] = []
        self._identities: set[tuple[int, int]] = set()
        for place in protected:
            real = Path(os.path.realpath(place))
            if real.is_relative_to(self.real):
                self._hidden.append(_folded(real.relative_to(self.real).parts))
            with contextlib.suppress(OSError):
                found = real.stat()
                self._identities.add((found.st_dev, found.st_ino))

    def parts(self, text: str) -> Parts:
        """Reads a path as a model writes it: from the work folder, or absolute and inside it. Touches nothing."""
        if "\0" in text:
            raise ToolRefused("A path cannot hold a NUL character.")
        if text.startswith("~"):
            raise ToolRefused(f"{show(text)}: file tools work in the work folder only. Give a path inside it.")
        path = text
        if os.path.isabs(path):  # noqa: PTH117 - on the text itself
            for root in (self.path, self.real):
                with contextlib.suppress(ValueError):
                    path = str(Path(os.path.normpath(path)).relative_to(root))
                    break
            else:
                raise self._outside(text)
        # Lexically: no link is ever followed, so "a/.." is where "a" is.
        path = os.path.normpath(path)
        found = tuple(part for part in Path(path).parts if part != os.sep)
        if ".." in found:
            raise self._outside(text)
        self._refuse_protected(found)
        return found

    def hides(self, parts: Parts) -> bool:
        """Whether this is a protected place, or in one."""
        folded = _folded(parts)
        return any(folded[: len(hidden)] == hidden for hidden in self._hidden)

    def hides_identity(self, found: os.stat_result) -> bool:
        return (found.st_dev, found.st_ino) in self._identities

    @contextlib.contextmanager
    def directory(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder at ``parts``; ``make`` makes what is missing on the way."""
        number = self._top()
        try:
            for depth, part in enumerate(parts):
                number = self._step(number, parts[: depth + 1], part, make)
            yield number
        finally:
            os.close(number)

    @contextlib.contextmanager
    def file(self, parts: Parts) -> Iterator[int]:
        """A descriptor of the plain file at ``parts``, for reading."""
        if not parts:
            raise ToolFailed("That is the work folder itself, not a file.")
        with self.directory(parts[:-1]) as parent:
            number = self.open_file(parent, parts)
        try:
            yield number
        finally:
            os.close(number)

    def open_file(self, parent: int, parts: Parts) -> int:
        """Opens the plain file that is last in ``parts``, from its own folder's descriptor."""
        try:
            number = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=parent)
        except OSError as error:
            raise self._trouble(error, parent, parts) from None
        found = os.fstat(number)
        try:
            if stat.S_ISDIR(found.st_mode):
                raise ToolFailed(f"{show(parts)} is a folder.")
            if not stat.S_ISREG(found.st_mode):
                raise ToolRefused(f"{show(parts)} is not a plain file.")
            if self.hides_identity(found):
                raise self._protected(parts)
        except ToolFailed:
            os.close(number)
            raise
        return number

    def look(self, parent: int, parts: Parts) -> os.stat_result | None:
        """What lies at the last of ``parts``, a link seen as a link; None when nothing does."""
        try:
            return os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._trouble(error, parent, parts) from None

    # -- within

    def _top(self) -> int:
        # The folder's own path may hold links: the person chose it, and the place was told the same one.
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            return os.open(self.real, flags)
        except FileNotFoundError:
            raise ToolFailed(f"The work folder {show(str(self.path))} is not there any more.") from None
        except OSError as error:
            raise ToolFailed(f"The work folder {show(str(self.path))} cannot be opened: {reason(error)}.") from None

    def _step(self, number: int, parts: Parts, part: str, make: bool) -> int:
        """Opens the next folder and closes the one before it, whatever happens to neither twice."""
        try:
            try:
                inner = os.open(part, os.O_RDONLY | _DIRECTORY, dir_fd=number)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=number)
                inner = os.open(part, os.O_RDONLY | _DIRECTORY, dir_fd=number)
        except OSError as error:
            raise self._trouble(error, number, parts) from None
        if self.hides_identity(os.fstat(inner)):
            os.close(inner)
            raise self._protected(parts)
        os.close(number)
        return inner

    def _refuse_protected(self, parts: Parts) -> None:
        if self.hides(parts):
            raise self._protected(parts)

    @staticmethod
    def _protected(parts: Parts) -> ToolRefused:
        return ToolRefused(f"{show(parts)} is a protected place: nothing may touch it.")

    def _outside(self, text: str) -> ToolRefused:
        folder = show(str(self.path))
        return ToolRefused(f"{show(text)} is outside the work folder {folder}. File tools work inside it only.")

    def _trouble(self, error: OSError, parent: int, parts: Parts) -> ToolFailed:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP)):
            with contextlib.suppress(OSError):
                found = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return ToolRefused(f"{show(parts)} is a link. File tools do not follow links.")
            return ToolFailed(f"{show(parts)} is not a folder.")
        if error.errno == errno.ENOENT:
            return ToolFailed(f"{show(parts)} is not there.")
        if error.errno == errno.ENXIO:
            return ToolRefused(f"{show(parts)} is not a plain file.")
        return ToolFailed(f"{show(parts)}: {reason(error)}.")


def show(path: str | Parts) -> str:
    """A path as a sentence can hold it: what does not print is written out, a very long one is cut."""
    text = path if isinstance(path, str) else "/".join(path) or "."
    text = text if len(text) <= 400 else f"{text[:300]}…{text[-80:]}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def reason(error: OSError) -> str:
    known = {
        errno.EACCES: "it may not be opened",
        errno.EPERM: "it may not be changed",
        errno.ENOSPC: "the disk is full",
        errno.EROFS: "it is on a read-only disk",
        errno.ENAMETOOLONG: "the name is too long",
    }
    return known.get(error.errno or 0, (error.strerror or "it cannot be opened").lower())


def in_git(parts: Parts) -> bool:
    """Whether the path is git's own data. Also by the other spellings that a file system may take for ``.git``."""
    return any(_plain(part) in (".git", "git~1") for part in parts)


def _plain(part: str) -> str:
    visible = "".join(letter for letter in part if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold().rstrip(". ").partition(":")[0]


def _folded(parts: Iterable[str]) -> Parts:
    # Also where the file system tells cases apart: ".SSH" beside ".ssh" is no place anyone needs.
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)
