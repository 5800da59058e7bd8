"""What a command changed in its work folder, told without the command paying for it.

A folder is listed once, ahead of its first command, and then kept up by what the kernel tells (``mirror/watch.py``).
Around a command there is nothing but a mark, some microseconds; what became different is made out behind it. It is what
changed *while the command ran*: what somebody else did in the folder meanwhile cannot be told apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workplaces.mirror.scope import PARTS, scope_of
from workplaces.mirror.watch import Mark, Watched
from workplaces.place import Changes
from workplaces.threads import behind, in_thread

_FOLDERS: Final = 4  # that are looked after at once


@dataclass(frozen=True, slots=True)
class Going:
    """A command that runs. ``ended`` is to be asked once, when it has."""

    _watched: Watched
    _mark: Mark

    async def ended(self) -> Changes | None:
        """What became different since it began. None where that is not known: a folder with too much in it."""
        return await in_thread(lambda: self._watched.since(self._mark), "conch-changes")

    def forget(self) -> None:
        """It did not run after all."""
        self._watched.forget(self._mark)


class Recorder:
    """Looks after the folders of the last few chats. ``protected``, asked in a thread, names what is not looked at.

    Every method returns at once.
    """

    def __init__(self, protected: Callable[[], tuple[Path, ...]] = tuple) -> None:
        self._protected = protected
        self._known: dict[Path, Watched] = {}

    def prepare(self, folder: Path) -> None:
        """A command in this folder may come soon: it is listed now."""
        if folder not in self._known:
            self._start(folder)

    def begin(self, folder: Path) -> Going:
        """A command begins."""
        watched = self._known.pop(folder, None)
        if watched is None:
            watched = self._start(folder)
        else:
            self._known[folder] = watched  # used last, goes last
        return Going(watched, watched.mark())

    def close(self) -> None:
        """Lets go of the folders."""
        known, self._known = self._known, {}
        for watched in known.values():
            behind(watched.close, "conch-changes")

    def _start(self, folder: Path) -> Watched:
        watched = self._known[folder] = Watched(folder, closed=lambda: self._closed(folder))
        behind(watched.start, "conch-changes")
        while len(self._known) > _FOLDERS:
            oldest = next(iter(self._known))
            behind(self._known.pop(oldest).close, "conch-changes")
        return watched

    def _closed(self, folder: Path) -> Collection[str]:
        return scope_of(Path(os.path.realpath(folder)), folder, self._protected(), parts=PARTS).protected
