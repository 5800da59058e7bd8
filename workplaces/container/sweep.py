"""Boxes left behind: whose they are, which may go, and taking them away. Only this installation's, ever."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
import threading
import time
from functools import cache
from pathlib import Path

from workplaces.container.box import HOME_LABEL, OWNER_LABEL, WORK_LABEL
from workplaces.container.engine import Engine

log = logging.getLogger(__name__)

_HOSTS = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_RETRIES = (0.2, 0.5, 1, 2, 4, 8, 16, 30, 60)


class House:
    """What a container needs in Conch's home: this installation's id, and the files laid over others.

    They are made when first asked for, in a folder that only the person may enter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def installation(self) -> str:
        """A random id, made once: whoever makes it first, every other gets that one, or its boxes would be nobody's.
        A damaged one is replaced: its boxes are then nobody's that we know."""
        file = self.folder / "id"
        if known := _id_in(file):
            return known
        self._make_folder()
        made = secrets.token_hex(16)
        new = file.with_name(f"id.{made}")
        new.touch(0o600, exist_ok=False)
        new.write_text(made, "ascii")
        try:
            os.link(new, file)  # fails where there is one, which a rename does not
        except OSError:
            if not _id_in(file):  # it is damaged, or this file system knows no links
                new.replace(file)
        finally:
            new.unlink(missing_ok=True)
        return file.read_text("ascii").strip()

    def empty(self) -> Path:
        """The empty, read-only file, looked at each time: it is what stands between a command and a key."""
        return self._file("empty", b"")

    def etc_hosts(self) -> Path:
        """What a box without the engine's network has as ``/etc/hosts``: its own names, as hosts(5) has them."""
        return self._file("hosts", _HOSTS)

    def _file(self, name: str, content: bytes) -> Path:
        file = self.folder / name
        with contextlib.suppress(OSError):
            found = file.lstat()
            plain = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o444
            if plain and found.st_size == len(content) and (not content or file.read_bytes() == content):
                return file
        self._make_folder()
        new = file.with_name(f"{name}.{secrets.token_hex(8)}")
        new.touch(0o600, exist_ok=False)
        new.write_bytes(content)
        new.chmod(0o444)
        new.replace(file)
        return file

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)


def _id_in(file: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = file.read_text("ascii").strip()
        if len(text) == 32 and text.isalnum():
            return text
    return ""


def owner() -> str:
    """This process, so that it cannot be taken for a later one with its number: number, start, boot, namespace."""
    return f"{os.getpid()}:{_started(os.getpid())}:{_boot()}:{_namespace()}"


def is_gone(label: str) -> bool:
    """Whether the process that ``owner()`` named has ended. False where that cannot be known."""
    number, _, rest = label.partition(":")
    started, _, rest = rest.partition(":")
    boot, _, namespace = rest.partition(":")
    if not (number.isdecimal() and started and boot and namespace):
        return False
    if boot != _boot():
        return True
    if namespace != _namespace():
        return False
    import psutil

    try:
        return _started(int(number)) != started
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def sweep(engine: Engine, installation: str) -> int:
    """Removes this installation's boxes whose owner has ended. Blocks. Gives how many went; raises as the SDK does."""
    labels = [f"{WORK_LABEL}=1", f"{HOME_LABEL}={installation}"]
    count = 0
    for box, found in engine.boxes(labels):
        if is_gone(str(found.get(OWNER_LABEL, ""))) and engine.remove(box):
            count += 1
    return count


class Leftovers:
    """Boxes of this very process that could not be removed when their command ended. Tried again for two minutes.

    One whose making was never answered may appear late (``late``): that there is none is not believed before the last
    try.
    """

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._changed = threading.Condition()

    def add(self, engine: Engine, name: str, *, late: bool) -> None:
        with self._changed:
            self._left.add(name)
        threading.Thread(target=self._try, args=(engine, name, late), name="conch-leftover", daemon=True).start()

    def wait(self, limit: float) -> bool:
        """Blocks until none is left, ``limit`` seconds at most. Whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._left, limit)

    def _try(self, engine: Engine, name: str, late: bool) -> None:
        for pause in _RETRIES:
            time.sleep(pause)
            if _removed(engine, name, late):
                break
        else:
            log.info("the container %s was not seen to be gone", name)
        with self._changed:
            self._left.discard(name)
            self._changed.notify_all()


def _removed(engine: Engine, name: str, late: bool) -> bool:
    how = engine.remove_once(name) if engine.answers(1.0) else "failed"
    return how == "removed" or (how == "none" and not late)


def _started(pid: int) -> str:
    """When a process started, exactly: in ticks since boot where the kernel says so. Raises psutil.Error."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    import psutil

    return str(int(psutil.Process(pid).create_time()))


@cache
def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    import psutil

    return str(int(psutil.boot_time()) // 60)  # it may be read a second off


@cache
def _namespace() -> str:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - it is no path
    return "-"
