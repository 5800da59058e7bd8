"""Conch killed at any moment, with boxes that run, wait, are being made and taken away: the next start leaves none."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.looking import number, processes
from workplaces.container.place import Container

MOMENTS = 20
RUNNER = """
import asyncio, sys
from pathlib import Path
from workplaces.container.place import Container
from workplaces.place import RunRequest
home, image, work, mark = sys.argv[1:]
async def main():
    place = Container(Path(home), image=lambda: image)
    async def chat(name, commands):
        for command in commands:
            await place.run(RunRequest(command=command, folder=Path(work), chat=name, timeout=1.0))
            await asyncio.sleep(0.1)
    print("on", flush=True)
    quick = [f"setsid sleep {mark} & true", "true"]
    await asyncio.gather(chat("a", quick * 100), chat("b", [f"sleep {mark}"] * 100))
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_kill_at_20_random_moments_leaves_no_box_and_touches_nobody_elses(
    docker_host: Dockerd, tmp_path: Path
) -> None:
    work, home, mark = tmp_path / "work", tmp_path / "conch", number()
    work.mkdir()
    line = [sys.executable, "-c", RUNNER, str(home), docker_host.image, str(work), mark]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    fixed: list[tuple[str, str]] = []
    with docker_host.client() as client:
        image = docker_host.image
        labels = ({}, {"conch.work": "1"}, {"conch.work": "1", "conch.home": "another", "conch.owner": "1:1:1:1"})
        others = {client.containers.run(image, ["sleep", "1000"], detach=True, labels=each).id for each in labels}
        started = {box: client.api.inspect_container(box)["State"]["StartedAt"] for box in others}
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    left = 0
    for turn in range(MOMENTS):
        with subprocess.Popen(line, env=env, stdout=subprocess.PIPE) as conch:
            assert conch.stdout is not None
            assert await asyncio.to_thread(conch.stdout.readline) == b"on\n"
            await asyncio.sleep(moments.uniform(0, 1.5))
            conch.kill()
        left += len(set(docker_host.boxes()) - others)
        place = Container(home, image=lambda: docker_host.image, on_fixed=lambda *said: fixed.append(said))
        end = time.monotonic() + 10  # what was asked for just before the kill may yet come to be
        while (found := set(docker_host.boxes()) - others) and time.monotonic() < end:
            await place.sweep()
        await place.close()
        assert not found, f"moment {turn} of seed {seed}"
        assert processes(mark) == []
        assert others <= set(docker_host.boxes())
    assert left >= MOMENTS, "it was killed while it had boxes"
    assert fixed
    with docker_host.client() as client:
        for box in others:
            state = client.api.inspect_container(box)["State"]
            assert (state["Running"], state["StartedAt"]) == (True, started[box])
