"""A folder that is kept up by what the kernel tells: exact where it tells, and listed again where it may not have."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workplaces.mirror import disks, watch
from workplaces.mirror.disks import can_be_watched
from workplaces.mirror.listing import diff, snapshot
from workplaces.mirror.watch import Mark, Watched
from workplaces.place import Changes

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells (inotify)")
Ways = tuple[list[str], list[str], list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "deep/er").mkdir(parents=True)
    for name in ("a", "b", "deep/c", "deep/er/d"):
        (made / name).write_text("one")
        os.utime(made / name, (1, 1))
    return made


@pytest.fixture(params=["told", "listed"])
def watched(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    if request.param == "listed":
        monkeypatch.setattr(watch, "can_be_watched", lambda folder: False)
    elif not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells (inotify)")
    made = Watched(folder)
    made.start()
    assert made.watching == (request.param == "told")
    yield made
    made.close()


def ways(changes: Changes | None) -> Ways:
    assert changes is not None
    return list(changes.added), list(changes.changed), list(changes.deleted)


def run(folder: Path, command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True)


def change(watched: Watched, command: str) -> Ways:
    mark = watched.mark()
    run(watched.folder, command)
    return ways(watched.since(mark))


@pytest.mark.parametrize(
    ("command", "made", "changed", "gone"),
    [
        ("true", [], [], []),
        ("cat a b deep/c", [], [], []),
        ("echo two >a", [], ["a"], []),
        ("echo two >>deep/er/d; chmod +x b", [], ["b", "deep/er/d"], []),
        ("echo two >n.part; mv n.part a", [], ["a"], []),
        ("rm a deep/c", [], [], ["a", "deep/c"]),
        ("rm -r deep", [], [], ["deep/c", "deep/er/d"]),
        ("mv deep other", ["other/c", "other/er/d"], [], ["deep/c", "deep/er/d"]),
        ("mv deep x; mv x deep", [], [], []),
        ("mkdir -p n/e/w; echo >n/e/w/f; ln -s f n/e/w/l", ["n/e/w/f", "n/e/w/l"], [], []),
        ("mkdir n; echo >n/f; rm -r n", [], [], []),
        ("rm a; mkdir a; echo >a/in", ["a/in"], [], ["a"]),
        ("rm -r deep; echo >deep", ["deep"], [], ["deep/c", "deep/er/d"]),
        ("mkdir -p node_modules/x .venv; echo >node_modules/x/y; echo >.venv/z", [], [], []),
        ("mkfifo p; ln -s a soft", ["p", "soft"], [], []),
        ("printf 'x' >\"$(printf 'odd\\nname')\"", ["odd\nname"], [], []),
    ],
)
def test_what_a_command_changes(
    watched: Watched, command: str, made: list[str], changed: list[str], gone: list[str]
) -> None:
    assert change(watched, command) == (made, changed, gone)
    assert change(watched, "true") == ([], [], []), "and it is told once"


def test_a_folder_that_came_is_looked_after_as_well(watched: Watched) -> None:
    change(watched, "mkdir -p n/e; echo >n/e/f; mv deep n/deep")
    assert change(watched, "echo >n/e/f; echo >n/deep/er/new") == (["n/deep/er/new"], ["n/e/f"], [])


def test_what_somebody_did_before_is_not_the_commands(watched: Watched) -> None:
    run(watched.folder, "echo mine >a; sleep 0.05")
    assert change(watched, "echo two >b") == ([], ["b"], [])


def test_two_commands_at_once_both_have_what_changed_meanwhile(watched: Watched) -> None:
    first = watched.mark()
    run(watched.folder, "echo 1 >a; sleep 0.05")
    second = watched.mark()
    run(watched.folder, "echo 2 >b; rm deep/c")
    assert ways(watched.since(first)) == ([], ["a", "b"], ["deep/c"])
    run(watched.folder, "echo 3 >deep/er/d")
    assert ways(watched.since(second)) == ([], ["b", "deep/er/d"], ["deep/c"])


def test_the_first_command_comes_before_the_folder_was_listed(folder: Path) -> None:
    run(folder, "sleep 0.05")
    watched = Watched(folder)
    mark = watched.mark()
    run(folder, "echo two >a; echo new >n")
    assert set((watched.since(mark) or Changes()).all) == {"a", "n"}
    watched.close()


def test_what_is_closed_is_not_looked_at(folder: Path) -> None:
    watched = Watched(folder, closed=lambda: {"deep"})
    watched.start()
    assert change(watched, "echo >deep/c; echo >a") == ([], ["a"], [])
    watched.close()


def test_of_a_folder_with_too_much_in_it_nothing_is_known(folder: Path) -> None:
    watched = Watched(folder, most=8)
    watched.start()
    assert change(watched, "echo >a") == ([], ["a"], [])
    mark = watched.mark()
    run(folder, "for i in 1 2 3 4 5 6 7 8 9; do echo >n$i; done")
    assert watched.since(mark) is None
    assert watched.since(watched.mark()) is None
    run(folder, "rm n*")
    mark = watched.mark()
    watched.close()


@linux
def test_a_queue_that_ran_over_is_made_up_for(folder: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    watched = Watched(folder)
    watched.start()
    other = watched.mark()
    mark = watched.mark()
    line = f"import os\nfor i in range({most}): open('x', 'w').close(); open('y', 'w').close()"
    subprocess.run([sys.executable, "-c", line], cwd=folder, check=True)
    run(folder, "rm b; echo >deep/c")
    assert ways(watched.since(mark)) == (["x", "y"], ["deep/c"], ["b"])
    assert ways(watched.since(other)) == (["x", "y"], ["deep/c"], ["b"])
    assert watched.watching
    assert change(watched, "echo >a") == ([], ["a"], [])
    watched.close()


@linux
def test_a_folder_that_was_replaced_is_listed_again(folder: Path) -> None:
    watched = Watched(folder)
    watched.start()
    mark = watched.mark()
    folder.rename(folder.with_name("old"))
    shutil.copytree(folder.with_name("old"), folder)
    (folder / "a").write_text("other")
    (folder / "b").unlink()
    found = ways(watched.since(mark))
    assert "b" in found[2]
    assert "a" in found[1]
    assert change(watched, "echo >a") == ([], ["a"], [])
    watched.close()


@linux
def test_where_no_more_watches_are_to_be_had_it_is_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MOST_FOLDERS", 4)
    watched = Watched(folder)
    watched.start()
    assert watched.watching
    assert change(watched, "mkdir n m; echo >n/x; echo >a") == (["n/x"], ["a"], [])
    assert not watched.watching
    assert change(watched, "rm a; echo >m/y") == (["m/y"], [], ["a"])
    watched.close()


@linux
def test_only_disks_of_this_computer_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_be_watched(tmp_path)
    assert not can_be_watched(Path("/proc/self"))
    assert not can_be_watched(Path("/")), "others lie in it"
    monkeypatch.setattr(disks, "_DISKS", frozenset({"nfs"}))
    assert not can_be_watched(tmp_path)


@linux
def test_a_folder_that_takes_the_place_of_one_that_is_held_open(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "full").mkdir()
    (folder / "full/x").write_text("x")
    watched = Watched(folder)
    watched.start()
    held = os.open(folder / "empty", os.O_RDONLY)
    try:
        assert change(watched, "mv -T full empty") == (["empty/x"], [], ["full/x"])
        assert dict(watched.snapshot().entries) == dict(snapshot(folder).entries)
        assert change(watched, "echo >empty/x; mkdir empty/deep; echo >empty/deep/y") == (
            ["empty/deep/y"], ["empty/x"], [],
        )  # fmt: skip
        assert dict(watched.snapshot().entries) == dict(snapshot(folder).entries)
    finally:
        os.close(held)
    assert change(watched, "echo two >empty/deep/y") == ([], ["empty/deep/y"], [])
    watched.close()


@linux
def test_one_that_was_closed_meanwhile_still_answers_and_opens_nothing(folder: Path) -> None:
    before = {each.name for each in Path("/proc/self/fd").iterdir()}
    watched = Watched(folder)
    watched.start()
    mark = watched.mark()
    run(folder, "echo >a")
    watched.close()
    assert ways(watched.since(mark)) == ([], ["a"], [])
    assert not watched.watching
    late = Watched(folder)
    late.close()
    late.start()
    assert {each.name for each in Path("/proc/self/fd").iterdir()} == before


@linux
def test_nothing_is_left_open(folder: Path) -> None:
    before = {each.name for each in Path("/proc/self/fd").iterdir()}
    watched = Watched(folder)
    watched.start()
    change(watched, "echo >a")
    watched.close()
    assert {each.name for each in Path("/proc/self/fd").iterdir()} == before


def test_many_threads_at_once(watched: Watched) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                mark = watched.mark()
                (watched.folder / f"t{number}").write_text(f"{turn}")
                assert f"t{number}" in (watched.since(mark) or Changes()).all
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


_NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "n/a", "n", "node_modules/a"])


class Anything(RuleBasedStateMachine):
    """Whatever is done, in whatever order, what is told is what two listings would tell."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.watched = Watched(self.folder)
        self.watched.start()
        self.step = 0

    def teardown(self) -> None:
        self.watched.close()
        shutil.rmtree(self.folder)

    def _do(self, act: object) -> None:
        before = snapshot(self.folder)
        mark: Mark = self.watched.mark()
        with contextlib.suppress(OSError):
            act()  # type: ignore[operator]
        found = self.watched.since(mark)
        after = snapshot(self.folder)
        assert found == diff(before, after)

    @rule(path=_NAMES, folder=st.booleans())
    def make(self, path: str, folder: bool) -> None:
        def act() -> None:
            self.step += 1
            at = self.folder / path
            at.parent.mkdir(parents=True, exist_ok=True)
            at.mkdir() if folder else at.write_text("x" * self.step)

        self._do(act)

    @rule(path=_NAMES)
    def remove(self, path: str) -> None:
        at = self.folder / path
        self._do(lambda: shutil.rmtree(at) if at.is_dir() else at.unlink())

    @rule(path=_NAMES, to=_NAMES)
    def move(self, path: str, to: str) -> None:
        self._do(lambda: (self.folder / path).rename(self.folder / to))

    @rule(path=_NAMES, to=_NAMES)
    def swap(self, path: str, to: str) -> None:
        def act() -> None:
            (self.folder / path).rename(self.folder / "between")
            (self.folder / to).rename(self.folder / path)
            (self.folder / "between").rename(self.folder / to)

        self._do(act)

    @rule(path=_NAMES, to=_NAMES)
    def between(self, path: str, to: str) -> None:
        """What is done while nothing is asked is not told, and not forgotten either."""
        with contextlib.suppress(OSError):
            at = self.folder / path
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text("between")
            (self.folder / path).rename(self.folder / to)

    @invariant()
    def what_is_known_is_what_is(self) -> None:
        assert self.watched.since(self.watched.mark()) == Changes()
        assert self.watched._entries == dict(snapshot(self.folder).entries)


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnything = linux(TestAnything)
