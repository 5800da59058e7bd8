"""The real Podmans hold what they promise: without that, what stands on them proves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines import images, podman
from tests.real.engines.folders import Held, sockets
from tests.real.engines.person import CHECKOUT, Person
from tests.real.engines.podman import Kind, Podman

pytestmark = pytest.mark.real

KINDS: tuple[Kind, ...] = ("rootful", "rootless")


def _needs(need: Callable[..., None], kind: Kind) -> None:
    need(*(podman.PROGRAMS if kind == "rootful" else podman.ROOTLESS_PROGRAMS), root=True)


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest, need: Callable[..., None], ordinary_user: Person) -> Iterator[Podman]:
    kind: Kind = request.param
    _needs(need, kind)
    own = podman.rootless_podman(ordinary_user)
    with own if kind == "rootless" else podman.rootful_podman(group=ordinary_user.gid) as running:
        yield running


@pytest.fixture(params=KINDS)
def fresh(
    request: pytest.FixtureRequest, need: Callable[..., None], ordinary_user: Person, tmp_path: Path
) -> Iterator[Podman]:
    kind: Kind = request.param
    _needs(need, kind)
    scratch = ordinary_user.folder("fresh") if kind == "rootless" else tmp_path
    with podman.fresh_podman(scratch, person=ordinary_user if kind == "rootless" else None) as running:
        yield running


def _run(engine: Podman, command: str, person: Person, folder: Path, *, network: str = "none") -> str:
    """What a box prints in a folder, made as the person's own; over the engine's API."""
    host: dict[str, Any] = {
        "CapDrop": ["ALL"],
        "Init": True,
        "NetworkMode": network,
        "Mounts": [{"Type": "bind", "Source": str(folder), "Target": str(folder)}],
        "Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 1024}, {"Name": "nproc", "Soft": 4096, "Hard": 4096}],
    }
    if engine.kind == "rootless":
        host["UsernsMode"] = "keep-id"
    body = {
        "Image": engine.image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", command],
        "User": f"{person.uid}:{person.gid}",
        "WorkingDir": str(folder),
        "HostConfig": host,
    }
    with engine.client() as client:
        box = client.api.create_container_from_config(body)["Id"]
        try:
            client.api.start(box)
            client.api.wait(box)
            printed: bytes = client.api.logs(box)
        finally:
            client.api.remove_container(box, force=True)
    return printed.decode()


@contextmanager
def _listening() -> Iterator[int]:
    """A port of this computer that says hello, on every address that it has."""
    import socket

    def answer() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.sendall(b"hello")

    with socket.create_server(("0.0.0.0", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _sleeping(engine: Podman) -> tuple[str, int]:
    """A box that does nothing for long: its id and the number of its process here."""
    box = engine.cli("run", "--detach", "--network=none", engine.image, "sleep", "1000").stdout.strip()
    return box, int(engine.cli("inspect", "--format={{.State.Pid}}", box).stdout)


def _alive(pid: int) -> bool:
    """Whether it runs. One that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_is_the_podman_that_it_says(engine: Podman) -> None:
    status, text = engine.get("/v4.0.0/libpod/info")
    told = json.loads(text)
    assert status == 200
    assert told["host"]["security"]["rootless"] is (engine.kind == "rootless")
    assert told["store"]["graphDriverName"] == "overlay"
    assert told["store"]["graphStatus"]["Native Overlay Diff"] == "true"
    assert engine.socket.is_relative_to(engine.runtime_dir)
    if engine.person:
        assert engine.socket.stat().st_uid == engine.person.uid


def test_it_holds_the_default_image_and_nothing_else(engine: Podman) -> None:
    _, text = engine.get("/images/json")
    (found,) = json.loads(text)
    assert found["RepoTags"] == [images.NODE]
    assert found["RepoDigests"]
    assert engine.boxes() == []
    assert engine.cli("run", "--rm", "--network=none", engine.image, "--version").stdout.startswith("v24.")


def test_the_program_and_the_service_see_the_same_boxes(engine: Podman) -> None:
    box = engine.cli("create", "--label=conch.work=1", "--network=none", engine.image).stdout.strip()
    with engine.client() as client:
        assert [found["Id"] for found in client.api.containers(all=True)] == [box]
    assert engine.boxes(conch_work="1") == [box]
    assert engine.boxes(conch_work="2") == []
    engine.clear()
    assert engine.boxes() == []
    assert engine.has(engine.image)


def test_what_a_box_makes_is_the_persons(engine: Podman, ordinary_user: Person) -> None:
    folder = ordinary_user.folder("made")
    assert _run(engine, "id -u; touch there", ordinary_user, folder).split() == [str(ordinary_user.uid)]
    made = (folder / "there").stat()
    assert (made.st_uid, made.st_gid) == (ordinary_user.uid, ordinary_user.gid)


def test_an_open_box_reaches_this_computer_and_a_sealed_one_does_not(engine: Podman, ordinary_user: Person) -> None:
    folder = ordinary_user.folder("net")
    with _listening() as port:
        code = f"import socket; print(socket.create_connection(('host.containers.internal', {port}), 5).recv(9))"
        command = f'python3 -c "{code}" 2>&1 | tail -1'
        # "private" is what Podman gives when nothing is asked: the bridge, or slirp4netns for an ordinary user
        assert _run(engine, command, ordinary_user, folder, network="private") == "b'hello'\n"
        assert "b'hello'" not in _run(engine, command, ordinary_user, folder)


def test_limits_hold_where_it_says_that_it_has_control_groups(engine: Podman) -> None:
    _, text = engine.get("/v4.0.0/libpod/info")
    controllers = json.loads(text)["host"]["cgroupControllers"]
    read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null || true"
    words = ("run", "--rm", "--network=none", "--memory=64m", engine.image, "sh", "-c", read)
    assert (str(64 << 20) in engine.cli(*words).stdout) is ("memory" in controllers)
    if engine.kind == "rootful":
        assert "memory" in controllers


def test_it_can_be_stopped_and_started_again(engine: Podman) -> None:
    engine.stop()
    assert not engine.running
    with pytest.raises(OSError):  # noqa: PT011  # which one is the system's business
        engine.get("/_ping")
    engine.start()
    assert engine.get("/_ping") == (200, b"OK")


def test_a_box_outlives_a_service_that_crashes(engine: Podman) -> None:
    box, pid = _sleeping(engine)
    engine.crash()
    with pytest.raises(OSError):  # noqa: PT011
        engine.get("/_ping")
    assert _alive(pid)
    engine.start()
    assert engine.boxes() == [box]
    engine.clear()
    assert not _alive(pid)


def test_an_ordinary_user_may_use_it(engine: Podman, ordinary_user: Person) -> None:
    code = "import docker, sys; print(docker.DockerClient(base_url=sys.argv[1]).version()['Components'][0]['Name'])"
    done = ordinary_user.python(code, engine.host)
    assert done.stdout.strip() == "Podman Engine", done.stderr


def test_an_image_that_is_nowhere_is_said_to_be(engine: Podman) -> None:
    for name in (f"{engine.registry}/library/none:1", "docker.io/library/none:1"):
        with pytest.raises(RuntimeError, match="manifest unknown"):
            engine.pull(name)


def test_a_fresh_one_holds_nothing_and_its_pull_can_be_slowed_down(fresh: Podman) -> None:
    assert json.loads(fresh.get("/images/json?all=1")[1]) == []
    with fresh.slowly(60_000_000):
        start = time.monotonic()
        fresh.pull(fresh.slow)
    assert time.monotonic() - start > 2
    assert fresh.has(fresh.slow)
    fresh.forget(fresh.slow)
    assert not fresh.has(fresh.slow)


# A run of the tests that is killed while a box of its Podman runs. The box is its own init, which waits for ever.
_KILLED = """\
import os, signal, sys
from pathlib import Path
from tests.real.engines import podman
from tests.real.engines.person import Person

scratch, *person = sys.argv[1:]
who = Person(person[0], int(person[1]), int(person[2]), Path(person[3])) if person else None
with podman.fresh_podman(Path(scratch), person=who) as engine:
    engine.pull(engine.bare)
    words = "run", "--detach", "--init", "--network=none", "--entrypoint=/run/podman-init", engine.bare, "-P"
    box = engine.cli(*words).stdout.strip()
    print(engine.runtime_dir, engine.cli("inspect", "--format={{.State.Pid}}", box).stdout, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_run_left_is_gone_with_the_next_one(
    kind: Kind, need: Callable[..., None], ordinary_user: Person, tmp_path: Path
) -> None:
    _needs(need, kind)
    person = ordinary_user if kind == "rootless" else None
    scratch = person.folder("killed") if person else tmp_path
    words = [sys.executable, "-c", _KILLED, str(scratch)]
    words += [person.name, str(person.uid), str(person.gid), str(person.home)] if person else []
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    killed = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    runtime_dir, pid = killed.stdout.split()
    number = int(Path(runtime_dir).parent.name.rpartition("-")[2])
    assert _alive(int(pid))
    held = Held(sockets() / f"podman-{kind}-{number}.lock", wait=True)
    try:
        engine = Podman(number, scratch / "podman-data", person)
        try:
            assert not _alive(int(pid))
            engine.clear()
            assert json.loads(engine.get("/containers/json?all=1")[1]) == []
        finally:
            engine.close()
    finally:
        held.free()
    assert not Path(runtime_dir).exists()
    assert not _started_for(Path(runtime_dir).parent)


def test_nothing_of_it_is_left_when_it_is_closed(fresh: Podman) -> None:
    fresh.pull(fresh.bare)
    words = "run", "--detach", "--init", "--network=private", "--entrypoint=/run/podman-init", fresh.bare, "-P"
    box = fresh.cli(*words).stdout.strip()
    pid = int(fresh.cli("inspect", "--format={{.State.Pid}}", box).stdout)
    place = fresh.runtime_dir.parent
    assert _started_for(place)
    fresh.close()
    assert not _alive(pid)
    assert not _started_for(place)
    assert not place.exists()
    assert str(place) not in Path("/proc/mounts").read_text()


def _started_for(place: Path) -> list[int]:
    """Every process that names the engine's folder in its words or its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"{place}/".encode() in told:
            found.append(int(entry.name))
    return found
