"""What every place keeps, kept by a container on a real Docker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import PlaceContract
from workplaces.container.box import FIRST_LINES
from workplaces.container.place import Container
from workplaces.place import CONTAINER, RunRequest, RunResult, WorkPlace


class TestContainer(PlaceContract):
    markers = ("1:2:3 4:5:6 there", "1:2:3 missing", *FIRST_LINES.splitlines())

    @pytest.fixture
    async def place(self, docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[WorkPlace]:
        self.docker = docker_host
        container = Container(tmp_path / "container", image=lambda: docker_host.image)
        yield container
        await container.close()

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        assert place.id == CONTAINER
        look = "hostname; cat /proc/1/cmdline; grep . /proc/self/cgroup; ls /.dockerenv; readlink /proc/self/ns/pid"
        requests = [RunRequest(command=look, folder=folder, open=opened) for opened in (False, True)]
        for result in await asyncio.gather(*map(place.run, requests)):
            assert result.code == 0, result.output.text
            assert result.output.out.splitlines()[0] == result.proof.target[:12]
            assert "/sbin/docker-init" in result.output.out
            assert result.proof.target in result.output.out or "0::/" in result.output.out
            assert "/.dockerenv" in result.output.out
            assert result.output.out.splitlines()[-1] != str(Path("/proc/self/ns/pid").readlink())

    def assert_proof(self, result: RunResult, request: RunRequest) -> None:
        proof = result.proof
        assert len(proof.target) == 64
        assert proof.folder == str(request.folder)
        assert proof.network is request.open
        assert proof.details["read back"] == "yes" or not result.sure
        assert proof.details["endpoint"] == self.docker.host
        assert proof.details["image"] == self.docker.image
        assert proof.details["digest"].startswith("sha256:")
        assert proof.details["folder proven by"] == "device and inode"

    def left_behind(self) -> list[str]:
        return self.docker.boxes(conch_work="1")
