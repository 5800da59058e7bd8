"""What a folder's devcontainer.json offers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workplaces.container.devcontainer import Offer, offered_images

IMAGE = "mcr.microsoft.com/devcontainers/python:3.13"
PLAIN = f'{{"image": "{IMAGE}"}}'


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    "name", [".devcontainer/devcontainer.json", ".devcontainer.json", ".devcontainer/gpu/devcontainer.json"]
)
def test_each_place_that_it_may_lie_in(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, PLAIN)
    assert offered_images(tmp_path) == (Offer(IMAGE, Path(name)),)


def test_comments_and_trailing_commas(tmp_path: Path) -> None:
    put(
        tmp_path,
        ".devcontainer.json",
        '\ufeff// mine\n{"name": "a//b", /* x */ "image": "' + IMAGE + '", "run": [1,],\n}',
    )
    assert [offer.image for offer in offered_images(tmp_path)] == [IMAGE]


def test_several_are_offered_once_each_the_usual_place_first(tmp_path: Path) -> None:
    put(tmp_path, ".devcontainer.json", PLAIN)
    put(tmp_path, ".devcontainer/devcontainer.json", '{"image": "debian:12"}')
    put(tmp_path, ".devcontainer/a/devcontainer.json", PLAIN)
    put(tmp_path, ".devcontainer/b/devcontainer.json", '{"image": "alpine"}')
    assert [offer.image for offer in offered_images(tmp_path)] == ["debian:12", IMAGE, "alpine"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "1", "{", '{"image": 3}', '{"build": {"dockerfile": "Dockerfile"}}', '{"image": "-v /:/x"}'),
        *('{"image": "a/${localEnv:USER}:1"}', "[" * 100_000, '{"image": "a", ' + " " * 300_000 + "}", "\0"),
    ],
)
def test_what_names_no_image_offers_none(tmp_path: Path, text: str) -> None:
    put(tmp_path, ".devcontainer.json", text)
    assert offered_images(tmp_path) == ()


def test_nothing_there_offers_none(tmp_path: Path) -> None:
    assert offered_images(tmp_path) == offered_images(tmp_path / "gone") == ()
    os.mkfifo(tmp_path / ".devcontainer.json") if hasattr(os, "mkfifo") else None
    (tmp_path / ".devcontainer").write_text("a file")
    assert offered_images(tmp_path) == ()
