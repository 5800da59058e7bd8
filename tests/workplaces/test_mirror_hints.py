"""What the kernel tells of the folder here is lost, late, told twice or out of order: no version of a file is lost.

The same edits, commands, crashes and broken lines as in ``test_mirror_model``, over the same folders.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.workplaces.mirror_far import Pair
from tests.workplaces.test_mirror_model import Versions
from workplaces.mirror import copies, watch
from workplaces.mirror.watch import Watched

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells (inotify)")

_DICE = random.Random(0)  # set anew by each run, from what hypothesis chose


class Misled(Watched):
    """Hears badly."""

    honest = False

    def __init__(self, *args: object, **how: object) -> None:
        super().__init__(*args, **how)  # type: ignore[arg-type]
        self.late: list[object] = []

    def _hear(self) -> None:
        super()._hear()
        if Misled.honest:
            return
        with self._reading:
            told = [*self.late, *self._heard]
            self.late.clear()
            self._heard.clear()
            for one in told:
                what = _DICE.choice(("told", "told", "lost", "late", "twice"))
                if what == "late":
                    self.late.append(one)
                elif what != "lost":
                    self._heard.extend([one] * (1 + (what == "twice")))  # type: ignore[list-item]
            if _DICE.random() < 0.3:
                self._heard.reverse()


class Hints(Versions):
    def __init__(self) -> None:
        super().__init__()
        Misled.honest = False

    @initialize(seed=st.integers(0, 10_000))
    def dice(self, seed: int) -> None:
        _DICE.seed(seed)

    @rule()
    def listed_anyway(self) -> None:
        """A full listing is taken now and then, and then both sides are the same again."""
        Misled.honest = True
        try:
            for watched in self.watched():
                watched._listed_at = (0.0, 0.0)
            for _ in range(3):
                asyncio.run(self.round([]))
            if self.pair.there.is_dir():
                assert files(self.pair.here) == files(self.pair.there)
        finally:
            Misled.honest = False

    def watched(self) -> list[Watched]:
        return [one for _, one in self.pair.mirror._copies._watched.values()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def misled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "Watched", Misled)


class TestHints(Hints.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(
        max_examples=int(os.environ.get("MODEL_EXAMPLES", "20")),
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )


async def trusted(pair: Pair) -> None:
    """A file that both sides have for so long that its times are trusted."""
    (pair.here / "a").write_text("one")
    await asyncio.sleep(0.05)
    for _ in range(3):
        await pair.round()
        await asyncio.sleep(0.05)


async def test_a_hint_that_was_lost_is_made_up_for_by_the_next_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_MOST_HINTS", 5)
    monkeypatch.setattr(Misled, "_hear", lambda self: self._heard.clear())
    pair = Pair(tmp_path)
    await trusted(pair)
    (pair.here / "a").write_text("two, which nobody told")
    seen = []
    for _ in range(4):
        await pair.round()
        seen.append((pair.there / "a").read_text())
    assert seen[0] == "one", "it was believed"
    assert seen[-1] == "two, which nobody told"


async def test_a_clock_that_was_set_is_no_time_for_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Misled, "_hear", lambda self: self._heard.clear())
    pair = Pair(tmp_path)
    await trusted(pair)
    (pair.here / "a").write_text("two, which nobody told")
    await pair.round()
    assert (pair.there / "a").read_text() == "one", "it was believed"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    await pair.round()
    assert (pair.there / "a").read_text() == "two, which nobody told"
