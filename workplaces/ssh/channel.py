"""One program running there, with its standard streams: over ``ssh``, or over a library's connection.

Everything here blocks, so it belongs in threads: one reads each stream, one writes. ``close`` may be called from any
thread, and lets the others come back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from workplaces.output import Stream
from workplaces.pipes import READ, widen

NO_WINDOW: Final[int] = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""On Windows a program of ours opens no console of its own."""

_PATIENCE = 5.0


class Gone(Exception):
    """The connection that should have carried it is not there (any more), and nothing was run. ``str`` says why."""


class Full(Gone):
    """The machine lets no further program run on this connection for now."""


class Channel(Protocol):
    """A program there, from when it was asked for."""

    @property
    def alive(self) -> bool:
        """Whether nothing is known of its end. Quick."""
        ...

    def read(self, stream: Stream) -> bytes:
        """What came next, none at its end. Never raises."""
        ...

    def write(self, data: bytes) -> bool:
        """Gives all of it to the program's standard input. False when nobody takes it any more."""
        ...

    def end_input(self) -> None:
        """Nothing more is written."""
        ...

    def status(self) -> int | None:
        """Waits (seconds, not long) for how it ended: its exit code, 255 when the connection failed, None unknown.

        For after both streams are at their end.
        """
        ...

    def close(self) -> None:
        """Ends it here. A program that still runs there sees its streams end. May be called twice."""
        ...

    def let_go(self) -> None:
        """After ``close``, once no thread reads or writes any more."""
        ...


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program of ours and its group. One that ended before is left alone."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


class Program:
    """A channel that is an ``ssh`` of this computer."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        """Starts it. Raises OSError when there is no such program."""
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            # without a terminal there is nothing on which it could ask for a password
            start_new_session=True,
            creationflags=NO_WINDOW,
        )
        if self._process.stdin is None or self._process.stdout is None or self._process.stderr is None:
            raise AssertionError("asked for pipes")
        self._in = self._process.stdin
        self._streams = {"out": self._process.stdout, "err": self._process.stderr}
        widen(pipe.fileno() for pipe in self._streams.values())

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def read(self, stream: Stream) -> bytes:
        try:
            return os.read(self._streams[stream].fileno(), READ)
        except (OSError, ValueError):
            return b""

    def write(self, data: bytes) -> bool:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._in.fileno(), view) :]
        except (OSError, ValueError):
            return False
        return True

    def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._in.close()

    def status(self) -> int | None:
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        # with what it started to get there (jumps, ProxyCommand): that holds our pipes as well
        end(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)

    def let_go(self) -> None:
        """Closes the pipes, once no thread reads or writes any more."""
        for pipe in (self._in, *self._streams.values()):
            with contextlib.suppress(OSError):
                pipe.close()
