"""Threads for what may block: used again, never waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.workplaces.looking import until
from workplaces import threads
from workplaces.threads import in_thread


async def test_a_thread_that_is_free_gets_the_next_work_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_idle", [])

    def who() -> tuple[int, str]:
        return threading.get_ident(), threading.current_thread().name

    first = await in_thread(who, "conch-one")
    await until(lambda: bool(threads._idle), 2, "it is free")
    second = await in_thread(who, "conch-two")
    assert (first[0], first[1], second[1]) == (second[0], "conch-one", "conch-two")


async def test_work_that_hangs_keeps_no_other_waiting() -> None:
    go = threading.Event()
    hanging = [in_thread(lambda: go.wait(10), "conch-hangs") for _ in range(20)]
    assert await asyncio.wait_for(in_thread(lambda: 1, "conch-quick"), 2) == 1
    go.set()
    assert await asyncio.gather(*hanging) == [True] * 20
    await until(lambda: not any(thread.name == "conch-hangs" for thread in threading.enumerate()), 2)
    assert len(threads._idle) <= threads._MOST_IDLE


async def test_an_error_is_the_answer_and_the_thread_goes_on() -> None:
    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await in_thread(fail, "conch-fails")
    assert await in_thread(lambda: 2, "conch-goes-on") == 2


async def test_a_free_thread_ends_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(threads, "_IDLE_LIMIT", 0.01)
    thread = await in_thread(threading.current_thread, "conch-short")
    await until(lambda: not thread.is_alive(), 2, "it ends")
    assert threads._idle == []
    assert await in_thread(lambda: 3, "conch-new") == 3
