"""What the mirror carries, and what stays where it is."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

# Folders that each side makes for itself: what was installed, built or cached. Only folders: a file of that name is
# carried. Names that people also give to folders of their own (vendor, build, dist, deps, env) are not among them.
DEPENDENCIES: Final[frozenset[str]] = frozenset(
    """
    node_modules bower_components jspm_packages .pnpm-store
    .venv venv .virtualenv __pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .eggs
    __pypackages__ .ipynb_checkpoints
    target .gradle .m2 .bloop .metals .bsp .ivy2
    .next .nuxt .svelte-kit .parcel-cache .turbo .angular .astro .docusaurus
    Pods DerivedData .build .swiftpm
    .terraform .vagrant .direnv .devenv
    elm-stuff .stack-work dist-newstyle .cabal-sandbox .dart_tool .pub-cache zig-cache .zig-cache zig-out _opam
    CMakeFiles
    """.split()  # noqa: SIM905 - a list to be read
)

# How the names of our own temporary files in the work folder begin.
PARTS: Final = ".conch-part-"

Reason = Literal["protected", "dependency", "outside", "name", "folds", "deep"]

_LONGEST_NAME = 255
_LONGEST_PATH = 4096
_DEEPEST = 200
_WINDOWS_NAMES = frozenset(
    (
        "con",
        "prn",
        "aux",
        "nul",
        "conin$",
        "conout$",
        *(f"{kind}{n}" for kind in ("com", "lpt") for n in "123456789¹²³"),
    )
)
_WINDOWS_LETTERS = frozenset('<>:"\\|?*')


def parents(path: str) -> Iterator[str]:
    """The folders on the way to a relative path, the deepest first."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def folded(path: str) -> str:
    """What two names have in common that are one name on a system that folds case and accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def plain(path: str) -> bool:
    """Whether a path is relative and goes straight down. Everything else is never touched, on any system."""
    if not path or path.startswith("/") or "\0" in path:
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def cannot_hold(name: str, system: str = "") -> bool:
    """Whether a file system of ``system`` (a ``sys.platform``; this one) cannot hold a file of this name as it is."""
    system = system or sys.platform
    raw = name.encode("utf-8", "surrogateescape")
    if not name or "/" in name or "\0" in name:
        return True
    if system == "win32":
        if len(name.encode("utf-16-le", "surrogatepass")) // 2 > _LONGEST_NAME:
            return True
        if any(letter in _WINDOWS_LETTERS or letter < " " or "\udc80" <= letter <= "\udcff" for letter in name):
            return True
        # "nul.txt" is the same device as "nul"; a dot or a space at the end is dropped without a word
        return name[-1] in " ." or name.split(".")[0].rstrip(" ").lower() in _WINDOWS_NAMES
    if len(raw) > _LONGEST_NAME:
        return True
    return system == "darwin" and any("\udc80" <= letter <= "\udcff" for letter in name)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is carried of one folder. ``protected`` and ``parts`` are relative paths; ``folds`` says whether names that
    differ only in case or accents are one name here."""

    leave: frozenset[str]
    protected: frozenset[str]
    parts: str
    folds: bool = False

    def refuses(self, path: str, *, folder: bool) -> Reason | None:
        """Why an entry is not carried, either way; None when it is. ``folder``: the entry is one itself."""
        if not plain(path):
            return "outside"
        names = path.split("/")
        if len(names) > _DEEPEST or len(path) > _LONGEST_PATH:
            return "deep"
        if not self.leave.isdisjoint(names if folder else names[:-1]):
            return "dependency"
        if self.folds and any(folded(name) in self.leave for name in (names if folder else names[:-1])):
            return "dependency"
        if names[-1].startswith(self.parts):
            return "protected"
        if self.protected and self._protected(path):
            return "protected"
        return None

    def cannot_hold(self, path: str) -> bool:
        """Whether some name on the way is one that this system cannot hold."""
        return any(cannot_hold(name) for name in path.split("/"))

    def _protected(self, path: str) -> bool:
        # A folding system is not trusted to say so: a protected place is compared folded everywhere.
        spelled = folded(path)
        return spelled in self.protected or any(parent in self.protected for parent in parents(spelled))


def scope_of(
    folder: Path,
    spelled: Path,
    protected: Iterable[Path],
    *,
    leave: Collection[str] = DEPENDENCIES,
    parts: str,
    folds: bool = False,
) -> Scope:
    """The scope of a folder. ``folder`` has its links followed, ``spelled`` is as the person named it.

    A protected place counts by its own name and by what it leads to, and whether it exists or not.
    """
    inside: set[str] = set()
    for place in protected:
        for one in (Path(os.path.abspath(place)), Path(os.path.realpath(place))):  # noqa: PTH100 - no link is followed
            for base in (folder, spelled):
                if one != base and one.is_relative_to(base):
                    inside.add(folded(one.relative_to(base).as_posix()))
    return Scope(frozenset(leave), frozenset(inside), parts, folds)


def folds_names(folder: Path, entries: Collection[str]) -> bool:
    """Whether the folder's file system takes two spellings of a name for one. Nothing is written to find out."""
    tried = 0
    for path in entries:
        name = path.rpartition("/")[2]
        other = name.swapcase()
        if other == name or other.lower() != name.lower():
            continue
        swapped = path[: len(path) - len(name)] + other
        if swapped in entries:
            return False
        try:
            return os.path.samestat((folder / path).lstat(), (folder / swapped).lstat())
        except OSError:
            tried += 1
            if tried >= 3:
                return False
    return sys.platform in ("darwin", "win32")
