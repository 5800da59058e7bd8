"""Whatever happens on both sides, no version of a file that someone wrote is lost.

A version is retired when whoever saw it, here or there, wrote over it or deleted it. Any other must lie in a file, here
or there, under whatever name, at any moment: after a command, after a crash, after a line that broke.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.workplaces.mirror_far import Pair
from workplaces.mirror.far import FarLost, Running
from workplaces.place import PlaceUnavailable

NAMES = ("a", "b.txt", "d/a", "d/e/b.txt", "d/-n\n'x", "f/a", "f/h/a")
SIDES = ("here", "there")
Edit = tuple[str, str, str]

edits = st.tuples(
    st.sampled_from(("write", "write", "same size", "delete", "chmod", "rmtree", "move")),
    st.sampled_from(SIDES),
    st.sampled_from(NAMES),
)


class Wild:
    """A far side where things happen: the line breaks after some bytes, and someone edits while it runs."""

    def __init__(self, pair: Pair) -> None:
        self._far = pair.far
        self.cut: tuple[int, int, bool] | None = None  # at which run, after how many bytes, of the input or the output
        self.during: dict[int, Callable[[], None]] = {}
        self.runs = 0

    @property
    def name(self) -> str:
        return self._far.name

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        self.runs += 1
        if (happens := self.during.pop(self.runs, None)) is not None:
            happens()
        after = self.cut[1] if self.cut is not None and self.cut[0] == self.runs else None
        if after is None:
            return self._far.run(command, given)
        if self.cut is not None and self.cut[2]:
            return self._far.run(command, _broken(given, after))
        return _Cut(self._far.run(command, given), after)


def _broken(given: Iterable[bytes], after: int) -> Iterator[bytes]:
    for data in given:
        yield data[:after]
        after -= len(data)
        if after <= 0:
            raise FarLost("The line broke.")


class _Cut:
    def __init__(self, running: Running, after: int) -> None:
        self._running = running
        self._after = after

    def read(self) -> bytes:
        data = self._running.read()[: self._after]
        self._after -= len(data)
        if self._after <= 0:
            self._running.stop()
            raise FarLost("The line broke.")
        return data

    def end(self) -> tuple[int | None, bytes]:
        return self._running.end()

    def stop(self) -> None:
        self._running.stop()


class Versions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="conch-mirror-"))
        self.pair = Pair(self.base)
        self.wild = Wild(self.pair)
        self.pair.far = self.wild  # type: ignore[assignment]
        self.numbers = itertools.count(1000)
        self.live: set[bytes] = set()
        self.settled = False

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    # What people and commands do

    def edit(self, edit: Edit) -> None:
        what, side, name = edit
        root = self.pair.here if side == "here" else self.pair.there
        if not root.is_dir():
            return
        path = root / name
        self.settled = False
        with contextlib.suppress(NotADirectoryError, FileExistsError, IsADirectoryError, FileNotFoundError):
            if what in ("write", "same size"):
                path.parent.mkdir(parents=True, exist_ok=True)
                seen = path.stat() if path.is_file() else None
                version = b"version %d\n" % next(self.numbers) + (
                    b"" if what == "same size" else os.urandom(3).hex().encode()
                )
                self.retire(path)
                path.write_bytes(version)
                self.live.add(version)
                if what == "same size" and seen is not None:
                    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            elif what == "delete":
                self.retire(path)
                path.unlink()
            elif what == "chmod":
                path.chmod(path.stat().st_mode ^ 0o111)
            elif what == "rmtree":
                top = root / name.split("/")[0]
                for file in [top, *top.rglob("*")]:
                    self.retire(file)
                if top.is_dir():
                    shutil.rmtree(top)
            elif what == "move":
                other = path.with_name("moved-" + path.name)
                self.retire(other)
                path.replace(other)

    def retire(self, path: Path) -> None:
        if path.is_file() and not path.is_symlink():
            self.live.discard(path.read_bytes())

    def many(self, some: list[Edit]) -> None:
        for edit in some:
            self.edit(edit)

    # Rules

    @initialize(some=st.lists(st.sampled_from(NAMES), max_size=5, unique=True))
    def begin(self, some: list[str]) -> None:
        for name in some:
            self.edit(("write", "here", name))

    @rule(some=st.lists(edits, min_size=1, max_size=4))
    def edited_between(self, some: list[Edit]) -> None:
        self.many(some)

    @rule(some=st.lists(edits, max_size=4))
    def command(self, some: list[Edit]) -> None:
        asyncio.run(self.round(some))

    @rule(
        some=st.lists(edits, max_size=3),
        during=st.dictionaries(st.integers(1, 6), edits, max_size=2),
        cut=st.none() | st.tuples(st.integers(1, 6), st.integers(0, 4000), st.booleans()),
    )
    def command_with_trouble(
        self, some: list[Edit], during: dict[int, Edit], cut: tuple[int, int, bool] | None
    ) -> None:
        runs = self.wild.runs
        self.wild.during = {runs + at: (lambda edit=edit: self.edit(edit)) for at, edit in during.items()}  # type: ignore[misc]
        self.wild.cut = None if cut is None else (runs + cut[0], cut[1], cut[2])
        try:
            asyncio.run(self.round(some))
        finally:
            self.wild.during.clear()
            self.wild.cut = None

    @rule(back=st.booleans(), some=st.lists(edits, max_size=2))
    def crash(self, back: bool, some: list[Edit]) -> None:
        """Conch ends while a command runs, or before what it knew was on the disk."""
        state = self.pair.mirror._copies.state(self.pair.chat, self.pair.far) / "agreed.sqlite3"
        kept = state.read_bytes() if back and state.exists() else None

        async def half() -> None:
            async with self.pair.session() as session:
                await session.before()
                self.many(some)
                if back:
                    await session.after()

        asyncio.run(half())
        if kept is not None:
            state.write_bytes(kept)
        self.pair.restart()

    @rule()
    def restored_there(self) -> None:
        """A backup of the other machine is put back, with the times that the files had."""
        backup, work = self.base / "backup", self.pair.home / ".conch-work"
        if backup.exists():
            for path in work.rglob("*"):
                # what is only there is retired by whoever puts the backup back
                if path.is_file():
                    self.retire_there(path)
            shutil.rmtree(work)
            shutil.copytree(backup, work)
        elif work.exists():
            shutil.copytree(work, backup)

    def retire_there(self, path: Path) -> None:
        content = path.read_bytes()
        if content not in {file.read_bytes() for file in self.pair.here.rglob("*") if file.is_file()}:
            self.live.discard(content)

    async def round(self, some: list[Edit]) -> None:
        self.settled = False
        with contextlib.suppress(PlaceUnavailable):
            async with self.pair.session() as session:
                await session.before()
                self.many(some)
                await session.after()

    def settle(self) -> None:
        """Some more commands lose nothing either."""
        if not self.settled:
            for _ in range(2):
                asyncio.run(self.round([]))
            self.nothing_is_lost()
            self.settled = True

    @invariant()
    def nothing_is_lost(self) -> None:
        lost = self.live - self.contents(self.pair.here) - self.contents(self.pair.there)
        assert not lost, lost

    @invariant()
    def nothing_is_half(self) -> None:
        for content in self.contents(self.pair.here) | self.contents(self.pair.there):
            assert content.startswith(b"version ")
            assert b"\n" in content
        assert not [path for path in self.pair.here.rglob(".conch-*")]

    def contents(self, folder: Path) -> set[bytes]:
        return {path.read_bytes() for path in folder.rglob("*") if path.is_file()} if folder.is_dir() else set()


TestVersions = Versions.TestCase
TestVersions.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "20")),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
