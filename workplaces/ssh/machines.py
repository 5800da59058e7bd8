"""All the person's machines: which there are, and the connection to each that is in use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workplaces.mirror.mirror import Mirror
from workplaces.mirror.scope import DEPENDENCIES
from workplaces.ssh.connection import Connection
from workplaces.ssh.hosts import Hosts
from workplaces.ssh.place import Ssh
from workplaces.ssh.trouble import not_listed
from workplaces.threads import in_thread

log = logging.getLogger(__name__)

WATCH_EVERY = 2.0  # seconds between two looks at the settings file
_TIDY_EVERY = 15
_CLOSE_LIMIT = 5.0  # how long quitting waits for connections to close; those of ssh itself end by themselves
_LEFT_OVER = 30 * 86400  # seconds after which a settings file of ours is nobody's any more
_MAKING = 60  # seconds a socket may take until it is listened at


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of ``folder`` on the machine ``host``, called ``name`` there (a chat's id, most often). ``folder`` is None
    for one that this Conch knows nothing of: another's, or one that it forgot."""

    host: str
    name: str
    folder: Path | None


class Machines:
    """``home`` is a folder of Conch's own, ``settings`` the person's SSH settings (``~/.ssh/config``)."""

    def __init__(
        self,
        home: Path,
        mirror: Mirror,
        *,
        settings: Path | None = None,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        leave: Callable[[], frozenset[str]] = lambda: DEPENDENCIES,
    ) -> None:
        self._home = home
        self._mirror = mirror
        self._hosts = Hosts(settings)
        self._protected = protected
        self._leave = leave
        self._lock = threading.Lock()
        self._installation = ""
        self._places: dict[str, tuple[Ssh, Connection]] = {}
        self._names: tuple[str, ...] | None = None

    async def names(self) -> tuple[str, ...]:
        """The machines that the settings name now, in their order."""
        self._names = await in_thread(self._read, "conch-ssh-hosts")
        return self._names

    async def place(self, host: str) -> Ssh:
        """The machine, for a turn. Raises PlaceUnavailable when the settings do not name it."""
        if host not in await self.names():
            raise not_listed(host)
        return await in_thread(lambda: self._made(host), "conch-ssh-place")

    def tried(self, host: str) -> bool:
        """Whether it was ever asked for: then how it stands is worth asking again."""
        return host in self._places

    async def copies(self, chat: str = "") -> list[Copy]:
        """The copies that this Conch knows of, of one ``chat`` or of all. Asks no machine."""
        found = []
        for host in await self.names():
            for name, folder in (await self._mirror.held(host)).items():
                if not chat or name == chat or name.startswith(f"{chat}-"):
                    found.append(Copy(host=host, name=name, folder=folder))
        return found

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Calls back when the settings name other machines; closes connections nobody uses. Until it is cancelled."""
        rounds = 0
        while True:
            await asyncio.sleep(WATCH_EVERY)
            rounds += 1
            try:
                before = self._names
                if await self.names() != before and before is not None:
                    on_change()
                if rounds * WATCH_EVERY >= _TIDY_EVERY:
                    rounds = 0
                    await in_thread(self._tidy, "conch-ssh-tidy")
            except Exception:
                log.exception("looking at the SSH settings failed")

    async def sweep(self) -> None:
        """Housekeeping at start: what a Conch that ended suddenly left in our folder goes. Never raises."""
        await in_thread(self._sweep, "conch-ssh-sweep")

    async def close(self) -> None:
        """Closes every connection. What runs on them is its callers' to end first."""
        await in_thread(self._close, "conch-ssh-close")
        await self._mirror.close()

    # ---- in threads ----

    def _read(self) -> tuple[str, ...]:
        with self._lock:
            return self._hosts.read().names

    def _made(self, host: str) -> Ssh:
        with self._lock:
            if host not in self._places:
                self._installation = self._installation or installation(self._home)
                connection = Connection(host, self._home, self._hosts.settings)
                place = Ssh(
                    connection,
                    self._mirror,
                    installation=self._installation,
                    protected=lambda: (*self._protected(), self._home),
                    leave=self._leave,
                )
                self._places[host] = place, connection
            return self._places[host][0]

    def _tidy(self) -> None:
        for _, connection in list(self._places.values()):
            connection.tidy()

    def _close(self) -> None:
        closing = [
            threading.Thread(target=connection.close, daemon=True) for _, connection in list(self._places.values())
        ]
        for thread in closing:
            thread.start()
        end = time.monotonic() + _CLOSE_LIMIT
        for thread in closing:
            thread.join(max(0.0, end - time.monotonic()))

    def _sweep(self) -> None:
        """A socket that nobody listens at is left over. One that answers is another Conch's, or ends by itself soon."""
        now = time.time()
        for path in self._home.glob("c*"):
            with contextlib.suppress(OSError):
                seen = path.lstat()
                age = now - seen.st_mtime
                over = age > _MAKING and not _listened_at(path) if stat.S_ISSOCK(seen.st_mode) else age > _LEFT_OVER
                if over:
                    path.unlink()


def _listened_at(path: Path) -> bool:
    import socket

    if not hasattr(socket, "AF_UNIX"):
        return False
    held = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            # by the folder's descriptor: its own name may be longer than a socket's name may be
            near = Path(f"/proc/self/fd/{held}/{path.name}")
            probe.connect(str(near if near.parent.exists() else path))
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def installation(home: Path) -> str:
    """What tells this Conch from another of the same person on another computer. Made once."""
    path = home / "installation"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = secrets.token_hex(8)
        new = home / f"installation.{made}"
        new.write_text(made, encoding="ascii")
        try:
            os.link(new, path)
        except OSError:
            if not path.exists():
                new.replace(path)
        new.unlink(missing_ok=True)
        return path.read_text(encoding="ascii").strip()
