"""The work folder: may a command work on it, and what in it must stay out of a command's reach.

Every place asks ``check_folder`` before anything runs. It touches the disk, so it belongs in a thread. It follows links
and compares device and inode, never spelling: ``/home/me``, ``/home/me/x/..`` and a link to it are one folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workplaces.place import NextStep, PlaceUnavailable
from workplaces.repository.look import Repository, repository
from workplaces.repository.outside import Outside, outside, records_in
from workplaces.words import PLACE_WORDS

GitKind = Literal["none", "folder", "file", "link"]
CoverKind = Literal["folder", "file"]

# Folders that are the system itself. A command given one as its work folder could write to it.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys"),
    *("/tmp", "/usr", "/var", "/var/tmp", "/private", "/System", "/Library", "/Applications", "/Users"),  # noqa: S108
    *("C:\\Windows", "C:\\Program Files", "C:\\Program Files (x86)", "C:\\Users"),
)
# Nothing under these is a folder of a person's files.
_NEVER_UNDER = ("/proc", "/sys", "/dev")

_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cover:
    """A protected place inside the work folder. ``inside`` is its path from the work folder, links followed."""

    inside: Path
    kind: CoverKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFolder:
    """A work folder that was looked at.

    ``path`` is as the person named it, absolute and without ``..``; ``real`` has its links followed. ``device`` and
    ``inode`` say which folder it is, ``modified`` when its own entries last changed (seconds). ``covers`` are the
    protected places inside it; ``pins`` the folders on the way to them, which must not be renamed either, or what they
    hold would be bare under another name. Both are relative to the folder, shallow ones first.

    ``git`` is what its ``.git`` is, ``git_identity`` which, ``repository`` what of it a sealed command must leave as it
    is, ``outside`` what of it lies elsewhere, ``records`` what a repository in it knows of other worktrees.
    """

    path: Path
    real: Path
    device: int
    inode: int
    modified: int
    git: GitKind
    git_identity: _Identity | None = None
    repository: Repository
    outside: Outside | None = None
    records: Path | None = None
    covers: tuple[Cover, ...] = ()
    pins: tuple[Path, ...] = ()


def check_folder(folder: Path, protected: Iterable[Path] = (), home: Path | None = None) -> WorkFolder:
    """Looks at a work folder and refuses, with words, one that no command may be given.

    Refused are a folder that is gone or cannot be opened, the whole disk, a system folder, the person's ``home`` folder
    (``Path.home()`` unless given) or one that holds it, and a folder in a protected place (Conch's home is one).
    Raises PlaceUnavailable. A protected place that does not exist is never made, so it is not covered.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100 - Path.absolute keeps "..", which means another thing past a link
    try:
        _refuse_name(path)
        real = path.resolve(strict=True)
        _refuse_name(real)
        found = real.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _refused("folder.gone", path) from None
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise _refused("folder.closed", path, details=str(error)) from None
    if not stat.S_ISDIR(found.st_mode):
        raise _refused("folder.file", path)
    if not os.access(real, os.R_OK | os.X_OK):
        raise _refused("folder.closed", path)
    here = (found.st_dev, found.st_ino)
    _refuse_system(path, real, here, home or Path.home())
    seen = [(place, real_place) for place in protected if (real_place := _resolve(place)) is not None]
    above = _identities((real, *real.parents))
    for place, real_place in seen:
        if _identity(real_place) in above:
            raise _refused("folder.protected", path, place=shown(place))
    covers = _covers(here, (real_place for _, real_place in seen))
    kind, git_identity = _git(real)
    return WorkFolder(
        path=path,
        real=real,
        device=here[0],
        inode=here[1],
        modified=int(found.st_mtime),
        git=kind,
        git_identity=git_identity,
        repository=repository(real),
        records=Path(".git") / records if kind == "folder" and (records := records_in(real / ".git")) else None,
        outside=_outside(path, real, [real_place for _, real_place in seen]),
        covers=covers,
        pins=_pins(covers),
    )


def shown(path: Path) -> str:
    """A path as a sentence can hold it: what does not print is written out."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(path))


def _refused(key: str, folder: Path, *, place: str = "", details: str = "") -> PlaceUnavailable:
    step = NextStep(PLACE_WORDS["folder.next"], action="choose-folder")
    return PlaceUnavailable(PLACE_WORDS[key].format(folder=shown(folder), place=place), next_step=step, details=details)


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _resolve(path: Path) -> Path | None:
    """The path with its links followed, None where nothing is. What the person may not see a command may not either."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _refuse_name(path: Path) -> None:
    """Refuses a name that is not text: an engine is told of a folder in JSON, which could only hold another name."""
    if "\0" in str(path) or any("\ud800" <= letter <= "\udfff" for letter in str(path)):
        raise _refused("folder.name", path)


def _refuse_system(path: Path, real: Path, here: _Identity, home: Path) -> None:
    if real.parent == real:
        raise _refused("folder.disk", path)
    real_home = _resolve(home)
    if real_home and here in _identities((real_home, *real_home.parents)):
        raise _refused("folder.home", path)
    if here in _identities(_SYSTEM) or not _identities(_NEVER_UNDER).isdisjoint(_identities((real, *real.parents))):
        raise _refused("folder.system", path)


def _identities(paths: Iterable[str | Path]) -> set[_Identity]:
    """Of those that are there."""
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):
            seen = os.stat(path)  # noqa: PTH116 - many, for every command
            found.add((seen.st_dev, seen.st_ino))
    return found


def _covers(here: _Identity, places: Iterable[Path]) -> tuple[Cover, ...]:
    found: dict[Path, Cover] = {}
    for place in places:
        for parent in place.parents:
            if _identity(parent) == here:
                inside = place.relative_to(parent)
                found[inside] = Cover(inside, "folder" if place.is_dir() else "file")
                break
    outermost = (cover for cover in found.values() if not any(parent in found for parent in cover.inside.parents))
    return tuple(sorted(outermost, key=lambda cover: (len(cover.inside.parts), cover.inside)))


def _outside(path: Path, real: Path, protected: Sequence[Path]) -> Outside | None:
    """Git's data outside of the folder, unless that lies in a protected place or holds one."""
    found = outside(path, real)
    source = found.source if found else real
    apart = all(not place.is_relative_to(source) and not source.is_relative_to(place) for place in protected)
    return found if apart else None


def _pins(covers: Iterable[Cover]) -> tuple[Path, ...]:
    def on_the_way(cover: Cover) -> Iterator[Path]:
        return (parent for parent in cover.inside.parents if parent.parts)

    pins = {pin for cover in covers for pin in on_the_way(cover)}
    return tuple(sorted(pins, key=lambda pin: (len(pin.parts), pin)))


def _git(real: Path) -> tuple[GitKind, _Identity | None]:
    try:
        found = (real / ".git").lstat()
    except OSError:
        return "none", None
    kind: GitKind = "file"
    if stat.S_ISLNK(found.st_mode):
        kind = "link"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    return kind, (found.st_dev, found.st_ino)
