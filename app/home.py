"""Where Conch keeps things, and what nothing may touch.

``CONCH_HOME`` names the folder, else it is ``~/.conch``. It is the owner's alone (0700): the chats, the whole of long
outputs and what the places need lie in it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

from app.locks import FileLock


class HomeTrouble(Exception):
    """The folder cannot be used. ``words`` is what happened and the one next step."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class Home:
    """The folder and the names in it. Making one touches nothing; ``prepare`` makes and checks it."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            named = os.environ.get("CONCH_HOME", "")
            path = Path(named).expanduser() if named else _person() / ".conch"
        # Not resolved: what the person named is what they read in words. The protected places hold both spellings.
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps "..", resolve follows links
        self.chats = self.path / "chats.sqlite3"
        self.preferences = self.path / "preferences.json"
        self.fixed = self.path / "fixed.jsonl"
        self.output = self.path / "output"
        self.places = self.path / "places"
        self.running = self.path / "running"
        self.logs = self.path / "logs"

    def prepare(self) -> None:
        """Makes the folder (0700) and what lies in it. Quick, and may be called again. Raises HomeTrouble."""
        self._refuse_too_much()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise HomeTrouble(self._words("there is something there that is not a folder")) from None
        except OSError as error:
            raise HomeTrouble(self._words(_reason(error))) from None
        self._refuse_odd()
        for folder in (self.output, self.places, self.running, self.logs):
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise HomeTrouble(self._words(_reason(error))) from None

    def _refuse_too_much(self) -> None:
        # Everything under Conch's home is a protected place: a home that holds the person's own files would close them.
        person = _person()
        if self.path == person or self.path in person.parents:
            raise HomeTrouble(self._words("that folder holds more than Conch"))

    def _refuse_odd(self) -> None:
        try:
            link, folder = self.path.lstat(), self.path.stat()
        except OSError as error:
            raise HomeTrouble(self._words(_reason(error))) from None
        if not stat.S_ISDIR(folder.st_mode):
            raise HomeTrouble(self._words("there is something there that is not a folder"))
        if hasattr(os, "geteuid"):
            if {link.st_uid, folder.st_uid} != {os.geteuid()}:
                raise HomeTrouble(self._words("it belongs to someone else"))
            if stat.S_IMODE(folder.st_mode) & 0o077:
                self.path.chmod(0o700)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise HomeTrouble(self._words("it cannot be written to"))

    def _words(self, why: str) -> str:
        step = "Put that right, or name another folder in CONCH_HOME."
        return f"Conch cannot keep its things in {self.path}: {why}. {step}"


def _person() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise HomeTrouble(
            "It is not known where your home folder is. Set HOME to it, then start Conch again."
        ) from None


def _reason(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "it may not be made or read there"
    return (error.strerror or "the folder cannot be made").lower()


def protected_places(home: Home) -> tuple[Path, ...]:
    """What nothing may touch, wherever it runs: Conch's home, and where the person's keys lie."""
    from workplaces.seal.keys import key_places

    return tuple(dict.fromkeys((home.path, home.path.resolve(), *key_places())))


_ID = re.compile(r"[0-9a-f]+-[0-9a-f]{12}")


class Presence:
    """This process, seen by the others on the same home for as long as it lives.

    A lock that the system drops at death tells a Conch that still works from one that crashed, where a process number
    could be someone else's by now.
    """

    def __init__(self, home: Home) -> None:
        self._folder = home.running
        self.id = f"{int(time.time()):x}-{os.urandom(6).hex()}"
        self._lock = FileLock(self._folder / self.id)

    def begin(self) -> None:
        self._lock.take(wait=False)

    def end(self) -> None:
        self._lock.release(remove=True)

    def alive(self, other: str) -> bool:
        """Whether the process with that id still lives. What a dead one left is taken away."""
        if other == self.id:
            return self._lock.held
        path = self._folder / other
        if not _ID.fullmatch(other) or not path.exists():
            return False
        lock = FileLock(path)
        try:
            if not lock.take(wait=False):
                return True
        except OSError:  # it cannot be told, so it is left alone
            return True
        lock.release(remove=True)
        return False

    def others(self) -> list[str]:
        """The ids of the other living ones."""
        return [one.name for one in sorted(self._folder.iterdir()) if one.name != self.id and self.alive(one.name)]
