"""What goes there before a command and what comes back after it, on a folder of another home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workplaces.mirror_far import Pair, tree


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def test_goes_there_and_comes_back(pair: Pair) -> None:
    (pair.here / "src").mkdir()
    (pair.here / "src/main.py").write_text("print(1)\n")
    (pair.here / "run.sh").write_text("#!/bin/sh\n")
    (pair.here / "run.sh").chmod(0o755)
    (pair.here / "empty").mkdir()

    def command(there: Path) -> None:
        assert tree(there) == tree(pair.here)
        (there / "out").mkdir()
        (there / "out/result.txt").write_text("done")
        (there / "src/main.py").write_text("print(2)\n")
        (there / "run.sh").unlink()

    sent, back = await pair.round(command)
    assert (sent.files, sent.left, sent.notes) == (2, (), ())
    assert back.changes.added == ("out/result.txt",)
    assert back.changes.changed == ("src/main.py",)
    assert back.changes.deleted == ("run.sh",)
    assert not back.trouble
    assert tree(pair.here) == tree(pair.there)
    sent, back = await pair.round()
    assert (sent.files, sent.removed, back.changes.all) == (0, 0, ())
    pair.restart()
    (pair.here / "src/main.py").write_text("print(3)\n")
    (pair.here / "out/result.txt").unlink()
    sent, back = await pair.round()
    assert (sent.files, sent.removed, back.changes.all) == (1, 1, ())
    assert tree(pair.here) == tree(pair.there)


async def test_every_byte_in_a_name(pair: Pair) -> None:
    names = {bytes([byte]) for byte in range(1, 256) if byte not in b"/."}
    names |= {b"-rf", b"@x", b"a b", b"$(id)", b"''\"", b"new\nline", b"x" * 255, "🤣.txt".encode(), b"...", b".h"}
    names |= {b"#end", b"=E 0", b"\x81\x88\x82", b"tail\n", b"dir \n/-n", b"deep/" + b"y" * 200 + b"/" + b"z" * 200}
    for name in names:
        path = pair.here / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)

    def command(there: Path) -> None:
        assert tree(there) == tree(pair.here)
        for path in list(there.rglob("*")):
            if path.is_file():
                path.write_bytes(path.read_bytes() + b"!")

    await pair.round()
    _, back = await pair.round(command)
    assert len(back.changes.changed) == len(names)
    assert tree(there := pair.there) == tree(pair.here)
    for path in list(pair.here.iterdir()):
        if path.is_file():
            path.unlink()
    await pair.round()
    assert tree(there) == tree(pair.here)


# What changed on both sides


async def test_both_changed_is_kept_twice(pair: Pair) -> None:
    (pair.here / "report.md").write_text("first")
    (pair.here / "same").write_text("first")

    def command(there: Path) -> None:
        (there / "report.md").write_text("theirs")
        (there / "same").write_text("the same")
        (pair.here / "report.md").write_text("ours")
        (pair.here / "same").write_text("the same")

    _, back = await pair.round(command)
    assert [(kept.path, kept.copy) for kept in back.kept_twice] == [("report.md", "report.from-build-box.md")]
    assert (pair.here / "report.md").read_text() == "ours"
    assert (pair.here / "report.from-build-box.md").read_text() == "theirs"
    assert back.changes.added == ("report.from-build-box.md",)
    assert back.changes.changed == ()
    sent, back = await pair.round()
    assert (back.changes.all, sent.kept_twice) == ((), ())
    assert tree(pair.there) == tree(pair.here)
    await pair.round(command)
    await pair.round()
    assert sorted(path.name for path in pair.here.iterdir()) == ["report.from-build-box.md", "report.md", "same"]


async def test_written_there_between_two_commands(pair: Pair) -> None:
    (pair.here / "log").write_text("1")
    await pair.round()
    (pair.there / "log").write_text("1 and more")
    _, back = await pair.round()
    assert back.changes.changed == ("log",)
    (pair.there / "log").write_text("theirs")
    (pair.here / "log").write_text("ours")
    sent, _ = await pair.round()
    assert [kept.copy for kept in sent.kept_twice] == ["log.from-build-box"]
    assert (pair.here / "log.from-build-box").read_text() == "theirs"
    assert tree(pair.there) == tree(pair.here)


async def test_a_file_deleted_there_and_changed_here_stays(pair: Pair) -> None:
    (pair.here / "a").write_text("first")
    (pair.here / "b").write_text("b")

    def command(there: Path) -> None:
        (there / "a").unlink()
        (pair.here / "a").write_text("ours")

    _, back = await pair.round(command)
    assert back.changes.deleted == ()
    assert (pair.here / "a").read_text() == "ours"
    assert back.notes == ("a was deleted on build-box and changed here, so it was kept.",)
    await pair.round()
    assert (pair.there / "a").read_text() == "ours"


async def test_a_file_changed_there_and_deleted_here_comes_back(pair: Pair) -> None:
    (pair.here / "a").write_text("first")

    def command(there: Path) -> None:
        (there / "a").write_text("theirs")
        (pair.here / "a").unlink()

    _, back = await pair.round(command)
    assert back.changes.added == ("a",)
    assert (pair.here / "a").read_text() == "theirs"


async def test_same_size_and_same_time_is_still_seen(pair: Pair) -> None:
    for name in ("here", "there"):
        (pair.here / name).write_text("1")
    await pair.round()
    seen = (pair.here / "here").stat()
    (pair.here / "here").write_text("2")
    os.utime(pair.here / "here", ns=(seen.st_atime_ns, seen.st_mtime_ns))

    def command(there: Path) -> None:
        assert (there / "here").read_text() == "2"
        seen = (there / "there").stat()
        (there / "there").write_text("2")
        os.utime(there / "there", ns=(seen.st_atime_ns, seen.st_mtime_ns))

    _, back = await pair.round(command)
    assert back.changes.changed == ("there",)
    assert (pair.here / "there").read_text() == "2"


# What is not deleted


async def test_a_copy_that_lost_everything_deletes_nothing(pair: Pair) -> None:
    for number in range(5):
        (pair.here / str(number)).write_text("x")

    def command(there: Path) -> None:
        for path in there.iterdir():
            path.unlink()

    _, back = await pair.round(command)
    assert back.held_back == 5
    assert back.notes == ("Nothing is left of the copy on build-box. Nothing was deleted here.",)
    assert len(list(pair.here.iterdir())) == 5
    sent, _ = await pair.round()
    assert sent.files == 5
    assert sent.notes == ("5 files were missing on build-box and were sent again.",)


@pytest.mark.parametrize("answer", [True, False])
async def test_a_command_that_empties_the_folder_asks_first(pair: Pair, answer: bool) -> None:
    asked = []

    async def ask(count: int, of: int) -> bool:
        asked.append((count, of))
        return answer

    pair.ask = ask
    for number in range(24):
        (pair.here / str(number)).write_text("x")

    def command(there: Path) -> None:
        for number in range(13):
            (there / str(number)).unlink()

    _, back = await pair.round(command)
    assert asked == [(13, 24)]
    assert len(list(pair.here.iterdir())) == (11 if answer else 24)
    assert back.held_back == (0 if answer else 13)
    assert len(back.changes.deleted) == (13 if answer else 0)
    sent, _ = await pair.round()
    assert sent.files == (0 if answer else 13)


async def test_half_of_many_files_go_without_a_question(pair: Pair) -> None:
    for number in range(24):
        (pair.here / str(number)).write_text("x")

    def command(there: Path) -> None:
        for number in range(12):
            (there / str(number)).unlink()

    _, back = await pair.round(command)
    assert len(back.changes.deleted) == 12


async def test_a_wiped_copy_is_sent_again(pair: Pair) -> None:
    import shutil

    for number in range(30):
        (pair.here / str(number)).write_text("x")
    await pair.round()
    shutil.rmtree(pair.there)
    sent, back = await pair.round()
    assert sent.files == 30
    assert sent.notes == ("The copy on build-box was gone, so the whole folder was sent again.",)
    assert back.changes.all == ()
    assert tree(pair.there) == tree(pair.here)
    _, back = await pair.round(lambda there: shutil.rmtree(there))
    assert len(list(pair.here.iterdir())) == 30
    assert back.held_back == 30


async def test_a_copy_put_back_from_a_backup_does_not_bring_old_files_back(pair: Pair) -> None:
    import shutil

    (pair.here / "a").write_text("old")
    await pair.round()
    shutil.copytree(pair.home / ".conch-work", pair.base / "backup", symlinks=True)
    (pair.here / "a").write_text("newer")
    await pair.round()
    shutil.rmtree(pair.home / ".conch-work")
    shutil.copytree(pair.base / "backup", pair.home / ".conch-work", symlinks=True)
    sent, back = await pair.round()
    assert (pair.here / "a").read_text() == (pair.there / "a").read_text() == "newer"
    assert [kept.copy for kept in sent.kept_twice] == ["a.from-build-box"]
    assert back.changes.all == ()


async def test_an_empty_folder_here_removes_nothing_there(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    (pair.here / "b").write_text("x")
    await pair.round()
    for path in pair.here.iterdir():
        path.unlink()
    sent, _ = await pair.round()
    assert sent.notes == ("The folder here is empty. Nothing was removed on build-box.",)
    assert (pair.there / "a").exists()


async def test_losing_what_was_agreed_loses_no_file(pair: Pair) -> None:
    import shutil

    (pair.here / "same").write_text("same")
    (pair.here / "both").write_text("1")
    await pair.round()
    shutil.rmtree(pair.conch)
    pair.restart()
    (pair.here / "both").write_text("ours")
    (pair.there / "new").write_text("new")
    sent, back = await pair.round()
    assert [kept.copy for kept in sent.kept_twice] == ["both.from-build-box"]
    assert back.changes.added == ("new",)
    assert tree(pair.there) == tree(pair.here)


# What is not carried


async def test_links_and_other_things_stay_where_they_are(pair: Pair) -> None:
    outside = pair.base / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (pair.here / "link").symlink_to(outside)
    (pair.here / "loop").symlink_to("loop")
    os.mkfifo(pair.here / "pipe")
    (pair.here / "file").write_text("x")

    def command(there: Path) -> None:
        assert sorted(path.name for path in there.iterdir()) == ["file"]
        (there / "out").symlink_to(outside)
        (there / "sub").mkdir()
        (there / "sub/dangling").symlink_to("/nowhere")
        os.mkfifo(there / "fifo")

    sent, back = await pair.round(command)
    assert sorted((left.path, left.key) for left in sent.left) == [
        ("link", "link"),
        ("loop", "link"),
        ("pipe", "special"),
    ]
    assert sorted((left.path, left.key) for left in back.left) == [
        ("fifo", "special"),
        ("out", "link"),
        ("sub/dangling", "link"),
    ]
    assert not (pair.here / "out").exists()
    assert (pair.here / "link").is_symlink()
    sent, back = await pair.round()
    assert (sent.left, back.left) == ((), ())
    pair.restart()
    sent, back = await pair.round()
    assert (sent.left, back.left) == ((), ())
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


async def test_a_folder_there_that_became_a_link_is_not_gone_through(pair: Pair) -> None:
    outside = pair.base / "outside"
    outside.mkdir()
    (outside / "b").write_text("outside")
    (pair.here / "a").mkdir()
    (pair.here / "a/b").write_text("1")

    def command(there: Path) -> None:
        (there / "a/b").unlink()
        (there / "a").rmdir()
        (there / "a").symlink_to(outside)

    await pair.round(command)
    (pair.here / "a").mkdir(exist_ok=True)
    (pair.here / "a/b").write_text("22")
    (pair.here / "a/c").write_text("3")
    await pair.round()
    assert tree(outside) == {"b": ("f", 0o644, b"outside")}
    (pair.here / "a/b").unlink()
    await pair.round()
    assert tree(outside) == {"b": ("f", 0o644, b"outside")}
    assert (pair.here / "a/c").read_text() == "3"


async def test_a_folder_here_that_became_a_link_is_not_gone_through(pair: Pair) -> None:
    outside = pair.base / "outside"
    outside.mkdir()
    (pair.here / "a").mkdir()
    (pair.here / "a/b").write_text("1")

    def command(there: Path) -> None:
        (there / "a/b").write_text("theirs")
        (there / "a/new").write_text("theirs")
        (pair.here / "a").rename(pair.base / "moved")
        (pair.here / "a").symlink_to(outside)

    _, back = await pair.round(command)
    assert list(outside.iterdir()) == []
    assert {left.key for left in back.left} == {"in-the-way"}


async def test_dependency_folders_and_protected_places(pair: Pair) -> None:
    pair.protected = (pair.here / "secrets", pair.here / ".env", pair.here / "later")
    for name in ("node_modules/x/index.js", "sub/target/debug/app", "secrets/key", ".env"):
        (pair.here / name).parent.mkdir(parents=True, exist_ok=True)
        (pair.here / name).write_text("x")
    (pair.here / "target").write_text("a file of that name")

    def command(there: Path) -> None:
        assert sorted(tree(there)) == ["sub", "target"]
        for name in ("node_modules/y/index.js", "secrets/planted", ".env", "later", "SECRETS/key", "venv/bin/python"):
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_text("planted")

    _, back = await pair.round(command)
    assert back.changes.all == ()
    assert (pair.here / ".env").read_text() == "x"
    assert not (pair.here / "later").exists()
    assert not (pair.here / "venv").exists()
    assert not (pair.here / "SECRETS").exists()
    assert {(left.path, left.key) for left in back.left} >= {("venv", "dependency"), ("later", "protected")}


async def test_modes_are_kept(pair: Pair) -> None:
    (pair.here / "read-only").mkdir()
    (pair.here / "read-only/file").write_text("1")
    (pair.here / "read-only/file").chmod(0o444)
    (pair.here / "read-only").chmod(0o555)
    pair.home.mkdir(exist_ok=True)
    pair.home.chmod(0o755)

    def command(there: Path) -> None:
        assert tree(there) == tree(pair.here)
        (there / "tool").write_text("x")
        (there / "tool").chmod(0o755)
        (there / "read-only").chmod(0o750)

    await pair.round(command)
    assert tree(pair.there) == tree(pair.here)
    assert pair.home.stat().st_mode & 0o777 == 0o755
    assert (pair.home / ".conch-work").stat().st_mode & 0o777 == 0o700
    (pair.here / "tool").chmod(0o644)
    (pair.here / "read-only").chmod(0o700)
    await pair.round()
    assert tree(pair.there) == tree(pair.here)


async def test_a_hard_link_there_comes_as_a_file_of_its_own(pair: Pair) -> None:
    def command(there: Path) -> None:
        (there / "a").write_text("content")
        os.link(there / "a", there / "b")

    await pair.round(command)
    assert (pair.here / "a").read_text() == (pair.here / "b").read_text() == "content"
    assert (pair.here / "a").stat().st_nlink == 1


async def test_a_file_with_a_second_name_here_is_not_deleted(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    (pair.here / "b").write_text("x")
    os.link(pair.here / "a", pair.base / "second")
    _, back = await pair.round(lambda there: (there / "a").unlink())
    assert (pair.here / "a").exists()
    assert [(left.path, left.key) for left in back.left] == [("a", "linked")]


async def test_a_file_becomes_a_folder_and_back(pair: Pair) -> None:
    (pair.here / "a").write_text("1")
    (pair.here / "keep").write_text("1")
    await pair.round()
    (pair.here / "a").unlink()
    (pair.here / "a").mkdir()
    (pair.here / "a/x").write_text("2")
    await pair.round()
    assert tree(pair.there) == tree(pair.here)

    def command(there: Path) -> None:
        (there / "a/x").unlink()
        (there / "a").rmdir()
        (there / "a").write_text("file")

    await pair.round(command)
    assert (pair.here / "a").read_text() == "file"

    def other(there: Path) -> None:
        (there / "a").unlink()
        (there / "a").mkdir()
        (there / "a/y").write_text("3")

    await pair.round(other)
    assert tree(pair.there) == tree(pair.here)
    (pair.here / "a/y").unlink()
    (pair.here / "a").rmdir()
    (pair.here / "a").write_text("file again")
    await pair.round()
    assert tree(pair.there) == tree(pair.here)


async def test_names_that_are_one_to_this_computer_stay_there(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system here folds names, so the mirror is told that this one does."""
    monkeypatch.setattr("workplaces.mirror.rounds.folds_names", lambda folder, entries: True)
    (pair.here / "readme").write_text("ours")
    (pair.here / "dir").mkdir()
    (pair.here / "dir/x").write_text("ours")

    def command(there: Path) -> None:
        (there / "README").write_text("theirs")
        (there / "DIR").mkdir()
        (there / "DIR/y").write_text("theirs")
        (there / "new").write_text("1")
        (there / "New").write_text("2")
        (there / "caf\u00e9").write_text("composed")
        (there / "cafe\u0301").write_text("decomposed")
        (there / "Node_Modules").mkdir()
        (there / "Node_Modules/x").write_text("x")

    _, back = await pair.round(command)
    assert len(back.changes.added) == 2
    assert {name.casefold() for name in back.changes.added} <= {"new", "caf\u00e9", "cafe\u0301"}
    left = {(one.path, one.key) for one in back.left}
    assert {("README", "folds"), ("DIR", "folds"), ("DIR/y", "folds"), ("Node_Modules", "dependency")} <= left
    assert len([one for one in left if one[1] == "folds"]) == 5
    assert (pair.here / "readme").read_text() == "ours"
    assert not (pair.here / "DIR").exists()
    sent, back = await pair.round()
    assert (sent.removed, back.changes.all, back.left) == (0, (), ())
    assert (pair.there / "README").read_text() == "theirs"


async def test_a_name_that_this_computer_cannot_hold_stays_there(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workplaces.mirror.scope.sys.platform", "win32")
    (pair.here / "a").write_text("x")

    def command(there: Path) -> None:
        for name in ("nul.txt", "a:b", "back\\slash", "fine"):
            (there / name).write_text("theirs")

    async with pair.session() as session:
        await session.before()
        command(pair.there)
        back = await session.after()
    assert back.changes.added == ("fine",)
    assert {(one.path, one.key) for one in back.left} == {("nul.txt", "name"), ("a:b", "name"), ("back\\slash", "name")}
