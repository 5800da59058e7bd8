"""What lies in Conch's folder for machines, what a copy is called there, and which commands no machine is given."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from workplaces.folder import check_folder
from workplaces.mirror.mirror import Mirror
from workplaces.place import PlaceUnavailable, RunRequest, WorkPlaceId
from workplaces.ssh.machines import Machines, installation
from workplaces.ssh.place import check_command, copy_name
from workplaces.words import PLACE_WORDS


def machines(tmp_path: Path, text: str = "") -> Machines:
    settings = tmp_path / "ssh-config"
    settings.write_text(text)
    return Machines(tmp_path / "ssh", Mirror(tmp_path / "mirror"), settings=settings)


async def test_what_a_dead_conch_left_is_swept_and_what_another_uses_is_not(tmp_path: Path) -> None:
    home = tmp_path / "ssh"
    home.mkdir()
    long_ago = time.time() - 100 * 86400
    held = os.open(home, os.O_RDONLY)
    try:
        listening, dead, young = (socket.socket(socket.AF_UNIX) for _ in range(3))
        for name, one in (("c1.s", listening), ("c2.s", dead), ("c3.s", young)):
            one.bind(f"/proc/self/fd/{held}/{name}")
        listening.listen()
        dead.close()
        young.close()
        for name in ("c4.conf", "c5.conf", "installation"):
            (home / name).write_text("x")
        for name in ("c1.s", "c2.s", "c4.conf", "installation"):
            os.utime(home / name, (long_ago, long_ago))
        await machines(tmp_path).sweep()
        assert {path.name for path in home.iterdir()} == {"c1.s", "c3.s", "c5.conf", "installation"}
    finally:
        listening.close()
        os.close(held)


async def test_a_machine_is_one_place_for_everyone(tmp_path: Path) -> None:
    found = machines(tmp_path, "Host box\nHost *.lan\n")
    assert await found.names() == ("box",)
    assert not found.tried("box")
    first, second = await asyncio.gather(found.place("box"), found.place("box"))
    assert first is second
    assert first.id == WorkPlaceId("ssh", "box")
    assert found.tried("box")
    with pytest.raises(PlaceUnavailable, match=r"name no machine web\.lan"):
        await found.place("web.lan")
    await found.close()


def test_an_installation_has_one_name_for_good(tmp_path: Path) -> None:
    home = tmp_path / "long " / "way"
    first = installation(home)
    assert installation(home) == first
    assert installation(tmp_path / "other") != first
    assert {path.name for path in home.iterdir()} == {"installation"}


def test_a_copy_has_the_chats_name_or_the_folders(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(work)
    folder, linked, different = (check_folder(path) for path in (work, tmp_path / "link", other))
    assert copy_name("chat-1", folder, "a") == "chat-1"
    mine = copy_name("", folder, "a")
    assert copy_name("", linked, "a") == mine, "two spellings of one folder are one copy"
    assert len({mine, copy_name("", different, "a"), copy_name("", folder, "b")}) == 3


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ((), "command.empty"),
        (("",), "command.empty"),
        ("echo \0", "command.zero"),
        (("echo", "a\0b"), "command.zero"),
        ("x" * 200_000, "command.long"),
        ("echo \ud800", "command.not-text"),
    ],
)
async def test_a_command_no_machine_can_be_given_is_refused(
    tmp_path: Path, command: str | tuple[str, ...], word: str
) -> None:
    with pytest.raises(PlaceUnavailable) as raised:
        check_command(command)
    assert raised.value.words == PLACE_WORDS[word]
    place = await machines(tmp_path, "Host box\n  HostName nowhere.invalid\n").place("box")
    with pytest.raises(PlaceUnavailable) as raised:
        await place.run(RunRequest(command=command, folder=tmp_path))
    assert raised.value.words == PLACE_WORDS[word], "before anything is reached"


def test_what_a_command_may_be() -> None:
    for command in ("", "true", "echo \udcff", ("printf", ""), "x" * 100_000):
        check_command(command)
