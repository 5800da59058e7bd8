"""Images that a real Docker cannot get, or cannot run: each has its own sentence and its own next step."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import tarfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.engines import dockerd as dockers
from tests.real.engines.dockerd import Dockerd
from tests.real.engines.registry import PERSON, Layer, Registry, pack
from tests.workplaces.looking import names
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, RunRequest

OTHER = "arm64" if platform.machine() == "x86_64" else "amd64"
# The beginning of a program for the other kind of processor (elf(5)): 183 is AArch64, 62 is x86-64.
MACHINE = 183 if OTHER == "arm64" else 62
PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0" + bytes([MACHINE, 0]) + b"\x01\0\0\0" + bytes(40)


def layer(folder: Path) -> Layer:
    """A whole file system with nothing but a shell that this processor cannot run."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("bin/sh")
        info.size, info.mode = len(PROGRAM), 0o755
        tar.addfile(info, io.BytesIO(PROGRAM))
    return pack([packed.getvalue()], folder / "layer.tar.gz")


@contextmanager
def registry(tmp_path: Path, *, login: bool = False) -> Iterator[Registry]:
    """One of the test's own. What it holds is put there without a sign-in, which it then asks for."""
    filling = Registry(tmp_path / "storage", tmp_path / "filling", readonly=False)
    digest = filling.put("other", "1", [layer(tmp_path)], {}, architecture=OTHER)
    filling.put_list("other", "list", digest, OTHER)
    filling.stop()
    made = Registry(tmp_path / "storage", tmp_path / "registry", readonly=True, login=login)
    try:
        yield made
    finally:
        made.stop()


async def refused(tmp_path: Path, image: str) -> PlaceUnavailable:
    """Why nothing ran with the image. That nothing did is seen."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    place = Container(tmp_path / "conch", image=lambda: image)
    try:
        with pytest.raises(PlaceUnavailable) as raised:
            await place.run(RunRequest(command="touch PROOF", folder=work))
    finally:
        await place.close()
    assert names(work) == set()
    assert raised.value.next_step is not None
    return raised.value


async def test_one_that_is_for_those_who_signed_in(docker_host: Dockerd, tmp_path: Path) -> None:
    with registry(tmp_path, login=True) as made:
        error = await refused(tmp_path, f"{made.address}/other:1")
        assert "only to people who are logged in" in error.words
        assert error.next_step is not None
        assert error.next_step.command == f"docker login {made.address}"
        assert not docker_host.has(f"{made.address}/other:1")
        signed_in = {"auths": {made.address: {"auth": b64encode(PERSON.encode()).decode()}}}
        (docker_host.home / "config.json").write_text(json.dumps(signed_in))
        try:
            after = await refused(tmp_path, f"{made.address}/other:1")
        finally:
            (docker_host.home / "config.json").unlink()
        assert "not made for this kind of processor" in after.words, "it was got, with what docker login kept"
        assert docker_host.has(f"{made.address}/other:1")
        assert PERSON.partition(":")[2] not in f"{error!r}{error.details}{after!r}{after.details}"


@pytest.mark.parametrize("tag", ["list", "1"])
async def test_one_for_another_kind_of_processor(docker_host: Dockerd, tmp_path: Path, tag: str) -> None:
    """Told by its list before it is got, and by the kernel where there is no list."""
    with registry(tmp_path) as made:
        error = await refused(tmp_path, f"{made.address}/other:{tag}")
    assert error.words == f"The image {made.address}/other:{tag} is not made for this kind of processor."
    assert docker_host.boxes() == []


@pytest.fixture
def small(images_made: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dockerd]:
    """A Docker whose disk is small."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)], check=True)
    try:
        with dockers.fresh(disk) as engine:
            monkeypatch.setenv("DOCKER_HOST", engine.host)
            monkeypatch.setenv("DOCKER_CONFIG", str(engine.home))
            yield engine
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_one_that_there_is_no_room_for(small: Dockerd, tmp_path: Path) -> None:
    image = f"{small.registry}/library/node:24-bookworm"
    error = await refused(tmp_path, image)
    assert error.words == f"There is no room on the disk for the image {image}."
    assert error.next_step is not None
    assert "prune" in error.next_step.command
    assert not small.has(image)
