"""The image: its name, its progress, and getting it once for everyone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workplaces.engine_double import DIGEST, IMAGE_ID, EngineDouble, Handler
from tests.workplaces.looking import until
from workplaces.container.asking import try_engine
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import Engine
from workplaces.container.image import Image, Images, Layers, Reference, failed
from workplaces.place import PlaceUnavailable, Progress

NEW = "new:1"
FOUND = {"Id": IMAGE_ID, "RepoDigests": [f"new@{DIGEST}"], "Size": 1_100_000_000, "Config": {"Volumes": {"/d": {}}}}


@pytest.mark.parametrize(
    ("text", "name", "tag", "registry"),
    [
        ("node", "node", "latest", "docker.io"),
        ("node:24", "node", "24", "docker.io"),
        (" a/b ", "a/b", "latest", "docker.io"),
        ("docker.io/library/node:24-bookworm", "docker.io/library/node", "24-bookworm", "docker.io"),
        ("ghcr.io/a/b/c:x", "ghcr.io/a/b/c", "x", "ghcr.io"),
        ("localhost/x", "localhost/x", "latest", "localhost"),
        ("127.0.0.1:5000/x:1", "127.0.0.1:5000/x", "1", "127.0.0.1:5000"),
        ("HOST:5/x", "HOST:5/x", "latest", "HOST:5"),
        (f"a:1@{DIGEST}", "a", DIGEST, "docker.io"),
    ],
)
def test_a_name_is_taken_apart(text: str, name: str, tag: str, registry: str) -> None:
    found = Reference.parse(text)
    assert (found.name, found.tag, found.registry) == (name, tag, registry)
    assert str(found) == (f"{name}@{tag}" if tag == DIGEST else f"{name}:{tag}")


@pytest.mark.parametrize(
    "text",
    ["", " ", "Node", "a b", "a:", ":x", "a//b", "-a", "a@sha256:1", "http://a/b", "a:b:c", "ä", "a\n", "x" * 600],
)
def test_what_names_no_image_is_said(text: str) -> None:
    if text == "a\n":
        assert Reference.parse(text).name == "a"
        return
    with pytest.raises(PlaceUnavailable, match="is not an image's name") as raised:
        Reference.parse(text)
    assert raised.value.next_step is not None


@given(st.text(alphabet="a-._/:@A1 \n", max_size=80))
def test_any_name_is_quickly_taken_or_refused(text: str) -> None:
    began = time.monotonic()
    with contextlib.suppress(PlaceUnavailable):
        Reference.parse(text)
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("manifest for a:1 not found: manifest unknown: manifest unknown", "does not exist"),
        (
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
            "not be reached",
        ),
        ("net/http: TLS handshake timeout", "not be reached"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "not be reached"),
        ("context deadline exceeded", "not be reached"),
        ("write /var/lib/docker/tmp/x: no space left on device", "no room"),
        ("pull access denied for a, repository does not exist or may require 'docker login': denied", "logged in"),
        ("unauthorized: authentication required", "logged in"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "kind of processor"),
        ("toomanyrequests: You have reached your pull rate limit", "too many"),
        ("something else", "could not be got. something else"),
        ("", "could not be got."),
    ],
)
def test_each_reason_has_its_own_sentence_and_a_next_step(message: str, says: str) -> None:
    error = failed(Reference.parse("a:1"), message)
    assert says in error.words
    assert error.next_step is not None
    assert error.next_step.label


def test_a_private_registrys_login_is_the_next_step() -> None:
    error = failed(Reference.parse("ghcr.io/a/b"), "denied: requested access to the resource is denied")
    assert error.next_step is not None
    assert error.next_step.command == "docker login ghcr.io"


_LINE = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", None]),
        "status": st.sampled_from(["Downloading", "Download complete", "Extracting", "Pull complete", "x"]),
        "progressDetail": st.none()
        | st.fixed_dictionaries(
            {"current": st.integers(-5, 100) | st.none(), "total": st.integers(-5, 100) | st.text()}
        ),
    }
)


@given(st.lists(_LINE))
def test_progress_only_grows_and_never_passes_its_total(lines: list[dict[str, Any]]) -> None:
    layers, before = Layers(), (0, 0)
    for line in lines:
        layers.take(line)
        assert layers.done >= before[0]
        assert layers.total >= before[1]
        assert layers.done <= layers.total
        before = layers.done, layers.total


def test_progress_adds_the_layers_up() -> None:
    layers = Layers()
    for line in (
        {"id": "a", "status": "Pulling fs layer", "progressDetail": {}},
        {"id": "a", "status": "Downloading", "progressDetail": {"current": 10, "total": 100}},
        {"id": "b", "status": "Downloading", "progressDetail": {"current": 5, "total": 50}},
        {"id": "b", "status": "Download complete"},
        {"id": "b", "status": "Extracting", "progressDetail": {"current": 1, "total": 50}},
        {"status": "Digest: sha256:x"},
    ):
        layers.take(line)
    assert (layers.done, layers.total) == (60, 150)


class Pulling:
    """A pull of the double's that goes on until it is let."""

    def __init__(self, double: EngineDouble) -> None:
        self.double = double
        self.count = 0
        self.cut = threading.Event()
        self.go = threading.Event()
        double.pull = self.pull

    def pull(self, handler: Handler, name: str) -> None:
        self.count += 1
        handler.begin_lines()
        done = 0
        try:
            while not self.go.wait(0.02):
                done += 1
                handler.line({"id": "a", "status": "Downloading", "progressDetail": {"current": done, "total": 1000}})
        except OSError:
            self.cut.set()
            return
        self.double.images[name] = FOUND
        handler.line({"id": "a", "status": "Pull complete"})
        handler.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    yield made
    made.close()


@pytest.fixture
def engine(double: EngineDouble) -> Engine:
    return try_engine(Endpoint(double.host, "a test"))


async def test_an_image_that_is_there_is_not_got(double: EngineDouble, engine: Engine) -> None:
    images = Images()
    for _ in range(2):
        image = await images.ensure(engine, "double:1")
        assert (image.id, image.digest, str(image.reference)) == (IMAGE_ID, DIGEST, "double:1")
    assert not any("create" in line for line in double.asked)
    assert sum("/images/" in line for line in double.asked) == 1, "it was asked for again"


async def test_two_who_wait_share_one_pull_and_see_how_far_it_is(double: EngineDouble, engine: Engine) -> None:
    pulling, got = Pulling(double), list[Image]()
    images = Images(got.append)
    told: list[list[Progress]] = [[], []]
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(images.ensure(engine, NEW, each.append)) for each in told]
        await until(lambda: all(each and each[-1].done > 3 for each in told))
        assert pulling.count == 1
        pulling.go.set()
    first, second = (task.result() for task in waiting)
    assert first == second
    assert (first.id, first.size, first.volumes) == (IMAGE_ID, 1_100_000_000, ("/d",))
    assert [image.id for image in got] == [IMAGE_ID]
    for each in told:
        assert [progress.done for progress in each] == sorted(progress.done for progress in each)
        assert {progress.total for progress in each} <= {0, 1000}
        assert NEW in each[0].words


async def test_the_last_to_let_go_ends_the_pull(double: EngineDouble, engine: Engine) -> None:
    pulling, images = Pulling(double), Images()
    told: list[Progress] = []
    waiting = [asyncio.get_running_loop().create_task(images.ensure(engine, NEW, told.append)) for _ in range(2)]
    await until(lambda: told and told[-1].done > 3)
    waiting[0].cancel()
    before = told[-1].done
    await until(lambda: told[-1].done > before + 3)
    assert not pulling.cut.is_set()
    waiting[1].cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in ended)
    assert await asyncio.to_thread(pulling.cut.wait, 5), "the engine goes on getting it"
    pulling.go.set()
    assert (await images.ensure(engine, NEW)).id == IMAGE_ID
    assert pulling.count == 2


async def test_an_engine_that_does_not_begin_to_pull_is_let_go(double: EngineDouble, engine: Engine) -> None:
    double.hang("POST /.*/images/create")
    images = Images()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await images.ensure(engine, NEW)
    assert time.monotonic() - began < 1
    await until(lambda: not any(thread.name == "conch-pull" for thread in threading.enumerate()), 3)


async def test_an_engine_is_not_asked_again_while_its_list_of_images_is_the_same(
    double: EngineDouble, engine: Engine, tmp_path: Path
) -> None:
    kept = tmp_path / "images.json"
    engine = replace(engine, facts=replace(engine.facts, images=str(kept)))
    images = Images()
    image = await images.ensure(engine, "double:1")

    def asked() -> int:
        before = len(double.asked)
        assert images.ask_same(engine, image)()
        return len(double.asked) - before

    assert [asked(), asked()] == [1, 1], "there is no such list"
    kept.write_text("[]")
    assert [asked(), asked()] == [1, 1], "it was written in this moment"
    os.utime(kept, (1, 1))
    with pytest.MonkeyPatch.context() as patch:
        later = time.time() + 60
        patch.setattr(time, "time", lambda: later)
        assert [asked(), asked(), asked()] == [1, 0, 0]
        (tmp_path / "new").write_text("[]")
        (tmp_path / "new").replace(kept)
        assert [asked(), asked()] == [1, 0]
        double.images["double:1"] = {**double.images["double:1"], "Id": "sha256:other"}
        assert images.ask_same(engine, image)(), "the list did not change"
        (tmp_path / "new").write_text("[1]")
        (tmp_path / "new").replace(kept)
        assert not images.ask_same(engine, image)()
        assert not images.ask_same(engine, image)(), "what was no longer so is asked each time"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"error": "x", "errorDetail": {"message": "write: no space left on device"}}, "no room"),
        ({"error": "manifest unknown"}, "does not exist"),
        (b"nonsense\r\n", "could not be got"),
        ([1, 2], "could not be got"),
    ],
)
async def test_a_pull_that_fails_says_why(double: EngineDouble, engine: Engine, line: Any, says: str) -> None:
    double.pull = lambda handler, name: handler.lines([{"status": "Pulling"}, line])
    with pytest.raises(PlaceUnavailable, match=says):
        await Images().ensure(engine, NEW)


async def test_an_engine_that_answers_with_an_error_is_said(double: EngineDouble, engine: Engine) -> None:
    double.answer("POST .*/images/create", 500, {"message": "dial tcp: lookup x: no such host"})
    with pytest.raises(PlaceUnavailable, match="could not be reached"):
        await Images().ensure(engine, NEW)


async def test_a_pull_that_breaks_off_says_so(double: EngineDouble, engine: Engine) -> None:
    def pull(handler: Handler, name: str) -> None:
        handler.begin_lines()
        handler.line({"id": "a", "status": "Downloading", "progressDetail": {"current": 1, "total": 9}})
        handler.close_connection = True

    double.pull = pull
    with pytest.raises(PlaceUnavailable, match="could not be got"):
        await Images().ensure(engine, NEW)


async def test_an_engine_that_says_it_has_it_and_has_not_is_not_believed(double: EngineDouble, engine: Engine) -> None:
    with pytest.raises(PlaceUnavailable):
        await Images().ensure(engine, NEW)


async def test_an_image_that_went_away_is_got_again(double: EngineDouble, engine: Engine) -> None:
    images = Images()
    pulling = Pulling(double)
    pulling.go.set()
    image = await images.ensure(engine, NEW)
    del double.images[NEW]
    images.forget(engine, image)
    await images.ensure(engine, NEW)
    assert pulling.count == 2
