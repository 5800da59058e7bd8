"""Which folders a command may be given, and what in them is kept from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workplaces.folder import Cover, check_folder, shown
from workplaces.place import PlaceUnavailable


def refused(folder: Path, *protected: Path, home: Path | None = None) -> str:
    with pytest.raises(PlaceUnavailable) as raised:
        check_folder(folder, protected, home)
    assert raised.value.next_step is not None
    assert raised.value.next_step.action == "choose-folder"
    return raised.value.words


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_a_folder_is_known_by_what_it_is(work: Path) -> None:
    seen = check_folder(work)
    assert (seen.path, seen.real) == (work, work.resolve())
    assert (seen.device, seen.inode) == (work.stat().st_dev, work.stat().st_ino)
    assert (seen.git, seen.git_identity, seen.covers, seen.pins) == ("none", None, (), ())


def test_a_link_keeps_its_name_and_is_followed(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work)
    seen = check_folder(link)
    assert (seen.path, seen.real, seen.inode) == (link, work, work.stat().st_ino)


def test_a_spelling_is_made_plain(work: Path) -> None:
    (work / "x").mkdir()
    assert check_folder(work / "x" / "..").path == work


@pytest.mark.parametrize(
    "folder", ["/", "/tmp", "/etc", "/usr", "/usr/bin", "/proc", "/proc/self", "/sys/kernel", "/dev", "/var", "/home"]
)
def test_the_system_is_not_a_work_folder(folder: str) -> None:
    assert folder in refused(Path(folder))


def test_the_home_folder_and_what_holds_it_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "people" / "me"
    (home / "work").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(home)
    for folder in (home, home.parent, tmp_path, link, home / "work" / ".."):
        assert "home folder" in refused(folder, home=home)
    assert check_folder(home / "work", home=home).path == home / "work"
    assert "home folder" in refused(home, home=link)


def test_what_is_not_there_or_not_a_folder_is_refused(work: Path) -> None:
    (work / "file").touch()
    (work / "loop").symlink_to(work / "loop")
    assert "is not there" in refused(work / "gone")
    assert "is not there" in refused(work / "file" / "under")
    assert "is a file" in refused(work / "file")
    assert "cannot be opened" in refused(work / "loop")


def test_a_name_that_is_no_text_is_refused(work: Path) -> None:
    (Path(os.fsdecode(os.fsencode(work) + b"/x\xff"))).mkdir()
    words = refused(Path(os.fsdecode(os.fsencode(work) + b"/x\xff")))
    assert words.encode("utf-8")
    assert "not readable text" in words


def test_a_folder_in_a_protected_place_is_refused(work: Path, tmp_path: Path) -> None:
    inner = work / "a" / "b"
    inner.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(work / "a")
    for protected in (inner, inner.parent, work, link):
        assert "protected" in refused(inner, protected)
    assert check_folder(inner, (work / "a" / "other", tmp_path / "nowhere")).covers == ()


def test_protected_places_inside_are_covered_and_their_way_is_pinned(work: Path, tmp_path: Path) -> None:
    (work / "a" / "b" / "keys").mkdir(parents=True)
    (work / "a" / "token").touch()
    (work / "top").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    missing = work / "missing"
    seen = check_folder(work, (work / "a" / "b" / "keys", work / "a" / "token", work / "top", missing, outside))
    assert seen.covers == (
        Cover(Path("top"), "file"),
        Cover(Path("a/token"), "file"),
        Cover(Path("a/b/keys"), "folder"),
    )
    assert seen.pins == (Path("a"), Path("a/b"))
    assert not missing.exists()


def test_a_protected_place_in_another_is_covered_by_it(work: Path) -> None:
    (work / "a" / "b").mkdir(parents=True)
    assert check_folder(work, (work / "a" / "b", work / "a")).covers == (Cover(Path("a"), "folder"),)


def test_a_protected_place_behind_a_link_is_covered_where_it_is(work: Path, tmp_path: Path) -> None:
    (work / "real").mkdir()
    (work / "link").symlink_to(work / "real")
    other = tmp_path / "other"
    other.symlink_to(work)
    (work / "out").symlink_to(tmp_path)
    for protected in (work / "link", other / "real", other / "link"):
        assert check_folder(work, (protected,)).covers == (Cover(Path("real"), "folder"),)
    assert check_folder(other, (work / "real",)).covers == (Cover(Path("real"), "folder"),)
    inner = work / "inner"
    inner.mkdir()
    (inner / "out").symlink_to(work / "real")
    assert check_folder(inner, (inner / "out",)).covers == (), "it is not in the folder, so it is not in the box"


def test_what_git_is_is_told(work: Path) -> None:
    git = work / ".git"
    git.write_text("gitdir: /x\n")
    assert check_folder(work).git == "file"
    git.unlink()
    git.symlink_to(work)
    assert check_folder(work).git == "link"
    git.unlink()
    git.mkdir()
    seen = check_folder(work)
    assert (seen.git, seen.git_identity) == ("folder", (git.stat().st_dev, git.stat().st_ino))


def test_a_path_is_shown_without_what_does_not_print() -> None:
    assert shown(Path("/a\nb\x1b[31m")) == "/a\\nb\\x1b[31m"
