"""Boxes made ahead on a real Docker: each serves one command, finds nothing of another, and is dead when it says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.looking import number, processes, until
from workplaces.container.box import Options
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import PlaceUnavailable, RunRequest, RunResult

MANY = 200


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
async def place(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Container]:
    made = Container(tmp_path / "conch", image=lambda: docker_host.image)
    yield made
    await made.close()
    assert docker_host.boxes(conch_work="1") == []


@pytest.fixture
async def small(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Container]:
    """One whose boxes have a gigabyte: it takes long to fill the four that others have."""
    made = Container(tmp_path / "conch", image=lambda: docker_host.image, options=lambda: Options(memory=1))
    yield made
    await made.close()
    assert docker_host.boxes(conch_work="1") == []


def ask(work: Path, command: str | tuple[str, ...] = "true", **how: object) -> RunRequest:
    return RunRequest(**{"command": command, "folder": work, "chat": "c", "timeout": 60.0, **how})  # type: ignore[arg-type]


async def spare(place: Container, work: Path, **how: object) -> str:
    """Runs something, and gives the id of the box that waits then."""
    await place.run(ask(work, **how))
    await until(lambda: place._spares.count() == 1 and place._spares.idle, 20, "a spare")
    return place._spares._chats["c"].spares[0].life.box


def how(result: RunResult) -> str:
    return result.proof.details["box"]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_of_200_commands_has_a_box_of_its_own_and_finds_nothing_of_another(
    place: Container, work: Path, docker_host: Dockerd
) -> None:
    mark = number()
    leave = f"echo x > /tmp/left; echo x > ~/left; (setsid sleep {mark} &) ; trap '' TERM; sleep {mark} & hostname"
    look = "ls -A /tmp ~ /dev/shm; cat /proc/[0-9]*/comm"
    seen: dict[str, str] = {}
    ahead = 0
    for turn in range(MANY):
        result = await place.run(ask(work, f"{look}; {leave}"))
        listed, name = result.output.out.rsplit("\n", 2)[:2]
        assert result.code == 0, result.output.text
        assert result.proof.target.startswith(name), "the proof names the box that it ran in"
        assert result.proof.target not in seen, "a box served two commands"
        seen[result.proof.target] = how(result)
        ahead += how(result) == "made ahead"
        assert "docker-init" in listed
        assert not {"left", "sleep"} & set(listed.split()), (turn, listed)
        assert processes(mark) == [], "what it left was still alive when its result came"
    assert ahead >= MANY // 4, "most were made before their command came"
    assert len(seen) == MANY


async def test_the_result_comes_when_all_is_dead_and_before_the_box_is_gone(
    place: Container, work: Path, docker_host: Dockerd
) -> None:
    mark = number()
    box = await spare(place, work)
    line = f"(trap '' TERM; setsid sh -c 'while :; do echo x >> wrote; done; : {mark}' &) ; sleep 0.2; echo on"
    result = await place.run(ask(work, line))
    size = (work / "wrote").stat().st_size
    assert (how(result), result.proof.target, result.output.out, result.sure) == ("made ahead", box, "on\n", True)
    assert processes(mark) == []
    assert size > 0
    await until(lambda: box not in docker_host.boxes(), 10, "it is taken away behind")
    assert (work / "wrote").stat().st_size == size


async def test_a_box_that_waits_is_one_that_runs_with_its_seal(
    place: Container, work: Path, docker_host: Dockerd
) -> None:
    """What the engine says of one made ahead is what it says of one made for its command, but for its name."""
    (work / "key").write_text("SECRET")
    waits = await spare(place, work, protected=(work / "key",))
    fresh = ask(work, "sleep 1000", chat="other", protected=(work / "key",))
    running = asyncio.get_running_loop().create_task(place.run(fresh))
    with docker_host.client() as client:
        await until(lambda: docker_host.boxes(conch_chat="other"), 20)
        (other,) = docker_host.boxes(conch_chat="other")
        await until(lambda: client.api.inspect_container(other)["State"]["Running"], 20)
        ahead, made = (client.api.inspect_container(box) for box in (waits, other))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ahead["HostConfig"] == made["HostConfig"]
    assert sorted(map(str, ahead["Mounts"])) == sorted(map(str, made["Mounts"]))
    for seen in (ahead, made):
        seen["Config"].pop("Hostname")
        seen["Config"]["Labels"].pop("conch.chat")
    assert ahead["Config"] == made["Config"]
    assert ahead["Image"] == made["Image"]


async def test_a_folder_that_was_replaced_is_not_the_one_that_the_spare_sees(place: Container, work: Path) -> None:
    old = await spare(place, work)
    work.rename(work.with_name("was"))
    work.mkdir()
    result = await place.run(ask(work, "echo x > made"))
    assert (how(result), (work / "made").exists()) == ("made for it", True)
    assert list(work.with_name("was").iterdir()) == []
    assert result.proof.target != old


async def test_a_key_that_appeared_is_covered(place: Container, work: Path, docker_host: Dockerd) -> None:
    old = await spare(place, work, protected=(work / "key",))
    (work / "key").write_text("SECRET")
    result = await place.run(ask(work, "cat key", protected=(work / "key",)))
    assert (how(result), result.output.text) == ("made for it", "")
    await until(lambda: old not in docker_host.boxes(), 10, "the other one is thrown away")


async def test_a_git_that_appeared_is_read_only(place: Container, work: Path) -> None:
    await spare(place, work)
    (work / ".git").mkdir()
    result = await place.run(ask(work, "touch .git/x"))
    assert (how(result), result.code) == ("made for it", 1)
    assert list((work / ".git").iterdir()) == []


async def test_an_image_that_its_name_no_longer_stands_for(docker_host: Dockerd, work: Path, tmp_path: Path) -> None:
    with docker_host.client() as client:
        old = client.images.get(docker_host.image)
        old.tag("again", "1")
        place = Container(tmp_path / "conch", image=lambda: "again:1")
        await spare(place, work)
        box = client.api.create_container(docker_host.image, ["true"])
        client.api.commit(box["Id"], "again", "1", changes="ENV NEW=yes")
        client.api.remove_container(box["Id"])
        result = await place.run(ask(work, "echo $NEW"))
        assert (how(result), result.output.out) == ("made for it", "yes\n")
        assert result.proof.details["image id"] == client.images.get("again:1").id != old.id
    await place.close()


async def test_a_folder_deleted_while_its_spare_waits(place: Container, work: Path, docker_host: Dockerd) -> None:
    await spare(place, work)
    work.rmdir()
    with pytest.raises(PlaceUnavailable, match="is not there"):
        await place.run(ask(work))
    await until(lambda: docker_host.boxes() == [], 10, "nobody waits for that folder any more")


async def test_a_spare_that_somebody_killed(place: Container, work: Path, docker_host: Dockerd) -> None:
    old = await spare(place, work)
    with docker_host.client() as client:
        client.api.kill(old)
    result = await place.run(ask(work, "echo on"))
    assert (how(result), result.output.out) == ("made for it", "on\n")


async def test_an_engine_that_was_started_anew(place: Container, work: Path, docker_host: Dockerd) -> None:
    old = await spare(place, work)
    docker_host.stop()
    docker_host.start()
    result = await place.run(ask(work, "echo on"))
    assert (how(result), result.output.out) == ("made for it", "on\n")
    await until(lambda: old not in docker_host.boxes(), 20, "what it had left is taken away")


async def test_too_much_memory_is_said_though_the_shell_lives(small: Container, work: Path) -> None:
    await spare(small, work)
    hog = "python3 -c 'b = [bytearray(64 << 20) for _ in range(20)]' || echo it died with $?"
    result = await small.run(ask(work, hog))
    assert (how(result), result.code, result.output.out) == ("made ahead", 0, "it died with 137\n")
    assert "ran out of its 1 GB of memory" in result.note


async def test_ten_thousand_open_files(place: Container, work: Path) -> None:
    await spare(place, work)
    many = "import os\nkept = [os.open('/dev/null', 0) for _ in range(10_000)]\nprint(len(kept))"
    result = await place.run(ask(work, ("python3", "-c", many)))
    assert (how(result), result.code, result.output.out) == ("made ahead", 0, "10000\n")
    more = many.replace("10_000", "20_000")
    assert "Too many open files" in (await place.run(ask(work, ("python3", "-c", more)))).output.err


async def test_a_command_of_a_megabyte(place: Container, work: Path) -> None:
    await spare(place, work)
    words = tuple(chr(97 + turn) * 100_000 for turn in range(10))
    result = await place.run(ask(work, ("printf", "%.2s", *words)))
    assert (how(result), result.output.out) == ("made ahead", "".join(word[:2] for word in words))
    for command in ("echo " + "x" * (1 << 20), ("echo", *words, *words)):
        with pytest.raises(PlaceUnavailable, match="too long"):
            await place.run(ask(work, command))


async def test_a_fork_bomb_in_a_spare(place: Container, work: Path, docker_host: Dockerd) -> None:
    mark = number()
    await spare(place, work)
    bomb = f"f() {{ f | f & }}; f; sleep 1; echo on; exit 3 # {mark}"
    result = await place.run(ask(work, bomb, timeout=20.0))
    assert how(result) == "made ahead"
    assert result.sure
    assert processes(mark) == []
    assert (await place.run(ask(work, "echo well"))).output.out == "well\n"


async def test_a_full_disk_on_this_computer_is_no_trouble(place: Container, work: Path, tmp_path: Path) -> None:
    """Where long output is kept there is no room: the command goes on, and what is shown is as it was."""
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    await spare(place, work)
    keeper = OutputKeeper(spill_folder=full)
    result = await place.run(replace(ask(work, "yes | head -c 1000000; echo done"), output=keeper))
    assert (result.code, result.output.file, result.output.size) == (0, None, 1_000_005)
    assert result.output.text.endswith("done\n")


async def test_a_full_tmp_in_a_spare(place: Container, work: Path) -> None:
    await spare(place, work)
    line = "head -c 2200M /dev/zero > /tmp/x; echo $?; rm /tmp/x; echo y > /tmp/x && cat /tmp/x"
    result = await place.run(ask(work, line))
    assert (how(result), result.output.out) == ("made ahead", "1\ny\n")
    assert "No space left" in result.output.err


async def test_a_waiting_box_takes_little_and_does_nothing(place: Container, work: Path) -> None:
    box = await spare(place, work)
    (keeper,) = (process for process in psutil.process_iter() if box in " ".join(_words(process)))
    own = [keeper, *keeper.children(recursive=True)]
    assert sum(process.memory_full_info().uss for process in own) < 16e6
    before = [process.cpu_times() for process in own[1:]]
    await asyncio.sleep(1)
    assert [process.cpu_times() for process in own[1:]] == before


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
