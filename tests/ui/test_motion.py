"""Springs come to rest where they were pulled to; with reduced motion nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.motion import Glint, Motion, Spring


@given(
    start=some.floats(-500, 500),
    target=some.floats(-500, 500),
    frames=some.lists(some.floats(0.001, 0.2), min_size=1, max_size=40),
)
def test_a_spring_settles_at_its_target_however_late_the_frames_come(
    start: float, target: float, frames: list[float]
) -> None:
    spring = Spring(Motion(), start)
    spring.target = target
    furthest = abs(target - start)
    for seconds in frames:
        spring.advance(seconds)
        assert abs(spring.value - target) <= furthest + 1e-6, "it never swings out further than where it began"
    for _ in range(400):
        if spring.advance(1 / 60):
            break
    assert spring.value == pytest.approx(target, abs=0.01)


def test_the_glide_is_quick_and_passes_its_target_a_little(qapp: QApplication) -> None:
    spring = Spring(Motion(), 0.0)
    spring.pull(1.0)
    spring._timer.stop()
    path = []
    while not spring.advance(1 / 60):
        path.append(spring.value)
    assert 0.2 < len(path) / 60 < 0.8
    assert 1.0 < max(path) < 1.15


def test_a_spring_moves_on_the_screen_and_says_when_it_rests(qtbot: QtBot) -> None:
    spring = Spring(Motion("off"), 0.0)
    seen: list[float] = []
    spring.moved.connect(seen.append)
    with qtbot.waitSignal(spring.settled, timeout=3000):
        spring.pull(1.0)
    assert len(seen) > 5
    assert seen[-1] == 1.0
    assert not spring.moving


@pytest.mark.parametrize("make", [lambda motion: Spring(motion), lambda motion: Glint(motion)], ids=["spring", "glint"])
def test_with_reduced_motion_nothing_moves(qapp: QApplication, make: Callable[[Motion], Spring | Glint]) -> None:
    motion = Motion("on")
    moving = make(motion)
    seen: list[float] = []
    moving.moved.connect(seen.append)
    moving.pull(1.0) if isinstance(moving, Spring) else moving.play()
    assert seen == [1.0], "at the end at once"
    assert not moving.moving


def test_the_persons_choice_goes_before_the_systems(qapp: QApplication) -> None:
    motion = Motion()
    told: list[bool] = []
    motion.changed.connect(lambda: told.append(motion.reduced))
    motion.system_says(True)
    assert motion.reduced
    motion.choose("off")
    assert not motion.reduced
    motion.system_says(False)
    motion.choose("on")
    assert motion.reduced
    assert told == [True, False, True]
