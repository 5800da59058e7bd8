"""What a person chooses of their boxes, as the kernel and the engine see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.real.engines.needs import program
from tests.workplaces.looking import names
from workplaces.container.box import Options
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, RunRequest, RunResult


class Chooser:
    """A place whose options a test changes between commands."""

    def __init__(self, docker: Dockerd, base: Path) -> None:
        self.options = Options()
        self.work = base / "work"
        self.work.mkdir()
        self.place = Container(base / "conch", image=lambda: docker.image, options=lambda: self.options)

    async def run(self, command: str) -> RunResult:
        return await self.place.run(RunRequest(command=command, folder=self.work, chat="one", timeout=60.0))


async def test_memory_and_processors_hold_from_the_next_command_on(docker_host: Dockerd, tmp_path: Path) -> None:
    """Also where a box made ahead waits with what was chosen before."""
    chooser = Chooser(docker_host, tmp_path)
    look = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; nproc"
    quota = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us; cut -d' ' -f1 /sys/fs/cgroup/cpu.max; true"
    try:
        for memory, cpus in ((4, 2), (4, 2), (1, 1), (8, 2)):
            chooser.options = Options(memory=memory, cpus=cpus)
            result = await chooser.run(f"{look}; {quota}")
            assert result.output.out.split()[0] == str(memory << 30)
            assert str(cpus * 100_000) in result.output.out.split()
            assert result.proof.details["memory"] == f"{memory} GB"
            assert result.proof.details["processors"] == str(cpus)
            assert f"{memory} GB of memory" in chooser.place.about(chooser.work)
    finally:
        await chooser.place.close()


async def test_a_command_that_takes_more_memory_than_was_chosen_is_told_how_much_there_was(
    docker_host: Dockerd, tmp_path: Path
) -> None:
    chooser = Chooser(docker_host, tmp_path)
    chooser.options = Options(memory=1)
    try:
        result = await chooser.run("python3 -c 'x = bytearray(3 << 30); print(len(x))'")
    finally:
        await chooser.place.close()
    assert (result.code, result.output.out) == (137, "")
    assert "1 GB of memory" in result.note


async def test_a_runtime_that_was_chosen_runs_the_box_or_nothing_does(docker_host: Dockerd, tmp_path: Path) -> None:
    log, runtime = tmp_path / "log", tmp_path / "strong"
    runtime.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {program("runc")} "$@"\n')
    runtime.chmod(0o755)
    chooser = Chooser(docker_host, tmp_path)
    try:
        with docker_host.runtime("strong", runtime):
            assert (await chooser.run("echo first")).proof.details["runtime"] != "strong"
            assert not log.exists()
            chooser.options = Options(runtime="strong")
            result = await chooser.run("echo second")
            assert (result.output.out, result.proof.details["runtime"]) == ("second\n", "strong")
            assert result.proof.target in log.read_text(), "so it was this one that made the box"
            assert "strong" in (await chooser.place.standing(look=True)).details["runtimes"]
        chooser.options = Options(runtime="stronger")
        with pytest.raises(PlaceUnavailable, match="no runtime called “stronger”") as raised:
            await chooser.run("touch PROOF")
        assert raised.value.next_step is not None
        assert names(chooser.work) == set()
    finally:
        await chooser.place.close()


async def test_graphics_processors_that_are_not_there_are_not_done_without(
    docker_host: Dockerd, tmp_path: Path
) -> None:
    chooser = Chooser(docker_host, tmp_path)
    chooser.options = Options(gpus=True)
    try:
        with pytest.raises(PlaceUnavailable, match="no graphics processors"):
            await chooser.run("touch PROOF")
        assert names(chooser.work) == set()
    finally:
        await chooser.place.close()
