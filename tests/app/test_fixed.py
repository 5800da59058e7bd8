"""What Conch did without being asked is kept 30 days and told."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
import time
from pathlib import Path

import pytest

from app.health.fixed import DAYS, Fixed, FixedLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fixed.jsonl"


async def test_what_was_noted_is_there_after_a_restart_newest_first(path: Path) -> None:
    log = FixedLog(path)
    log.note("Opened Docker Desktop.", "A command needed it.")  # before it is open too
    await log.open()
    log.note("Removed a box.", "A crash left it behind.")
    await log.close()
    again = FixedLog(path)
    await again.open()
    assert [(one.what, one.why) for one in again.list()] == [
        ("Removed a box.", "A crash left it behind."),
        ("Opened Docker Desktop.", "A command needed it."),
    ]
    assert again.list()[0].at == pytest.approx(time.time(), abs=10)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await again.close()


async def test_it_is_told_on_the_loop_from_any_thread(path: Path) -> None:
    log = FixedLog(path)
    await log.open()
    told: asyncio.Queue[tuple[Fixed, int]] = asyncio.Queue()
    end = log.subscribe(lambda one: told.put_nowait((one, threading.get_ident())))
    await asyncio.to_thread(log.note, "Woke Podman.", "A command needed it.")
    one, thread = await asyncio.wait_for(told.get(), 5)
    assert one.what == "Woke Podman."
    assert thread == threading.get_ident()
    end()
    end()
    log.note("Again.", "Because.")
    await log.close()
    assert told.empty()


async def test_what_is_old_or_odd_goes(path: Path) -> None:
    old, new = time.time() - (DAYS + 1) * 86400, time.time() - (DAYS - 1) * 86400
    lines = [{"at": old, "what": "old", "why": ""}, {"at": new, "what": "new", "why": "w"}, {"at": "x"}, [1]]
    path.write_text("\n".join(map(json.dumps, lines)) + '\nnot json\n{"at": 1')
    log = FixedLog(path)
    await log.open()
    assert [one.what for one in log.list()] == ["new"]
    assert path.read_text().count("\n") == 1
    log.note("newer", "w")
    await log.close()
    assert [json.loads(line)["what"] for line in path.read_text().splitlines()] == ["new", "newer"]


async def test_two_processes_notes_are_both_kept(path: Path) -> None:
    one, two = FixedLog(path), FixedLog(path)
    await one.open()
    await two.open()
    for number in range(50):
        one.note(f"one {number}", "")
        two.note(f"two {number}", "")
    await asyncio.gather(one.close(), two.close())
    again = FixedLog(path)
    await again.open()
    assert len(again.list()) == 100
    await again.close()


async def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    log = FixedLog(tmp_path / "gone" / "fixed.jsonl")
    await log.open()
    log.note("Did it.", "So.")
    assert [one.what for one in log.list()] == ["Did it."]
    await log.close()
    log.note("After.", "The end.")
