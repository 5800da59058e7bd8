"""The shared contract, on this computer with a real bubblewrap: as whoever runs the tests, and as an ordinary user."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.workplaces.contract import PlaceContract
from workplaces.computer.place import Computer
from workplaces.place import RunRequest, RunResult, WorkPlace


def namespace(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").stat().st_ino)


class TestComputer(PlaceContract):
    markers = (
        '{ "exit-code": 0 }',
        '{ "child-pid": 1 }',
        "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        "bwrap: execvp true: No such file or directory",
        "… 1.0 MB not shown …",
    )

    @pytest.fixture
    def place(self, tmp_path: Path, need: Callable[..., None]) -> WorkPlace:
        need("bwrap", "git")
        return Computer(tmp_path / "conch" / "places")

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        look = "for n in pid net mnt uts; do stat -Lc %i /proc/self/ns/$n; done; cat /proc/1/comm; uname -n; id -u"
        for opened in (False, True):
            result = await place.run(RunRequest(command=look, folder=folder, open=opened))
            pid, net, mount, names, first, host, user = result.output.out.split()
            assert first == "bwrap"
            assert (host, user) == (socket.gethostname(), str(os.geteuid()))
            assert pid != namespace("pid")
            assert mount != namespace("mnt")
            assert (net != namespace("net")) is (names != namespace("uts")) is not opened
            details = result.proof.details
            assert (details["pid-namespace"], details["mnt-namespace"]) == (pid, mount)
            assert (details["net-namespace"], details["uts-namespace"]) == (net, names)

    def assert_proof(self, result: RunResult, request: RunRequest) -> None:
        proof = result.proof
        assert proof.target == socket.gethostname()
        assert proof.details["seal"].startswith("bubblewrap ")
        assert proof.details["uid"] == str(os.geteuid())
        assert proof.details["pid-namespace"] not in ("", namespace("pid"))
        assert (proof.details["net-namespace"] == namespace("net")) is request.open is proof.network
        assert proof.sealed is not request.open
        assert proof.folder == str(request.folder.resolve())


def test_the_contract_holds_for_an_ordinary_user(ordinary_user: Person) -> None:
    done = ordinary_user.pytest("-q", "-x", f"{__file__}::TestComputer", timeout=110, env={"CI": "1"})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
