from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from tests.workplaces.looking import heartbeat, held, number, processes, until
from workplaces import pipes
from workplaces import processes as module
from workplaces.output import OutputKeeper
from workplaces.processes import CannotStart, Ended, Killed, ask, run

ENV = {"PATH": os.environ["PATH"]}
ESCAPEE = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork(): os._exit(0) if _ else time.sleep(1e9)
    os.setsid()
print("escaped", flush=True)
time.sleep({n})
"""


async def sh(line: str, *, timeout: float = 20.0, keeper: OutputKeeper | None = None) -> tuple[Ended, str]:
    keeper = keeper or OutputKeeper()
    ended = await run(["/bin/sh", "-c", line], env=ENV, keeper=keeper, timeout=timeout)
    return ended, keeper.finish().text


@pytest.fixture(params=["poll", "threads", "no-pidfd"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way of reading that some system needs, tried on this one."""
    if request.param == "threads":
        monkeypatch.setattr(module, "reader", lambda fds, ready: pipes.ThreadReader(fds))
    if request.param != "poll":
        monkeypatch.setattr(module, "_CAN_WATCH", False)
    return str(request.param)


@pytest.mark.parametrize(
    ("line", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("true", 0), ("exit 300", 44)]
)
async def test_exit_codes(reading: str, line: str, code: int) -> None:
    ended, _ = await sh(line)
    assert (ended.code, ended.timed_out, ended.sure) == (code, False, True)


async def test_output_and_the_end_of_input(reading: str) -> None:
    ended, text = await sh("cat; echo out; sleep 0.1; echo err >&2")
    assert (ended.code, text) == (0, "out\nerr\n")


async def test_the_last_bytes_are_never_lost(reading: str) -> None:
    for _ in range(20):
        _, text = await sh("echo a; echo b >&2")
        assert sorted(text.split()) == ["a", "b"]


async def test_a_lot_of_output(reading: str) -> None:
    keeper = OutputKeeper()
    async with heartbeat() as longest:
        await sh("head -c 50000000 /dev/zero", keeper=keeper)
    assert keeper.finish().size == 50_000_000
    assert longest[0] < 0.25


async def test_output_that_ended_before_the_program(reading: str) -> None:
    ended, _ = await sh("exec >&- 2>&-; sleep 0.2; exit 4")
    assert ended.code == 4
    assert ended.seconds >= 0.2


async def test_timeout_ends_what_escaped(reading: str) -> None:
    mark = number()
    keeper = OutputKeeper()
    line = [sys.executable, "-c", ESCAPEE.format(n=mark)]
    ended = await run(line, env=ENV, keeper=keeper, timeout=1.0)
    assert (ended.code, ended.timed_out, ended.sure) == (None, True, True)
    assert keeper.finish().text == "escaped\n"
    assert processes(mark) == []


async def test_stop_ends_what_escaped(reading: str) -> None:
    mark = number()
    heard: list[str] = []
    keeper = OutputKeeper(on_text=lambda _, text: heard.append(text))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(kill_of(sys.executable, "-c", ESCAPEE.format(n=mark), keeper=keeper))
        await until(lambda: heard)
        running.cancel()
    assert running.result().ended.sure
    assert processes(mark) == []


async def kill_of(*argv: str, keeper: OutputKeeper) -> Killed:
    try:
        await run(argv, env=ENV, keeper=keeper, timeout=60)
    except Killed as killed:
        return killed
    raise AssertionError("it was not stopped")


async def test_what_it_left_behind_ends_with_it() -> None:
    mark = number()
    began = time.monotonic()
    ended, text = await sh(f"setsid sleep {mark} & setsid sleep {mark} >/dev/null 2>&1 & echo ok")
    assert (ended.code, ended.sure, text) == (0, True, "ok\n")
    assert time.monotonic() - began < 5
    assert processes(mark) == []


async def test_stop_while_it_starts_starts_nothing() -> None:
    mark = number()
    for delay in (0.0, 0.0005, 0.002, 0.01):
        async with asyncio.TaskGroup() as group:
            running = group.create_task(kill_of("sleep", mark, keeper=OutputKeeper()))
            await asyncio.sleep(delay)
            running.cancel()
        assert processes(mark) == []


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    for argv in (["no-such-program-anywhere"], [str(tmp_path)], ["echo", "nul\0byte"]):
        with pytest.raises(CannotStart):
            await run(argv, env=ENV, keeper=OutputKeeper(), timeout=5)


async def test_an_error_of_a_listener_ends_the_program_and_is_told() -> None:
    def fail(stream: str, text: str) -> None:
        raise ZeroDivisionError

    mark = number()
    with pytest.raises(ZeroDivisionError):
        await sh(f"echo x; sleep {mark}", keeper=OutputKeeper(on_text=fail))
    assert processes(mark) == []


async def test_nothing_is_held_afterwards() -> None:
    await sh("true")
    before = held()
    for _ in range(5):
        await sh("echo x")
        await sh("sleep 100", timeout=0.02)
        with pytest.raises(CannotStart):
            await run(["no-such-program-anywhere"], env=ENV, keeper=OutputKeeper(), timeout=5)
    await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


async def test_ask_gives_the_answer_as_it_is() -> None:
    assert await ask(["sh", "-c", "cat; printf 'a\\033[1m'; echo b >&2; exit 3"], 5) == (3, "a\033[1m", "b\n")
    assert (await ask(["sleep", "100"], 0.05))[0] is None
    code, out, err = await ask(["no-such-program-anywhere"], 5)
    assert (code, out) == (127, "")
    assert "no-such-program-anywhere" in err
