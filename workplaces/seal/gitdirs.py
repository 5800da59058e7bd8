"""What of a repository must stay as it is while a sealed command runs, wherever it lies.

A hook, a setting or a whole ``.git`` that a command leaves behind runs as the person at their next git command, so
``.git`` cannot be written, moved or replaced: as a folder, as the file of a worktree or a submodule (gitrepository-
layout(5)), and for each submodule inside, which the outer repository's commands enter by themselves.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workplaces.folder import WorkFolder

_LARGEST = 64 * 1024
_MOST_SUBMODULES = 100


@dataclass(frozen=True, slots=True)
class GitParts:
    """``kept`` may be read and never written; ``pinned`` are folders that must keep their names, or what is kept in
    them could be moved aside; ``link`` is a ``.git`` that is itself a link, and where it leads."""

    kept: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    link: tuple[Path, str] | None = None


def git_parts(work: WorkFolder) -> GitParts:
    """What there is of a repository at the top of the work folder. Makes nothing, and never raises."""
    dot = work.real / ".git"
    try:
        mode = dot.lstat().st_mode
    except OSError:
        return GitParts()
    if stat.S_ISLNK(mode):
        target = _real(dot)
        # Nothing can be laid over a link: it is put back afterwards instead.
        return GitParts(kept=(target,) if target else (), link=(dot, os.readlink(dot)))  # noqa: PTH115 - the text of it
    kept = [dot]
    if stat.S_ISREG(mode):
        kept += _behind(dot)
    inner, pinned = _submodules(work.real)
    return GitParts(kept=(*kept, *inner), pinned=pinned)


def put_back(link: tuple[Path, str]) -> str:
    """Makes a ``.git`` that was a link that link again. Gives where what a command put in its place was moved to."""
    path, target = link
    try:
        if os.readlink(path) == target:  # noqa: PTH115 - the text of it
            return ""
    except OSError:
        pass
    aside = ""
    if os.path.lexists(path):
        for number in range(1, 1000):
            aside = f"{path}.moved-{number}"
            if not os.path.lexists(aside):
                path.rename(aside)
                break
    os.symlink(target, path)  # noqa: PTH211 - the text of it, as it was
    return Path(aside).name


def _behind(dot: Path) -> list[Path]:
    """The git folder that a ``.git`` file names, and the one that this shares with its main worktree."""
    text = _read(dot)
    if not text.startswith("gitdir:"):
        return []
    folder = _real(dot.parent / text.removeprefix("gitdir:").strip())
    if folder is None or not (folder / "HEAD").is_file():
        return []
    found = [folder]
    if common := _read(folder / "commondir").strip():
        shared = _real(folder / common)
        if shared is not None and (shared / "objects").is_dir():
            found.append(shared)
    elif not (folder / "objects").is_dir():
        return []
    return found


def _submodules(real: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The ``.git`` of each submodule that is here, and the folders on the way to it. Only real folders are entered."""
    kept: list[Path] = []
    pinned: dict[Path, None] = {}
    for line in _read(real / ".gitmodules").splitlines():
        name, _, value = line.partition("=")
        if name.strip() != "path" or len(kept) >= _MOST_SUBMODULES:
            continue
        inside = Path(value.strip().strip('"'))
        dot = real / inside / ".git"
        if inside.is_absolute() or ".." in inside.parts or not inside.parts or not os.path.lexists(dot):
            continue
        if _real(dot) == dot:  # no link on the way
            kept.append(dot)
            pinned.update(dict.fromkeys(real / parent for parent in (inside, *inside.parents) if parent.parts))
    return tuple(kept), tuple(pinned)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(_LARGEST))
    except OSError:
        return ""


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
