"""What every place keeps, kept by a container on a real Podman: root's, and an ordinary user's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.real import test_contract_container as on_docker
from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.engines.reached import Reached, env_for, reached
from workplaces.place import CONTAINER, RunRequest, RunResult, WorkPlace


@pytest.fixture
def docker_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman | Reached]:
    """Root's Podman, or that of the ordinary user who runs these tests: as the one that DOCKER_HOST names."""
    engine = reached() or request.getfixturevalue("rootful_podman")
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))
    yield engine
    if left := engine.boxes():
        engine.clear()
        pytest.fail(f"boxes were left: {left}")


class TestPodman(on_docker.TestContainer):
    _looked: ClassVar[set[type]] = set()

    def first(self) -> bool:
        """Whether this is the class's first test. An open box takes its time here, so it is looked at once."""
        new = type(self) not in self._looked
        self._looked.add(type(self))
        return new

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        await self.assert_podman(place, folder, (False, True) if self.first() else (False,))

    async def assert_podman(self, place: WorkPlace, folder: Path, ways: tuple[bool, ...]) -> None:
        assert place.id == CONTAINER
        look = "hostname; cat /proc/1/cmdline; grep . /proc/self/cgroup; cat /run/.containerenv; cat /proc/self/uid_map"
        here = Path("/proc/self/uid_map").read_text().split()
        requests = [RunRequest(command=look, folder=folder, open=opened) for opened in ways]
        for result in await asyncio.gather(*map(place.run, requests)):
            assert result.code == 0, result.output.text
            assert result.output.out.splitlines()[0] == result.proof.target[:12]
            assert "/run/podman-init" in result.output.out
            assert result.proof.details["engine"].startswith("Podman ")
            inside = result.output.out.splitlines()[-1].split()
            if self.docker.kind == "rootless":  # type: ignore[attr-defined]
                assert inside != here, "it has a user namespace of its own"
            else:
                assert inside == here
                assert f"libpod-{result.proof.target}" in result.output.out or "0::/" in result.output.out


class WithSpares(on_docker.WithSpares):
    """As it is, and each command but the first comes once the chat's spare has been begun, if it gets one."""

    _ran = False

    async def run(self, request: RunRequest) -> RunResult:
        end = time.monotonic() + 0.2
        while self._ran and not self._spares.count() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        self._ran = True
        return await super().run(request)


class TestPodmanWithSpares(on_docker.TestContainerWithSpares, TestPodman):
    """The same, with boxes that were made before the command came."""

    @pytest.fixture
    async def place(self, docker_host: Any, tmp_path: Path) -> AsyncIterator[WorkPlace]:
        self.docker = docker_host
        self.container = container = WithSpares(tmp_path / "container", image=lambda: docker_host.image)
        yield container
        await container.close()
        assert docker_host.boxes(conch_work="1") == []

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        if type(self) not in self._looked:
            await super().assert_there(place, folder)
            return
        await self.assert_podman(place, folder, (False,))
        result = await place.run(RunRequest(command="true", folder=folder))
        assert result.proof.details["box"] == "made ahead"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("suite", ["TestPodman", "TestPodmanWithSpares"])
def test_the_contract_holds_for_an_ordinary_user_on_a_podman_of_their_own(
    ordinary_user: Person, rootless_podman: Podman, suite: str
) -> None:
    env = {**env_for(rootless_podman), "CI": "1"}
    done = ordinary_user.pytest("-q", "-x", f"{__file__}::{suite}", timeout=380, env=env)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
