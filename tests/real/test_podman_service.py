"""A Podman that is installed and does not listen: Conch starts its service, and never leaves it behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.engines.reached import env_for
from tests.workplaces.looking import until
from workplaces.container import podman_service
from workplaces.container.place import Container
from workplaces.container.podman_service import PodmanService
from workplaces.container.refusals import Unusable
from workplaces.place import PlaceUnavailable, RunRequest
from workplaces.words import PLACE_WORDS


def services(mark: str) -> list[int]:
    """Every process of a service whose socket's path holds this."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if b"\0system\0service\0" in words and mark.encode() in words and state not in "ZX":
                found.append(int(entry.name))
    return found


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine listens where engines do, whatever else runs on this machine."""
    monkeypatch.setattr("workplaces.container.contexts.known", lambda env, home: ())


@pytest.fixture
def env(rootful_podman: Podman) -> dict[str, str]:
    """The settings of the tests' own Podman, as of one that is installed: nobody named an engine."""
    own = {name: value for name, value in rootful_podman.env.items() if name != "DOCKER_HOST"}
    return {**own, "CONTAINER_HOST": "unix:///nowhere.sock"}  # it is for another program than a service


@pytest.fixture
async def place(env: dict[str, str], nowhere: None, rootful_podman: Podman, tmp_path: Path) -> AsyncIterator[Container]:
    made = Container(tmp_path / "conch", image=lambda: rootful_podman.image, env=env, person=tmp_path / "person")
    yield made
    await made.close()
    assert services(str(tmp_path)) == []
    rootful_podman.clear()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


async def test_it_is_started_for_conch_alone_and_ends_with_it(place: Container, work: Path, tmp_path: Path) -> None:
    result = await place.run(RunRequest(command="echo here", folder=work))
    assert (result.code, result.output.out) == (0, "here\n")
    details = result.proof.details
    assert details["found"] == PLACE_WORDS["engine.source.own"]
    folder = tmp_path / "conch" / "podman"
    (socket,) = folder.glob("*.sock")
    assert details["endpoint"] == f"unix://{socket}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(services(str(socket))) == 1
    status = await place.standing()
    assert (status.standing, status.details["found"]) == ("ready", PLACE_WORDS["engine.source.own"])
    await place.close()
    assert services(str(tmp_path)) == []
    assert list(folder.glob("*.sock")) == []


async def test_it_ends_when_idle_and_the_next_command_starts_it_again(
    place: Container, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = place._engines._service
    assert service is not None
    monkeypatch.setattr(service, "_idle", 1)
    assert (await place.run(RunRequest(command="true", folder=work))).code == 0
    place._spares.drop()
    await until(lambda: services(str(tmp_path)) == [], 20, "it did not end")
    assert (await place.run(RunRequest(command="echo again", folder=work))).output.out == "again\n"


async def test_it_does_not_end_while_a_command_runs(
    place: Container, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = place._engines._service
    assert service is not None
    monkeypatch.setattr(service, "_idle", 1)
    result = await place.run(RunRequest(command="sleep 3; echo late", folder=work))
    assert (result.code, result.output.out, result.sure) == (0, "late\n", True)


async def test_one_service_is_started_for_everyone_who_asks(place: Container, work: Path, tmp_path: Path) -> None:
    results = await asyncio.gather(*(place.run(RunRequest(command="true", folder=work)) for _ in range(3)))
    assert [result.code for result in results] == [0, 0, 0]
    assert len(services(str(tmp_path))) == 1


async def test_a_podman_that_cannot_start_says_why(
    nowhere: None, env: dict[str, str], tmp_path: Path, work: Path
) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("[engine\n")
    place = Container(tmp_path / "conch", image=lambda: "x", env={**env, "CONTAINERS_CONF": str(bad)}, person=tmp_path)
    with pytest.raises(PlaceUnavailable, match=r"its service could not be started\. .*bad\.conf") as raised:
        await place.run(RunRequest(command="touch PROOF", folder=work))
    assert raised.value.next_step is not None
    assert raised.value.next_step.command == "podman info"
    assert not (work / "PROOF").exists()
    await place.close()


def test_a_home_that_is_too_deep_for_a_socket_gets_a_short_one(env: dict[str, str], tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80) / "podman"
    runtime = tmp_path / "run"
    runtime.mkdir()
    service = PodmanService(deep, {**env, "XDG_RUNTIME_DIR": str(runtime)})
    try:
        endpoint = service.start()
        assert Path(endpoint.path).parent.parent == runtime
        assert Path(endpoint.path).parent.stat().st_mode & 0o777 == 0o700
    finally:
        service.close()
    assert services(str(runtime)) == []


def test_a_folder_of_somebody_elses_is_not_used(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "podman"
    folder.mkdir()
    os.chown(folder, 4242, 4242)
    with pytest.raises(Unusable, match="somebody else"):
        PodmanService(folder, env).start()
    other = tmp_path / "link"
    other.symlink_to(tmp_path)
    with pytest.raises(Unusable, match="somebody else"):
        PodmanService(other, env).start()


# A Conch that is killed while its service runs.
_KILLED = """\
import os, signal, sys
from pathlib import Path
from workplaces.container.podman_service import PodmanService
print(PodmanService(Path(sys.argv[1]), os.environ, idle=1).start().path, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["rootful_podman", "rootless_podman"])
def test_nothing_is_left_of_it_when_conch_is_killed(
    request: pytest.FixtureRequest, name: str, ordinary_user: Person, tmp_path: Path
) -> None:
    """It ends by itself once nobody has asked it for a while; its dead socket goes with the next start."""
    engine: Podman = request.getfixturevalue(name)
    folder = (ordinary_user.folder("service") if engine.person else tmp_path) / "podman"
    words = [sys.executable, "-c", _KILLED, str(folder)]
    env = {name: value for name, value in engine.env.items() if name != "DOCKER_HOST"}
    root = str(Path(podman_service.__file__).parents[2])
    if engine.person:
        words = engine.person.argv(*words)
    conch = subprocess.Popen(words, env={**env, "PYTHONPATH": root}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert conch.stdout is not None
        socket = conch.stdout.readline().decode().strip()
        assert services(socket), socket
        killed = [pid for pid in _family(conch.pid) if b"PodmanService" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
    finally:
        conch.kill()
        conch.wait()
    end = time.monotonic() + 20
    while services(socket) and time.monotonic() < end:
        time.sleep(0.05)
    assert services(socket) == []


def _family(pid: int) -> Iterator[int]:
    """A process and what it started, itself first."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from _family(int(child))


def test_an_ordinary_users_service_is_two_processes_and_both_end(
    rootless_podman: Podman, ordinary_user: Person
) -> None:
    code = """
import asyncio, json, os, sys
from pathlib import Path
from workplaces.container import contexts
from workplaces.container.place import Container
from workplaces.place import RunRequest
contexts.known = lambda env, home: ()
async def main():
    place = Container(Path(sys.argv[1]), image=lambda: sys.argv[2])
    result = await place.run(RunRequest(command="id -u; touch made", folder=Path(sys.argv[3])))
    await place.close()
    print(json.dumps([result.code, result.output.out, result.proof.details["endpoint"], result.proof.details["found"]]))
asyncio.run(main())
"""
    work = ordinary_user.folder("service-work")
    env = {name: value for name, value in env_for(rootless_podman).items() if name != "DOCKER_HOST"}
    home = str(ordinary_user.home / "conch-service")
    done = ordinary_user.python(code, home, rootless_podman.image, str(work), env=env)
    assert done.returncode == 0, done.stderr
    code_, out, endpoint, found = json.loads(done.stdout)
    assert (code_, out, found) == (0, f"{ordinary_user.uid}\n", PLACE_WORDS["engine.source.own"])
    assert re.fullmatch(rf"unix://{home}/podman/[0-9a-f]{{8}}\.sock", endpoint)
    assert (work / "made").stat().st_uid == ordinary_user.uid
    assert services(home) == []


async def test_a_service_that_dies_in_mid_command_leaves_what_is_not_known(
    rootful_podman: Podman, tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman's boxes go on without it. What came is kept, what is not known is said, and the box goes when it can."""
    env = {**os.environ, "DOCKER_HOST": rootful_podman.host, "DOCKER_CONFIG": str(rootful_podman.home)}
    place = Container(tmp_path / "conch", image=lambda: rootful_podman.image, env=env)
    try:
        running = asyncio.get_running_loop().create_task(
            place.run(RunRequest(command="echo early; touch begun; sleep 60; echo late", folder=work))
        )
        await until((work / "begun").exists, 20, "it did not begin")
        await asyncio.to_thread(rootful_podman.crash)
        result = await running
        assert (result.code, result.output.out, result.sure) == (None, "early\n", False)
        assert result.note == PLACE_WORDS["container.lost"].format(engine=result.proof.details["engine"])
        assert len(rootful_podman.boxes(conch_work="1")) >= 1
    finally:
        rootful_podman.start()
    await until(lambda: rootful_podman.boxes(conch_work="1") == [], 30, "the box was left")
    await place.close()
