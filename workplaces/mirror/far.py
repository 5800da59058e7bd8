"""The other side, as the mirror needs it: one command line run there, bytes in, bytes out.

A ``Far`` is the whole of what SSH or a cloud must bring. ``ProgramFar`` is one for whatever a program on this computer
reaches (``ssh … -- host COMMAND``). Everything here blocks and is called in threads.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from workplaces.words import PLACE_WORDS

CHUNK: Final = 256 * 1024
_MOST_ERRORS: Final = 64 * 1024
_SILENCE: Final = 180.0
_END_WAIT: Final = 10.0

# What is run there, the same for every purpose, and plain enough for any login shell to hand it on (csh and fish
# included: no "!", no line break, nothing that they read inside quotes). It reads the script from its standard input,
# which is one line, and leaves the rest of the input to it.
BOOTSTRAP: Final = "exec /bin/sh -c 'IFS= read -r s && eval \"$s\"'"


class FarLost(Exception):
    """The other side is not there any more, or never was. ``words`` is a sentence for the person."""

    def __init__(self, words: str, *, details: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.details = details


class Running(Protocol):
    """A command that runs there."""

    def read(self) -> bytes:
        """What it printed next, at most some hundred KB; ``b""`` at its end. Raises FarLost."""
        ...

    def end(self) -> tuple[int | None, bytes]:
        """Waits for its end: its exit code (None: not seen), and what it said on its error output (cut short).

        Raises what the input that it was given raised, and FarLost.
        """
        ...

    def stop(self) -> None:
        """Ends it. May be called from any thread, at any time, more than once; ``read`` then ends soon."""
        ...


class Far(Protocol):
    """Another machine. ``name`` is what a person calls it ("build-box")."""

    @property
    def name(self) -> str: ...

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        """Gives a command line to the login shell there, with ``given`` as its whole standard input.

        ``given`` is read while the command runs, in another thread than ``read`` is called in. Its standard output and
        error output are kept apart. Raises FarLost when it cannot be started.
        """
        ...


def script(text: str, words: Sequence[str] = (), rest: Iterable[bytes] = ()) -> Iterable[bytes]:
    """The input that makes ``BOOTSTRAP`` run a script there with ``words`` as $1, $2…, and ``rest`` as its input.

    The script is one line, and no word holds a line break.
    """
    line = f"set -- {' '.join(quoted(word) for word in words)}; {text}"
    if "\n" in line:
        raise ValueError("a script that is more than a line")
    yield line.encode("utf-8", "surrogateescape") + b"\n"
    yield from rest


def quoted(word: str) -> str:
    """A word as a POSIX shell reads it back, byte for byte."""
    return "'" + word.replace("'", "'\\''") + "'"


class ProgramFar:
    """The other side, through a program on this computer. ``argv(command)`` is what to start for a command there.

    ``silence`` is how long (seconds) a command may print nothing while it is read.
    """

    def __init__(
        self,
        name: str,
        argv: Callable[[str], Sequence[str]],
        *,
        env: Mapping[str, str] | None = None,
        silence: float = _SILENCE,
        trouble: Callable[[int | None, bytes], FarLost | None] | None = None,
    ) -> None:
        self._name = name
        self._argv = argv
        self._env = env
        self._silence = silence
        self.trouble = trouble

    @property
    def name(self) -> str:
        return self._name

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        try:
            process = subprocess.Popen(
                list(self._argv(command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=None if self._env is None else dict(self._env),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise FarLost(PLACE_WORDS["mirror.lost"].format(where=self._name), details=str(error)) from error
        return _Program(process, given, self._name, self._silence, self.trouble)


class _Program:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        given: Iterable[bytes],
        name: str,
        silence: float,
        trouble: Callable[[int | None, bytes], FarLost | None] | None,
    ) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("it was started without its pipes")
        self._process = process
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        self._name = name
        self._silence = silence
        self._trouble = trouble
        self._errors = bytearray()
        self._failed: BaseException | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._feeder = threading.Thread(target=self._feed, args=(given,), name="conch-mirror-in", daemon=True)
        self._listener = threading.Thread(target=self._listen, name="conch-mirror-err", daemon=True)
        self._feeder.start()
        self._listener.start()

    def read(self) -> bytes:
        out = self._out
        if sys.platform != "win32":
            poll = select.poll()
            poll.register(out, select.POLLIN | select.POLLHUP)
            if not poll.poll(self._silence * 1000):
                self.stop()
                raise FarLost(PLACE_WORDS["mirror.silent"].format(where=self._name))
        try:
            return os.read(out.fileno(), CHUNK)
        except (OSError, ValueError) as error:
            raise FarLost(PLACE_WORDS["mirror.lost"].format(where=self._name), details=str(error)) from error

    def end(self) -> tuple[int | None, bytes]:
        self._out.close()
        try:
            code: int | None = self._process.wait(_END_WAIT)
        except subprocess.TimeoutExpired:
            self.stop()
            code = None
            self._process.wait()
        self._feeder.join(_END_WAIT)
        self._listener.join(_END_WAIT)
        with self._lock:
            self._ended = True
        for pipe in (self._in, self._err):
            with contextlib.suppress(OSError):
                pipe.close()
        if self._failed is not None:
            raise self._failed
        errors = bytes(self._errors)
        if self._trouble is not None and (lost := self._trouble(code, errors)) is not None:
            raise lost
        return code, errors

    def stop(self) -> None:
        with self._lock:
            if self._ended or self._process.poll() is not None:
                return
            with contextlib.suppress(OSError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _feed(self, given: Iterable[bytes]) -> None:
        into = self._in
        try:
            for data in given:
                view = memoryview(data)
                while view:
                    view = view[os.write(into.fileno(), view) :]
        except BrokenPipeError:
            pass  # it ended before it read everything: its code says why
        except BaseException as error:  # noqa: BLE001 - it is given to who waits in end()
            self._failed = error
            self.stop()
        finally:
            with contextlib.suppress(OSError):
                into.close()

    def _listen(self) -> None:
        errors = self._err
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(errors.fileno(), 16 * 1024):
                self._errors += data[: _MOST_ERRORS - len(self._errors)]
