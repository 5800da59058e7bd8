"""Whether the battery is saved, as each system says it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from app import power
from tests.workplaces.looking import until


def program(folder: Path, name: str, line: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that says nothing of itself but what a test lets it say."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(power, "_PROFILE", tmp_path / "platform_profile")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


@pytest.mark.parametrize(
    ("profile", "answer", "saving"),
    [
        *(("low-power", "echo balanced", True), ("balanced", "echo power-saver", True)),
        *(("balanced", "echo balanced", False), ("balanced", "echo power-saver; exit 1", False)),
        *(("", "echo performance", False), ("", "sleep 9", False)),
    ],
)
def test_linux(programs: Path, monkeypatch: pytest.MonkeyPatch, profile: str, answer: str, saving: bool) -> None:
    monkeypatch.setattr(power, "_PATIENCE", 0.2)
    if profile:
        (programs / "platform_profile").write_text(f"{profile}\n")
    program(programs, "powerprofilesctl", f"exec 2>/dev/null; {answer}")
    assert power.look() is saving


def test_where_nothing_answers_nothing_is_saved(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    assert power.look() is False
    monkeypatch.setattr(sys, "platform", "win32")
    assert power.look() is False


@pytest.mark.parametrize(("mode", "saving"), [("1", True), ("0", False)])
def test_macos(programs: Path, monkeypatch: pytest.MonkeyPatch, mode: str, saving: bool) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    program(programs, "pmset", f"echo ' displaysleep        1'; echo ' lowpowermode         {mode}'")
    assert power.look() is saving


async def test_it_is_looked_at_behind_and_again_after_a_while(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bool] = []

    def slow() -> bool:
        time.sleep(0.3)
        looked.append(True)
        return True

    monkeypatch.setattr(power, "look", slow)
    made = power.Power()
    began = time.monotonic()
    assert (made.saving(), made.saving()) == (False, False)
    assert time.monotonic() - began < 0.2, "nobody waits for it"
    await until(made.saving, 5)
    assert len(looked) == 1
    monkeypatch.setattr(power, "_FRESH", 0.0)
    made.saving()
    await until(lambda: len(looked) == 2, 5)
