"""The file tools, on real folders: what they do, and what they never touch."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from app.tools import files, listing, search
from app.tools.base import BadCall, ToolFailed, ToolRefused
from app.tools.files import FileTools
from tests.workplaces.contract import git, repository


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def use(folder: Path, name: str, protected: tuple[Path, ...] = (), **arguments: Any) -> str:
    """Checks and runs a call, as a turn does."""
    planned = FileTools(folder, protected).plan(name, arguments)
    await planned.check()
    return await planned.run()


async def test_read_gives_numbered_lines_in_parts(work: Path) -> None:
    (work / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert await use(work, "read_file", path="a.txt", start_line=3, max_lines=2) == (
        "a.txt, lines 3 to 4 of 10. Go on with start_line 5.\n     3\tline 3\n     4\tline 4"
    )
    whole = await use(work, "read_file", path=str(work / "a.txt"))
    assert whole.startswith("a.txt, lines 1 to 10 of 10.\n")
    with pytest.raises(ToolFailed, match="10 lines only"):
        await use(work, "read_file", path="a.txt", start_line=11)


async def test_read_is_bounded(work: Path) -> None:
    (work / "long.txt").write_text("x" * 5000 + "\n" + "y\n" * 100_000)
    text = await use(work, "read_file", path="long.txt")
    assert len(text) < 64_000
    assert "… (3000 more characters)" in text
    assert "Go on with start_line 2001." in text
    with (work / "huge").open("wb") as file:
        file.truncate(files.LARGEST_READ + 1)
    with pytest.raises(ToolFailed, match="too large"):
        await use(work, "read_file", path="huge")


async def test_what_is_no_text_is_said(work: Path) -> None:
    (work / "image").write_bytes(b"\x89PNG\0\0data")
    (work / "latin").write_bytes("café\n".encode("latin-1"))
    (work / "empty").write_bytes(b"")
    with pytest.raises(ToolFailed, match="binary file"):
        await use(work, "read_file", path="image")
    assert "caf�" in await use(work, "read_file", path="latin")
    with pytest.raises(ToolFailed, match="not UTF-8"):
        await use(work, "edit_file", path="latin", old_string="caf", new_string="x")
    assert await use(work, "read_file", path="empty") == "empty is empty."
    with pytest.raises(ToolFailed, match="is a folder"):
        await use(work, "read_file", path=_made(work / "d"))
    with pytest.raises(ToolFailed, match="is not there"):
        await use(work, "read_file", path="nothing/here")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _made(path: Path) -> str:
    path.mkdir()
    return path.name


async def test_write_makes_folders_keeps_the_mode_and_leaves_nothing_beside(work: Path) -> None:
    old = os.umask(0o027)
    try:
        assert await use(work, "write_file", path="a/b/c.sh", content="echo 1\n") == "Made a/b/c.sh: 1 line."
    finally:
        os.umask(old)
    target = work / "a/b/c.sh"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o755)
    before = target.stat().st_ino
    assert await use(work, "write_file", path="a/b/c.sh", content="") == "Wrote a/b/c.sh: 0 lines."
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert target.stat().st_ino != before  # in its place as a whole
    assert [path.name for path in target.parent.iterdir()] == ["c.sh"]


async def test_write_that_fails_leaves_what_was(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "a").write_text("old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolFailed, match="disk is full"):
        await use(work, "write_file", path="a", content="new")
    assert (work / "a").read_text() == "old"
    assert names(work) == ["a"]


async def test_edit_wants_exactly_one_place(work: Path) -> None:
    (work / "a.py").write_text("x = 1\ny = 1\n")
    with pytest.raises(ToolFailed, match="2 times"):
        await use(work, "edit_file", path="a.py", old_string=" = 1", new_string=" = 2")
    with pytest.raises(ToolFailed, match="is not in"):
        await use(work, "edit_file", path="a.py", old_string="z", new_string="")
    assert (
        await use(work, "edit_file", path="a.py", old_string="x = 1", new_string="x = 2") == "Changed a.py in 1 place."
    )
    assert await use(work, "edit_file", path="a.py", old_string=" = ", new_string="=", replace_all="true") == (
        "Changed a.py in 2 places."
    )
    assert (work / "a.py").read_text() == "x=2\ny=1\n"


async def test_edit_keeps_the_line_ends_and_the_mark(work: Path) -> None:
    (work / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await use(work, "edit_file", path="dos.txt", old_string="one\ntwo\n", new_string="1\n2\n")
    assert (work / "dos.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree\r\n"


async def test_edit_sees_a_change_in_between(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "a").write_text("one two")
    real = files.put

    def put(*arguments: Any, **named: Any) -> bool:
        (work / "a").write_text("one two, and more by hand")
        return real(*arguments, **named)

    monkeypatch.setattr(files, "put", put)
    with pytest.raises(ToolFailed, match="changed in the meantime"):
        await use(work, "edit_file", path="a", old_string="one", new_string="1")
    assert (work / "a").read_text() == "one two, and more by hand"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {}),
        ("read_file", {"path": 3}),
        ("read_file", {"path": ""}),
        ("read_file", {"path": "a", "start_line": "first"}),
        ("write_file", {"path": "a"}),
        ("write_file", {"path": "a", "content": "\ud83d"}),
        ("write_file", {"path": "a", "content": "x" * (files.LARGEST_WRITE + 1)}),
        ("edit_file", {"path": "a", "old_string": "x", "new_string": "x"}),
        ("edit_file", {"path": "a", "old_string": "", "new_string": "x"}),
        ("search_files", {"pattern": "(", "regex": True}),
        ("search_files", {"pattern": "a\nb"}),
        ("remove_file", {"path": "a"}),
    ],
)
async def test_what_makes_no_sense_is_not_tried(work: Path, name: str, arguments: dict[str, Any]) -> None:
    (work / "a").write_text("old")
    with pytest.raises(BadCall):
        FileTools(work).plan(name, arguments)
    assert (work / "a").read_text() == "old"


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "list_files", "search_files"])
@pytest.mark.parametrize(
    "path",
    [
        "../secret", "a/../../secret", "{outside}/secret", "~/secret", "~root/x", "link/secret", "linked",
        "/etc/passwd", "/", "{work}/../secret", "keys/id", "keys", "a\0b",
    ],
)  # fmt: skip
async def test_nothing_outside_and_nothing_by_a_link(tmp_path: Path, work: Path, tool: str, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for folder in (tmp_path, outside):
        (folder / "secret").write_text("the secret")
    (work / "a").mkdir()
    (work / "keys").mkdir()
    (work / "keys/id").write_text("the secret")
    (work / "link").symlink_to(outside)
    (work / "linked").symlink_to(outside / "secret")
    arguments = {"path": path.format(outside=outside, work=work), "pattern": "secret", "content": "x"}
    arguments |= {"old_string": "the", "new_string": "no"}
    before = _tree(tmp_path)
    with pytest.raises(ToolRefused):
        await use(work, tool, (work / "keys",), **arguments)
    assert _tree(tmp_path) == before


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_a_protected_place_by_another_name(tmp_path: Path, work: Path) -> None:
    """A hard link to a key, and a place whose name only differs in case."""
    key = tmp_path / "netrc"
    key.write_text("password")
    os.link(key, work / "innocent")
    with pytest.raises(ToolRefused, match="protected"):
        await use(work, "read_file", (key,), path="innocent")
    with pytest.raises(ToolRefused, match="protected"):
        await use(work, "write_file", (key,), path="innocent", content="")
    assert "password" not in await use(work, "search_files", (key,), pattern="password")
    (work / "Keys").mkdir()
    with pytest.raises(ToolRefused, match="protected"):
        await use(work, "write_file", (work / "Keys",), path="keys/new", content="")


@pytest.mark.parametrize(
    "path",
    [".git/config", ".git/hooks/pre-commit", "sub/.git", ".GIT/config", ".git./x", "git~1/config", ".g\u200cit/config"],
)
async def test_git_is_read_and_never_written(work: Path, path: str) -> None:
    (work / ".git").mkdir()
    (work / ".git/config").write_text("[core]\n")
    with pytest.raises(ToolRefused, match=r"\.git"):
        await use(work, "write_file", path=path, content="x")
    assert "[core]" in await use(work, "read_file", path=".git/config")
    with pytest.raises(ToolRefused):
        await use(work, "edit_file", path=".git/config", old_string="core", new_string="x")
    assert names(work / ".git") == ["config"]


@pytest.mark.parametrize("case", ["apart", "submodule", "bare", "made bare", "named and missing"])
async def test_gits_own_data_is_not_written_where_it_has_another_name(work: Path, case: str) -> None:
    name = "config"
    if case == "apart":
        (work / "deep").mkdir()
        git(work, "init", "-q", "--separate-git-dir", str(work / "deep" / "apart"))
        name = "deep/apart/hooks/pre-commit"
    elif case == "bare":
        git(work, "init", "-q", "--bare")
    elif case == "submodule":
        (work / "sub").mkdir()
        repository(work)
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},sub")
        name = "sub/HEAD"
    elif case == "made bare":
        name = "HEAD"
    else:
        (work / ".git").write_text("gitdir: later/git")
        name = "later/git/config"
    with pytest.raises(ToolRefused, match="git's own"):
        await use(work, "write_file", path=name, content="[core]\n\tfsmonitor = x\n")
    await use(work, "write_file", path="other", content="x") if case != "bare" else None


async def test_what_is_not_a_plain_file(work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "read-only").write_text("x")
    (work / "read-only").chmod(0o444)
    async with asyncio.timeout(5):  # a pipe that nobody writes to would wait for ever
        with pytest.raises(ToolRefused, match="plain file"):
            await use(work, "read_file", path="pipe")
        with pytest.raises(ToolRefused, match="plain file"):
            await use(work, "write_file", path="pipe", content="x")
        assert "Nothing found" in await use(work, "search_files", pattern="y")
    with pytest.raises(ToolRefused, match="read-only"):
        await use(work, "write_file", path="read-only", content="y")


async def test_a_link_swapped_in_as_it_writes_does_not_help(tmp_path: Path, work: Path) -> None:
    """A folder that keeps turning into a link to elsewhere, while files are written through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (work / "real").mkdir()
    (work / "d").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                (work / "d").rename(work / "away")
                (work / "d").symlink_to(outside)
                (work / "d").unlink()
                (work / "away").rename(work / "d")
            except OSError:
                pass

    thread = threading.Thread(target=swap)
    thread.start()
    wrote = 0
    try:
        for number in range(100):
            try:
                await use(work, "write_file", path=f"d/{number}", content="x")
                wrote += 1
            except ToolFailed:
                pass
    finally:
        stop.set()
        thread.join()
    assert names(outside) == []
    assert wrote


async def test_list_names_what_it_does_not_open(tmp_path: Path, work: Path) -> None:
    for path in ("src/deep/er/x.py", "node_modules/m/index.js", ".git/HEAD", "keys/id", "a.txt"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("12345")
    (work / "link").symlink_to(tmp_path)
    (work / "od\nd").write_text("")
    text = await use(work, "list_files", (work / "keys",), depth=3)
    assert text.splitlines() == [
        ".git/  (not opened)",
        "a.txt  5 bytes",
        "link  (a link, not followed)",
        "node_modules/  (not opened)",
        "od\\nd  0 bytes",
        "src/",
        "src/deep/",
        "src/deep/er/",
    ]
    assert "m/index.js  5 bytes" in await use(work, "list_files", path="node_modules")
    assert await use(work, "list_files", path=_made(work / "empty")) == "empty is empty."


async def test_list_is_bounded(work: Path) -> None:
    for number in range(listing.MOST_LISTED + 50):
        (work / f"{number:05}").touch()
    lines = (await use(work, "list_files")).splitlines()
    assert len(lines) == listing.MOST_LISTED + 1
    assert lines[-1].startswith("… and 50 more.")


async def test_search(work: Path) -> None:
    for path in ("a.py", "sub/b.py", "sub/c.txt", "node_modules/x.py", ".git/x.py"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("first\nneedle = Needle\n")
    (work / "image.py").write_bytes(b"needle\0")
    (work / "long.py").write_text("x" * 5000 + "needle" + "y" * 5000)
    found = (await use(work, "search_files", pattern="needle =")).splitlines()
    assert found == ["a.py:2: needle = Needle", "sub/b.py:2: needle = Needle", "sub/c.txt:2: needle = Needle"]
    assert await use(
        work, "search_files", pattern=r"^NEEDLE\b", regex=True, ignore_case=True, glob="*.py", path="sub"
    ) == ("sub/b.py:2: needle = Needle")
    assert await use(work, "search_files", pattern="first", path="sub/c.txt") == "sub/c.txt:1: first"
    assert await use(work, "search_files", pattern="first", glob="sub/**/*.txt") == "sub/c.txt:1: first"
    [long] = [line for line in (await use(work, "search_files", pattern="needle", glob="long*")).splitlines()]
    assert "needle" in long
    assert len(long) < 400
    assert "Nothing found in" in await use(work, "search_files", pattern="elsewhere")
    with pytest.raises(ToolFailed, match="is not there"):
        await use(work, "search_files", pattern="x", path="nowhere")


async def test_search_is_bounded(work: Path) -> None:
    (work / "many").write_text("x\n" * 1000)
    lines = (await use(work, "search_files", pattern="x")).splitlines()
    assert len(lines) == search.MOST_MATCHES + 1
    assert "more than 200" in lines[-1]


async def test_a_pattern_that_never_ends_holds_up_nothing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 1.0)
    (work / "a").write_text("a" * 40 + "!\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.get_running_loop().create_task(tick())
    with pytest.raises(ToolFailed, match="took over 1 seconds"):
        await use(work, "search_files", pattern="(a+)+$", regex=True)
    ticking.cancel()
    assert ticks > 30


async def test_a_search_that_is_stopped_leaves_no_process(work: Path) -> None:
    import psutil

    (work / "a").write_text("a" * 40 + "!\n")
    searching = asyncio.get_running_loop().create_task(use(work, "search_files", pattern="(a+)+$", regex=True))
    me = psutil.Process()

    def workers() -> list[psutil.Process]:
        return [child for child in me.children() if "app.tools.searcher" in " ".join(child.cmdline())]

    async with asyncio.timeout(10):
        while not workers():
            await asyncio.sleep(0.01)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert not workers()


async def test_names_that_are_no_text(work: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (work / name).write_text("needle")
    assert "caf\\udce9.txt" in await use(work, "list_files")
    assert "caf\\udce9.txt:1: needle" in await use(work, "search_files", pattern="needle")


async def test_a_work_folder_that_is_a_link_or_gone(tmp_path: Path, work: Path) -> None:
    (work / "a").write_text("x")
    (tmp_path / "here").symlink_to(work)
    assert "x" in await use(tmp_path / "here", "read_file", path="a")
    assert "x" in await use(tmp_path / "here", "read_file", path=str(work / "a"))
    with pytest.raises(ToolFailed, match="is not there any more"):
        await use(tmp_path / "gone", "list_files")
