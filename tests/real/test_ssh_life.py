"""A command on a real machine when something breaks: it never runs on unseen, and nothing unseen is claimed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.needs import need
from tests.real.engines.sshd import HOST, Sshd
from tests.real.engines.sshd import made as another
from tests.workplaces.contract import DOUBLE_FORK, Heard, stopped
from tests.workplaces.looking import number
from workplaces.mirror.mirror import Mirror
from workplaces.output import OutputKeeper
from workplaces.place import PlaceUnavailable, RunRequest
from workplaces.ssh.command import Command, Ended
from workplaces.ssh.connection import Connection
from workplaces.ssh.place import Ssh

KINDS = ("shared", "separate", "library")


@pytest.fixture(params=KINDS)
def connection(request: pytest.FixtureRequest, machine: Sshd, tmp_path: Path) -> Iterator[Connection]:
    settings = tmp_path / "settings"
    settings.write_text(machine.settings())
    made = Connection(HOST, tmp_path / "places", settings, kinds=(request.param,))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in {seconds} s"
        time.sleep(0.01)


class Running:
    """A command on its way, in a thread as a place has it."""

    def __init__(self, connection: Connection, line: str, **how: float) -> None:
        home = connection.ready().home
        self.heard = Heard()
        self.command = Command(connection, line, f"{home}/.conch-work/life", self.heard.keeper, 60, **how)  # type: ignore[arg-type]
        self.ended: Ended | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.ended = self.command.run()

    def end(self, seconds: float = 40.0) -> Ended:
        self._thread.join(seconds)
        assert self.ended is not None
        return self.ended


def run(connection: Connection, command: str | tuple[str, ...], timeout: float = 30) -> tuple[Ended, str]:
    keeper = OutputKeeper()
    folder = f"{connection.ready().home}/.conch-work/life"
    ended = Command(connection, command, folder, keeper, timeout).run()
    return ended, keeper.finish().text


def sessions(machine: Sshd) -> list[int]:
    """The processes of that machine's sshd that serve its user's connections."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            mine = entry.name.isdecimal() and entry.stat().st_uid == machine.user().uid
            if mine and (entry / "cmdline").read_bytes().startswith(b"sshd: build"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_when_the_connection_breaks_the_command_ends_there(connection: Connection, machine: Sshd) -> None:
    mark = number()
    running = Running(connection, DOUBLE_FORK.format(n=mark))
    until(lambda: "started" in running.heard.text)
    assert machine.processes(mark)
    for pid in sessions(machine):
        os.kill(pid, signal.SIGKILL)
    ended = running.end()
    assert (ended.code, ended.lost, ended.sure, ended.timed_out) == (None, True, True, False)
    assert machine.processes(mark) == []
    assert run(connection, "echo again")[1] == "again\n", "the next one connects anew"


def test_a_machine_that_loses_its_power_is_told_as_not_known(tmp_path: Path, folder: Path) -> None:
    with another(name="tower") as tower:
        settings = tmp_path / "settings"
        settings.write_text(tower.settings())
        connection = Connection("tower", tmp_path / "places", settings)
        place = Ssh(connection, Mirror(tmp_path / "mirror"), installation="test")

        async def through() -> None:
            heard = Heard()
            request = RunRequest(command="echo started; sleep 600", folder=folder, output=heard.keeper)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(place.run(request))
                await heard.wait_for("started")
                tower.stop()
            result = running.result()
            assert (result.code, result.sure, result.timed_out) == (None, False, False)
            assert "The connection to tower broke while the command ran" in result.note
            assert "Whether it still runs there is not known" in result.note
            assert result.changed is None
            assert result.output.out == "started\n"

        try:
            asyncio.run(through())
        finally:
            connection.close()


def test_a_conch_that_is_killed_leaves_nothing_running(connection: Connection, machine: Sshd, tmp_path: Path) -> None:
    mark = number()
    kind = connection.ready().kind
    code = f"""
from pathlib import Path
from workplaces.output import OutputKeeper
from workplaces.ssh.command import Command
from workplaces.ssh.connection import Connection
c = Connection({HOST!r}, Path({str(tmp_path / "other")!r}), Path({str(tmp_path / "settings")!r}), kinds=({kind!r},))
home = c.ready().home
Command(c, "setsid sleep {mark} & sleep {mark}", home + "/.conch-work/life", OutputKeeper(), 600).run()
"""
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        until(lambda: len(machine.processes(f"sleep {mark}")) >= 2)
    finally:
        process.kill()
        process.wait()
    until(lambda: not machine.processes(mark))
    if kind == "shared":  # the connection itself ends when it was idle for long; nothing of ours waits for that
        (conf,) = (tmp_path / "other").glob("*.s")
        subprocess.run(["ssh", "-F", "none", "-S", conf.name, "-O", "exit", HOST], cwd=conf.parent, check=True)


def test_a_machine_that_hears_nothing_ends_the_command(connection: Connection, machine: Sshd) -> None:
    mark = number()
    running = Running(connection, DOUBLE_FORK.format(n=mark), beat=600.0, silence=1)
    ended = running.end()
    assert (ended.code, ended.silent, ended.sure, ended.lost) == (None, True, True, False)
    assert machine.processes(mark) == []


def test_a_word_now_and_then_keeps_it_going(connection: Connection) -> None:
    running = Running(connection, "sleep 3; echo done", beat=0.3, silence=2)
    ended = running.end()
    assert (ended.code, ended.silent, ended.sure) == (0, False, True)


@pytest.mark.parametrize("line", ["kill -9 -1; sleep 600", "kill -9 $PPID; sleep 600"])
def test_a_command_that_kills_what_looks_after_it(connection: Connection, machine: Sshd, line: str) -> None:
    mark = number()
    ended, _ = run(connection, f"setsid sleep {mark} & {line}", 10)
    assert ended.code is None or ended.code > 128
    assert ended.sure
    assert machine.processes(mark) == []
    assert run(connection, "echo again")[1] == "again\n"


def test_a_shared_connection_that_died_is_made_again(machine: Sshd, tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text(machine.settings())
    connection = Connection(HOST, tmp_path / "places", settings, kinds=("shared",))
    try:
        for _ in range(2):
            connection.ready()
            (sock,) = (tmp_path / "places").glob("*.s")
            said = subprocess.run(
                ["ssh", "-F", "none", "-S", sock.name, "-O", "check", HOST], cwd=sock.parent, capture_output=True
            )
            os.kill(int(said.stderr.split(b"pid=")[1].split(b")")[0]), signal.SIGKILL)
            assert sock.exists(), "it had no time to take its socket away"
            assert run(connection, "echo once")[1] == "once\n"
    finally:
        connection.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_that_does_not_let_us_in_any_more_runs_nothing(tmp_path: Path, kind: str) -> None:
    with another(name="tower") as tower:
        settings = tmp_path / "settings"
        settings.write_text(tower.settings())
        connection = Connection("tower", tmp_path / "places", settings, kinds=(kind,))
        try:
            assert run(connection, "echo in")[1] == "in\n"
            tower.stop()
            until(lambda: kind == "separate" or not connection.up)
            with pytest.raises(PlaceUnavailable, match="tower is on, but takes no SSH connections"):
                run(connection, "echo in")
            (tower.folder / "keys" / "build").write_text("")
            tower.start()
            with pytest.raises(PlaceUnavailable, match="tower does not take your key"):
                run(connection, "echo in")
        finally:
            connection.close()


@pytest.mark.parametrize("kind", ["shared", "library"])
def test_a_machine_that_takes_few_at_once_is_waited_for(tmp_path: Path, kind: str) -> None:
    with another(name="small", options={"MaxSessions": "2"}) as small:
        settings = tmp_path / "settings"
        settings.write_text(small.settings())
        connection = Connection("small", tmp_path / "places", settings, kinds=(kind,))
        try:
            connection.ready()
            each = [Running(connection, f"echo {n}; sleep 0.4") for n in range(6)]
            for n, running in enumerate(each):
                assert running.end().code == 0
                assert running.heard.keeper.finish().out == f"{n}\n"
        finally:
            connection.close()


async def test_stop_while_it_connects_is_quick_and_nothing_runs(tmp_path: Path, folder: Path) -> None:
    import socket

    with socket.socket() as deaf:  # it takes the connection, and never says a word
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        settings = tmp_path / "settings"
        settings.write_text(f"Host {HOST}\n  HostName 127.0.0.1\n  Port {deaf.getsockname()[1]}\n")
        connection = Connection(HOST, tmp_path / "places", settings)
        place = Ssh(connection, Mirror(tmp_path / "mirror"), installation="test")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stopped(place, RunRequest(command="touch PROOF", folder=folder)))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            running.cancel()
        assert running.result().sure
        assert time.monotonic() - began < 1
    await asyncio.to_thread(connection.close)
    assert list(folder.iterdir()) == []


def test_an_idle_connection_is_closed(machine: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "settings"
    settings.write_text(machine.settings())
    connection = Connection(HOST, tmp_path / "places", settings)
    try:
        run(connection, "true")
        connection.tidy()
        assert connection.up
        monkeypatch.setattr("workplaces.ssh.connection.IDLE", -1)
        running = Running(connection, "echo started; sleep 1; echo on")
        until(lambda: "started" in running.heard.text)
        connection.tidy()
        assert running.end().code == 0, "one that is in use is not idle"
        connection.tidy()
        assert not connection.up
        assert list((tmp_path / "places").iterdir()) == []
    finally:
        connection.close()


def test_what_cannot_be_ended_is_said(connection: Connection, machine: Sshd) -> None:
    """A process that became another user's, as sudo makes one: it is seen, it cannot be ended, and that is told."""
    helper = machine.folder / "as-root"
    if not helper.exists():
        shutil.copyfile(shutil.which("setpriv") or "", helper)
        helper.chmod(0o4755)
    mark = number()
    line = f"{helper} --reuid=0 --regid=0 --clear-groups sleep {mark} & sleep 0.3; echo started; wait"
    ended, said = run(connection, line, 1.5)
    left = [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(entry)]
    try:
        assert said == "started\n"
        assert left, "it became root's and lives"
        assert (ended.timed_out, ended.sure) == (True, False)
    finally:
        for entry in left:
            os.kill(int(entry.parent.name), signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


# ---- machines of other kinds ----

BUSYBOX_USER = """#!/bin/sh
PATH={tools}
export PATH
exec /bin/sh "$@"
"""
NO_FRACTIONS = """#!/bin/sh
case $1 in *.*) echo "usage: sleep seconds" >&2; exit 1;; esac
exec /bin/sleep "$@"
"""
POSIX_TOOLS = (
    "awk cat chmod cp cut date dd echo env find grep head id kill ln ls mkdir mv perl printf ps pwd rm sed sh sort "
    "stat tail tar test touch tr true uname wc"
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_with_no_more_than_posix_tools(machine: Sshd, tmp_path: Path, kind: str) -> None:
    """No setsid, no timeout, and a sleep that takes whole seconds, as on a BSD."""
    tools = machine.folder / "posix-tools"
    if not tools.exists():
        tools.mkdir()
        for name in POSIX_TOOLS.split():
            source = Path("/usr/bin", name) if Path("/usr/bin", name).exists() else Path("/bin", name)
            (tools / name).symlink_to(source)
        (tools / "sleep").write_text(NO_FRACTIONS)
        (tools / "sleep").chmod(0o755)
        shell = machine.folder / "posix-shell"
        shell.write_text(BUSYBOX_USER.format(tools=tools))
        shell.chmod(0o755)
    machine.user("posix", str(machine.folder / "posix-shell"))
    settings = tmp_path / "settings"
    settings.write_text(machine.settings("posix", "posix"))
    connection = Connection("posix", tmp_path / "places", settings, kinds=(kind,))
    try:
        assert "setsid" not in connection.ready().has
        everything(connection, machine)
    finally:
        connection.close()


@pytest.mark.parametrize("shell", ["/bin/busybox", "/bin/bash"])
def test_a_machine_whose_sh_is_another(tmp_path: Path, shell: str) -> None:
    need(Path(shell).name)
    with another(name="small", shell=shell) as small:
        settings = tmp_path / "settings"
        settings.write_text(small.settings())
        connection = Connection("small", tmp_path / "places", settings)
        try:
            assert run(connection, f"cmp /proc/$$/exe {shell} && echo same")[1] == "same\n"
            everything(connection, small)
        finally:
            connection.close()


def everything(connection: Connection, machine: Sshd) -> None:
    """The hardest of the contract, in short."""
    assert run(connection, "echo out; echo err >&2; exit 3")[0].code == 3
    letters = "".join(chr(code) for code in range(0xA0, 0x800)) + "🤣\\n`$x' \" #"
    ended, said = run(connection, f"cat <<'EOF'\n{letters}\nEOF")
    assert (ended.code, said) == (0, letters + "\n")
    ended, said = run(connection, ("printf", "[%s]\\n", "", "a b", "$x", "new\nline", "it's"))
    assert said == "[]\n[a b]\n[$x]\n[new\nline]\n[it's]\n"
    assert run(connection, "kill -9 $$")[0].code == 137
    assert run(connection, "cat; read x; echo $?; ls /proc/self/fd")[1].split() == ["1", "0", "1", "2", "3"]
    mark = number()
    ended, _ = run(connection, f"sleep {mark} & (setsid sleep {mark} || sleep {mark}) & echo ok", 10)
    assert (ended.code, ended.sure) == (0, True)
    assert machine.processes(mark) == []
    ended, said = run(connection, f"echo started; trap '' TERM HUP; sleep {mark} & sleep {mark}", 1.0)
    assert (ended.timed_out, ended.sure, said) == (True, True, "started\n")
    assert machine.processes(mark) == []


def test_every_byte_of_a_command_arrives(connection: Connection) -> None:
    raw = bytes(range(0x80, 0x100)).decode("utf-8", "surrogateescape")
    _, said = run(connection, f"printf %s '{raw}' | od -An -tx1 | tr -d ' \\n'")
    assert said == bytes(range(0x80, 0x100)).hex()


def test_a_long_command_is_taken(connection: Connection) -> None:
    lines = "".join(f": line {n}\n" for n in range(5000))
    ended, said = run(connection, f"{lines}echo done")
    assert (ended.code, said) == (0, "done\n")
