"""Where the real tests keep what is dear to make, and where their engines' sockets are."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """The folder kept from run to run: images, and the engines' data. Safe to delete while no test runs."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if base else Path.home() / ".cache") / "conch-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sockets() -> Path:
    """A root-owned folder with a short path that everyone may pass through: a socket's path has 107 bytes at most."""
    folder = Path("/run/conch-tests")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)
    return folder


class Held:
    """A lock on a file, held until ``free`` or until this process dies, however it dies."""

    def __init__(self, path: Path, *, wait: bool) -> None:
        """Raises BlockingIOError when somebody else holds it and ``wait`` is False."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException:
            os.close(self._fd)
            raise

    def free(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One at a time, over all processes that use the same path."""
    held = Held(path, wait=True)
    try:
        yield
    finally:
        held.free()


def mounts_under(folder: Path) -> list[str]:
    """Every mount point in a folder, the deepest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if Path(point).is_relative_to(folder):
            found.append(point)
    return sorted(found, key=len, reverse=True)


def remove(folder: Path) -> None:
    """Removes a folder of the tests' own, whatever is in it or still mounted in it."""
    if not folder.exists():
        return
    for point in mounts_under(folder.resolve()):
        subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)
    if not mounts_under(folder.resolve()):  # never walks into a mount: it may be the machine's own /proc
        shutil.rmtree(folder)
