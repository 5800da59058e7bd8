"""What there is of git in a work folder, and on which ways git comes to it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workplaces.plain import read_plain
from workplaces.repository.index import gitlinks

_LARGEST = 64 * 1024
_MOST_LINKS = 40  # as many as the kernel follows
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Repository:
    """What a sealed command on the work folder ``top`` must leave as it is. Paths have their links followed, but for
    their own names.

    ``kept`` may be read and never written; one that is the work folder itself closes all of it. ``pinned`` are folders
    inside the work folder that must keep their names, or what is kept in them could be moved aside. No system lays
    anything over a link or over what is not there, so these are looked at afterwards: ``links`` (which, to what) must
    be the same, and where nothing or no repository was, in ``missing``, none must be that git would run something of.
    """

    top: Path
    kept: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    links: tuple[tuple[Path, str], ...] = ()
    missing: tuple[Path, ...] = ()


def repository(real: Path) -> Repository:
    """What there is now in the folder, whose path has its links followed.

    Asked anew for every command; touches the disk, makes nothing, and never raises.
    """
    look = _Look(real)
    look.top()
    return look.found()


def is_git_folder(path: Path) -> bool:
    """Whether git would take the folder for a repository's own (gitrepository-layout(5))."""
    if not os.path.lexists(f"{path}/HEAD"):
        return False
    return (path / "commondir").exists() or ((path / "objects").is_dir() and (path / "refs").is_dir())


def named_in(file: Path) -> str:
    """The folder that a ``.git`` file names, empty when it names none."""
    text = read(file)
    return text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else ""


class _Look:
    def __init__(self, real: Path) -> None:
        self._real = real
        self._inside = f"{real}/"
        self._kept: dict[Path, None] = {}
        self._pinned: dict[Path, None] = {}
        self._links: dict[Path, str] = {}
        self._missing: dict[Path, None] = {}
        self._outside = False  # the repository lies above: it is looked at for what it lists in here

    def found(self) -> Repository:
        return Repository(
            self._real, tuple(self._kept), tuple(self._pinned), tuple(self._links.items()), tuple(self._missing)
        )

    def top(self) -> None:
        if os.path.lexists(self._real / ".git"):
            self._tree(self._real)
            return
        above = [parent for parent in self._real.parents if os.path.lexists(f"{parent}/.git")]
        if any(is_git_folder(parent) for parent in (self._real, *self._real.parents)):
            self._kept[self._real] = None  # a bare repository, or a part of a repository's own folder
            return
        self._missing[self._real / ".git"] = None
        self._missing[self._real] = None  # it could be made a bare one
        if above:
            self._outside = True
            self._tree(above[0])

    def _tree(self, tree: Path, depth: int = 0) -> None:
        """A folder with a ``.git``, and the repositories that it lists. It may lie above the work folder."""
        dot = tree / ".git"
        git = self._git_folder(dot)
        if git is None:
            return
        common = git
        if text := read(git / "commondir").strip():
            common = self._keep(git / text) or git
        if depth < _DEEPEST:
            for name in gitlinks(git, common):
                self._linked(tree, os.fsdecode(name), depth + 1)

    def _git_folder(self, dot: Path) -> Path | None:
        """Keeps a ``.git`` and what it leads to. Gives the repository's own folder."""
        try:
            mode = dot.lstat().st_mode
        except OSError:
            return None
        end = self._keep(dot)
        if end is None:
            return None
        if stat.S_ISLNK(mode):
            mode = end.stat().st_mode
        if stat.S_ISDIR(mode):
            return end if self._is_one(end) else None
        text = named_in(end)
        named = self._keep(dot.parent / text) if text else None
        return named if named is not None and self._is_one(named) else None

    def _is_one(self, folder: Path) -> bool:
        """A folder that is no repository is no place to keep, and must not become one."""
        if is_git_folder(folder):
            return True
        if folder.name != ".git":
            self._kept.pop(folder, None)
        self._watch(folder)
        return False

    def _linked(self, tree: Path, name: str, depth: int) -> None:
        """A repository that another one lists. Git enters real folders only."""
        place = Path(os.path.normpath(tree / name))
        if not f"{place}/".startswith(self._inside):
            if self._inside.startswith(f"{place}/"):  # the work folder lies in it
                self._tree(place, depth)
            return
        if place == self._real:
            return
        dot = place / ".git"
        at = self._real
        for part in place.relative_to(at).parts:
            at /= part
            if at.is_symlink():  # git does not go there, and would if this were a folder
                self._link(at)
                return
        try:
            empty = not os.listdir(place)  # noqa: PTH208
        except OSError:
            empty = False
        if os.path.lexists(dot):
            self._tree(place, depth)
        elif empty:  # not checked out: nothing belongs into it before git itself fills it
            self._hold(place)
        else:
            self._watch(dot)

    def _keep(self, path: Path) -> Path | None:
        """Follows a path, links and all. Keeps what it leads to, and every way there. None when nothing is there."""
        at, rest, links = Path("/") if path.is_absolute() else self._real, list(path.parts[::-1]), 0
        while rest:
            name = rest.pop()
            if name == "..":
                at = at.parent
                continue
            step = at / name
            try:
                mode = step.lstat().st_mode
            except OSError:
                self._watch(Path(os.path.normpath(step.joinpath(*rest[::-1]))))
                return None
            if not stat.S_ISLNK(mode):
                at = step
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            rest += Path(self._link(step)).parts[::-1]
        self._hold(at)
        return at

    def _link(self, path: Path) -> str:
        target = os.readlink(path)  # noqa: PTH115 - the text of it
        if str(path).startswith(self._inside):
            self._links[path] = target
            self._pin(path)
        return target

    def _hold(self, path: Path) -> None:
        if not self._outside or f"{path}/".startswith(self._inside):
            self._kept[path] = None
            self._pin(path)

    def _pin(self, path: Path) -> None:
        """The folders on the way to what lies in the work folder."""
        for parent in path.parents:
            if not str(parent).startswith(self._inside):
                break
            self._pinned[parent] = None

    def _watch(self, path: Path) -> None:
        if f"{path}/".startswith(self._inside):
            self._missing[path] = None


def read(path: Path) -> str:
    """The text of one of git's small files, empty when it is not there."""
    try:
        return os.fsdecode(read_plain(path, _LARGEST))
    except (OSError, ValueError):
        return ""
