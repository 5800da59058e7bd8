"""WorkPlaces: how each place stands, the one a turn uses, and what is kept in order in the background."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import Box, EngineDouble
from tests.workplaces.looking import heartbeat, until
from workplaces.container.place import Container
from workplaces.container.sweep import House, is_gone, owner
from workplaces.place import COMPUTER, CONTAINER, PlaceStatus, PlaceUnavailable, RunRequest, WorkPlaceId
from workplaces.service import DEFAULT_IMAGE, PlaceSettings, WorkPlaces


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yield made
    made.close()


@pytest.fixture
def fixed() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def places(double: EngineDouble, tmp_path: Path, fixed: list[tuple[str, str]]) -> AsyncIterator[WorkPlaces]:
    made = WorkPlaces(
        tmp_path / "places",
        settings=lambda: PlaceSettings(image="double:1"),
        protected=lambda: (tmp_path / "keys",),
        on_fixed=lambda what, why: fixed.append((what, why)),
        output=tmp_path / "output",
        ssh_settings=tmp_path / "ssh-config",
    )
    yield made
    double.calm()
    await made.close()


def of(statuses: list[PlaceStatus], place: WorkPlaceId) -> PlaceStatus:
    return next(status for status in statuses if status.id == place)


async def test_the_places_that_are_there_are_listed_and_no_others(places: WorkPlaces) -> None:
    statuses = await places.status()
    assert [status.id for status in statuses] == [COMPUTER, CONTAINER]
    container = of(statuses, CONTAINER)
    assert (container.name, container.standing, container.seals) == ("Docker", "ready", True)
    assert of(statuses, COMPUTER).name == "This computer"


async def test_what_was_known_is_told_at_once_and_looked_at_again_when_asked(
    places: WorkPlaces, double: EngineDouble
) -> None:
    await places.status()
    asked = len(double.asked)
    assert of(await places.status(), CONTAINER).ready
    assert len(double.asked) == asked
    double.answer(".*", 500, {})
    assert of(await places.status(), CONTAINER).ready
    looked = of(await places.status(look=True), CONTAINER)
    assert (looked.standing, looked.need) == ("needs", "container")
    assert looked.next_step is not None
    double.calm()
    assert of(await places.status(look=True), CONTAINER).ready


async def test_what_was_known_long_ago_is_looked_at_again(
    places: WorkPlaces, double: EngineDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    await places.status()
    monkeypatch.setattr("workplaces.service.FRESH", 0.0)
    double.answer(".*", 500, {})
    engine = "GET /_ping"
    double.asked.clear()
    await places.status()
    assert any("/images/" in line or engine in line for line in double.asked)


async def test_a_place_that_does_not_say_is_being_looked_at_and_keeps_nobody_waiting(
    places: WorkPlaces, double: EngineDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.service.LOOK_LIMIT", 0.3)
    double.hang("GET .*")
    async with heartbeat() as longest:
        began = time.monotonic()
        statuses = await places.status()
    assert time.monotonic() - began < 2
    assert longest[0] < 0.2
    assert of(statuses, CONTAINER).standing == "checking"
    assert of(statuses, COMPUTER).standing != "checking"
    double.calm()
    for _ in range(100):
        if of(await places.status(), CONTAINER).ready:
            break
        await asyncio.sleep(0.05)
    assert of(await places.status(), CONTAINER).ready


async def test_a_place_that_breaks_is_down_and_the_others_stand(
    places: WorkPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Container, *, look: bool = False) -> PlaceStatus:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Container, "standing", broken)
    statuses = await places.status()
    assert of(statuses, CONTAINER).standing == "down"
    assert "a mistake of ours" in of(statuses, CONTAINER).details["log"]
    assert len(statuses) == 2


async def test_a_turn_gets_the_place_it_asked_for_and_no_other(places: WorkPlaces) -> None:
    for place in (COMPUTER, CONTAINER):
        assert (await places.for_turn(place)).id == place
        assert await places.for_turn(place) is await places.for_turn(place)
    for name, says in (
        ("ssh:build-box", "name no machine build-box"),
        ("cloud", "Daytona is not part of this version"),
    ):
        with pytest.raises(PlaceUnavailable, match=says) as raised:
            await places.for_turn(WorkPlaceId.parse(name))
        assert raised.value.next_step is not None
        assert "Do not try to run it another way" in raised.value.for_model()


async def test_a_dead_engine_runs_nothing_anywhere(places: WorkPlaces, double: EngineDouble, tmp_path: Path) -> None:
    double.close()
    work = tmp_path / "work"
    work.mkdir()
    place = await places.for_turn(CONTAINER)
    with pytest.raises(PlaceUnavailable) as raised:
        await place.run(RunRequest(command="touch PROOF", folder=work))
    assert double.host in raised.value.words
    assert list(work.iterdir()) == []


async def test_settings_and_protected_places_are_asked_for_every_command(double: EngineDouble, tmp_path: Path) -> None:
    settings, protected = [PlaceSettings(image="double:1")], list[Path]()
    places = WorkPlaces(tmp_path / "places", settings=lambda: settings[0], protected=lambda: tuple(protected))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").touch()
    (work / "key").touch()
    place = await places.for_turn(CONTAINER)
    assert (await place.run(RunRequest(command="x", folder=work))).proof.details["covered"] == "0"
    protected.append(work / "key")
    double.images["other:1"] = double.images["double:1"]
    settings[0] = PlaceSettings(image="other:1")
    result = await place.run(RunRequest(command="x", folder=work))
    assert (result.proof.details["covered"], result.proof.details["image"]) == ("1", "other:1")
    assert "other:1" in place.about(work)
    await places.close()


async def test_old_output_goes_at_start(places: WorkPlaces, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    for name, days in (("old.output", 30), ("new.output", 1), ("other", 30)):
        (output / name).touch()
        os.utime(output / name, (time.time() - days * 86400,) * 2)
    began = time.monotonic()
    await places.start()
    assert time.monotonic() - began < 0.1
    await until(lambda: not (output / "old.output").exists())
    assert {path.name for path in output.iterdir()} == {"new.output", "other"}


def left(double: EngineDouble, labels: dict[str, str]) -> str:
    box = Box(f"left-{len(double.boxes)}", f"{len(double.boxes):064d}", {"Labels": labels, "HostConfig": {}})
    double.boxes[box.id] = box
    return box.id


async def test_boxes_left_behind_go_at_start_and_nobody_elses(
    places: WorkPlaces, double: EngineDouble, tmp_path: Path, fixed: list[tuple[str, str]]
) -> None:
    mine = House(tmp_path / "places" / "container").installation()
    number, started, *where = owner().split(":", 3)
    dead = ":".join((number, "1", *where))
    gone = left(double, {"conch.work": "1", "conch.home": mine, "conch.owner": dead})
    kept = {
        left(double, {"conch.work": "1", "conch.home": mine, "conch.owner": owner()}),
        left(double, {"conch.work": "1", "conch.home": mine, "conch.owner": "nonsense"}),
        left(double, {"conch.work": "1", "conch.home": mine}),
    }
    await places.start()
    await until(lambda: fixed)
    assert set(double.boxes) == kept
    assert gone not in double.boxes
    assert fixed == [("Removed containers left behind", "1 from a Conch that ended suddenly")]
    double.boxes.clear()
    assert started.isdecimal()


async def test_start_without_an_engine_says_nothing(
    places: WorkPlaces, double: EngineDouble, fixed: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    double.close()
    await places.start()
    await places.close()
    assert fixed == []
    assert caplog.records == []


async def test_it_closes_while_an_engine_hangs(places: WorkPlaces, double: EngineDouble) -> None:
    double.hang(".*")
    await places.start()
    looking = asyncio.get_running_loop().create_task(places.status())
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await places.close()
    assert time.monotonic() - began < 2
    looking.cancel()


async def test_closing_what_was_never_used_touches_nothing(tmp_path: Path) -> None:
    await WorkPlaces(tmp_path / "places").close()
    assert not (tmp_path / "places").exists()


def test_the_default_image_is_the_official_one() -> None:
    assert PlaceSettings().image == DEFAULT_IMAGE == "docker.io/library/node:24-bookworm"


class TestOwner:
    def test_this_process_is_not_gone(self) -> None:
        assert not is_gone(owner())

    @pytest.mark.parametrize("label", ["", "x", "1", "1:2", "1:2:3", "1:2:3:", "::::", "-1:2:3:4", "1.5:2:3:4"])
    def test_what_cannot_be_read_is_not_gone(self, label: str) -> None:
        assert not is_gone(label)

    def test_another_start_or_boot_is_gone_and_another_namespace_is_not_known(self) -> None:
        number, started, boot, namespace = owner().split(":", 3)
        assert is_gone(f"{number}:{int(started) + 1}:{boot}:{namespace}")
        assert is_gone(f"{number}:{started}:another-boot:{namespace}")
        assert is_gone(f"4194304:{started}:{boot}:{namespace}")
        assert not is_gone(f"4194304:{started}:{boot}:pid:[1]")


class TestHouse:
    def test_the_id_is_made_once_and_owner_only(self, tmp_path: Path) -> None:
        house = House(tmp_path / "c")
        first = house.installation()
        assert House(tmp_path / "c").installation() == first
        assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "c" / "id").stat().st_mode & 0o777 == 0o600
        assert House(tmp_path / "d").installation() != first

    def test_all_who_make_it_at_once_get_the_same(self, tmp_path: Path) -> None:
        """Boxes that carry one that was replaced would never be swept."""
        with ThreadPoolExecutor(8) as pool:
            for turn in range(30):
                start = threading.Barrier(8)
                house = House(tmp_path / str(turn))

                def made(house: House = house, start: threading.Barrier = start) -> str:
                    start.wait()
                    return house.installation()

                got = {asked.result() for asked in [pool.submit(made) for _ in range(8)]}
                assert got == {house.installation()}
                assert [path.name for path in house.folder.iterdir()] == ["id"]

    @pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 32, b"../../../../../../../../../../etc"])
    def test_a_damaged_id_is_made_anew(self, tmp_path: Path, damage: bytes) -> None:
        house = House(tmp_path)
        house.installation()
        (tmp_path / "id").write_bytes(damage)
        made = house.installation()
        assert len(made) == 32
        assert made.isalnum()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["id"]

    def test_the_empty_file_is_empty_and_nobodys_to_write(self, tmp_path: Path) -> None:
        empty = House(tmp_path).empty()
        assert (empty.read_bytes(), empty.stat().st_mode & 0o777) == (b"", 0o444)
        empty.chmod(0o644)
        empty.write_text("x")
        assert House(tmp_path).empty().read_bytes() == b""
        empty.unlink()
        empty.symlink_to("/etc/passwd")
        assert not House(tmp_path).empty().is_symlink()
