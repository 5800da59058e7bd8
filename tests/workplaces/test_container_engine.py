"""Finding the engine: which one, how long, and the words for each that cannot be used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import INFO, VERSION, EngineDouble
from tests.workplaces.looking import held
from workplaces.container import contexts
from workplaces.container.asking import read_facts, try_engine
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import Engine
from workplaces.container.finding import Engines
from workplaces.container.refusals import Unusable, in_words
from workplaces.place import PlaceUnavailable


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_other_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Docker is installed on the machine that runs this must not matter."""
    monkeypatch.setattr("workplaces.container.programs.shutil.which", lambda name, **_: None)


def known(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, str]) -> None:
    places = tuple(Endpoint(f"unix://{path}", source) for path, source in addresses)
    monkeypatch.setattr(contexts, "known", lambda env, home: places)


async def refused(env: dict[str, str], home: Path) -> PlaceUnavailable:
    with pytest.raises(PlaceUnavailable) as raised:
        await Engines(env=env, home=home).find()
    assert raised.value.need == "container"
    return raised.value


async def test_an_engine_is_named_with_its_version_and_where_it_is(double: EngineDouble, tmp_path: Path) -> None:
    engines = Engines(env={"DOCKER_HOST": double.host}, home=tmp_path)
    engine = await engines.find()
    assert (engine.name, engine.endpoint.address, engine.endpoint.source) == (
        "Docker 24.0.1",
        double.host,
        "DOCKER_HOST",
    )
    assert engine.facts.api == "1.43"
    assert (engine.facts.cpus, engine.facts.native) == (8, False)
    asked = len(double.asked)
    assert await engines.find() is engine
    assert len(double.asked) == asked, "it was asked again"
    assert await engines.find(look=True) is engine
    assert len(double.asked) > asked
    engines.close()


async def test_it_is_looked_for_once_for_everyone(double: EngineDouble, tmp_path: Path) -> None:
    engines = Engines(env={"DOCKER_HOST": double.host}, home=tmp_path)
    found = await asyncio.gather(*(engines.find() for _ in range(5)))
    assert len({id(engine) for engine in found}) == 1
    assert double.asked.count("GET /version") == 1
    engines.close()


async def test_an_engine_that_was_forgotten_is_looked_for_again(double: EngineDouble, tmp_path: Path) -> None:
    engines = Engines(env={"DOCKER_HOST": double.host}, home=tmp_path)
    first = await engines.find()
    engines.forget(first)
    assert await engines.find() is not first
    engines.close()


async def test_another_docker_host_is_another_engine(double: EngineDouble, tmp_path: Path) -> None:
    env = {"DOCKER_HOST": double.host}
    engines = Engines(env=env, home=tmp_path)
    await engines.find()
    env["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    with pytest.raises(PlaceUnavailable, match=r"none\.sock"):
        await engines.find()
    engines.close()


async def test_dead_sockets_are_passed_over_for_a_living_engine(
    double: EngineDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    known(
        monkeypatch,
        (f"{tmp_path}/none.sock", "Docker"),
        (f"{tmp_path}/dead.sock", "OrbStack"),
        (str(double.socket), "Colima"),
    )
    engine = await Engines(env={}, home=tmp_path).find()
    assert engine.endpoint.source == "Colima"


async def test_a_docker_host_that_is_dead_is_never_passed_over(
    double: EngineDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, (str(double.socket), "Docker"))
    error = await refused({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, tmp_path)
    assert f"{tmp_path}/none.sock" in error.words
    assert "DOCKER_HOST" in error.words
    assert "Nothing is there" in error.words
    assert error.next_step is not None
    assert double.asked == []


async def test_a_context_that_is_dead_is_named(tmp_path: Path) -> None:
    docker = tmp_path / ".docker"
    meta = docker / "contexts" / "meta" / hashlib.sha256(b"work").hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": f"unix://{tmp_path}/x.sock"}}}))
    (docker / "config.json").write_text('{"currentContext": "work"}')
    error = await refused({}, tmp_path)
    assert "docker context “work”" in error.words
    assert "x.sock" in error.words


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:2375", "ssh://me@build-box"])
async def test_an_engine_on_another_computer_is_refused_and_not_asked(address: str, tmp_path: Path) -> None:
    began = time.monotonic()
    error = await refused({"DOCKER_HOST": address}, tmp_path)
    assert "another computer" in error.words
    assert address in error.words
    assert time.monotonic() - began < 1


async def test_nothing_at_all_needs_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, (f"{tmp_path}/none.sock", "Docker"))
    error = await refused({}, tmp_path)
    assert "no container engine" in error.words
    assert error.next_step is not None
    assert error.next_step.label == "Install Podman"


async def test_a_docker_that_is_installed_is_not_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, (f"{tmp_path}/none.sock", "Docker"))
    monkeypatch.setattr(
        "workplaces.container.programs.shutil.which",
        lambda name, **_: "/usr/bin/dockerd" if name == "dockerd" else None,
    )
    error = await refused({}, tmp_path)
    assert error.words == "Docker is not running."
    assert error.next_step is not None
    assert error.next_step.command == "sudo systemctl start docker"


async def test_a_socket_that_nobody_serves_is_a_docker_that_is_not_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    known(monkeypatch, (f"{tmp_path}/dead.sock", "Docker"))
    error = await refused({}, tmp_path)
    assert error.words == "Docker is not running."


def test_no_permission_names_the_group_and_one_command(tmp_path: Path) -> None:
    denied = Unusable("denied", Endpoint("unix:///var/run/docker.sock", "Docker"), "EACCES")
    gone = Unusable("gone", Endpoint("unix:///x", "OrbStack"))
    error = in_words([gone, denied], {})
    assert "/var/run/docker.sock" in error.words
    assert error.next_step is not None
    assert error.next_step.command == 'sudo usermod -aG docker "$USER"'
    assert "EACCES" in error.details
    assert "OrbStack" in error.details


@pytest.mark.parametrize(
    ("version", "info", "says"),
    [
        ({"ApiVersion": "1.39"}, {}, "too old"),
        ({}, {"OSType": "windows"}, "Windows containers"),
        ({}, {"SecurityOptions": ["name=userns"]}, "userns-remap"),
        ({"ApiVersion": "x"}, {}, "does not speak as Docker"),
        ({"ApiVersion": None}, {}, "does not speak as Docker"),
        ({"Components": 5}, {}, "does not speak as Docker"),
        ({}, {"NCPU": "many"}, "does not speak as Docker"),
        ({}, {"NCPU": None}, "does not speak as Docker"),
        ({}, {"SecurityOptions": 5}, "does not speak as Docker"),
    ],
)
async def test_what_cannot_be_used_says_which(
    double: EngineDouble, tmp_path: Path, version: dict[str, Any], info: dict[str, Any], says: str
) -> None:
    double.version |= version
    double.info |= info
    error = await refused({"DOCKER_HOST": double.host}, tmp_path)
    assert says in error.words
    assert double.host in error.words
    assert error.next_step is not None


@pytest.mark.parametrize(
    "answer", [(500, {"message": "x"}), (200, b"nonsense"), (200, []), (200, {}), (404, b"<html>")]
)
@pytest.mark.parametrize("path", ["GET .*/version", "GET .*/info"])
async def test_a_liar_is_no_engine(double: EngineDouble, tmp_path: Path, path: str, answer: tuple[int, Any]) -> None:
    double.answer(path, *answer)
    assert "does not speak as Docker" in (await refused({"DOCKER_HOST": double.host}, tmp_path)).words


async def test_one_that_hangs_up_is_no_engine(double: EngineDouble, tmp_path: Path) -> None:
    double.drop("GET .*")
    assert "does not speak as Docker" in (await refused({"DOCKER_HOST": double.host}, tmp_path)).words


async def test_one_that_does_not_answer_is_not_waited_for_long(double: EngineDouble) -> None:
    double.hang("GET .*")
    with pytest.raises(Unusable) as raised:
        try_engine(Endpoint(double.host, "a test"), limit=0.2)
    assert raised.value.why == "silent"


async def test_whoever_waits_for_a_silent_engine_can_leave(double: EngineDouble, tmp_path: Path) -> None:
    double.hang("GET .*")
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await Engines(env={"DOCKER_HOST": double.host}, home=tmp_path).find()
    assert time.monotonic() - began < 1


def test_a_newer_engine_is_spoken_to_as_this_was_written(double: EngineDouble) -> None:
    double.version["ApiVersion"] = "1.99"
    engine = try_engine(Endpoint(double.host, "a test"))
    assert engine.facts.api == "1.51"


def test_an_engine_that_answers_says_so(double: EngineDouble) -> None:
    engine = try_engine(Endpoint(double.host, "a test"))
    assert engine.answers(1)
    double.hang("GET /_ping")
    assert not engine.answers(0.1)
    double.close()
    assert not engine.answers(0.1)


def test_requests_share_their_connections(double: EngineDouble) -> None:
    engine: Engine = try_engine(Endpoint(double.host, "a test"))
    before = held()[0]
    for _ in range(5):
        engine.client.inspect_image("double:1")
        engine.client.containers()
    assert held()[0] <= before + 2
    engine.client.close()


def test_only_an_engine_on_this_kernel_has_our_inodes() -> None:
    endpoint = Endpoint("unix:///x", "a test")
    here = {**INFO, "KernelVersion": os.uname().release}
    assert read_facts(endpoint, VERSION, here, "1.43").native
    assert not read_facts(endpoint, VERSION, {**here, "OperatingSystem": "Docker Desktop"}, "1.43").native
    assert not read_facts(endpoint, VERSION, {**here, "KernelVersion": "6.6.0-linuxkit"}, "1.43").native


def test_limits_that_an_engine_does_not_keep_are_known() -> None:
    endpoint = Endpoint("unix:///x", "a test")
    facts = read_facts(endpoint, VERSION, {**INFO, "SwapLimit": False, "PidsLimit": False}, "1.43")
    assert facts.limits == ("memory", "cpus")
    assert not read_facts(endpoint, VERSION, {**INFO, "SecurityOptions": None}, "1.43").seccomp
