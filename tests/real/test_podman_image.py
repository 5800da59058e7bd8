"""Images on a real Podman: the very tests of those on Docker. Its errors come in the middle of a good answer."""

from __future__ import annotations

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
