"""Waking an engine: each way there is, run against programs that stand in for the real ones and a socket double.

None of these ways was ever run on a real Mac or Windows computer: there the programs do what their documents say.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import VERSION, EngineDouble
from tests.workplaces.looking import until
from tests.workplaces.test_container_podman import info
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import Engine
from workplaces.container.finding import Engines
from workplaces.container.place import Container
from workplaces.container.refusals import Unusable
from workplaces.container.waking import Waking, sleepers
from workplaces.place import PlaceUnavailable, Progress, RunRequest
from workplaces.words import PLACE_WORDS


@dataclass
class Computer:
    """A computer whose programs are all stand-ins: what each was asked is a line of ``asked``."""

    root: Path
    double: EngineDouble
    platform: str = "linux"
    fixed: list[tuple[str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def applications(self) -> Path:
        return self.root / "Applications"

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.root}/bin", "HOME": str(self.home), "XDG_RUNTIME_DIR": f"{self.root}/run"}

    @property
    def asked(self) -> list[str]:
        log = self.root / "asked"
        return log.read_text().splitlines() if log.exists() else []

    def program(self, name: str, *lines: str) -> Path:
        """A stand-in: it writes down how it was called, then does the lines."""
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        text = "\n".join(["#!/bin/sh", f'echo "{name} $*" >> "{self.root}/asked"', *lines, ""])
        path.write_text(text.replace("PATH=", f"PATH={os.environ['PATH']}:"))
        path.chmod(0o755)
        return path

    def answers_at(self, where: Path, after: float = 0.0) -> str:
        """A line for a stand-in: from then on the double answers at that socket."""
        where.parent.mkdir(parents=True, exist_ok=True)
        return f"PATH=; export PATH; (sleep {after}; ln -s '{self.double.socket}' '{where}') >/dev/null 2>&1 &"

    def app(self, name: str) -> None:
        (self.applications / f"{name}.app").mkdir(parents=True)

    def waking(self, **how: Any) -> Waking:
        return Waking(
            lambda what, why: self.fixed.append((what, why)),
            env=self.env,
            home=self.home,
            platform=self.platform,
            applications=[self.applications],
            **how,
        )

    def tell(self, progress: Progress) -> None:
        if not self.told or self.told[-1] != progress.words:
            self.told.append(progress.words)

    async def wake(self, **how: Any) -> Engine | None:
        engine = await self.waking(**how).wake(GONE, self.tell)
        if engine is not None:
            engine.close()
        return engine


GONE = [Unusable("gone", Endpoint("unix:///var/run/docker.sock", "Docker"))]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workplaces.container.waking._LOOK_EVERY", 0.03)


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    double = EngineDouble(tmp_path)
    yield Computer(tmp_path, double)
    double.close()


def said(*keys: str, engine: str) -> list[str]:
    return [PLACE_WORDS[key].format(engine=engine) for key in keys]


@pytest.mark.parametrize(
    ("source", "app", "at"),
    [
        ("Docker Desktop", "Docker", ".docker/run/docker.sock"),
        ("OrbStack", "OrbStack", ".orbstack/run/docker.sock"),
        ("Rancher Desktop", "Rancher Desktop", ".rd/docker.sock"),
    ],
)
async def test_on_a_mac_an_app_is_opened_behind_and_waited_for(
    computer: Computer, source: str, app: str, at: str
) -> None:
    computer.platform = "darwin"
    computer.app(app)
    computer.program("open", computer.answers_at(computer.home / at, 0.3))
    engine = await computer.wake()
    assert engine is not None
    assert engine.endpoint == Endpoint(f"unix://{computer.home}/{at}", source)
    assert computer.asked == [f"open -g -a {app}"]
    assert computer.told == said("wake.opening", "wake.waiting", engine=source)
    assert computer.fixed == [(PLACE_WORDS["wake.opening.fixed"].format(engine=source), PLACE_WORDS["wake.fixed.why"])]


@pytest.mark.parametrize("platform", ["darwin", "linux"])
async def test_colima_is_started(computer: Computer, platform: str) -> None:
    computer.platform = platform
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock"))
    engine = await computer.wake()
    assert engine is not None
    assert engine.endpoint.source == "Colima"
    assert computer.asked == ["colima start"]
    assert computer.told == said("wake.starting", "wake.waiting", engine="Colima")
    assert computer.fixed[0][0] == "Started Colima"


@pytest.mark.parametrize("platform", ["linux", "win32"])
async def test_rancher_is_started_by_its_own_program(computer: Computer, platform: str) -> None:
    computer.platform = platform
    computer.program("rdctl", computer.answers_at(computer.home / ".rd/docker.sock"))
    engine = await computer.wake()
    assert engine is not None
    assert computer.asked == ["rdctl start"]
    assert computer.told == said("wake.starting", "wake.waiting", engine="Rancher Desktop")


@pytest.mark.parametrize(
    ("source", "unit", "at"),
    [
        ("Docker Desktop", "docker-desktop", "home/.docker/desktop/docker.sock"),
        ("rootless Docker", "docker", "run/docker.sock"),
    ],
)
async def test_on_linux_the_persons_own_service_is_started(computer: Computer, source: str, unit: str, at: str) -> None:
    units = computer.home / ".config/systemd/user"
    units.mkdir(parents=True)
    (units / f"{unit}.service").touch()
    computer.program("systemctl", computer.answers_at(computer.root / at))
    engine = await computer.wake()
    assert engine is not None
    assert engine.endpoint.source == source
    assert computer.asked == [f"systemctl --user start {unit}"]
    assert computer.told == said("wake.starting", "wake.waiting", engine=source)


async def test_on_windows_docker_desktop_is_opened(computer: Computer) -> None:
    computer.platform = "win32"
    line = computer.answers_at(computer.home / ".docker/desktop/docker.sock")
    desktop = computer.applications / "Docker/Docker/Docker Desktop.exe"
    desktop.parent.mkdir(parents=True)
    shutil.move(computer.program("Docker Desktop.exe", line), desktop)
    engine = await computer.wake()
    assert engine is not None
    assert [line.strip() for line in computer.asked] == ["Docker Desktop.exe"]
    assert computer.told == said("wake.opening", "wake.waiting", engine="Docker Desktop")


def podman(computer: Computer, *, made: bool) -> None:
    """A stand-in for Podman on a Mac: ``machine inspect`` tells, ``init`` makes, ``start`` starts."""
    at = computer.root / "machine.sock"
    told = computer.root / "machine.json"
    entry = [{"Name": "mine", "State": "stopped", "ConnectionInfo": {"PodmanSocket": {"Path": str(at)}}}]
    stopped, running = json.dumps(entry), json.dumps(entry).replace("stopped", "running")
    computer.double.version = {**VERSION, "Version": "5.2.0", "Components": [{"Name": "Podman Engine"}]}
    computer.double.answer("/libpod/info", 200, info(rootless=True))
    if made:
        told.write_text(stopped)
    computer.program(
        "podman",
        "PATH=; export PATH",
        f"case $2 in inspect) cat '{told}' || exit 125;;",
        f"init) echo '{stopped}' > '{told}';;",
        f"start) echo '{running}' > '{told}'; {computer.answers_at(at)} ;; esac",
    )


def own_questions(asked: list[str]) -> list[str]:
    return [line for line in asked if line != "podman machine inspect"]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
async def test_podmans_machine_is_started(computer: Computer, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computer.platform = platform
    podman(computer, made=True)
    monkeypatch.setattr("workplaces.container.machine._read", _as_on_a_mac(monkeypatch))
    engine = await computer.wake()
    assert engine is not None
    assert (engine.facts.kind, engine.facts.rootless, engine.endpoint.path) == (
        "podman",
        True,
        str(computer.root / "machine.sock"),
    )
    assert own_questions(computer.asked) == ["podman machine start mine"]
    assert computer.told == said("wake.starting", "wake.waiting", engine="Podman's machine")


def _as_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A named pipe cannot be had here, so that one machine is read as a Mac's."""
    from workplaces.container import machine

    real = machine._read
    return lambda entry, platform: real(entry, "darwin")


async def test_podmans_machine_is_made_where_there_is_none(computer: Computer) -> None:
    computer.platform = "darwin"
    podman(computer, made=False)
    engine = await computer.wake()
    assert engine is not None
    assert own_questions(computer.asked) == ["podman machine init", "podman machine start"]
    assert computer.told == said("wake.making", "wake.starting", "wake.waiting", engine="Podman's machine")
    assert computer.fixed[0][0] == "Made and started Podman's machine"


async def test_it_is_woken_once_for_everyone_who_waits(computer: Computer) -> None:
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock", 0.3))
    waking = computer.waking()
    told: list[list[str]] = [[], [], []]
    waits = [waking.wake(GONE, lambda progress, at=at: told[at].append(progress.words)) for at in range(3)]  # type: ignore[misc]
    engines = await asyncio.gather(*waits)
    assert len({id(engine) for engine in engines}) == 1
    assert computer.asked == ["colima start"]
    assert len(computer.fixed) == 1
    assert told[0] == told[1] == told[2] == said("wake.starting", "wake.waiting", engine="Colima")
    assert engines[0] is not None
    engines[0].close()


async def test_who_lets_go_does_not_end_it_for_the_others(computer: Computer) -> None:
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock", 0.3))
    waking = computer.waking()
    loop = asyncio.get_running_loop()
    first, second = (loop.create_task(waking.wake(GONE)) for _ in range(2))
    await until(lambda: bool(computer.asked))
    began = time.monotonic()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert time.monotonic() - began < 0.2
    engine = await second
    assert engine is not None
    engine.close()
    assert computer.asked == ["colima start"]


async def test_one_that_does_not_start_says_what_its_program_said(computer: Computer) -> None:
    computer.program("colima", "echo 'starting' ; echo 'the disk is full' >&2; exit 3")
    with pytest.raises(PlaceUnavailable) as raised:
        await computer.wake()
    assert raised.value.words == "Colima could not be started. the disk is full"
    assert raised.value.next_step is not None
    assert raised.value.next_step.command == "colima start"
    assert computer.fixed == []


async def test_one_that_never_answers_is_not_waited_for_for_ever(computer: Computer) -> None:
    computer.program("colima")
    with pytest.raises(PlaceUnavailable) as raised:
        await computer.wake(answer_limit=0.2)
    assert raised.value.words == PLACE_WORDS["wake.silent"].format(engine="Colima")
    assert "colima" in raised.value.details
    # and the next command tries anew
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock"))
    assert await computer.wake() is not None


async def test_nothing_is_woken_where_nothing_is_installed(computer: Computer) -> None:
    for computer.platform in ("linux", "darwin", "win32"):
        assert await computer.wake() is None
    assert computer.told == []


def test_an_engine_that_refuses_is_told_and_none_is_woken_in_its_place(computer: Computer) -> None:
    computer.program("colima")
    waking = computer.waking()
    assert [one.source for one in waking.possible(GONE)] == ["Colima"]
    for why in ("denied", "old", "silent", "userns"):
        refused = Unusable(why, Endpoint("unix:///var/run/docker.sock", "Docker"))  # type: ignore[arg-type]
        assert waking.possible([*GONE, refused]) == []
    closed = Unusable("denied", Endpoint("unix:///run/podman/podman.sock", "Podman"))
    assert waking.possible([*GONE, closed]) != [], "the system's own Podman is closed to everyone"


def test_one_that_the_person_named_is_the_only_one_that_is_woken(computer: Computer) -> None:
    computer.platform = "darwin"
    computer.app("Docker")
    computer.app("OrbStack")
    computer.program("open")
    orbstack = Endpoint(f"unix://{computer.home}/.orbstack/run/docker.sock", "DOCKER_HOST", explicit=True)
    other = Endpoint("unix:///elsewhere.sock", "DOCKER_HOST", explicit=True)
    waking = computer.waking()
    assert [one.source for one in waking.possible([Unusable("gone", orbstack)])] == ["OrbStack"]
    assert waking.possible([Unusable("broken", orbstack)]) == []
    assert waking.possible([Unusable("gone", other)]) == []


def test_dockers_system_service_is_the_persons_to_start(computer: Computer) -> None:
    computer.program("docker")
    computer.program("dockerd")
    computer.program("systemctl")
    assert sleepers(computer.env, computer.home, platform="linux") == []


async def test_docker_on_linux_that_is_not_running_is_one_command_of_the_persons(computer: Computer) -> None:
    computer.program("dockerd")
    computer.program("systemctl")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(computer.root / "dead.sock"))
    engines = Engines(env={**computer.env, "DOCKER_HOST": f"unix://{computer.root}/dead.sock"}, home=computer.home)
    with pytest.raises(PlaceUnavailable) as raised:
        await engines.awake()
    assert raised.value.next_step is not None
    assert raised.value.next_step.command == "sudo systemctl start docker"
    assert computer.asked == []


async def test_a_command_wakes_it_and_says_so_while_it_lasts(
    computer: Computer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the chat's side: Settings says that it will be started, two commands start it, once, and both run."""
    monkeypatch.setattr("workplaces.container.contexts.known", _only_colima)
    monkeypatch.setattr("workplaces.container.waking.known", _only_colima)
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock", 0.2))
    place = Container(
        tmp_path / "conch",
        image=lambda: "double:1",
        on_fixed=lambda what, why: computer.fixed.append((what, why)),
        env=computer.env,
        person=computer.home,
    )
    status = await place.standing()
    assert (status.standing, status.line) == ("ready", PLACE_WORDS["wake.line"].format(engine="Colima"))
    assert computer.asked == [], "looking at it does not start it"
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").touch()
    told: list[str] = []
    asks = [
        RunRequest(command="x", folder=work, timeout=10.0, on_progress=lambda progress: told.append(progress.words))
        for _ in range(2)
    ]
    results = await asyncio.gather(*map(place.run, asks))
    assert [result.code for result in results] == [0, 0]
    assert {result.proof.details["found"] for result in results} == {"Colima"}
    assert computer.asked == ["colima start"]
    assert computer.fixed == [("Started Colima", "A command needed it")]
    assert list(dict.fromkeys(told)) == said("wake.starting", "wake.waiting", engine="Colima")
    assert (await place.standing(look=True)).line == PLACE_WORDS["container.line"]
    await place.close()


async def test_who_looked_too_early_does_not_wake_it_again(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command's look takes long, and ends only when another command has woken the engine."""
    monkeypatch.setattr("workplaces.container.contexts.known", _only_colima)
    monkeypatch.setattr("workplaces.container.waking.known", _only_colima)
    computer.program("colima", computer.answers_at(computer.home / ".colima/default/docker.sock"))
    waking = computer.waking()
    engines = Engines(env=computer.env, home=computer.home, waking=waking)
    let_go = threading.Event()
    real, looks = engines._find, [0]

    def slow_at_first(look: bool) -> Engine:
        looks[0] += 1
        try:
            return real(look)
        finally:
            if looks[0] == 1:
                let_go.wait(10)

    monkeypatch.setattr(engines, "_find", slow_at_first)
    early = asyncio.get_running_loop().create_task(engines.awake())
    await until(lambda: looks[0] == 1)
    woken = await waking.wake(GONE)
    assert woken is not None
    woken.close()
    late = await asyncio.wait_for(engines.awake(), 5)
    let_go.set()
    assert (await early).endpoint == late.endpoint
    assert computer.asked == ["colima start"]
    engines.close()


def _only_colima(env: Any, home: Path) -> tuple[Endpoint, ...]:
    return (Endpoint(f"unix://{home}/.colima/default/docker.sock", "Colima"),)
