"""The mirror over a real OpenSSH: there and back, a line that is cut in mid-transfer, nothing in a shared folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import CHECKOUT
from tests.real.engines.sshd import HOST, Sshd
from tests.workplaces.mirror_far import Pair, tree
from workplaces.mirror.far import Running
from workplaces.place import PlaceUnavailable
from workplaces.ssh import script as ssh_script
from workplaces.ssh.connection import Connection
from workplaces.ssh.far import living


@pytest.fixture
def connection(machine: Sshd, tmp_path: Path) -> Iterator[Connection]:
    settings = tmp_path / "settings"
    settings.write_text(machine.settings(HOST, "build"))
    made = Connection(HOST, tmp_path / "places", settings)
    yield made
    made.close()


@pytest.fixture
def pair(machine: Sshd, connection: Connection, tmp_path: Path) -> Pair:
    pair = Pair(tmp_path)
    pair.home = machine.user().home
    pair.chat = tmp_path.name
    pair.far = living(connection)  # type: ignore[assignment]
    return pair


def owner(path: Path) -> int:
    return path.stat().st_uid


async def test_there_and_back(machine: Sshd, pair: Pair) -> None:
    names = (
        "plain",
        "with space",
        "-rf",
        "new\nline",
        "ünï🤣",
        "'\"$(id)`",
        "x" * 255,
        "d/e/f",
        "tail\n",
        "\udcff\udc80",
    )
    for name in names:
        (pair.here / name).parent.mkdir(parents=True, exist_ok=True)
        (pair.here / name).write_text(name, errors="surrogateescape")

    def command(there: Path) -> None:
        assert tree(there) == tree(pair.here)
        assert {owner(path) for path in [there, *there.rglob("*")]} == {machine.user().uid}
        for name in names[1:]:
            path = there / name
            path.write_bytes(path.read_bytes() + b"!")
        (there / "plain").unlink()
        (there / "made").write_text("made")

    sent, back = await pair.round(command)
    assert sent.files == len(names)
    assert not back.trouble
    assert back.changes.added == ("made",)
    assert back.changes.deleted == ("plain",)
    assert len(back.changes.changed) == len(names) - 1
    assert tree(pair.here) == tree(pair.there)
    assert {owner(path) for path in pair.here.rglob("*")} == {os.geteuid()}
    assert machine.user().home.stat().st_mode & 0o777 == 0o755
    assert await pair.mirror.remove(pair.far, pair.chat)


@pytest.mark.parametrize("half", ["push", "pull"])
@pytest.mark.parametrize("after", [100_000, 900_000])
async def test_the_line_is_cut_in_mid_transfer(machine: Sshd, pair: Pair, half: str, after: int) -> None:
    for number in range(40):
        (pair.here / f"f{number}").write_bytes(b"0" * 200_000)
    await pair.round()
    far = pair.far

    class Cut:
        name = HOST

        def run(self, command: str, given: Iterable[bytes]) -> Running:
            running = far.run(command, cut(given) if half == "push" else given)
            return _CutRead(running, machine, after) if half == "pull" else running

    def cut(given: Iterable[bytes]) -> Iterator[bytes]:
        left = after
        for data in given:
            left -= len(data)
            if left < 0:
                machine.stop()
            yield data

    def change(folder: Path, text: bytes) -> None:
        for number in range(40):
            (folder / f"f{number}").write_bytes(text * 200_000)

    try:
        if half == "push":
            change(pair.here, b"1")
            pair.far = Cut()  # type: ignore[assignment]
            with pytest.raises(PlaceUnavailable):
                await pair.round()
        else:
            async with pair.session() as session:
                await session.before()
                change(pair.there, b"1")
                session._far = Cut()  # type: ignore[assignment]
                back = await session.after()
            assert back.trouble
    finally:
        machine.stop()
        machine.start()
    for folder in (pair.here, pair.there):
        assert {path.read_bytes() for path in folder.iterdir()} <= {b"0" * 200_000, b"1" * 200_000}
    pair.far = far
    pair.restart()
    sent, back = await pair.round()
    assert (sent.kept_twice, back.kept_twice, back.trouble) == ((), (), "")
    assert tree(pair.here) == tree(pair.there)
    assert {path.read_bytes() for path in pair.here.iterdir()} == {b"1" * 200_000}
    assert await pair.mirror.remove(pair.far, pair.chat)


class _CutRead:
    def __init__(self, running: Running, machine: Sshd, after: int) -> None:
        self._running = running
        self._machine = machine
        self._left = after

    def read(self) -> bytes:
        data = self._running.read()
        if self._left > 0 >= self._left - len(data):
            self._machine.stop()
        self._left -= len(data)
        return data

    def end(self) -> tuple[int | None, bytes]:
        return self._running.end()

    def stop(self) -> None:
        self._running.stop()


# Every shared temporary folder is closed to this process tree, and TMPDIR names one of them.
_CLOSED = """
for folder in /tmp /var/tmp /dev/shm; do
  mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder" || exit 99
done
exec "$@"
"""
_ROUND = """
import asyncio, sys
from pathlib import Path
from tests.workplaces.mirror_far import far_in
from workplaces.mirror.mirror import Mirror

async def main(base):
    mirror = Mirror(base / "conch" / "mirror")
    async with mirror.session("chat", base / "here", far_in(base / "there")) as session:
        sent = await session.before()
        (base / "there/.conch-work/chat/made").write_text("made")
        (base / "there/.conch-work/chat/a").write_text("changed")
        back = await session.after()
        print(sent.files, back.trouble, back.changes.all)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_nothing_is_made_in_a_shared_temporary_folder(machine: Sshd) -> None:
    """Neither here nor there: where nothing can be made in them, all goes well."""
    base = machine.folder / "round"
    (base / "here").mkdir(parents=True)
    (base / "here/a").write_text("x")
    line = ["unshare", "-m", "--", "/bin/sh", "-c", _CLOSED, "sh", sys.executable, "-c", _ROUND, str(base)]
    env = {**os.environ, "TMPDIR": "/tmp"}
    done = subprocess.run(line, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1  ('a', 'made')\n", "")
    assert sorted(path.name for path in base.iterdir()) == ["conch", "here", "there"]
    assert sorted(path.name for path in (base / "there").iterdir()) == [".conch-work"]


def left(machine: Sshd) -> list[str]:
    return [line for _, line in machine.table() if not line.startswith("sshd:")]


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


async def test_one_program_there_answers_every_round(machine: Sshd, pair: Pair, connection: Connection) -> None:
    (pair.here / "a").write_text("a")
    for number in range(3):
        await pair.round()
        stays = left(machine)
        assert len(stays) == 1, number
    connection.close()
    until(lambda: not left(machine))


async def test_the_connection_is_cut_under_what_stays(machine: Sshd, pair: Pair, connection: Connection) -> None:
    (pair.here / "a").write_text("a")
    await pair.round()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            mine = entry.name.isdecimal() and entry.stat().st_uid == machine.user().uid
            if mine and (entry / "cmdline").read_bytes().startswith(b"sshd: build"):
                os.kill(int(entry.name), signal.SIGKILL)
    until(lambda: not left(machine))
    (pair.here / "a").write_text("b")
    _, back = await pair.round(lambda there: (there / "c").write_text("c"))
    assert not back.trouble
    assert (pair.there / "a").read_text() == "b"
    assert (pair.here / "c").read_text() == "c"


async def test_what_stays_keeps_no_connection(machine: Sshd, pair: Pair, connection: Connection) -> None:
    (pair.here / "a").write_text("a")
    await pair.round()
    connection._last_use -= 1000
    connection.tidy()
    assert not connection.up
    until(lambda: not left(machine))


def test_a_channel_is_opened_ahead(machine: Sshd, connection: Connection) -> None:
    connection.ready()

    def echo() -> bytes:
        heard = bytearray()
        talk = connection.begin(
            lambda mark: ssh_script.plain(mark, "echo on"), lambda stream, data: heard.extend(data * (stream == "out"))
        )
        assert talk is not None
        talk.wait_over(10)
        connection.finish(talk)
        return bytes(heard)

    connection.open_ahead()
    until(lambda: len(left(machine)) == 1)
    assert echo() == b"on\n"
    assert connection._ahead is None
    connection.open_ahead()
    assert connection._ahead is not None
    connection._ahead[1].close()  # dead before it was of use
    assert echo() == b"on\n"
    connection.open_ahead()
    connection.forget_ahead()
    until(lambda: not left(machine))
