"""The other side, for tests: another home folder, reached through a shell that knows nothing of this one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workplaces.mirror.changes import Changed, Sent
from workplaces.mirror.far import ProgramFar
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.session import Ask
from workplaces.mirror.work import Limits


def far_in(
    home: Path,
    *,
    name: str = "build-box",
    path: str = "/usr/bin:/bin",
    shell: str = "/bin/sh",
    before: Sequence[str] = (),
) -> ProgramFar:
    """A machine whose home folder is ``home``. ``path`` is the PATH there, ``before`` what the shell is started by."""
    home.mkdir(exist_ok=True)
    start = [*before, "env", "-i", f"HOME={home}", f"PATH={path}", shell, "-c"]
    return ProgramFar(name, lambda command: [*start, command])


class Pair:
    """A folder here, a machine there, and the mirror between them."""

    def __init__(self, base: Path, **far: object) -> None:
        self.base = base
        self.here = base / "here"
        self.here.mkdir()
        self.home = base / "there"
        self.conch = base / "conch" / "mirror"
        self.mirror = Mirror(self.conch)
        self.far = far_in(self.home, **far)  # type: ignore[arg-type]
        self.protected: tuple[Path, ...] = ()
        self.ask: Ask | None = None
        self.limits = Limits()
        self.chat = "chat-1"

    @property
    def there(self) -> Path:
        return self.home / ".conch-work" / self.chat

    def session(self):  # type: ignore[no-untyped-def]
        return self.mirror.session(
            self.chat, self.here, self.far, protected=self.protected, ask=self.ask, limits=self.limits
        )

    async def round(self, command: Callable[[Path], object] | None = None) -> tuple[Sent, Changed]:
        """One command: what it does is done to the copy there."""
        async with self.session() as session:
            sent = await session.before()
            if command is not None:
                command(self.there)
            return sent, await session.after()

    def restart(self) -> None:
        """Conch starts anew: nothing is in memory."""
        self.mirror = Mirror(self.conch)


def tree(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """All that is in a folder: kind, mode, content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(at) / name
            seen = path.lstat()
            inside = path.relative_to(folder).as_posix()
            mode = stat.S_IMODE(seen.st_mode)
            if stat.S_ISDIR(seen.st_mode):
                found[inside] = ("d", mode, b"")
            elif stat.S_ISREG(seen.st_mode):
                found[inside] = ("f", mode, path.read_bytes())
            else:
                found[inside] = ("other", 0, b"")
    return found


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one example of a property test."""
    base = Path(tempfile.mkdtemp(prefix="conch-mirror-"))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)
