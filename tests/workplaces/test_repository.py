"""What is found of a repository, what is put right afterwards, and what is left alone, against a real git."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.workplaces.contract import git, repository
from tests.workplaces.git_cases import CASES
from tests.workplaces.looking import listing
from workplaces.folder import check_folder
from workplaces.repository import look
from workplaces.repository.after import harmless, restore
from workplaces.repository.index import gitlinks, parse
from workplaces.words import PLACE_WORDS

FILE = ("-c", "protocol.file.allow=always")


def listed(work: Path) -> list[str]:
    lines = git(work, "ls-files", "-s", "-z").split("\0")
    return sorted(line.split("\t")[1] for line in lines if line.startswith("160000"))


def found(work: Path) -> list[str]:
    return sorted(map(os.fsdecode, gitlinks(work / ".git", work / ".git")))


class TestIndex:
    @pytest.mark.parametrize("version", ["2", "3", "4"])
    @pytest.mark.parametrize("kind", ["sha1", "sha256"])
    def test_every_repository_inside_is_found(self, tmp_path: Path, kind: str, version: str) -> None:
        inner, work = tmp_path / "inner", tmp_path / "work"
        for folder in (inner, work):
            folder.mkdir()
            git(folder, "init", "-q", f"--object-format={kind}")
        (inner / "a").touch()
        git(inner, "add", "a")
        git(inner, "commit", "-qm", "x")
        for number in range(40):
            (work / f"a{'b' * number}").touch()
        git(work, "add", ".")
        for name in ("libs/one", "libs/b é\n", "z"):
            git(work, *FILE, "submodule", "--quiet", "add", "--name", name.strip(), str(inner), name)
        if version == "3":  # only then is an entry an extended one
            (work / "intended").touch()
            git(work, "add", "-N", "intended")
        git(work, "update-index", f"--index-version={version}")
        assert found(work) == listed(work) == sorted(["libs/one", "libs/b é\n", "z"])
        git(work, "update-index", "--split-index")
        git(work, *FILE, "submodule", "--quiet", "add", str(inner), "late")
        assert list((work / ".git").glob("sharedindex.*"))
        assert found(work) == listed(work) == sorted(["libs/one", "libs/b é\n", "z", "late"])

    def test_what_is_no_index_lists_none(self, tmp_path: Path) -> None:
        repository(tmp_path)
        whole = (tmp_path / ".git" / "index").read_bytes()
        for wrong in (b"", b"DIRC", whole[:30], whole[:-1], b"x" + whole, whole[:4] + struct.pack(">I", 9) + whole[8:]):
            (tmp_path / ".git" / "index").write_bytes(wrong + b"\0\0\xe0\0")
            assert gitlinks(tmp_path / ".git", tmp_path / ".git") == ()
        with pytest.raises(ValueError, match="not an index"):
            parse(b"x" * 40, 20)


class TestLook:
    def test_nothing_is_made_or_changed(self, tmp_path: Path) -> None:
        for number, case in enumerate(CASES):
            base = tmp_path / str(number)
            base.mkdir()
            work = case.make(base)
            before = listing(base)
            look.repository(work)
            assert listing(base) == before, case.name

    def test_a_plain_repository(self, tmp_path: Path) -> None:
        repository(tmp_path)
        seen = look.repository(tmp_path)
        assert (seen.kept, seen.pinned, seen.links, seen.missing) == ((tmp_path / ".git",), (), (), ())

    def test_all_of_a_bare_one_is_kept_and_all_within_a_git_folder(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q", "--bare", "x.git")
        git(tmp_path, "init", "-q", "y")
        for folder in (tmp_path / "x.git", tmp_path / "y" / ".git" / "hooks", tmp_path / "y" / ".git"):
            assert look.repository(folder).kept == (folder,)

    def test_a_loop_of_links_ends(self, tmp_path: Path) -> None:
        (tmp_path / ".git").symlink_to("x")
        (tmp_path / "x").symlink_to(".git")
        assert set(dict(look.repository(tmp_path).links)) == {tmp_path / ".git", tmp_path / "x"}

    def test_what_is_around_a_part_is_not_shown_by_it(self, tmp_path: Path) -> None:
        (tmp_path / "part").mkdir()
        repository(tmp_path)
        assert look.repository(tmp_path / "part").kept == ()

    def test_what_is_no_file_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / ".git")
        assert look.repository(tmp_path).kept == (tmp_path / ".git",)
        (tmp_path / "other").mkdir()
        repository(tmp_path / "other")
        for name in ("index", "commondir"):
            (tmp_path / "other" / ".git" / name).unlink(missing_ok=True)
            os.mkfifo(tmp_path / "other" / ".git" / name)
        assert check_folder(tmp_path / "other").repository.kept == (tmp_path / "other" / ".git",)


class TestAfter:
    def test_nothing_changed_is_nothing_said(self, tmp_path: Path) -> None:
        for number, case in enumerate(CASES):
            base = tmp_path / str(number)
            base.mkdir()
            work = case.make(base)
            seen, before = look.repository(work), listing(base)
            assert (restore(seen), listing(base)) == ("", before), case.name

    def test_a_new_repository_of_gits_own_making_stays(self, tmp_path: Path) -> None:
        seen = look.repository(tmp_path)
        repository(tmp_path)
        git(tmp_path, "config", "user.name", 'A "quoted" name')
        git(tmp_path, "remote", "add", "origin", "https://example.org/x.git")
        before = listing(tmp_path)
        assert (restore(seen), listing(tmp_path)) == ("", before)

    def test_what_git_itself_checked_out_meanwhile_stays(self, tmp_path: Path) -> None:
        """The person may do so in another window while a command runs."""
        case = next(case for case in CASES if case.name == "not checked out")
        work = case.make(tmp_path)
        (work / "libs" / "mid").rmdir()
        seen = look.repository(work)
        assert work / "libs" / "mid" / ".git" in seen.missing
        git(work, *FILE, "submodule", "--quiet", "update", "--init")
        assert (work / "libs" / "mid" / ".git").is_file()
        before = listing(work)
        assert (restore(seen), listing(work)) == ("", before)

    @pytest.mark.parametrize(
        "harm",
        [
            "printf '[core]\\n fsmonitor = x\\n' >> .git/config",
            "printf '[include]\\n path = ../x\\n' >> .git/config",
            "printf '[core] fsmonitor = x\\n' >> .git/config",
            "printf '[alias]\\n st = !x\\n' >> .git/config",
            "printf '[user]\\n name = a \\\\\\n b\\n' >> .git/config",
            "printf '[core]\\n\\\\\\nfsmonitor = x\\n' >> .git/config",
            "printf '[core]\\r\\n\\tfsmonitor = x\\r\\n' >> .git/config",
            "printf '\\357\\273\\277[core]\\nfsmonitor = x\\n' > .git/config",
            "printf '[core]\\nfsmonitor\\f= x\\n' >> .git/config",
            "printf '\\377[core]\\n' >> .git/config",
            "mv .git/config kept; ln -s ../kept .git/config",
            "ln .git/config kept",
            "touch .git/hooks/pre-commit",
            "rm -rf .git/hooks; mkdir h; ln -s ../h .git/hooks",
            "echo '* filter=x' > .git/info/attributes",
            "mkdir -p .git/rebase-merge; echo 'exec x' > .git/rebase-merge/git-rebase-todo",
            "echo ../x > .git/commondir",
            "touch .git/config.worktree",
            "git init -q in; git -C in -c user.name=a -c user.email=b commit -q --allow-empty -m x; git add in",
            "echo > .git/index",
            "rm .git/index; mkfifo .git/index",
            "rm .git/config; mkfifo .git/config",
            "mv .git x; ln -s x .git",
            "mv .git x; echo gitdir: x > .git",
        ],
    )
    def test_one_in_which_something_runs_is_moved_aside(self, tmp_path: Path, harm: str) -> None:
        seen = look.repository(tmp_path)
        repository(tmp_path)
        assert harmless(tmp_path / ".git")
        os.system(f"cd {tmp_path} && {harm}")
        assert "That is now called .git.moved-1" in restore(seen)
        assert not os.path.lexists(tmp_path / ".git")
        assert os.path.lexists(tmp_path / ".git.moved-1")

    def test_nothing_is_overwritten(self, tmp_path: Path) -> None:
        seen = look.repository(tmp_path)
        for number in range(3):
            (tmp_path / ".git").write_text(f"gitdir: {number}")
            assert f".git.moved-{number + 1}" in restore(seen)
        assert [(tmp_path / f".git.moved-{number + 1}").read_text() for number in range(3)] == [
            f"gitdir: {number}" for number in range(3)
        ]

    def test_a_link_that_the_person_put_in_a_submodules_place_stays(self, tmp_path: Path) -> None:
        case = next(case for case in CASES if case.name == "not checked out")
        work = case.make(tmp_path)
        (work / "libs" / "mid").rmdir()
        (work / "libs" / "mid").symlink_to(tmp_path / "made" / "mid")
        seen, before = look.repository(work), listing(tmp_path)
        assert (restore(seen), listing(tmp_path)) == ("", before)

    def test_what_cannot_be_moved_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        seen = look.repository(tmp_path)
        (tmp_path / ".git").write_text("gitdir: x")
        monkeypatch.setattr(Path, "rename", full)
        assert restore(seen) == PLACE_WORDS["git.stuck"].format(place=".git")


def test_a_work_folder_knows_its_repository(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    repository(tmp_path / "work")
    assert check_folder(tmp_path / "work").repository.kept == (tmp_path / "work" / ".git",)
