"""Images on a real Docker, from a real registry on loopback."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.looking import heartbeat, names, until
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, Progress, RunRequest, Stopped

SLOWLY = 60_000_000


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def pulling() -> bool:
    return any(thread.name == "conch-pull" for thread in threading.enumerate())


def boxed(tmp_path: Path, image: str, on_fixed: Callable[[str, str], None] | None = None) -> Container:
    return Container(tmp_path / "conch", image=lambda: image, on_fixed=on_fixed)


async def test_the_default_image_comes_once_for_all_who_wait(
    fresh_dockerd: Dockerd, tmp_path: Path, work: Path
) -> None:
    fixed: list[tuple[str, str]] = []
    place = boxed(tmp_path, fresh_dockerd.image, lambda *said: fixed.append(said))
    status = await place.standing()
    assert (status.ready, status.details["image here"]) == (True, "no")
    told: list[list[Progress]] = [[], [], []]
    requests = [RunRequest(command=f"echo {n}", folder=work, on_progress=each.append) for n, each in enumerate(told)]
    async with heartbeat() as longest:
        results = await asyncio.gather(*map(place.run, requests))
    assert [result.output.out for result in results] == ["0\n", "1\n", "2\n"]
    assert longest[0] < 0.25
    for each in told:
        assert fresh_dockerd.image in each[0].words
        assert [progress.done for progress in each] == sorted(progress.done for progress in each)
        assert each[-1].done == each[-1].total > 10_000_000
    assert len(fixed) == 1
    assert fixed[0][0] == "Got the container's system ready"
    assert fixed[0][1].endswith("B, once")
    assert (await place.standing(look=True)).details["image here"] == "yes"
    again = await place.run(RunRequest(command="echo again", folder=work, on_progress=told[0].append))
    assert again.code == 0
    assert len(fixed) == 1
    await place.close()


async def test_a_pull_tells_how_far_it_is_and_can_be_stopped(
    fresh_dockerd: Dockerd, tmp_path: Path, work: Path
) -> None:
    place = boxed(tmp_path, fresh_dockerd.slow)
    told: list[Progress] = []
    request = RunRequest(command="touch PROOF", folder=work, on_progress=told.append)
    with fresh_dockerd.slowly(SLOWLY):
        running = [asyncio.get_running_loop().create_task(place.run(request)) for _ in range(2)]
        await until(lambda: told and told[-1].done > 5_000_000, 30)
        assert told[-1].total > told[-1].done
        running[0].cancel()
        before = told[-1].done
        await until(lambda: told[-1].done > before + 5_000_000, 30, "the other still waits for it")
        began = time.monotonic()
        running[1].cancel()
        for each in running:
            with pytest.raises(Stopped) as raised:
                await each
            assert raised.value.sure
        assert time.monotonic() - began < 1
        await until(lambda: not pulling(), 5)
    assert names(work) == set()
    assert fresh_dockerd.boxes() == []
    assert not fresh_dockerd.has(fresh_dockerd.slow)
    await place.close()


async def test_a_pull_goes_on_where_the_line_broke(fresh_dockerd: Dockerd, tmp_path: Path, work: Path) -> None:
    place = boxed(tmp_path, fresh_dockerd.slow)
    told: list[Progress] = []
    with fresh_dockerd.slowly(SLOWLY):
        request = RunRequest(command="true", folder=work, on_progress=told.append)
        running = asyncio.get_running_loop().create_task(place.run(request))
        for megabytes in (20, 60):
            await until(lambda: told and told[-1].done > megabytes * 1_000_000, 30)  # noqa: B023 - awaited here
            fresh_dockerd.line.cut()
    with pytest.raises(PlaceUnavailable, match="has no /bin/sh"):  # so it is there, whole
        await running
    assert fresh_dockerd.has(fresh_dockerd.slow)
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert fresh_dockerd.line.passed < 1.3 * told[-1].total, "and what had come did not come again"
    await place.close()


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ("{registry}/library/none:1", "does not exist"),
        ("{registry}/library/node:no-such-tag", "does not exist"),
        ("nowhere.invalid/x:1", "could not be reached"),
        ("Not An Image", "is not an image's name"),
        ("node@sha256:123", "is not an image's name"),
    ],
)
async def test_an_image_that_cannot_be_had_says_why(
    docker_host: Dockerd, tmp_path: Path, work: Path, image: str, says: str
) -> None:
    place = boxed(tmp_path, image.format(registry=docker_host.registry))
    with pytest.raises(PlaceUnavailable, match=says) as raised:
        await place.run(RunRequest(command="touch PROOF", folder=work))
    assert raised.value.next_step is not None
    assert "Do not try to run it another way" in raised.value.for_model()
    assert names(work) == set()
    assert docker_host.boxes() == []
    await place.close()


@pytest.mark.parametrize("command", ["echo hi", ("/bare",)])
async def test_an_image_without_a_shell_says_so(
    docker_host: Dockerd, tmp_path: Path, work: Path, command: str | tuple[str, ...]
) -> None:
    place = boxed(tmp_path, docker_host.bare)
    with pytest.raises(PlaceUnavailable, match="has no /bin/sh") as raised:
        await place.run(RunRequest(command=command, folder=work))
    assert raised.value.next_step is not None
    assert docker_host.boxes() == []
    await place.close()


async def test_an_image_that_was_removed_is_got_again(docker_host: Dockerd, tmp_path: Path, work: Path) -> None:
    image = f"{docker_host.registry}/library/node:24-bookworm"  # another name for what is there: it comes quickly
    place = boxed(tmp_path, image)
    assert (await place.run(RunRequest(command="true", folder=work))).code == 0
    docker_host.forget(image)
    told: list[Progress] = []
    result = await place.run(RunRequest(command="echo back", folder=work, on_progress=told.append))
    assert result.output.out == "back\n"
    assert told
    await place.close()
