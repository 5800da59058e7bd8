"""One box, from its making to the moment the engine says that it is gone. Runs in one thread; another may halt it."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from workplaces.container import wire
from workplaces.container.box import Expected
from workplaces.container.engine import REQUEST_LIMIT, Engine
from workplaces.output import OutputKeeper, Stream
from workplaces.place import LONGEST_TIMEOUT

_LONGEST_LINE = 4096
_MOST_HELD = 1 << 20
_LOST_LIMIT = 3.0
_KILL_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What a box said before its command: the folder and the ``.git`` it sees, and whether the program is there.

    ``folder`` is empty when the box had nothing to look with.
    """

    folder: str
    git: str
    program: bool

    @classmethod
    def read(cls, line: bytes) -> FirstLine | None:
        words = line.decode("ascii", "replace").split(" ")
        if len(words) > 3 or words[-1] not in ("there", "missing"):
            return None
        folder, git = (*words[:-1], "", "")[:2]
        return cls(folder, git, words[-1] == "there")

    def fits(self, expected: Expected) -> bool:
        return self.same_folder(expected) and (not expected.git or fnmatchcase(self.git, expected.git))

    def same_folder(self, expected: Expected) -> bool:
        return fnmatchcase(self.folder, expected.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a box ended.

    ``code`` is None when its end was not seen. ``started`` is False when the engine was never asked to start it,
    ``line`` None when it never came as far as the command. ``seen`` is what the engine said of it at its end. ``sure``
    is False when the engine did not say that it is gone. ``held`` is what came on stderr without a first line.
    ``lost`` says why its output broke off, ``problem`` what went wrong before there was any.
    """

    code: int | None = None
    started: bool = True
    line: FirstLine | None = None
    seconds: float = 0.0
    seen: Mapping[str, Any] = field(default_factory=dict)
    sure: bool = True
    held: bytes = b""
    lost: str = ""
    problem: Exception | None = None


class Life:
    """Makes the box, attaches, starts, gives its output to ``output``, waits, inspects, removes.

    ``run`` blocks. Whatever happens in it, the box is removed, or ``on_left(name, late)`` is told that it could not be;
    ``late`` when it is not known whether there is one yet.
    ``on_started`` is called in the same thread once the engine said that it runs.
    """

    def __init__(
        self,
        engine: Engine,
        body: Mapping[str, Any],
        output: OutputKeeper,
        *,
        on_started: Callable[[], None],
        on_left: Callable[[str, bool], None],
    ) -> None:
        self.name = f"conch-{secrets.token_hex(6)}"
        self.box = ""
        self._engine = engine
        self._body = dict(body)
        self._output = output
        self._on_started = on_started
        self._on_left = on_left
        self._lock = threading.Lock()  # held for a moment only
        self._giving = threading.Lock()  # held while the output takes a piece, however long that is
        self._halted = False
        self._let_go = False
        self._asked = False
        self._start_sent = 0.0
        self._attached: wire.Attached | None = None
        self._line: FirstLine | None = None
        self._first = b""
        self._held = b""

    # From the thread that runs it

    def run(self) -> Ended:
        """Never raises what the engine did wrong: that is in the answer. What ``output`` raises ends the box first."""
        import docker.errors

        ended = Ended(started=False)
        try:
            ended = self._live()
        except docker.errors.APIError as error:  # it refused: nothing was started
            ended = Ended(started=False, problem=error)
        except (docker.errors.DockerException, OSError, ValueError, KeyError, TypeError) as error:
            lost = str(error) if self._start_sent else ""
            ended = Ended(started=bool(self._start_sent), line=self._line, held=self._held, lost=lost, problem=error)
        finally:
            sure = self._remove()
        return ended if sure or ended.code is not None else replace(ended, sure=False)

    def _live(self) -> Ended:
        if self._is_halted():
            return Ended(started=False)
        self.box = self._make()
        if self._is_halted():
            return Ended(started=False)
        self._attached = self._engine.attach(self.box)
        with self._lock:
            if not self._halted:
                self._start_sent = time.monotonic()
        if not self._start_sent:
            return Ended(started=False)
        self._engine.start(self.box)
        self._on_started()
        if self._is_halted():
            self._kill()
        lost = self._read()
        return self._see_end(lost)

    def _make(self) -> str:
        import docker.errors

        self._asked = True  # until an answer comes, a box of this name may be made at any time
        try:
            return self._engine.create(self._body, self.name)
        except docker.errors.APIError:
            self._asked = False
            raise

    def _read(self) -> str:
        """Reads the box's output to its end. Gives why it broke off, if it did."""
        assert self._attached is not None  # noqa: S101
        frames = wire.read_frames(self._attached)
        while True:
            try:
                stream, data = next(frames)
            except StopIteration:
                return ""
            except OSError as error:
                return str(error) or type(error).__name__
            self._take(stream, data)

    def _take(self, stream: Stream, data: bytes) -> None:
        if self._line is not None:
            self._give(stream, data)
            return
        if stream == "err":  # it may overtake the first line; before that line only the box's own init says anything
            self._held += data[: _MOST_HELD - len(self._held)]
            return
        self._first += data
        line, newline, rest = self._first.partition(b"\n")
        if not newline and len(self._first) < _LONGEST_LINE:
            return
        self._line = FirstLine.read(line) if newline else None
        if self._line is None:
            raise wire.BadAnswer(f"the box did not begin as it should: {self._first[:200]!r}")
        held, self._held, self._first = self._held, b"", b""
        if held:
            self._give("err", held)
        if rest:
            self._give("out", rest)

    def _give(self, stream: Stream, data: bytes) -> None:
        with self._giving:
            if not self._let_go:
                self._output.feed(stream, data)

    def _see_end(self, lost: str) -> Ended:
        """Waits for the box's end and reads how it ended. An engine that went away is given a moment to come back."""
        code: int | None = None
        seen: Mapping[str, Any] = {}
        end = time.monotonic() + _LOST_LIMIT
        if self._let_go:
            lost = lost or "let go"
        while True:
            try:
                if lost:
                    seen = self._engine.inspect(self.box)
                else:
                    seen = self._engine.end_of(self.box, LONGEST_TIMEOUT + REQUEST_LIMIT)
                if not seen["State"]["Running"]:  # else nobody hears it any more, and it is ended with the box
                    code = int(seen["State"]["ExitCode"])
                break
            except Exception as error:  # noqa: BLE001 - an engine that is going away answers with anything
                lost = lost or str(error) or type(error).__name__
                if self._let_go or time.monotonic() > end:
                    break
                time.sleep(0.2)
        return Ended(
            code=code,
            line=self._line,
            seconds=time.monotonic() - self._start_sent,
            seen=seen,
            held=self._held,
            lost=lost,
        )

    def _remove(self) -> bool:
        """Takes the box away. True when the engine says that it is gone, or that there never was one."""
        if self._attached is not None:  # an engine does not remove a box whose output waits to be read
            wire.shut(self._attached.sock)
            self._attached.sock.close()
        if not self._asked or (self.box and self._engine.remove(self.box)):
            return True
        self._on_left(self.name, not self.box)
        return False

    def _kill(self) -> None:
        with contextlib.suppress(OSError):  # whoever kills waits for the end, and tells when it does not come
            self._engine.kill(self.box, _KILL_LIMIT)

    def _is_halted(self) -> bool:
        return self._halted

    # From any thread

    def halt(self) -> bool:
        """Sees to it that the command does not start, or else that ``kill`` ends it. Returns at once.

        True when the engine was never asked to start it, and now never will be.
        """
        with self._lock:
            self._halted = True
            return not self._start_sent

    def kill(self) -> None:
        """Ends what runs, after ``halt``. Blocks while the engine does it; says nothing when it does not."""
        self._kill()

    def let_go(self) -> None:
        """Nothing more is given to the output, from this call on. The thread still takes the box away when it can.

        Blocks while the output takes its last piece.
        """
        with self._giving:
            self._let_go = True
        if self._attached is not None:
            wire.shut(self._attached.sock)
