"""Starts a program that ends with the tests, and ends it by its id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.real.engines.needs import program


class DidNotStart(RuntimeError):
    """A real engine did not come up. The text holds the end of its log."""


def start(
    arguments: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a program with its output in ``log``. The kernel ends it when this process dies before it was stopped."""
    setpriv = program("setpriv")
    line = [setpriv, "--pdeathsig", "TERM", "--", *arguments] if setpriv else list(arguments)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
        )


def wait_until(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, *, what: str, seconds: float = 40.0
) -> None:
    """Polls until ``ready``. Raises DidNotStart when the program ended, or the time is over."""
    end = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            tail = log.read_text(errors="replace")[-3000:] if log.exists() else ""
            state = f"ended with {process.returncode}" if process.poll() is not None else "was not ready in time"
            raise DidNotStart(f"{what} {state}:\n{tail}")
        time.sleep(0.02)


def stop(process: subprocess.Popen[bytes], *, seconds: float = 20.0) -> None:
    """Asks it to end, and makes it end when it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def stop_stray(pid: int, mark: str, *, seconds: float = 20.0) -> None:
    """Ends a process that an earlier run left behind, if its command line still names ``mark`` (ids are used again)."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return
    if mark not in line:
        return
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + patience
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        if not alive(pid):
            return
