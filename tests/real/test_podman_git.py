"""Git in a container of a real Podman, rootful and rootless: the very tests of the one on Docker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.real.engines.podman import Podman
from tests.real.engines.reached import env_for
from tests.real.test_container_git import (
    Run,
    run,
    test_a_bare_repository_can_be_read,
    test_a_folder_reached_over_a_link,
    test_a_git_file_cannot_show_another_repository,
    test_a_part_of_a_repository_says_where_the_whole_one_is,
    test_git_works,
    test_nothing_of_it_changes_while_sealed,
    test_open_git_cannot_prune_worktrees_that_it_does_not_see,
)
from tests.real.test_podman_seal import docker_host
from tests.workplaces.git_cases import CASES, person

__all__ = [
    "docker_host",
    "run",
    "test_a_bare_repository_can_be_read",
    "test_a_folder_reached_over_a_link",
    "test_a_git_file_cannot_show_another_repository",
    "test_a_part_of_a_repository_says_where_the_whole_one_is",
    "test_git_works",
    "test_nothing_of_it_changes_while_sealed",
    "test_open_git_cannot_prune_worktrees_that_it_does_not_see",
]


@pytest.mark.parametrize("name", ["file", "in a submodule", "embedded, moved", "bare", "folder gone"])
async def test_nothing_left_behind_runs_at_the_next_git_command(run: Run, tmp_path: Path, name: str) -> None:
    """What Docker's boxes are tried with is the same list, all of it: here are those that mounts keep, one of each."""
    case = next(case for case in CASES if case.name == name)
    work = case.make(tmp_path)
    result = await run(case.command(work / "RAN"), work)
    assert result.proof.details[".git"] == "read-only"
    person(work)
    assert not (work / "RAN").exists()


def test_it_holds_for_an_ordinary_user_on_a_podman_of_their_own(ordinary_user: Person, rootless_podman: Podman) -> None:
    env = {**env_for(rootless_podman), "CI": "1"}
    done = ordinary_user.pytest("-q", "-x", __file__, "-k", "not ordinary_user", env=env, timeout=110)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 10
