"""What every place keeps, kept by a container on a real Docker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import PlaceContract
from tests.workplaces.looking import until
from workplaces.container.box import FIRST_LINES, GET_READY, line_for
from workplaces.container.place import Container
from workplaces.container.spares import SpareRules
from workplaces.place import CONTAINER, RunRequest, RunResult, Stopped, WorkPlace


class TestContainer(PlaceContract):
    markers = (
        *("1:2:3 4:5:6 shut", "1:2:3 bare", f"{'0' * 32} 0 there 0", f"{'f' * 32} 3 missing 1"),
        *(line for text in (FIRST_LINES, GET_READY, line_for("x", "0" * 32).decode()) for line in text.splitlines()),
    )

    @pytest.fixture
    async def place(self, docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[WorkPlace]:
        self.docker = docker_host
        self.container = Container(
            tmp_path / "container", image=lambda: docker_host.image, spares=SpareRules(most=lambda: 0)
        )
        yield self.container
        await self.container.close()

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
        """A result comes before its box is gone, so that is waited for; a Stop's is gone by then."""
        end = time.monotonic() + 10
        while (left := self.docker.boxes(conch_work="1")) and time.monotonic() < end:
            time.sleep(0.02)
        return left


class WithSpares(Container):
    """Every command is one of the same chat, and comes when the chat's spare has had its time to be made."""

    async def run(self, request: RunRequest) -> RunResult:
        try:
            await until(lambda: self._spares.idle, 20, "a spare is made")
        except asyncio.CancelledError:
            raise Stopped from None
        return await super().run(replace(request, chat="contract"))


class TestContainerWithSpares(TestContainer):
    """The same, with boxes that were made before the command came."""

    @pytest.fixture
    async def place(self, docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[WorkPlace]:
        self.docker = docker_host
        self.container = container = WithSpares(tmp_path / "container", image=lambda: docker_host.image)
        yield container
        await container.close()
        assert docker_host.boxes(conch_work="1") == []

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        self.container._house.empty()  # made once, by the first who asks: one of two at once would find another
        await super().assert_there(place, folder)
        await until(lambda: self.container._spares.count() and self.container._spares.idle, 20, "a spare is made")
        look = RunRequest(command="true", folder=folder)
        assert (await place.run(look)).proof.details["box"] == "made ahead"

    def left_behind(self) -> list[str]:
        end = time.monotonic() + 10
        while (left := self.docker.boxes(conch_work="1")) and time.monotonic() < end:
            self.container._spares.drop()  # again: the last command's refill may still have been on its way
            time.sleep(0.02)
        return left
