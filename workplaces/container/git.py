"""What there is to say of git once a command in a box has ended."""

from __future__ import annotations

import os
from pathlib import Path

from workplaces.folder import WorkFolder, shown
from workplaces.repository.after import restore
from workplaces.repository.look import named_in
from workplaces.words import PLACE_WORDS

_NO_REPOSITORY, _WORKTREES = "not a git repository", "worktrees"  # in what git says


def needs_look(folder: WorkFolder, printed: str, *, open: bool) -> bool:
    """Whether ``look_after`` could have anything to do or to say. Touches no disk: it is asked after every command."""
    changes = not open and bool(folder.repository.links or folder.repository.missing)
    return changes or _NO_REPOSITORY in printed or (open and _WORKTREES in printed)


def look_after(folder: WorkFolder, printed: str, *, open: bool) -> str:
    """Takes out of git's way what a sealed command put there, and says why git did not find its repository. Gives the
    words for both, for the person and the model. Touches the disk; call it when the command is dead."""
    said = [] if open else [restore(folder.repository)]
    if _NO_REPOSITORY in printed:
        said.append(_not_found(folder))
    if open and _WORKTREES in printed and "Read-only file system" in printed and _records(folder):
        said.append(PLACE_WORDS["container.git-records"])
    return " ".join(filter(None, said))


def _records(folder: WorkFolder) -> bool:
    return bool(folder.records or (folder.outside and folder.outside.records))


def _not_found(folder: WorkFolder) -> str:
    if folder.git == "file" and folder.outside is None:
        return PLACE_WORDS["container.git-other"].format(place=shown(Path(named_in(folder.real / ".git"))))
    around = next((above for above in folder.real.parents if os.path.lexists(above / ".git")), None)
    if folder.git == "none" and around is not None:
        return PLACE_WORDS["container.git-elsewhere"].format(place=shown(around))
    return ""
