"""What a command may reach, said once and for every system; the adapters beside this file make it hold.

Two policies are made here. *Sealed* keeps the box's promise: it reads this computer without its keys, writes the work
folder and what is its own, and has no network at all. *Open* is the person's own reach, without the protected places.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workplaces.folder import WorkFolder, shown
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.repository.look import Repository
from workplaces.seal.environment import environment
from workplaces.seal.keys import key_places, known_keys, linked_keys, present_keys, root_places
from workplaces.seal.sockets import sockets_and_engines
from workplaces.words import PLACE_WORDS

__all__ = [
    "Hidden",
    "Policy",
    "hidden_now",
    "hidden_when_sealed",
    "keep_out",
    "key_places",
    "open_policy",
    "sealed_policy",
]

# Replaced by empty ones of the command's own. Whoever else uses these leaves sockets and half-written keys in them.
_PRIVATE = ("/tmp", "/var/tmp", "/run", "/var/run")  # noqa: S108
# In a private folder, and yet what programs are found by (NixOS).
_SHOWN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one command may reach. Every path is real: absolute, its links followed.

    Where paths lie within one another the inner one holds. What is ``hidden`` shows empty and takes nothing;
    ``private`` folders are the command's own, empty at first and gone afterwards; ``pinned`` folders keep their names
    (what is hidden or kept inside must not be moved aside); ``links`` are (where, to what) to be made again in private
    folders; ``repository`` is what must be looked at afterwards, since no system can lay anything over it.
    ``hosts`` is for whoever may reach some of the network: none yet may.
    """

    start: Path
    sealed: bool
    network: bool
    env: Mapping[str, str]
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    links: tuple[tuple[Path, Path], ...] = ()
    repository: Repository | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hidden:
    """Places to hide that exist, links followed: folders, and all that is none (files, sockets)."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def hidden_now(places: Iterable[str | Path]) -> Hidden:
    """Which of the places are there. Those that are not stay out: hiding one would make it."""
    folders: dict[str, None] = {}
    files: dict[str, None] = {}
    real_folders: dict[str, str] = {}
    for place in places:
        try:
            text = os.fspath(place)
            mode = os.lstat(text).st_mode
            if stat.S_ISLNK(mode) or "/.." in text:
                real = os.path.realpath(place, strict=True)
                mode = os.stat(real).st_mode  # noqa: PTH116 - many, for every command
            else:
                folder, name = os.path.split(os.path.abspath(text))  # noqa: PTH100
                if folder not in real_folders:
                    real_folders[folder] = os.path.realpath(folder, strict=True)
                real = real_folders[folder].rstrip("/") + "/" + name
        except (OSError, ValueError):
            continue
        (folders if stat.S_ISDIR(mode) else files)[real] = None
    return Hidden(tuple(folders), tuple(files))


def keep_out(work: WorkFolder, hidden: Hidden) -> Hidden:
    """What is hidden, told by the names it has seen from the work folder too, where that is reached another way (a
    folder mounted twice). Raises PlaceUnavailable for a work folder that lies in a hidden place."""
    same = _Same()
    above = {same.which(path) for path in ("/", *_up(str(work.real)))}
    folders, files = list(hidden.folders), list(hidden.files)
    here = (work.device, work.inode)
    for found in (folders, files):
        for place in list(found):
            if same.which(place) in above:
                words = PLACE_WORDS["folder.protected"].format(folder=shown(work.path), place=shown(Path(place)))
                step = NextStep(PLACE_WORDS["folder.next"], action="choose-folder")
                raise PlaceUnavailable(words, next_step=step)
            if not place.startswith(f"{work.real}/"):
                found += [f"{work.real}{place[len(up) :]}" for up in _up(place) if same.which(up) == here]
    return Hidden(tuple(folders), tuple(files))


class _Same:
    """Which file or folder a path is, asked once for each path."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int] | None] = {}

    def which(self, path: str) -> tuple[int, int] | None:
        if path not in self._known:
            try:
                seen = os.stat(path)  # noqa: PTH116 - many, for every command
                self._known[path] = (seen.st_dev, seen.st_ino)
            except OSError:
                self._known[path] = None
        return self._known[path]


def _up(path: str) -> Iterator[str]:
    """The path and the folders above it, the root left out."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def hidden_when_sealed(home: Path, protected: Iterable[Path]) -> Hidden:
    """The protected places and all key places that are there: of ``home``, and of the system when this is root. What
    links in folders of keys lead to is among them."""
    keys = known_keys(home)  # these are looked for more quickly all at once
    others = (place for place in protected if place not in keys)
    root = root_places() if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    present = tuple(present_keys(home))
    return hidden_now((*dict.fromkeys(others), *present, *linked_keys(home, present), *root))


def hidden_when_open(home: Path, protected: Iterable[Path]) -> Hidden:
    """The protected places that are there, whichever they are; often the key places of ``home`` are among them."""
    places = tuple(protected)
    keys = known_keys(home).intersection(places)
    there = (name for name in present_keys(home) if Path(name) in keys) if keys else ()
    return hidden_now((*dict.fromkeys(place for place in places if place not in keys), *there))


def sealed_policy(work: WorkFolder, *, home: Path, caches: Path, hidden: Hidden) -> Policy:
    """The box's promise, for a command on ``work``.

    ``hidden`` is what ``hidden_when_sealed`` found; every socket in use and every engine's is hidden beside it.
    ``caches`` is the folder's own, and must exist.
    """
    engines = hidden_now((*sockets_and_engines(home), *network_devices()))
    found = Hidden((*hidden.folders, *engines.folders), (*hidden.files, *engines.files))
    git = work.repository
    private = private_folders()
    return Policy(
        start=work.real,
        sealed=True,
        network=False,
        env=environment(home, caches, reach=False),
        writable=(work.real, caches),
        read_only=(*_not_hidden(git.kept, found), *_shown()),
        private=private,
        hidden_folders=tuple(map(Path, found.folders)),
        hidden_files=tuple(map(Path, found.files)),
        pinned=(*git.pinned, *_on_the_way(work.real, found)),
        links=_links(work, private),
        repository=git,
    )


def open_policy(work: WorkFolder, *, home: Path, caches: Path, hidden: Hidden) -> Policy:
    """The person's own reach, without what is ``hidden``. Caches are the folder's own, as in the sealed box."""
    return Policy(
        start=work.real,
        sealed=False,
        network=True,
        env=environment(home, caches, reach=True),
        writable=(Path("/"), caches),
        hidden_folders=tuple(map(Path, hidden.folders)),
        hidden_files=tuple(map(Path, hidden.files)),
        pinned=(*_on_the_way(work.real, hidden), *_on_the_way(Path(os.path.realpath(home)), hidden)),
    )


@lru_cache(maxsize=1)
def private_folders() -> tuple[Path, ...]:
    """The folders that a sealed command gets its own empty ones of. Those of this system, links followed."""
    if sys.platform == "win32":
        return ()
    real = (os.path.realpath(name) for name in _PRIVATE)
    return tuple(Path(path) for path in dict.fromkeys(real) if os.path.isdir(path))  # noqa: PTH112


def network_devices() -> Iterator[str]:
    """Where the kernel shows this computer's network devices (a box without network has its own, elsewhere)."""
    top = "/sys/class/net"
    for name in os.listdir(top) if os.path.isdir(top) else ():  # noqa: PTH112, PTH208 - for every command
        with contextlib.suppress(OSError):  # not every entry is one
            link = os.readlink(f"{top}/{name}")  # noqa: PTH115
            yield os.path.normpath(f"{top}/{link}/..")
    yield top


@lru_cache(maxsize=1)
def _shown() -> tuple[Path, ...]:
    return tuple(Path(name) for name in _SHOWN if os.path.isdir(name) and not os.path.islink(name))  # noqa: PTH112, PTH114


def _not_hidden(paths: Iterable[Path], hidden: Hidden) -> tuple[Path, ...]:
    """The paths that lie in no hidden folder: a ``.git`` file may name any, and must not show it again."""
    covered = {*hidden.folders, *hidden.files}
    return tuple(path for path in paths if not any(str(part) in covered for part in (path, *path.parents)))


def _on_the_way(top: Path, hidden: Hidden) -> tuple[Path, ...]:
    """The folders between ``top`` and each hidden place in it."""
    prefix = str(top).rstrip("/") + "/"
    inside = (Path(place) for place in (*hidden.folders, *hidden.files) if place.startswith(prefix))
    way = (parent for place in inside for parent in place.parents if str(parent).startswith(prefix))
    return tuple(dict.fromkeys(way))


def _links(work: WorkFolder, private: tuple[Path, ...]) -> tuple[tuple[Path, Path], ...]:
    """The work folder's own name, when that is a link in a private folder: it stays usable inside."""
    if work.path == work.real:
        return ()
    where = Path(os.path.realpath(work.path.parent)) / work.path.name
    if where != work.real and any(folder in where.parents for folder in private) and where.is_symlink():
        return ((where, work.real),)
    return ()
