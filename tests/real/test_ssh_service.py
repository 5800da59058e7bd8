"""A person's machines among the places: listed, reached when asked, and given to a turn."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.engines.person import CHECKOUT
from tests.real.engines.sshd import HOST, Sshd
from tests.real.engines.sshd import made as another
from tests.workplaces.looking import heartbeat, names, until
from workplaces.place import Changes, PlaceStatus, PlaceUnavailable, RunRequest, WorkPlaceId
from workplaces.service import PlaceSettings, WorkPlaces

BOX = WorkPlaceId("ssh", HOST)


@pytest.fixture
def settings(machine: Sshd, tmp_path: Path) -> Path:
    path = tmp_path / "ssh-config"
    path.write_text(machine.settings() + machine.settings("other").replace("User build", "User nobody-there"))
    return path


@pytest.fixture
async def places(settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkPlaces]:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    chosen: list[str] = []
    made = WorkPlaces(
        tmp_path / "places", settings=lambda: PlaceSettings(ssh_hosts=tuple(chosen)), ssh_settings=settings
    )
    made.chosen = chosen  # type: ignore[attr-defined]
    yield made
    await made.close()
    assert list((tmp_path / "places" / "ssh").glob("c*")) == []


def of(statuses: list[PlaceStatus], place: WorkPlaceId) -> PlaceStatus:
    return next(status for status in statuses if status.id == place)


def machines(statuses: list[PlaceStatus]) -> list[str]:
    return [status.name for status in statuses if status.id.kind == "ssh"]


async def test_machines_are_offered_and_reached_only_when_asked(
    places: WorkPlaces, machine: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.log.read_text().count("Accepted publickey")
    statuses = await places.status(look=True)
    assert machines(statuses) == [HOST, "other"]
    box = of(statuses, BOX)
    assert (box.standing, box.seals, box.details["reached"]) == ("ready", False, "not yet")
    assert machine.log.read_text().count("Accepted publickey") == before, "nobody signed in anywhere"
    async with heartbeat() as longest:
        statuses = await places.status(reach=[BOX, WorkPlaceId("ssh", "other")])
    assert longest[0] < 0.25
    assert machine.log.read_text().count("Accepted publickey") == before + 1
    box, other = of(statuses, BOX), of(statuses, WorkPlaceId("ssh", "other"))
    assert (box.standing, box.details["reached"], box.details["machine"]) == ("ready", "yes", HOST)
    assert box.line.startswith("Answers in ")
    assert box.details["host key"] == machine.fingerprint
    assert (other.standing, other.details["reached"]) == ("down", "no")
    assert other.line == "other does not take your key."
    assert other.next_step is not None
    assert other.next_step.command == "ssh-copy-id other"
    monkeypatch.setattr("workplaces.service.FRESH", 0.0)
    still = of(await places.status(), WorkPlaceId("ssh", "other"))
    assert (still.standing, still.line) == ("down", other.line), "what was found out is not forgotten"
    again = of(await places.status(look=True), BOX)
    assert again.ready, "it is asked again once it was reached"


async def test_a_change_in_the_file_shows(
    places: WorkPlaces, settings: Path, machine: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.ssh.machines.WATCH_EVERY", 0.05)
    told: list[int] = []
    end = places.subscribe(lambda: told.append(1))
    await places.start()
    await places.status()
    with settings.open("a") as file:
        file.write(machine.settings("new-box"))
    await until(lambda: told, what="told of the change")
    assert machines(await places.status()) == [HOST, "other", "new-box"]
    assert (await (await places.for_turn(WorkPlaceId("ssh", "new-box"))).run(_request(settings.parent))).code == 0
    end()
    settings.write_text("")
    with pytest.raises(PlaceUnavailable, match=f"name no machine {HOST}") as raised:
        await places.for_turn(BOX)
    assert raised.value.next_step is not None
    assert machines(await places.status()) == []


async def test_a_person_chooses_which_are_shown(places: WorkPlaces) -> None:
    places.chosen.append("other")  # type: ignore[attr-defined]
    assert machines(await places.status()) == ["other"]
    assert (await places.for_turn(BOX)).id == BOX, "one that is not shown is still a place: a chat may run there"


async def test_a_turn_runs_there_and_says_so(places: WorkPlaces, machine: Sshd, tmp_path: Path) -> None:
    place = await places.for_turn(BOX)
    assert (place.seals, place.where) == (False, HOST)
    assert HOST in place.about(tmp_path)
    request = _request(tmp_path, "uname -n; id -un; echo made > made.txt")
    result = await place.run(request)
    assert result.output.out == f"{HOST}\nbuild\n"
    assert (tmp_path / "work" / "made.txt").read_text() == "made\n"
    assert result.changed == Changes(added=("made.txt",))
    assert result.proof.target == f"build@127.0.0.1:{machine.port}"
    assert result.proof.folder == f"{machine.user().home}/.conch-work/chat-1"
    assert names(machine.user().home / ".conch-work") >= {"chat-1"}
    assert (machine.user().home / ".conch-work").stat().st_mode & 0o777 == 0o700


async def test_copies_there_are_listed_measured_and_removed(places: WorkPlaces, machine: Sshd, tmp_path: Path) -> None:
    there = machine.user().home / ".conch-work"
    shutil.rmtree(there / "chat-1", ignore_errors=True)  # another test's
    assert await places.copies() == []
    await (await places.for_turn(BOX)).run(
        _request(tmp_path, "mkdir target; head -c 3000000 /dev/zero > target/big; echo > kept")
    )
    [copy] = await places.copies()
    assert (copy.host, copy.name, copy.folder) == (HOST, "chat-1", tmp_path / "work")
    assert await places.copies("chat-1") == [copy]
    assert await places.copies("chat-2") == []
    assert (await places.copy_sizes(HOST))["chat-1"] > 3_000_000
    await places.remove_copy(HOST, "chat-1")
    assert "chat-1" not in names(there)
    assert await places.copies() == []
    assert "chat-1" not in await places.copy_sizes(HOST)
    assert (tmp_path / "work" / "kept").is_file(), "nothing here is touched"
    result = await (await places.for_turn(BOX)).run(_request(tmp_path, "ls"))
    assert result.output.out == "kept\n", "and the next command makes it anew"
    await places.remove_copy(HOST, "chat-1")


async def test_what_stays_here_is_the_persons_choice(places: WorkPlaces, settings: Path, tmp_path: Path) -> None:
    chosen = PlaceSettings()
    made = WorkPlaces(tmp_path / "others", settings=lambda: chosen, ssh_settings=settings)
    work = tmp_path / "work"
    for name in ("target", "data", "src"):
        (work / name).mkdir(parents=True)
        (work / name / "f").write_text(name)
    place = await made.for_turn(BOX)
    every = "cat */f; echo $(ls -d */)"
    assert (await place.run(_request(tmp_path, every))).output.out == "datasrcdata/ src/\n"
    chosen = PlaceSettings(leave=("data",), carry=("target",))
    assert (await place.run(_request(tmp_path, "rm -rf data; echo new > src/f; echo new >target/f"))).code == 0
    assert {name: (work / name / "f").read_text() for name in ("target", "data", "src")} == {
        "target": "new\n", "data": "data", "src": "new\n",
    }  # fmt: skip
    chosen = PlaceSettings()
    assert (await place.run(_request(tmp_path, every))).output.out.startswith("data")
    assert (work / "data/f").read_text() == "data", "what was left out meanwhile is no deletion"
    await made.remove_copy(HOST, "chat-1")
    await made.close()


async def test_places_that_are_closed_leave_no_connection(machine: Sshd, settings: Path, tmp_path: Path) -> None:
    before = Counter(machine.table())  # what other tests' settings files there left running
    places = WorkPlaces(tmp_path / "places", ssh_settings=settings)
    await (await places.for_turn(BOX)).run(_request(tmp_path))
    assert any(line.startswith("sshd: build") for _, line in (Counter(machine.table()) - before))
    await places.close()
    await until(lambda: not Counter(machine.table()) - before, what="nobody who came for it is there any more")


async def test_quitting_while_a_machine_is_being_reached_is_quick(settings: Path, tmp_path: Path) -> None:
    with socket.socket() as deaf:  # it takes the connection, and never says a word
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        settings.write_text(f"Host {HOST}\n  HostName 127.0.0.1\n  Port {deaf.getsockname()[1]}\n")
        places = WorkPlaces(tmp_path / "places", ssh_settings=settings)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(places.status(reach=[BOX]))
            await until(lambda: list((tmp_path / "places" / "ssh").glob("c*.conf")), what="being reached")
            await asyncio.sleep(0.3)
            began = time.monotonic()
            await places.close()
            assert time.monotonic() - began < 2
            looking.cancel()
    assert list((tmp_path / "places" / "ssh").glob("c*")) == []


async def test_the_command_line_runs_there_too(machine: Sshd, settings: Path, tmp_path: Path) -> None:
    import sys

    (tmp_path / "work").mkdir()
    env = {**os.environ, "CONCH_SSH_CONFIG": str(settings), "CONCH_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-m", "app", "run", f"--place=ssh:{HOST}", "--folder", str(tmp_path / "work"), "--open"]
    process = await asyncio.create_subprocess_exec(
        *argv, "--", "uname -n; touch here", env=env, cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert (process.returncode, out.decode().splitlines()[0]) == (0, HOST)
    assert names(tmp_path / "work") == {"here"}
    listed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "places", "--look", "--json"),
        env=env,
        cwd=CHECKOUT,
        stdout=asyncio.subprocess.PIPE,
    )
    said = {one["id"]: one for one in json.loads((await listed.communicate())[0])["places"]}
    assert said[f"ssh:{HOST}"]["line"].startswith("Answers in ")
    assert said["ssh:other"]["next"]["command"] == "ssh-copy-id other"


@pytest.mark.parametrize("answer", [True, False])
async def test_a_command_that_deletes_most_of_the_copy_asks_first(
    places: WorkPlaces, tmp_path: Path, answer: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(30):
        (work / f"{number}").write_text("x")
    asked: list[str] = []

    async def ask(question: str) -> bool:
        asked.append(question)
        return answer

    place = await places.for_turn(BOX)
    told: list[str] = []
    request = RunRequest(
        command="rm -f [1-9]*", folder=work, chat="empties", ask=ask, on_progress=lambda step: told.append(step.words)
    )
    result = await place.run(request)
    assert asked == [f"The command deleted 29 of 30 files on {HOST}. Delete them here too?"]
    assert len(names(work)) == (1 if answer else 30)
    assert len(result.changed.all if result.changed else ()) == (29 if answer else 0)
    assert told == [f"Reaching {HOST}"]


HIDE = 'mount --bind /dev/null "$(readlink -f {})"'
SMALL = 'mount -t tmpfs -o size=64k,mode=755,uid=$(stat -c %u "$2/homes/build") none "$2/homes/build"'


@pytest.mark.parametrize(
    ("lacks", "says", "step"),
    [
        (HIDE.format("/usr/bin/tar"), "poor has no tar", "Install tar there"),
        (HIDE.format("/bin/sh"), "poor has no /bin/sh", "Choose another place"),
        ('chown 0 "$2/homes/build"', "may not write in the home folder on poor", "Let your user write in its home"),
        (SMALL, "There is no room on poor for the copy", "Make room there"),
    ],
    ids=["no-tar", "no-shell", "home-closed", "no-room"],
)
async def test_what_a_machine_lacks_is_said_before_anything_runs(
    places: WorkPlaces, settings: Path, tmp_path: Path, lacks: str, says: str, step: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_bytes(os.urandom(200_000))
    with another(name="poor", lacks=lacks) as poor:
        with settings.open("a") as file:
            file.write(poor.settings())
        place = await places.for_turn(WorkPlaceId("ssh", "poor"))
        with pytest.raises(PlaceUnavailable) as raised:
            await place.run(_request(tmp_path, "touch made"))
    assert says in raised.value.words
    assert raised.value.next_step is not None
    assert raised.value.next_step.label.startswith(step)
    assert names(tmp_path / "work") == {"a"}


def _request(base: Path, command: str = "true") -> RunRequest:
    work = base / "work"
    work.mkdir(exist_ok=True)
    return RunRequest(command=command, folder=work, chat="chat-1")
