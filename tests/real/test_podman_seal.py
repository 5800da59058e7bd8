"""The seal on a real Podman, rootful and rootless: the very tests of the one on Docker, and what only Podman does."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.engines.reached import Reached, env_for, reached
from tests.real.test_container_seal import (
    BOTH,
    Run,
    pairs,
    run,
    test_a_setuid_program_gives_nothing,
    test_a_socket_and_a_pipe_can_be_covered,
    test_conchs_own_empty_file_is_looked_at_each_time,
    test_git_cannot_be_hooked_when_sealed_and_can_when_open,
    test_home_is_made_in_the_box_and_the_persons_alone,
    test_keys_in_the_folder_cannot_be_read_by_any_way,
    test_nothing_may_be_done_that_needs_a_capability,
    test_odd_names_keep_the_seal,
    test_only_the_folder_and_tmp_can_be_written,
    test_the_limits_are_the_kernels,
    test_tmp_is_empty_each_time_and_private,
    test_tmp_is_two_gigabytes_for_everyone_and_may_run_programs,
    work,
)
from tests.workplaces.contract import repository
from tests.workplaces.looking import until
from workplaces.container.place import Container
from workplaces.place import CONTAINER, RunRequest

__all__ = [
    "run",
    "test_a_setuid_program_gives_nothing",
    "test_a_socket_and_a_pipe_can_be_covered",
    "test_conchs_own_empty_file_is_looked_at_each_time",
    "test_git_cannot_be_hooked_when_sealed_and_can_when_open",
    "test_home_is_made_in_the_box_and_the_persons_alone",
    "test_keys_in_the_folder_cannot_be_read_by_any_way",
    "test_nothing_may_be_done_that_needs_a_capability",
    "test_odd_names_keep_the_seal",
    "test_only_the_folder_and_tmp_can_be_written",
    "test_the_limits_are_the_kernels",
    "test_tmp_is_empty_each_time_and_private",
    "test_tmp_is_two_gigabytes_for_everyone_and_may_run_programs",
    "work",
]


@pytest.fixture
def docker_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reached]:
    """Root's Podman, or that of the ordinary user who runs these tests: as the one that DOCKER_HOST names."""
    engine = reached() or Reached(env_for(request.getfixturevalue("rootful_podman")), "rootful")
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))
    yield engine
    engine.clear()


@pytest.fixture
async def place(docker_host: Reached, tmp_path: Path) -> AsyncIterator[Container]:
    made = Container(tmp_path / "conch", image=lambda: docker_host.image)
    yield made
    await made.close()
    assert docker_host.boxes(conch_work="1") == []


@pytest.mark.timeout(300)
def test_it_holds_for_an_ordinary_user_on_a_podman_of_their_own(ordinary_user: Person, rootless_podman: Podman) -> None:
    left_out = ["ordinary_user"]
    if "pids" not in rootless_podman.cli("info", "--format={{.Host.CgroupControllers}}").stdout:
        left_out.append("test_the_limits_are_the_kernels")  # it has no control groups; see "where_no_limit_holds"
    env = {**env_for(rootless_podman), "CI": "1"}
    chosen = f"not ({' or '.join(left_out)})"
    done = ordinary_user.pytest("-q", "-x", __file__, "-k", chosen, env=env, timeout=280)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 30


@BOTH
async def test_the_box_has_nothing_of_this_computers_environment(
    run: Run, opened: bool, docker_host: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTPS_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "http://secret@proxy:1")
    with docker_host.client() as client:
        image = dict(line.split("=", 1) for line in client.images.get(docker_host.image).attrs["Config"]["Env"])
    seen = pairs((await run(("env",), open=opened)).output.out)
    hostname = seen.pop("HOSTNAME", "0" * 12)
    assert re.fullmatch("[0-9a-f]{12}", hostname)
    assert (seen.pop("container", "podman"), seen.pop("TERM", "xterm")) == ("podman", "xterm")
    assert seen == {"PATH": image.get("PATH", ""), **image, "HOME": "/tmp/home", "LANG": "C.UTF-8"}


@contextmanager
def listening() -> Iterator[int]:
    """A port of this computer that says hello, on every address that it has."""

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


async def test_a_sealed_box_reaches_nobody_and_an_open_one_this_computer(run: Run) -> None:
    with listening() as port:
        code = f"import socket; print(socket.create_connection(('host.containers.internal', {port}), 5).recv(9))"
        line = f'python3 -c "{code}" 2>&1 | tail -1; ls /sys/class/net'
        sealed = await run(line)
        opened = await run(line, open=True)
    assert "hello" not in sealed.output.out
    assert sealed.output.out.splitlines()[1:] == ["lo"]
    assert opened.output.out.splitlines()[0] == "b'hello'"
    assert (sealed.proof.network, opened.proof.network) == (False, True)
    assert (sealed.proof.details["network"], opened.proof.sealed) == ("none", False)


async def test_the_proof_says_what_podman_says(run: Run, work: Path, docker_host: Reached) -> None:
    repository(work)
    (work / "key").write_text("SECRET")
    sealed = (await run("true", protected=(work / "key",))).proof
    assert (sealed.place, sealed.network, sealed.sealed, sealed.folder) == ("container", False, True, str(work))
    with docker_host.client() as client:
        image = client.images.get(docker_host.image)
    assert {
        "image id": image.id,
        "digest": image.attrs["RepoDigests"][0].rpartition("@")[2],
        "endpoint": docker_host.host,
        "found": "DOCKER_HOST",
        "network": "none",
        "user": f"{os.getuid()}:{os.getgid()}",
        "capabilities": "none",
        "new privileges": "no",
        "root": "read-only",
        ".git": "read-only",
        "covered": "1",
        "folder proven by": "device and inode",
    }.items() <= sealed.details.items()
    assert re.fullmatch(r"Podman \d+\.\d.*", sealed.details["engine"])
    opened = (await run("true", open=True)).proof
    assert (opened.network, opened.sealed, opened.details[".git"]) == (True, False, "writable")


async def test_where_no_limit_holds_it_is_said(run: Run, place: Container, docker_host: Reached) -> None:
    """And where it holds, the words name it. The kernel's word decides."""
    controllers = docker_host.cli("info", "--format={{.Host.CgroupControllers}}").stdout
    result = await run("grep 'Max processes' /proc/self/limits")
    status = await place.standing()
    said = (place.about(Path("/work")), status.details["limits"])
    if "pids" in controllers:
        assert all("At most 4 GB of memory" in text and "512 processes" in text for text in said)
        assert not any("cannot limit" in text for text in said)
        assert (result.proof.details["memory"], result.proof.details["processes"]) == ("4 GB", "512")
        return
    assert all("Podman cannot limit memory or processors on this computer." in text for text in said)
    assert all("At most 512 processes." in text for text in said)
    assert result.output.out.split()[2:4] == ["512", "512"]
    assert result.proof.details["memory"] == "no limit"
    assert result.proof.details["processors"] == "no limit"
    assert result.proof.details["processes"] == "512, counted by the kernel"
    assert result.proof.details["not limited"] == "memory or processors"


async def test_too_many_processes_are_refused_and_the_next_command_is_none_the_worse(
    run: Run, docker_host: Podman | Reached
) -> None:
    """By control groups, or by the kernel's count for the box's own user namespace. Until that box is gone Podman
    itself may find no room for the programs that it starts."""
    result = await run("n=0; while [ $n -lt 700 ]; do sleep 30 & n=$((n+1)); done")
    assert "Cannot fork" in result.output.text
    assert result.code == 2
    await until(lambda: result.proof.target not in docker_host.boxes(conch_work="1"), 20, "the box is gone")
    assert (await run("echo fine")).output.out == "fine\n"


async def test_an_images_own_entry_point_user_and_volume_do_nothing(
    docker_host: Reached, tmp_path: Path, work: Path
) -> None:
    with docker_host.client() as client:
        box = client.api.create_container(docker_host.image, ["true"])
        changes = ['ENTRYPOINT ["/bin/false"]', "VOLUME /data", "USER 4242", "ENV X=of-image"]
        client.api.commit(box["Id"], "docker.io/library/odd-image", "1", changes="\n".join(changes))
        client.api.remove_container(box["Id"])
    place = Container(tmp_path / "other", image=lambda: "odd-image:1")
    line = "id -u; echo $X; echo x > /data/x; stat -f -c %T /data; cat /data/x"
    result = await place.run(RunRequest(command=line, folder=work))
    assert result.output.out == f"{os.getuid()}\nof-image\ntmpfs\nx\n"
    await place.close()
    with docker_host.client() as client:
        assert client.api.volumes()["Volumes"] in (None, [])


async def test_a_folder_that_is_gone_is_not_made_anew(place: Container, work: Path, tmp_path: Path) -> None:
    """Podman's Docker-compatible call would make what is mounted on this computer, and run."""
    gone = tmp_path / "gone"
    engine = await place._engines.find()
    body = _body(place, engine, work)
    body["HostConfig"]["Mounts"][0]["Source"] = str(gone)
    with pytest.raises(docker.errors.APIError):
        _make_and_start(engine, body)
    assert not gone.exists()


async def test_a_box_that_podman_did_not_seal_is_taken_away(
    place: Container, work: Path, docker_host: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpod ignores what it does not know, so each promise is read back before anything runs."""
    from workplaces.container import podman

    engine = await place._engines.find()
    honest = podman.libpod
    for spoiled, what in (
        ({"cap_drop": []}, "capabilities"),
        ({"no_new_privileges": False}, "no new privileges"),
        ({"read_only_filesystem": False}, "a read-only root"),
        ({"netns": {"nsmode": "default"}}, "no network"),
        ({"mounts": []}, "the mounts"),
        ({"r_limits": [{"type": "nofile", "soft": 99, "hard": 99}, {"type": "nproc", "soft": 9, "hard": 9}]}, "limits"),
        ({"user": "4242:4242"}, "the user"),
        ({"pidns": {"nsmode": "host"}, "init": False}, "namespaces"),
    ):
        monkeypatch.setattr(podman, "libpod", lambda *how, spoiled=spoiled: {**honest(*how), **spoiled})
        with pytest.raises(docker.errors.APIError) as raised:
            engine.create(_body(place, engine, work), "conch-spoiled")
        assert what in str(raised.value)
        assert docker_host.boxes() == []


def _body(place: Container, engine: Any, work: Path) -> dict[str, Any]:
    """What the engine is told for a sealed box in the folder."""
    from workplaces.container.box import BoxAsk, seal
    from workplaces.folder import check_folder

    fields: dict[str, Any] = {"command": "true"} if "command" in BoxAsk.__dataclass_fields__ else {}
    ask = BoxAsk(
        image=place._image(),
        folder=check_folder(work, ()),
        open=False,
        user=engine.facts.user(os.getuid(), os.getgid()),
        empty=place._house.empty(),
        **fields,
    )
    assert place.id == CONTAINER
    return seal(ask, engine.facts)


def _make_and_start(engine: Any, body: dict[str, Any]) -> None:
    box = engine.create(body, "conch-gone")
    try:
        engine.attach(box).sock.close()
        engine.start(box)
    finally:
        engine.remove(box)
