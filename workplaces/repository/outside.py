"""Git's own data outside of the work folder that belongs to it: where the ``.git`` file of a worktree or a submodule
leads. A place that shows a command nothing else of this computer has to be told of it.

Whoever wrote the folder may have written any path into that file. So what it names has to name the folder back, as git
itself writes it (gitrepository-layout(5), "gitdir"; git-config(1), ``core.worktree``): another repository does not.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from workplaces.repository.look import is_git_folder, named_in, read

_SETTING = re.compile(r"^\s*(?:\[\s*core\s*\]\s*)?(worktree|bare)\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outside:
    """``source`` is the folder of git's data, its links followed, ``target`` the same by the name that the ``.git``
    file gives it. ``record`` is a worktree's own part of it, and ``records`` the folder of all worktrees' (None where
    there are none), from ``source`` on."""

    source: Path
    target: Path
    record: Path | None = None
    records: Path | None = None


def outside(path: Path, real: Path) -> Outside | None:
    """What belongs to the work folder ``path``, which with its links followed is ``real``. None when all is inside, and
    when what its ``.git`` names does not name it back. Touches the disk; never raises."""
    dot = real / ".git"
    text = named_in(dot) if dot.is_file() else ""
    git = _real(real / text) if text else None
    if git is None or not is_git_folder(git):
        return None
    named = Path(os.path.normpath(path / text))
    found = _worktree(dot, git, named) if (git / "commondir").exists() else _whole(real, git, named)
    if found is None or any(_overlap(found.source, real) or _overlap(found.target, place) for place in (path, real)):
        return None
    return found


def records_in(git: Path) -> Path | None:
    """The folder in which a repository keeps what it knows of its other worktrees, from its own folder on."""
    return Path("worktrees") if (git / "worktrees").is_dir() else None


def _worktree(dot: Path, git: Path, named: Path) -> Outside | None:
    text = read(git / "commondir").strip()
    common = _real(git / text)
    back = read(git / "gitdir").strip()
    if common is None or common not in git.parents or not back or _real(git / back) != _real(dot):
        return None
    target = Path(os.path.normpath(named / text))
    return Outside(common, target, git.relative_to(common), records_in(common))


def _whole(real: Path, git: Path, named: Path) -> Outside | None:
    settings = {name.lower(): value.strip('"') for name, value in _SETTING.findall(read(git / "config"))}
    tree = settings.get("worktree")
    if tree is not None:
        return Outside(git, named, records=records_in(git)) if _real(git / tree) == real else None
    # Set apart with --separate-git-dir it names nobody back. It is nobody else's when it stands for itself.
    apart = git.name != ".git" and settings.get("bare", "").lower() == "false"
    if not apart or any(is_git_folder(parent) for parent in git.parents):
        return None
    return Outside(git, named, records=records_in(git))


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
