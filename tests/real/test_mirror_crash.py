"""Conch is killed, a disk is full: each file is whole, old or new, and the next command repairs the copy."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import CHECKOUT
from tests.real.engines.sshd import HOST, Sshd
from tests.workplaces.mirror_far import Pair, tree
from workplaces.place import PlaceUnavailable
from workplaces.ssh.connection import Connection
from workplaces.ssh.far import SshFar

_FILES = 120
# One round in a process of its own. It says when it begins each half, so that the killer can take aim.
_CHILD = """
import asyncio, sys
from pathlib import Path
from workplaces.mirror.mirror import Mirror
from workplaces.ssh.connection import Connection
from workplaces.ssh.far import SshFar

async def main(base, chat, host):
    mirror = Mirror(base / "conch" / "mirror")
    connection = Connection(host, base / "places", base / "settings")
    connection.ready()
    async with mirror.session(chat, base / "here", SshFar(connection)) as session:
        print("before", flush=True)
        await session.before()
        print("command", flush=True)
        sys.stdin.readline()
        print("after", flush=True)
        await session.after()
        print("done", flush=True)

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


def content(name: str, version: int) -> bytes:
    return f"{name} version {version}\n".encode() * (1 + sum(name.encode()) % 97 * 8)


def write(folder: Path, version: int, every: int = 1) -> None:
    for number in range(0, _FILES, every):
        path = folder / f"d{number % 7}" / f"file {number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content(path.name, version))


def whole(folder: Path, versions: set[int]) -> None:
    """Each file is one of the versions, from its first byte to its last."""
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.name.split(".from-")[0]
            assert path.read_bytes() in {content(name, version) for version in versions}, path
    assert not [path for path in folder.rglob("*") if "conch" in path.name]


class Child:
    """A Conch that does one round with a machine over SSH."""

    def __init__(self, base: Path, chat: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(base), chat, HOST],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, word: str) -> None:
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline().strip()) != word:
            assert line, f"it ended before it said {word!r}"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.fixture
def over_ssh(machine: Sshd, tmp_path: Path) -> Iterator[Pair]:
    """The same with a machine over a real OpenSSH."""
    settings = tmp_path / "settings"
    settings.write_text(machine.settings(HOST, "build"))
    connection = Connection(HOST, tmp_path / "ours", settings)
    pair = Pair(tmp_path)
    pair.home = machine.user().home
    pair.chat = f"killed-{tmp_path.name}"
    pair.far = SshFar(connection)  # type: ignore[assignment]
    yield pair
    asyncio.run(pair.mirror.remove(pair.far, pair.chat))
    connection.close()


def _settled(machine: Sshd) -> None:
    """What still ran there when its Conch died has ended: only the server's own processes are left."""
    for _ in range(500):
        running = [line for _, line in machine.table() if not line.startswith("sshd")]
        if not running:
            return
        time.sleep(0.02)
    raise AssertionError(f"something still runs there: {running}")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("half", ["push", "pull"])
def test_killed_at_thirty_moments(over_ssh: Pair, machine: Sshd, half: str) -> None:
    pair = over_ssh
    write(pair.here, 0)
    asyncio.run(pair.round())
    chance = random.Random(4)
    long = 0.0
    for number in range(31):
        version = number + 1
        if half == "push":
            write(pair.here, version, every=1 + number % 3)
        child = Child(pair.base, pair.chat)
        child.wait_for("before" if half == "push" else "command")
        if half == "pull":
            write(pair.there, version, every=1 + number % 3)
            child.go_on()
            child.wait_for("after")
        began = time.monotonic()
        if number == 0:  # how long it takes when it is left alone
            if half == "push":
                child.wait_for("command")
                child.go_on()
            child.wait_for("done")
            long = time.monotonic() - began
            child.kill()
            continue
        time.sleep(chance.uniform(0, long))
        child.kill()
        versions = set(range(version + 1))
        whole(pair.here, versions)
        _settled(machine)
        whole(pair.there, versions)
        if number % 3 == 0:
            pair.restart()
            sent, back = asyncio.run(pair.round())
            assert not back.trouble
            assert (sent.kept_twice, back.kept_twice) == ((), ())
            assert tree(pair.here) == tree(pair.there)
            newest = {path.read_bytes() for path in pair.here.rglob("*") if path.is_file()}
            assert content("file 0", version) in newest
    assert not list((pair.home / f".conch-work/.{pair.chat}").glob("in.*/f"))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """``small(folder)`` makes a folder on a disk of 4 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted: list[Path] = []

    def make(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "conch-test", str(folder)], check=True)
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_there(pair: Pair, small: Callable[[Path], Path]) -> None:
    small(pair.home)
    write(pair.here, 0)
    asyncio.run(pair.round())
    (pair.here / "large").write_bytes(os.urandom(6_000_000))
    write(pair.here, 1)
    with pytest.raises(PlaceUnavailable) as raised:
        asyncio.run(pair.round())
    assert raised.value.words == "There is no room on build-box for the copy."
    assert raised.value.next_step is not None
    whole(pair.there, {0})
    (pair.here / "large").unlink()
    asyncio.run(pair.round())
    assert tree(pair.here) == tree(pair.there)


@pytest.mark.parametrize("which", ["folder", "home", "both"])
def test_a_full_disk_here(pair: Pair, small: Callable[[Path], Path], which: str) -> None:
    if which in ("folder", "both"):
        small(pair.here)
    if which in ("home", "both"):
        small(pair.conch)
    write(pair.here, 0)
    asyncio.run(pair.round())

    def command(there: Path) -> None:
        write(there, 1)
        (there / "large").write_bytes(os.urandom(6_000_000))

    _, back = asyncio.run(pair.round(command))
    assert back.trouble.startswith("The copy could not be kept in step on this computer")
    whole(pair.here, {0, 1})
    (pair.there / "large").unlink()
    pair.restart()
    sent, back = asyncio.run(pair.round())
    assert not back.trouble
    assert sent.files == 0  # what had landed already is not sent again
    assert tree(pair.here) == tree(pair.there)
    assert content("file 0", 1) == (pair.here / "d0/file 0").read_bytes()
