"""This computer, in the sealed box: a chat's commands beside the person's own programs, with what they may touch set.

On Linux bubblewrap makes the box, on macOS Seatbelt; Windows has none, so every command there is open. Where the box
cannot be made nothing runs: a sealed command is never run without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from workplaces.computer.boxes import box_name, sweep_boxes
from workplaces.computer.caches import cache_folder, sweep_caches
from workplaces.computer.run import Run, check_command
from workplaces.folder import WorkFolder, check_folder
from workplaces.place import COMPUTER, PlaceStatus, PlaceUnavailable, RunRequest, RunResult, WorkPlaceId
from workplaces.repository.look import repository
from workplaces.seal.ability import NEED, NoBox, probe
from workplaces.seal.bubblewrap import Bubblewrap
from workplaces.seal.policy import Policy, hidden_when_open, hidden_when_sealed, keep_out, open_policy, sealed_policy
from workplaces.words import PLACE_WORDS

_ATTEMPTS = 16  # within about a second and a half
_PAUSE = 0.01
_MOST_KNOWN = 64


class Computer:
    """This computer as a place.

    ``home`` is a folder of the places' own; ``protected`` is asked for every command; ``key_home`` is whose keys are
    kept out of reach, and what a command is told is its HOME.
    """

    def __init__(
        self, home: Path, protected: Callable[[], tuple[Path, ...]] = tuple, *, key_home: Path | None = None
    ) -> None:
        self._home = home
        self._protected = protected
        self._key_home = key_home or Path.home()
        self._box: Bubblewrap | NoBox | None = None
        self._probing = asyncio.Lock()
        self._name = box_name(home)
        self._known: dict[Path, WorkFolder] = {}

    @property
    def id(self) -> WorkPlaceId:
        return COMPUTER

    @property
    def seals(self) -> bool:
        return sys.platform in ("linux", "darwin")

    @property
    def where(self) -> str:
        """Nothing: a row says where a command ran only when that was somewhere else."""
        return ""

    def about(self, folder: Path) -> str:
        return PLACE_WORDS["computer.about" if self.seals else "computer.about.open"].format(folder=folder)

    async def standing(self, look: bool = False) -> PlaceStatus:
        """Whether a sealed command can run here. What was found before, unless ``look``."""
        box = await self._ability(again=look)
        if not isinstance(box, NoBox):
            details = {"seal": box.name} if box else {}
            line = PLACE_WORDS["computer.line" if self.seals else "computer.line.open"]
            return self._status(line, ready=True, details=details)
        return self._status(box.words, ready=False, details={"seen": box.details} if box.details else {}, no_box=box)

    def _status(self, line: str, *, ready: bool, details: dict[str, str], no_box: NoBox | None = None) -> PlaceStatus:
        return PlaceStatus(
            id=COMPUTER,
            name=PLACE_WORDS["computer.name"],
            line=line,
            standing="ready" if ready else "needs",
            seals=self.seals,
            next_step=no_box.next_step if no_box else None,
            need=NEED if no_box else None,
            details=details,
        )

    async def run(self, request: RunRequest) -> RunResult:
        """Runs the command here. See WorkPlace.run."""
        check_command(request.command)
        box = await self._ability()
        if isinstance(box, NoBox):
            # Nor an open command: without the box nothing would keep it from the protected places.
            raise box.error()
        for attempt in range(_ATTEMPTS):
            one = Run(self.policy, self.empty, request, box, self._name)
            result = await one.through()
            if result is not None:
                return result
            # What was to be covered went away while the box was made (a socket, most likely): look again.
            if attempt == 0:
                box = await self._still_able(one.failed)
            elif attempt > 2:  # whoever makes and removes them is given time to be done
                await asyncio.sleep(_PAUSE * attempt)
        raise PlaceUnavailable(PLACE_WORDS["box.failed"], details=one.failed)

    async def sweep(self) -> None:
        """Housekeeping at start: boxes that outlived their Conch end, and caches nobody used for long go."""
        await asyncio.to_thread(sweep_boxes, self._home)
        await asyncio.to_thread(sweep_caches, self._home)

    async def _still_able(self, failed: str) -> Bubblewrap:
        """Looks whether a box can be made at all, after one could not. Raises PlaceUnavailable when none can."""
        box = await self._ability(again=True)
        if isinstance(box, NoBox):
            raise box.error()
        if box is None:
            raise PlaceUnavailable(PLACE_WORDS["box.failed"], details=failed)
        return box

    async def _ability(self, *, again: bool = False) -> Bubblewrap | NoBox | None:
        """The box of this computer, found out once and after a failure; None where it is not bubblewrap's."""
        if sys.platform != "linux":
            return None
        if again or self._box is None or isinstance(self._box, NoBox):
            async with self._probing:
                self._box = await asyncio.to_thread(probe)
        return self._box

    # ---- in the program's thread ----

    def policy(self, request: RunRequest) -> Policy:
        """What the command may reach, by what is there now. Touches the disk. Raises PlaceUnavailable."""
        protected = (*request.protected, *self._protected(), self._home)
        sealed = self.seals and not request.open
        hidden = (hidden_when_sealed if sealed else hidden_when_open)(self._key_home, protected)
        work = self._folder(request.folder)
        hidden = keep_out(work, hidden)
        try:
            caches = cache_folder(self._home, work.real)
            if sys.platform == "darwin":
                (caches / "tmp").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise PlaceUnavailable(PLACE_WORDS["box.failed"], details=str(error)) from error
        make = sealed_policy if sealed else open_policy
        return make(work, home=self._key_home, caches=caches, hidden=hidden)

    def _folder(self, folder: Path) -> WorkFolder:
        """The work folder, looked at anew when it is not the very one that was looked at before."""
        known = self._known.get(folder)
        if known is None or not _same(known):
            known = check_folder(folder, (), self._key_home)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[folder] = known
            return known
        return replace(known, repository=repository(known.real))

    def empty(self) -> Path:
        """The file laid over what is hidden: Conch's own, empty, and read-only. Made when it is not so."""
        path = self._home / "empty"
        try:
            seen = path.lstat()
            if seen.st_size == 0 and seen.st_mode == 0o100400:
                return path
            path.unlink()
        except FileNotFoundError:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o400)
        os.close(made)
        return path


def _same(work: WorkFolder) -> bool:
    """Whether the folder's name still leads to that folder, and it can be worked in. What was refused is not kept."""
    try:
        if os.path.realpath(work.path, strict=True) != str(work.real):
            return False
        seen = work.real.stat()
    except OSError:
        return False
    return (seen.st_dev, seen.st_ino) == (work.device, work.inode) and os.access(work.real, os.R_OK | os.X_OK)
