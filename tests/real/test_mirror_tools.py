"""The tools of other systems there: BusyBox, BSD's (bsdtar itself, shims that refuse GNU's options), other shells."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.needs import program
from tests.real.engines.person import Person
from tests.workplaces.mirror_far import Pair, tree
from workplaces.mirror.far import ProgramFar
from workplaces.mirror.living import Living
from workplaces.place import PlaceUnavailable

# What BSD's do not know is refused; the rest is done by the tools that are here.
_FIND = """#!/bin/sh
for word do
  case $word in -printf|-readable|-executable|-true|-files0-from) echo "find: $word: unknown" >&2; exit 1 ;; esac
done
exec /usr/bin/find "$@"
"""
_STAT = """#!/bin/sh
[ "$1" = -f ] || { echo "stat: illegal option" >&2; exit 1; }
[ "$2" = '%Sp %Lp %z %Fm %Fc %i' ] || { echo "stat: not a format of this test" >&2; exit 1; }
shift 2
exec /usr/bin/stat -c '%A %a %s %.9Y %.9Z %i' "$@"
"""
_COARSE = _STAT.replace("%.9Y %.9Z", "%Y.000000000 %Z.000000000")
_PLAIN = """#!/bin/sh
for word do
  case $word in --) break ;; --*) echo "$0: illegal option -- -" >&2; exit 1 ;; esac
done
exec /usr/bin/{name} "$@"
"""


def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def gnu(pair: Pair) -> ProgramFar:
    return pair.far


def busybox(pair: Pair) -> ProgramFar:
    found = program("busybox")
    if found is None:
        pytest.skip("busybox is not here")
    tools = pair.base / "tools"
    tools.mkdir()
    for name in ("sh", "dd", "find", "stat", "tar", "mv", "rm", "rmdir", "mkdir", "chmod", "cat", "sleep", "du", "env"):
        (tools / name).symlink_to("busybox")
    shutil.copy2(found, tools / "busybox")
    start = ["env", "-i", f"HOME={pair.home}", f"PATH={tools}", str(tools / "sh"), "-c"]
    return ProgramFar("build-box", lambda command: [*start, command.replace("/bin/sh", str(tools / "sh"))])


def bsd(pair: Pair, stat_shim: str = _STAT) -> ProgramFar:
    found = program("bsdtar")
    if found is None:
        pytest.skip("bsdtar is not here (libarchive-tools)")
    tools = pair.base / "tools"
    _program(tools, "find", _FIND)
    _program(tools, "stat", stat_shim)
    for name in ("mv", "rm", "rmdir", "mkdir", "chmod"):
        _program(tools, name, _PLAIN.format(name=name))
    (tools / "tar").symlink_to(found)
    return _with_path(pair, f"{tools}:/usr/bin:/bin")


def coarse(pair: Pair) -> ProgramFar:
    """Times in whole seconds, as old file systems have them."""
    return bsd(pair, _COARSE)


def bash(pair: Pair) -> ProgramFar:
    start = ["env", "-i", f"HOME={pair.home}", "PATH=/usr/bin:/bin", "/bin/bash", "-c"]
    return ProgramFar("build-box", lambda command: [*start, command.replace("/bin/sh", "/bin/bash")])


def _with_path(pair: Pair, path: str) -> ProgramFar:
    start = ["env", "-i", f"HOME={pair.home}", f"PATH={path}", "/bin/sh", "-c"]
    return ProgramFar("build-box", lambda command: [*start, command])


@pytest.fixture(params=[gnu, busybox, bsd, coarse, bash], ids=lambda make: make.__name__)
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(tmp_path)
    made.home.mkdir(exist_ok=True)
    make: Callable[[Pair], ProgramFar] = request.param
    made.far = Living(make(made))  # type: ignore[assignment]
    yield made
    made.far.close()  # type: ignore[attr-defined]


async def test_there_and_back(pair: Pair) -> None:
    names = (
        "plain",
        "with space",
        "-rf",
        "new\nline",
        "ünï",
        "x" * 200,
        "d/" + "y" * 180,
        "d/-n'\"",
        "@x",
        "e/f/g",
        "tail\n",
    )
    for name in names:
        (pair.here / name).parent.mkdir(parents=True, exist_ok=True)
        (pair.here / name).write_text(name)
    (pair.here / "plain").chmod(0o755)
    (pair.here / "empty").mkdir()
    (pair.here / "empty").chmod(0o700)
    (pair.here / "node_modules").mkdir()
    (pair.here / "node_modules/x").write_text("x")

    def command(there: Path) -> None:
        expected = {path: what for path, what in tree(pair.here).items() if not path.startswith("node_modules")}
        assert tree(there) == expected
        for name in names:
            (there / name).write_text(name + "!")
        (there / "new" / ("z" * 120)).mkdir(parents=True)
        (there / "new" / ("z" * 120) / "file").write_text("new")
        (there / "plain").unlink()
        (there / "venv/lib").mkdir(parents=True)
        (there / "venv/lib/x").write_text("x")
        (there / "link").symlink_to("/etc/passwd")

    sent, back = await pair.round(command)
    assert sent.files == len(names)
    assert not back.trouble
    assert back.changes.deleted == ("plain",)
    assert len(back.changes.changed) == len(names) - 1
    assert back.changes.added == ("new/" + "z" * 120 + "/file",)
    for name in names[1:]:
        assert (pair.here / name).read_text() == name + "!"
        (pair.here / name).write_text(name + "?")
    (pair.here / "d" / ("y" * 180)).unlink()
    sent, back = await pair.round(lambda there: None)
    assert (sent.files, sent.removed) == (len(names) - 2, 1)
    assert (back.trouble, back.changes.all, back.kept_twice) == ("", (), ())
    here = {path: what for path, what in tree(pair.here).items() if not path.startswith("node_modules")}
    there = {path: what for path, what in tree(pair.there).items() if not path.startswith(("venv", "link"))}
    assert here == there


async def test_same_size_in_the_same_second_is_seen(pair: Pair) -> None:
    (pair.here / "a").write_text("1")

    def command(there: Path) -> None:
        seen = (there / "a").stat()
        (there / "a").write_text("2")
        os.utime(there / "a", ns=(seen.st_atime_ns, seen.st_mtime_ns))

    _, back = await pair.round(command)
    assert back.changes.changed == ("a",)
    _, back = await pair.round(lambda there: (there / "a").write_text("3"))
    assert (pair.here / "a").read_text() == "3"
    assert back.changes.changed == ("a",)


@pytest.mark.slow
async def test_fifty_thousand_deletions(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for number in range(50_000):
        folder = pair.here / str(number // 500)
        if number % 500 == 0:
            folder.mkdir()
        os.close(
            os.open(folder / f"file {number} with a long enough name to fill a command line", os.O_CREAT | os.O_WRONLY)
        )
    sent, _ = await pair.round()
    assert sent.files == 50_000
    for number in range(100):
        shutil.rmtree(pair.here / str(number))
    (pair.here / "stays").write_text("x")
    sent, back = await pair.round()
    assert (sent.files, sent.removed, back.changes.all) == (1, 50_000, ())
    assert [path.name for path in pair.there.iterdir()] == ["stays"]


async def test_a_folder_that_cannot_be_read_deletes_nothing(tmp_path: Path, ordinary_user: Person) -> None:
    user = ordinary_user
    pair = Pair(tmp_path)
    pair.home = user.folder(f"mirror-{os.getpid()}")
    drop = ["setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"]
    start = [*drop, "env", "-i", f"HOME={pair.home}", "PATH=/usr/bin:/bin", "/bin/sh", "-c"]
    pair.far = ProgramFar("build-box", lambda command: [*start, command])
    for name in ("open/a", "open/stays", "closed/b", "closed/deep/c"):
        (pair.here / name).parent.mkdir(parents=True, exist_ok=True)
        (pair.here / name).write_text("x")

    def command(there: Path) -> None:
        assert {path.stat().st_uid for path in there.rglob("*")} == {user.uid}
        (there / "closed").chmod(0)
        (there / "open/a").unlink()

    _, back = await pair.round(command)
    assert back.changes.deleted == ("open/a",)
    assert (pair.here / "closed/deep/c").exists()
    assert [(left.path, left.key) for left in back.left] == [("closed", "closed-there")]
    (pair.there / "closed").chmod(0o755)
    (pair.there / "closed/b").chmod(0)
    (pair.there / "closed/b").write_text("unreadable")
    _, back = await pair.round()
    assert (pair.here / "closed/b").read_text() == "x"
    assert ("closed/b", "closed-there") in [(left.path, left.key) for left in back.left]
    assert stat.S_IMODE(pair.home.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        ("tar", "build-box has no tar, which files travel with."),
        ("stat", "build-box has no find or stat that tells when a file changed."),
    ],
)
async def test_a_machine_without_a_tool(tmp_path: Path, lacks: str, words: str) -> None:
    pair = Pair(tmp_path)
    (pair.here / "a").write_text("x")
    pair.far = busybox(pair)
    (pair.base / "tools" / lacks).unlink()
    tools = str(pair.base / "tools")
    # the script adds the usual folders to the PATH; this machine has none of them
    far = pair.far
    pair.far = ProgramFar(
        "build-box",
        lambda command: [
            "unshare",
            "-m",
            "sh",
            "-c",
            f'mount --bind {tools} /usr/bin && exec "$@"',
            "sh",
            *far._argv(command),
        ],
    )
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.words == words
