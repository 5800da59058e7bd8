"""Images on a real Podman: the very tests of those on Docker. Its errors come in the middle of a good answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.engines import podman
from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.test_container_image import (
    test_a_pull_tells_how_far_it_is_and_can_be_stopped,
    test_an_image_that_cannot_be_had_says_why,
    test_an_image_that_was_removed_is_got_again,
    test_an_image_without_a_shell_says_so,
    test_the_default_image_comes_once_for_all_who_wait,
    work,
)
from tests.workplaces.looking import until
from workplaces.container import image
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest

__all__ = [
    "test_a_pull_tells_how_far_it_is_and_can_be_stopped",
    "test_an_image_that_cannot_be_had_says_why",
    "test_an_image_that_was_removed_is_got_again",
    "test_an_image_without_a_shell_says_so",
    "test_the_default_image_comes_once_for_all_who_wait",
    "work",
]


def _named(engine: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))


@pytest.fixture
def docker_host(rootful_podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman]:
    _named(rootful_podman, monkeypatch)
    yield rootful_podman
    rootful_podman.clear()
    if not rootful_podman.has(rootful_podman.image):
        rootful_podman.pull(rootful_podman.image)


@pytest.fixture
def fresh_dockerd(
    tmp_path: Path, ordinary_user: Person, images_made: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Podman]:
    """A Podman that never held an image, as the one that DOCKER_HOST names."""
    with podman.fresh_podman(tmp_path, group=ordinary_user.gid) as engine:
        _named(engine, monkeypatch)
        yield engine


async def test_an_image_that_its_name_no_longer_stands_for(docker_host: Podman, work: Path, tmp_path: Path) -> None:
    """Podman is not asked while its list of images is the one that was there when it was: a change must be seen."""

    async def run(command: str) -> tuple[str, str]:
        await until(lambda: place._spares.count() == 1 and place._spares.idle, 20, "a spare")
        result = await place.run(RunRequest(command=command, folder=work, chat="c", output=OutputKeeper()))
        assert result.code == 0, result.output.text
        return result.proof.details["box"], result.output.out

    asked: list[str] = []
    docker_host.cli("tag", docker_host.image, "localhost/again:1")
    place = Container(tmp_path / "conch", image=lambda: "localhost/again:1")
    await place.run(RunRequest(command="true", folder=work, chat="c", output=OutputKeeper()))
    engine = place._engines.last
    assert engine is not None
    assert Path(engine.facts.images).is_file(), "where Podman keeps its list"
    await asyncio.sleep(1.1)  # a list that was written just now is not trusted
    assert await run("true") == ("made ahead", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image, "ask", lambda endpoint, path, limit: asked.append(path))
        assert await run("true") == ("made ahead", "")
    assert not asked
    box = docker_host.cli("create", docker_host.image, "true").stdout.strip()
    docker_host.cli("commit", "--quiet", "--change=ENV NEW=yes", box, "localhost/again:1")
    assert await run("echo $NEW") == ("made for it", "yes\n")
    await place.close()
