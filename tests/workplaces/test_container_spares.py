"""When boxes are made ahead, kept, given out and thrown away. What is in them is seen in tests/real."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.workplaces.engine_double import IMAGE_ID, Box, EngineDouble
from tests.workplaces.looking import until
from workplaces.container.place import Container
from workplaces.container.spares import SpareRules
from workplaces.place import PlaceUnavailable, RunRequest, RunResult, Stopped

Make = Callable[..., Container]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workplaces.container.place._REFILL_AFTER", 0.0)


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    made = EngineDouble(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def make(double: EngineDouble, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes the container with these rules. None of its boxes is left when it is closed."""
    async with AsyncExitStack() as held:

        def made(**rules: Any) -> Container:
            env = {"DOCKER_HOST": double.host}
            image = rules.pop("image", lambda: "double:1")
            place = Container(
                tmp_path / "conch", image=image, env=env, person=tmp_path / "person", spares=SpareRules(**rules)
            )
            held.push_async_callback(place.close)
            return place

        yield made
        double.calm()
    assert double.boxes == {}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").touch()  # the double is an engine behind a virtual machine: it cannot tell an empty folder
    return made


async def run(place: Container, work: Path, chat: str = "c", **how: Any) -> RunResult:
    return await place.run(RunRequest(**{"command": "x", "folder": work, "timeout": 30.0, "chat": chat, **how}))


def how(result: RunResult) -> str:
    return result.proof.details["box"]


def waiting(double: EngineDouble) -> list[Box]:
    return [box for box in double.boxes.values() if box.status == "running" and not box.given]


async def made(place: Container, double: EngineDouble, count: int = 1) -> list[Box]:
    """So many wait, and no box is being made or taken away."""
    await asyncio.sleep(0.01)  # what a command leaves to be done comes after it
    await until(lambda: place._spares.count() == count and place._spares.idle, 5, f"{count} spares")
    await until(lambda: len(double.boxes) == count, 5, f"{count} boxes")
    assert len(waiting(double)) == count
    return waiting(double)


async def test_the_first_command_finds_none_and_each_later_one_its_own(
    make: Make, double: EngineDouble, work: Path
) -> None:
    place = make()
    results = []
    for _ in range(5):
        results.append(await run(place, work))
        await made(place, double)
    assert [how(result) for result in results] == ["made for it", *["made ahead"] * 4]
    assert len({result.proof.target for result in results}) == 5
    assert sum(bool(box.given) for box in double.served) == 5


async def test_a_box_is_given_one_command_and_no_other_ever(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    await made(place, double)
    await asyncio.gather(*(run(place, work, command=f"n{number}") for number in range(6)))
    given = [box.given for box in double.served if box.given]
    assert len(given) == 7
    assert sorted(line.count(b"'n") for line in given) == [0, *[1] * 6]


async def test_a_command_without_a_chat_leaves_no_spare(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work, chat="")
    await asyncio.sleep(0.1)
    assert len(double.served) == 1


async def test_none_are_made_when_none_may_be(make: Make, double: EngineDouble, work: Path) -> None:
    place = make(most=lambda: 0)
    assert [how(await run(place, work)) for _ in range(3)] == ["made for it"] * 3
    await asyncio.sleep(0.1)
    assert len(double.served) == 3


async def test_one_for_a_chat_and_so_many_in_all(make: Make, double: EngineDouble, work: Path) -> None:
    place = make(most=lambda: 3, more=0)
    for chat in "abcde":
        await run(place, work, chat)
        await until(lambda chat=chat: place._spares.waits_for(chat, open=False) and place._spares.idle)
    boxes = await made(place, double, 3)
    assert sorted(box.body["Labels"]["conch.chat"] for box in boxes) == ["c", "d", "e"], "the chats that ran last"
    assert how(await run(place, work, "d")) == "made ahead"
    assert how(await run(place, work, "a")) == "made for it"


async def test_one_more_for_a_chat_in_a_hurry_and_only_so_long(
    make: Make, double: EngineDouble, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.container.spares._HURRY", 0.7)
    place = make()
    await run(place, work)
    await made(place, double)
    await asyncio.gather(run(place, work), run(place, work))
    await made(place, double, 2)
    await until(lambda: len(double.boxes) == 1, 5, "the hurry is over")
    assert how(await run(place, work)) == "made ahead"
    await made(place, double)


async def test_a_chat_that_was_quiet_for_long_has_none(make: Make, double: EngineDouble, work: Path) -> None:
    place = make(keep=0.6)
    await run(place, work)
    await made(place, double)
    began = time.monotonic()
    await until(lambda: not double.boxes, 5, "its time is over")
    assert time.monotonic() - began > 0.2
    assert how(await run(place, work)) == "made for it"


async def test_none_while_the_battery_is_saved(
    make: Make, double: EngineDouble, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.container.spares._LOOK_EVERY", 0.05)
    saved = [False]
    place = make(saving=lambda: saved[0])
    await run(place, work)
    await made(place, double)
    saved[0] = True
    await until(lambda: not double.boxes, 5, "the one that waited goes")
    assert how(await run(place, work)) == "made for it"
    await asyncio.sleep(0.1)
    assert double.boxes == {}
    saved[0] = False
    await run(place, work)
    await made(place, double)


async def test_the_sealed_one_is_kept_unless_two_were_open(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work, open=True)
    (box,) = await made(place, double)
    assert box.body["HostConfig"]["NetworkMode"] == "none"
    result = await run(place, work, open=True)
    assert how(result) == "made for it", "a sealed box is not for an open command"
    (box,) = await made(place, double)
    assert box.body["HostConfig"]["NetworkMode"] == "default"
    result = await run(place, work, open=True)
    assert (how(result), result.proof.network) == ("made ahead", True)
    await made(place, double)
    assert how(await run(place, work)) == "made for it", "nor an open one for a sealed command"
    (box,) = await made(place, double)
    assert box.body["HostConfig"]["NetworkMode"] == "none"


def new_key(work: Path) -> None:
    (work / "key").write_text("SECRET")


def new_git(work: Path) -> None:
    (work / ".git").mkdir()


def other_folder(work: Path) -> None:
    work.rename(work.with_name("was"))
    work.mkdir()
    (work / "a.txt").touch()


def spoilt(work: Path) -> None:
    empty = work.parent / "conch" / "empty"
    empty.chmod(0o666)
    empty.write_text("not empty")


@pytest.mark.parametrize("change", [new_key, new_git, other_folder, spoilt])
async def test_one_whose_world_changed_is_thrown_away_unused(
    make: Make, double: EngineDouble, work: Path, change: Callable[[Path], None]
) -> None:
    place = make()
    await run(place, work, protected=(work / "key",))
    (old,) = await made(place, double)
    change(work)
    result = await run(place, work, protected=(work / "key",))
    assert how(result) == "made for it"
    assert not old.given
    (new,) = await made(place, double)
    assert new is not old
    assert how(await run(place, work, protected=(work / "key",))) == "made ahead"


async def test_a_git_that_is_another_one_now(make: Make, double: EngineDouble, work: Path) -> None:
    (work / ".git").mkdir()
    place = make()
    await run(place, work)
    (old,) = await made(place, double)
    (work / ".git").rename(work / "was")
    (work / ".git").mkdir()
    assert how(await run(place, work)) == "made for it"
    assert not old.given


async def test_another_image_in_the_settings_or_under_the_same_name(
    make: Make, double: EngineDouble, work: Path
) -> None:
    chosen = ["double:1"]
    double.images["double:2"] = {**double.images["double:1"], "Id": "sha256:" + "3" * 64}
    place = make(image=lambda: chosen[0])
    await run(place, work)
    (first,) = await made(place, double)
    chosen[0] = "double:2"
    assert how(await run(place, work)) == "made for it"
    (second,) = await made(place, double)
    assert (first.given, second.body["Image"]) == (b"", "double:2")
    double.images["double:2"] = {**double.images["double:2"], "Id": IMAGE_ID}
    assert how(await run(place, work)) == "made for it"
    assert not second.given


async def test_one_that_ended_by_itself(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    (old,) = await made(place, double)
    double.end(old)
    life = place._spares._chats["c"].spares[0].life
    await until(lambda: not life.waits, 5, "the engine says so")
    assert how(await run(place, work)) == "made for it"


async def test_an_engine_that_is_another_one_now(make: Make, double: EngineDouble, work: Path, tmp_path: Path) -> None:
    place = make()
    await run(place, work)
    (old,) = await made(place, double)
    (tmp_path / "other").mkdir()
    other = EngineDouble(tmp_path / "other")
    place._engines._env = {"DOCKER_HOST": other.host}
    try:
        result = await run(place, work)
        assert (how(result), result.proof.details["endpoint"]) == ("made for it", other.host)
        assert not old.given
        await until(lambda: not double.boxes, 5, "it is taken away from the engine that it is on")
        await place.close()
        assert other.boxes == {}
    finally:
        other.close()


async def test_a_folder_that_is_gone_takes_its_spare_along(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    await made(place, double)
    shutil.rmtree(work)
    with pytest.raises(PlaceUnavailable, match="is not there"):
        await run(place, work)
    await until(lambda: not double.boxes, 5)


async def test_a_command_that_comes_while_its_spare_is_made_has_it_then(
    make: Make, double: EngineDouble, work: Path
) -> None:
    place = make(more=0)
    await run(place, work)
    await made(place, double)
    double.hang("POST .*/start")
    await run(place, work)  # it had been started
    await until(lambda: place._spares.count() == 1 and len(double.boxes) == 1, 5, "the next one is being made")
    running = asyncio.get_running_loop().create_task(run(place, work))
    await until(lambda: len(double.boxes) == 2, 5, "it is taken, and one more is begun")
    assert not running.done()
    double.calm()
    assert how(await running) == "made ahead"


async def test_a_spare_that_cannot_be_made_is_none(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    await made(place, double)
    double.answer("POST .*/create", 500, {"message": "no room"})
    assert how(await run(place, work)) == "made ahead"
    await until(lambda: place._spares.count() == 0 and not double.boxes, 5)
    double.calm()
    assert how(await run(place, work)) == "made for it"


async def test_one_that_fails_in_a_commands_hands_is_followed_by_the_ordinary_way(
    make: Make, double: EngineDouble, work: Path
) -> None:
    place = make(more=0)
    await run(place, work)
    await made(place, double)
    double.hang("POST .*/start")
    await run(place, work)
    await until(lambda: place._spares.count() == 1 and len(double.boxes) == 1, 5, "the next one is being made")
    running = asyncio.get_running_loop().create_task(run(place, work))
    await until(lambda: len(double.boxes) == 2, 5, "it is taken")
    taken = next(iter(double.boxes.values()))
    double.boxes.pop(taken.id)  # somebody else removed it
    double.calm()
    result = await running
    assert (how(result), result.code) == ("made for it", 0)


async def test_stop_while_the_spare_is_made_runs_nothing(
    make: Make, double: EngineDouble, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.container.run.HUNG_LIMIT", 0.3)
    place = make(more=0)
    await run(place, work)
    await made(place, double)
    double.hang("POST .*/start")
    await run(place, work)
    await until(lambda: place._spares.count() == 1 and len(double.boxes) == 1, 5, "the next one is being made")
    given = sum(bool(box.given) for box in double.served)
    running = asyncio.get_running_loop().create_task(run(place, work))
    await until(lambda: len(double.boxes) == 2, 5, "it is taken")
    running.cancel()
    with pytest.raises(Stopped) as raised:
        await running
    assert raised.value.sure
    double.calm()
    await until(lambda: place._spares.idle, 5)
    assert sum(bool(box.given) for box in double.served) == given


async def test_the_engine_does_not_say_that_a_waiting_box_is_gone(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    (old,) = await made(place, double)
    double.answer("DELETE .*", 500, {"message": "device busy"})
    place._spares.drop()
    await until(lambda: old.status == "exited", 5, "nobody holds its stdin any more")
    double.calm()
    await until(lambda: not double.boxes, 5, "it is tried again")


async def test_close_takes_all_away_and_makes_no_more(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    for chat in "abc":
        await run(place, work, chat)
    await place.close()
    assert double.boxes == {}
    await asyncio.sleep(0.1)
    assert double.boxes == {}


async def test_nothing_is_kept_open_for_spares_that_are_gone(make: Make, double: EngineDouble, work: Path) -> None:
    place = make()
    await run(place, work)
    await made(place, double)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        await run(place, work)
        await made(place, double)
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2, 5)  # noqa: PTH208
