"""Where what is known of each copy lies in Conch's home, and what of it is kept in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Final

from workplaces.mirror import plan
from workplaces.mirror.agreed import Agreed
from workplaces.mirror.far import Far
from workplaces.mirror.scope import Scope
from workplaces.mirror.watch import Watched
from workplaces.mirror.work import Listings

_MOST_CACHED: Final = 4


class Copies:
    """All copies. ``home`` is made when it is needed, 0700."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._agreed: dict[Path, Agreed] = {}
        self._listings: dict[Path, Listings] = {}
        self._watched: dict[Path, tuple[tuple[object, ...], Watched]] = {}

    def state(self, copy_id: str, far: Far) -> Path:
        """The folder that holds what is known of a copy."""
        return self._home / _named(far.name) / safe(copy_id)

    def held(self, name: str) -> dict[str, Path]:
        """The copies on the machine ``name`` that something is agreed about: what each is called there, and the folder
        here that it is a copy of."""
        held = {}
        for agreed in sorted((self._home / _named(name)).glob("*/agreed.sqlite3")):
            with contextlib.suppress(OSError):
                held[agreed.parent.name] = Path(os.fsdecode((agreed.parent / "folder").read_bytes()))
        return held

    def agreed_at(self, path: Path) -> Agreed:
        """What was agreed, kept in memory for the copies that were used last."""
        agreed = self._agreed.pop(path, None) or Agreed(path)
        self._agreed[path] = agreed
        while len(self._agreed) > _MOST_CACHED:
            self._agreed.pop(next(iter(self._agreed)))
        return agreed

    def listings_of(self, path: Path) -> Listings:
        """The last listing of a copy, kept as long as what was agreed is."""
        known = {one: listings for one, listings in self._listings.items() if one in self._agreed}
        known.setdefault(path, Listings())
        self._listings = known
        return known[path]

    def watched_of(self, path: Path, folder: Path, scope: Scope, most: int) -> Watched:
        """The folder here of a copy, looked after as long as what was agreed is kept in memory."""
        for one in [one for one in self._watched if one not in self._agreed]:
            self._watched.pop(one)[1].close()
        wanted = (folder, scope.leave, scope.protected, most)
        known = self._watched.get(path)
        if known is None or known[0] != wanted:
            if known is not None:
                known[1].close()
            closed = scope.protected
            known = self._watched[path] = wanted, Watched(folder, leave=scope.leave, closed=lambda: closed, most=most)
        return known[1]

    def close(self) -> None:
        """Lets go of the folders here."""
        watched, self._watched = self._watched, {}
        for _, one in watched.values():
            one.close()

    def forget(self, path: Path) -> None:
        """What was agreed there is not kept in memory any more."""
        self._agreed.pop(path, None)
        self._listings.pop(path, None)


def _named(machine: str) -> str:
    return f"{plan.safe_place(machine)}-{short(machine)}"


def safe(copy_id: str) -> str:
    """A copy's name there: plain, short, never with a dot in front."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", copy_id).lstrip("-")[:80]
    return name if name == copy_id and name else f"{name or 'chat'}-{short(copy_id)}"


def short(text: str) -> str:
    """A few letters that stand for a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
