"""The seal, flag by flag, and what a box's shell is told. In real shells that runs in tests/real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workplaces.container.box import FIRST_LINES, BoxAsk, Options, expected, line_for, new_mark, seal, words_of
from workplaces.container.engine import EngineFacts
from workplaces.container.life import FirstLine
from workplaces.folder import check_folder

FACTS = EngineFacts(version="1", cpus=8, memory=64 << 30)
EMPTY = Path("/conch/empty")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / ".git").mkdir(parents=True)
    (made / "deep" / "keys").mkdir(parents=True)
    (made / "deep" / "token").touch()
    return made


def body(work: Path, *protected: Path, facts: EngineFacts = FACTS, **how: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"image": "image:1", "open": False, "user": "7:8", "empty": EMPTY}
    made = seal(BoxAsk(folder=check_folder(work, protected), **{**given, **how}), facts)
    assert json.loads(json.dumps(made)) == made
    return made


def targets(made: dict[str, Any]) -> dict[str, tuple[str, str, bool]]:
    return {
        mount["Target"]: (mount["Type"], mount.get("Source", ""), mount["ReadOnly"])
        for mount in made["HostConfig"]["Mounts"]
    }


def test_every_flag_of_the_seal(work: Path) -> None:
    made = body(work, chat="c1", installation="i1", owner="o1")
    host = made.pop("HostConfig")
    assert host.pop("Mounts")
    assert host == {
        "AutoRemove": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "Init": True,
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "NetworkMode": "none",
        "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=2147483648,mode=1777"},
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": 16384, "Hard": 16384},
        ],
        "Memory": 4 << 30,
        "MemorySwap": 4 << 30,
        "PidsLimit": 512,
        "NanoCpus": 2_000_000_000,
    }
    assert made.pop("Cmd") == ["-c", FIRST_LINES, "sh", *expected(check_folder(work), FACTS).words()]
    assert made == {
        "Image": "image:1",
        "Entrypoint": ["/bin/sh"],
        "User": "7:8",
        "Env": ["HOME=/tmp/home", "LANG=C.UTF-8"],
        "WorkingDir": str(work),
        "Labels": {"conch.work": "1", "conch.chat": "c1", "conch.home": "i1", "conch.owner": "o1"},
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
    }


def test_docker_here_does_not_manage_the_network_of_a_sealed_box(work: Path) -> None:
    names = Path("/conch/hosts")
    sealed = body(work, etc_hosts=names)
    assert (sealed["NetworkDisabled"], sealed["HostConfig"]["NetworkMode"]) == (True, "none")
    assert targets(sealed)["/etc/hosts"] == ("bind", str(names), True)
    for made in (
        body(work, etc_hosts=names, open=True),
        body(work, etc_hosts=names, facts=replace(FACTS, native=False), top="x"),
        body(work, etc_hosts=names, facts=replace(FACTS, selinux=True)),
        body(work, etc_hosts=names, facts=replace(FACTS, kind="podman")),
        body(work, etc_hosts=names, options=Options(runtime="runsc")),
    ):
        assert "NetworkDisabled" not in made
        assert "/etc/hosts" not in targets(made)


def test_open_differs_in_the_network_and_in_git_alone(work: Path) -> None:
    sealed, opened = body(work), body(work, open=True)
    assert (sealed["HostConfig"].pop("NetworkMode"), opened["HostConfig"].pop("NetworkMode")) == ("none", "default")
    git = str(work / ".git")
    assert targets(sealed)[git] == ("bind", git, True)
    assert git not in targets(opened)
    for made in (sealed, opened):
        mounts = made["HostConfig"].pop("Mounts")
        assert mounts[0] == {
            "Type": "bind",
            "Source": str(work),
            "Target": str(work),
            "ReadOnly": False,
            "BindOptions": {"Propagation": "rprivate"},
        }
    assert sealed == opened


def test_only_what_the_engine_keeps_is_asked_of_it(work: Path) -> None:
    host = body(work, facts=EngineFacts(cpus=1, limits=("memory",)))["HostConfig"]
    assert host["Memory"] == 4 << 30
    assert not {"MemorySwap", "PidsLimit", "NanoCpus"} & set(host)
    assert body(work, facts=EngineFacts(cpus=1))["HostConfig"]["NanoCpus"] == 1_000_000_000


@pytest.mark.parametrize("opened", [False, True])
def test_protected_places_are_covered_and_their_way_is_pinned(work: Path, opened: bool) -> None:
    made = body(work, work / "deep" / "keys", work / "deep" / "token", work / "gone", open=opened)
    over = targets(made)
    assert over[str(work / "deep")] == ("bind", str(work / "deep"), False)
    assert over[str(work / "deep" / "keys")] == ("tmpfs", "", True)
    assert over[str(work / "deep" / "token")] == ("bind", str(EMPTY), True)
    assert str(work / "gone") not in over
    order = [mount["Target"].count("/") for mount in made["HostConfig"]["Mounts"]]
    assert order == sorted(order)


@pytest.mark.parametrize("opened", [False, True])
def test_a_protected_place_in_git_leaves_git_sealed(work: Path, opened: bool) -> None:
    (work / ".git" / "secret").touch()
    made = body(work, work / ".git" / "secret", open=opened)
    git = [mount for mount in made["HostConfig"]["Mounts"] if mount["Target"] == str(work / ".git")]
    assert [mount["ReadOnly"] for mount in git] == [not opened]
    assert targets(made)[str(work / ".git" / "secret")] == ("bind", str(EMPTY), True)
    covered = body(work, work / ".git", open=opened)
    assert targets(covered)[str(work / ".git")] == ("tmpfs", "", True)


def test_a_git_file_is_sealed_too_and_a_missing_git_is_not_made(work: Path) -> None:
    (work / ".git").rmdir()
    assert str(work / ".git") not in targets(body(work))
    (work / ".git").write_text("gitdir: elsewhere")
    assert targets(body(work))[str(work / ".git")] == ("bind", str(work / ".git"), True)


def test_a_link_to_the_folder_is_mounted_under_its_name(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work)
    made = body(link, work / "deep" / "keys")
    assert targets(made) == {
        str(link): ("bind", str(work), False),
        str(link / ".git"): ("bind", str(work / ".git"), True),
        str(link / "deep"): ("bind", str(work / "deep"), False),
        str(link / "deep" / "keys"): ("tmpfs", "", True),
    }
    assert made["WorkingDir"] == str(link)


def test_an_images_volumes_are_no_disk(work: Path) -> None:
    over = targets(body(work, volumes=("/data", "/tmp", str(work))))
    assert over["/data"] == ("tmpfs", "", False)
    assert "/tmp" not in over
    assert over[str(work)][0] == "bind"


@pytest.mark.parametrize(
    "name", ["a:b", "a,b", 'q"q', "it's", "sp ace", "@x", "new\nline", "🤣", "n" * 255, "-rf", "$(id)"]
)
def test_a_folders_name_goes_along_as_it_is(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    made = body(folder)
    assert targets(made)[str(folder)] == ("bind", str(folder), False)
    assert "Binds" not in made["HostConfig"]


def test_a_shell_line_is_read_by_the_images_shell() -> None:
    assert words_of("a b") == ("/bin/sh", "-c", "a b")
    assert words_of(("a", "b")) == ("a", "b")


def test_the_line_is_one_command_to_the_shell_and_holds_the_mark_only_after_it() -> None:
    line = line_for("echo it's\n'{' # }", "MARK")
    assert line.startswith(b"{ ")
    assert line.endswith(b" }\n")
    ran = line.index(b'exec "$@"')
    assert b"MARK" not in line[:ran]
    assert line.count(b"MARK") == 2
    assert b"kill" not in line_for("x", ""), "a shell that says no mark ends with its command"


def test_marks_cannot_be_guessed() -> None:
    marks = {new_mark() for _ in range(100)}
    assert len(marks) == 100
    assert {len(mark) for mark in marks} == {32}


def test_a_box_that_had_nothing_to_look_with_sees_no_folder() -> None:
    assert FirstLine.read(b" other") == FirstLine("", "", other=True)
    assert FirstLine.read(b"bare") == FirstLine("", "")


@pytest.mark.parametrize(
    "line", [b"", b"a", b"a b", b"\xff\xff", b"a b c shut", b"a b there", b"sh: 1: stat: not found"]
)
def test_what_is_no_first_line_is_none(line: bytes) -> None:
    assert FirstLine.read(line) is None
