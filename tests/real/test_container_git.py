"""Git in a container: it works where ``.git`` is a file, and nothing of the repository changes while sealed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import git, repository
from tests.workplaces.looking import listing
from workplaces.container.place import Container
from workplaces.place import RunRequest, RunResult

Run = Callable[..., Coroutine[Any, Any, RunResult]]
FILE = ("-c", "protocol.file.allow=always")
BOTH = pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
# What of a repository's own data could be changed, where it is: {git} is its folder there.
HARM = """\
for g in {git} .git; do
  echo evil >> $g/config; echo evil > $g/hooks/pre-commit; echo evil > $g/HEAD; echo evil > $g/refs/heads/main
  rm -rf $g/worktrees $g/refs $g/index $g; mv $g $g.moved; echo evil > $g/info/attributes
done
git update-ref refs/heads/evil HEAD; git config core.fsmonitor x; git worktree prune; git gc --prune=now; true"""


@pytest.fixture
async def run(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Run]:
    place = Container(tmp_path / "conch", image=lambda: docker_host.image)

    async def go(command: str, folder: Path, **how: Any) -> RunResult:
        return await place.run(RunRequest(command=command, folder=folder, timeout=60.0, **how))

    yield go
    await place.close()


def worktree(base: Path) -> tuple[Path, Path]:
    """A worktree beside its repository, which has another one besides."""
    main = base / "main"
    main.mkdir()
    repository(main)
    git(main, "worktree", "add", "-q", str(base / "other"))
    git(main, "worktree", "add", "-q", str(base / "tree"))
    (base / "tree" / "a.txt").write_text("two\nthree\n")
    return base / "tree", main / ".git"


def submodule(base: Path) -> tuple[Path, Path]:
    for name in ("inner", "outer"):
        (base / name).mkdir()
        repository(base / name)
    git(base / "outer", *FILE, "submodule", "--quiet", "add", str(base / "inner"), "libs/inner")
    (base / "outer" / "libs" / "inner" / "a.txt").write_text("two\nthree\n")
    return base / "outer" / "libs" / "inner", base / "outer" / ".git" / "modules" / "libs" / "inner"


def apart(base: Path) -> tuple[Path, Path]:
    (base / "work").mkdir()
    git(base / "work", "init", "-q", "-b", "main", "--separate-git-dir", str(base / "apart.git"))
    repository(base / "work")
    return base / "work", base / "apart.git"


def folder(base: Path) -> tuple[Path, Path]:
    (base / "work").mkdir()
    repository(base / "work")
    return base / "work", base / "work" / ".git"


KINDS = pytest.mark.parametrize("make", [worktree, submodule, apart, folder])


@BOTH
@KINDS
async def test_git_works(run: Run, tmp_path: Path, make: Callable[[Path], tuple[Path, Path]], opened: bool) -> None:
    work, data = make(tmp_path)
    result = await run("git status --porcelain && git log --format=%s && git diff --stat", work, open=opened)
    assert (result.code, result.output.out.splitlines()[:2], result.note) == (0, [" M a.txt", "first"], "")
    assert result.proof.details[".git"] == ("writable" if opened else "read-only")
    if opened:
        commit = "git -c user.name=a -c user.email=b commit -qam second"
        assert (await run(commit, work, open=True)).code == 0
        assert git(work, "log", "-1", "--format=%s") == "second\n"
        assert {path.stat().st_uid for path in data.rglob("*")} == {os.getuid()}


@KINDS
async def test_nothing_of_it_changes_while_sealed(
    run: Run, tmp_path: Path, make: Callable[[Path], tuple[Path, Path]]
) -> None:
    work, data = make(tmp_path)
    everything = listing(tmp_path)
    result = await run(HARM.format(git=data), work)
    assert {path: seen for path, seen in listing(tmp_path).items() if path.split(b"/")[0] != b"conch"} == everything
    assert result.proof.sealed


async def test_a_bare_repository_can_be_read(run: Run, tmp_path: Path) -> None:
    main, _ = folder(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    before = listing(tmp_path / "bare.git")
    result = await run("git log --format=%s; " + HARM.format(git="."), tmp_path / "bare.git")
    assert result.output.out.startswith("first\n")
    assert listing(tmp_path / "bare.git") == before
    assert (await run("git branch made", tmp_path / "bare.git", open=True)).code == 0
    assert "made" in git(tmp_path / "bare.git", "branch")


@pytest.mark.parametrize("where", ["main", "tree"])
async def test_open_git_cannot_prune_worktrees_that_it_does_not_see(run: Run, tmp_path: Path, where: str) -> None:
    _, data = worktree(tmp_path)
    before = git(tmp_path / "main", "worktree", "list", "--porcelain")
    prunes = "git worktree prune -v --expire=now; git gc --prune=now; git worktree remove --force ../other; true"
    result = await run(prunes, tmp_path / where, open=True)
    assert git(tmp_path / "main", "worktree", "list", "--porcelain") == before
    assert git(tmp_path / "other", "status", "--porcelain") == ""
    assert "other worktrees" in result.note
    for name in ("other", "tree"):
        assert (data / "worktrees" / name / "HEAD").exists()


async def test_a_git_file_cannot_show_another_repository(run: Run, tmp_path: Path) -> None:
    """Whoever made the folder may have written any path into it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    repository(secret)
    git(secret, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(secret, *FILE, "submodule", "--quiet", "add", str(tmp_path / "secret"), "sub")
    git(tmp_path, "clone", "-q", "--bare", str(secret), "bare.git")
    work = tmp_path / "work"
    work.mkdir()
    targets = (".git", ".git/worktrees/tree", ".git/modules/sub", "", "../bare.git")
    for target in targets:
        for opened in (False, True):
            (work / ".git").write_text(f"gitdir: {secret}/{target}\n")
            result = await run(f"ls -A {secret} {tmp_path}/bare.git; git status", work, open=opened)
            assert (result.output.out, result.code) == ("", 128), target
            assert "does not belong to this folder" in result.note


async def test_a_part_of_a_repository_says_where_the_whole_one_is(run: Run, tmp_path: Path) -> None:
    main, _ = folder(tmp_path)
    (main / "part").mkdir()
    result = await run("git status", main / "part")
    assert result.code == 128
    assert str(main) in result.note


async def test_a_folder_reached_over_a_link(run: Run, tmp_path: Path) -> None:
    work, _ = worktree(tmp_path)
    (tmp_path / "link").symlink_to(work)
    result = await run("git status --porcelain", tmp_path / "link")
    assert (result.code, result.output.text) == (0, " M a.txt\n")
