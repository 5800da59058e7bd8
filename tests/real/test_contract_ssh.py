"""What every place keeps, kept by a machine over a real OpenSSH: each of the three ways to reach one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.real.engines.sshd import HOST, Sshd
from tests.workplaces.contract import ODD_NAMES, Heard, PlaceContract
from tests.workplaces.looking import listing, names
from workplaces.mirror.mirror import Mirror
from workplaces.place import RunRequest, RunResult, WorkPlace, WorkPlaceId
from workplaces.ssh.connection import Connection
from workplaces.ssh.place import Ssh

ID = WorkPlaceId("ssh", HOST)


@pytest.fixture(scope="class")
def connection(
    machine: Sshd, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """One for all tests of a kind: it is what a chat has, too."""
    folder = tmp_path_factory.mktemp("ssh")
    settings = folder / "settings"
    # what their settings would send along must not go, whatever the server would take
    sent = ("SendEnv *", "SetEnv CONCH_SET=hunter2", "ForwardAgent yes", "RequestTTY force", "RemoteCommand echo no")
    settings.write_text(machine.settings(HOST, "build", *sent))
    connection = Connection(HOST, folder / "places", settings, kinds=(request.cls.kind,))
    yield connection
    connection.close()
    assert not list((folder / "places").iterdir()), "nothing of a connection is left"


class SshContract(PlaceContract):
    kind: ClassVar[str]
    markers = ("here", "end 0 sure", "beat", "stop", "0123456789abcdef0123456789abcdef end 0 sure")

    @pytest.fixture
    def place(self, machine: Sshd, connection: Connection, tmp_path: Path) -> WorkPlace:
        self.machine, self.connection = machine, connection
        return Ssh(connection, Mirror(tmp_path / "mirror"), installation="test")

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        assert (place.id, place.seals, place.where) == (ID, False, HOST)
        look = "uname -n; id -u; echo $SSH_CONNECTION; cat /proc/1/comm; readlink /proc/self/ns/mnt"
        result = await place.run(RunRequest(command=look, folder=folder))
        assert result.code == 0, result.output.text
        name, uid, connection, first, space = result.output.out.splitlines()
        assert name == HOST != os.uname().nodename
        assert int(uid) == self.machine.user().uid != os.getuid()
        assert connection.endswith(f" 127.0.0.1 {self.machine.port}")
        assert first == "sshd"
        assert space != str(Path("/proc/self/ns/mnt").readlink())

    def assert_proof(self, result: RunResult, request: RunRequest) -> None:
        proof = result.proof
        assert proof.target == f"build@127.0.0.1:{self.machine.port}"
        assert proof.network is True
        assert proof.sealed is False
        home = str(self.machine.user().home)
        assert proof.folder.startswith(f"{home}/.conch-work/")
        details = dict(proof.details)
        assert details.pop("answer").endswith(("ms", "s"))
        assert details.pop("host key", self.machine.fingerprint) == self.machine.fingerprint
        assert details == {
            "machine": HOST,
            "system": "Linux",
            "user": "build",
            "uid": str(self.machine.user().uid),
            "connection": self.kind,
        }

    def processes(self, mark: str) -> list[str]:
        """Those there alone: a local one of the same name would not count."""
        return self.machine.processes(mark)

    def left_behind(self) -> list[str]:
        self.connection.before_drop()  # the one shell that stays as long as the connection

        def left() -> list[str]:
            return [line for _, line in self.machine.table() if not line.startswith("sshd:")]

        end = time.monotonic() + 5  # what looked after a command needs a moment to end itself
        while left() and time.monotonic() < end:
            time.sleep(0.01)
        return left()

    # ---- what is otherwise here, because nothing is sealed and the folder is a copy ----

    async def test_git_is_read_only_when_sealed(self, place: WorkPlace, folder: Path) -> None:
        """It is not: this place seals nothing, and says so."""
        assert not place.seals
        result = await self.run(place, folder, "mkdir .git && touch .git/x")
        assert result.code == 0

    async def test_a_sealed_command_has_no_network(self, place: WorkPlace, folder: Path) -> None:
        """It has that machine's, and the proof says so whatever was asked for."""
        for opened in (False, True):
            assert (await self.run(place, folder, "true", open=opened)).proof.network is True

    @pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
    async def test_a_protected_place_in_the_folder_is_covered(
        self, place: WorkPlace, folder: Path, opened: bool
    ) -> None:
        """It is never there. A command may make something of that name there, which never comes here."""
        keys = folder / "deep" / "keys"
        keys.mkdir(parents=True)
        (keys / "id").write_text("SECRET")
        (folder / ".token").write_text("SECRET")
        (folder / "link").symlink_to(keys / "id")
        before = listing(folder)
        command = "cat deep/keys/id .token link; ls -AR; mkdir -p deep/keys; echo x > .token; echo x > deep/keys/id"
        protected = (keys, folder / ".token", folder / "missing" / "key")
        result = await self.run(place, folder, command, open=opened, protected=protected)
        assert "SECRET" not in result.output.text
        assert "id" not in result.output.out
        assert listing(folder) == before

    async def test_the_folder_may_have_any_name(self, place: WorkPlace, folder: Path) -> None:  # type: ignore[override]
        """As everywhere, in one test: the folder's name is nothing to the copy, which has the chat's."""
        for name in ODD_NAMES if self.kind == "shared" else ODD_NAMES[::8]:
            work = folder / name
            work.mkdir()
            (work / "a").write_text("here\n")
            result = await self.run(place, work, "cat a; printf there > b")
            assert result.output.out == "here\n"
            assert names(work) == {"a", "b"}
            assert (work / "b").read_text() == "there"

    async def test_files_may_have_any_name(self, place: WorkPlace, folder: Path) -> None:
        """As everywhere; but a folder here is not emptied without asking, so not all of them go at once."""
        (folder / "stays").touch()
        for name in ODD_NAMES:
            (folder / name).write_text(name)
        seen = await self.run(place, folder, "for f in *; do printf '%s/' \"$f\"; done; cat -- * >/dev/null")
        assert set(seen.output.out.split("/")[:-1]) == {"stays", *ODD_NAMES}
        assert seen.code == 0
        half = len(ODD_NAMES) // 2
        for some in (ODD_NAMES[:half], ODD_NAMES[half:]):
            removed = await self.run(place, folder, ("rm", "--", *some))
            assert set(removed.changed.all if removed.changed else ()) == set(some)
        assert names(folder) == {"stays"}
        made = await self.run(place, folder, ("touch", "--", *ODD_NAMES))
        assert set(made.changed.all if made.changed else ()) == set(ODD_NAMES)
        assert names(folder) == {"stays", *ODD_NAMES}

    async def test_output_comes_as_it_is_printed(self, place: WorkPlace, folder: Path) -> None:
        heard = Heard()
        line = "pwd; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo gone; echo late >&2"
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run(place, folder, line, output=heard.keeper, timeout=30))
            await heard.wait_for("ready")
            assert "gone" not in heard.text
            Path(heard.text.splitlines()[0], "go").touch()
        kept = running.result().output
        assert kept.out.endswith("ready\ngone\n")
        assert kept.err == "late\n"


class TestShared(SshContract):
    kind = "shared"


class TestSeparate(SshContract):
    kind = "separate"


class TestLibrary(SshContract):
    kind = "library"
