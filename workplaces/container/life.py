"""One box, from its making to the moment the engine says that it is gone. Each step runs in a thread and blocks."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from workplaces.container import wire
from workplaces.container.box import GET_READY, Expected, line_for, new_mark
from workplaces.container.engine import REQUEST_LIMIT, Engine
from workplaces.container.marks import Marks, Said
from workplaces.output import OutputKeeper, Stream
from workplaces.place import LONGEST_TIMEOUT

_LONGEST_LINE = 4096
_MOST_HELD = 1 << 20
_LOST_LIMIT = 3.0
_KILL_LIMIT = 30.0
_BEHIND = 0.01  # how long a box is left alone after its command, so that whoever waits for that has it first

OnLeft = Callable[[str, bool], None]


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What a box said before its command: the folder and the ``.git`` it sees, and how its shell stands.

    ``folder`` is empty when the box had nothing to look with. ``shut``: no command can read the shell's memory.
    ``other``: it saw another folder than it should, and has ended.
    """

    folder: str
    git: str
    shut: bool = False
    other: bool = False

    @classmethod
    def read(cls, line: bytes) -> FirstLine | None:
        words = line.decode("ascii", "replace").split()
        if not words or len(words) > 3 or words[-1] not in ("shut", "bare", "other"):
            return None
        folder, git = (*words[:-1], "", "")[:2]
        return cls(folder, git, words[-1] == "shut", words[-1] == "other")

    def fits(self, expected: Expected) -> bool:
        same = self.same_folder(expected) and (not expected.git or fnmatchcase(self.git, expected.git))
        return same and not self.other

    def same_folder(self, expected: Expected) -> bool:
        return fnmatchcase(self.folder, expected.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a box ended.

    ``code`` is None when its end was not seen. ``started`` is False when it was never given its command; ``line`` is
    then what it said, ``held`` what came on stderr, and ``problem`` what went wrong. ``clean``: its shell said that
    every process of the command is dead. ``program``: it is in the image. ``memory``: the kernel ended some of it for
    want of memory. ``seen`` is what the engine said of the box. ``sure`` is False when the engine did not say that it
    is gone, nor its shell that all is dead. ``lost`` says why its output broke off.
    """

    code: int | None = None
    started: bool = True
    clean: bool = False
    line: FirstLine | None = None
    program: bool = True
    memory: bool = False
    seconds: float = 0.0
    seen: Mapping[str, Any] = field(default_factory=dict)
    sure: bool = True
    held: bytes = b""
    lost: str = ""
    problem: Exception | None = None


class Life:
    """A box that is made, given one command, and taken away. Another thread may halt it at any time.

    ``ahead`` says that it is made before anybody asked. ``on_left(name, late)`` is told when it could not be removed;
    ``late`` when it is not known whether there is one yet.
    """

    def __init__(
        self, engine: Engine, body: Mapping[str, Any], expected: Expected, *, on_left: OnLeft, ahead: bool = False
    ) -> None:
        self.name = f"conch-{secrets.token_hex(6)}"
        self.box = ""
        self.ahead = ahead
        self.trouble: Ended | None = None
        self._made = threading.Event()
        self._engine = engine
        self._body = body
        self._expected = expected
        self._on_left = on_left
        self._lock = threading.Lock()  # held for a moment only
        self._giving = threading.Lock()  # held while the output takes a piece, however long that is
        self._halted = False
        self._let_go = False
        self._asked = False
        self._given = 0.0
        self._attached: wire.Attached | None = None
        self._frames: Iterator[tuple[Stream, bytes]] = iter(())
        self._line: FirstLine | None = None
        self._held = b""
        self._over = False
        self._seen: Mapping[str, Any] = {}

    # From the thread that has it

    def make(self) -> bool:
        """Makes it, until it waits for its command. False when it does not: ``trouble`` says why. Raises nothing."""
        import docker.errors

        try:
            self._make()
        except _Halted:
            self.trouble = Ended(started=False)
        except docker.errors.APIError as error:
            self.trouble = Ended(started=False, problem=error)
        except (docker.errors.DockerException, OSError, ValueError, KeyError, TypeError) as error:
            self.trouble = self._not_begun(error)
        finally:
            self._made.set()
        return self.trouble is None

    def is_made(self) -> bool:
        """Waits until another thread's ``make`` has ended, and gives its answer."""
        self._made.wait()
        return self.trouble is None

    @property
    def gave(self) -> bool:
        """Whether it was given its command."""
        return self._given > 0

    @property
    def line(self) -> FirstLine | None:
        """What it said before its command."""
        return self._line

    @property
    def seen(self) -> Mapping[str, Any]:
        """What the engine said of it once it was made, empty before that."""
        return self._seen

    @property
    def made(self) -> bool:
        """Whether its making has ended."""
        return self._made.is_set()

    @property
    def waits(self) -> bool:
        """Whether it is made and still there, silent. Through a named pipe only the first can be known."""
        if not self._made.is_set() or self.trouble is not None or self._attached is None:
            return False
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self._attached.sock, selectors.EVENT_READ)
            except (ValueError, KeyError):
                return self._attached.sock is not None
            return not selector.select(0)

    def serve(
        self, command: str | tuple[str, ...], output: OutputKeeper, on_given: Callable[[], None] = lambda: None
    ) -> Ended:
        """Gives it its command, and ``output`` what that prints, until the command or the box has ended.

        ``on_given`` is called in the same thread just after. Raises only what ``output`` does.
        """
        assert self._attached is not None  # noqa: S101 - it was made
        assert self._line is not None  # noqa: S101
        with self._lock:
            if self._halted:
                return Ended(started=False)
            self._given = time.monotonic()
        limited = "memory" in self._engine.facts.limits
        marks = Marks(mark := new_mark() if self._line.shut else "")
        if self._held:
            self._give(output, "err", self._held)
        try:
            self._attached.sock.sendall(line_for(command, mark, memory=limited))
            on_given()
            said = self._read(marks, output)
        except OSError as error:
            return self._see_end(str(error) or type(error).__name__)
        if said is None:
            return self._see_end("")
        return Ended(
            code=said.code,
            clean=True,
            line=self._line,
            program=said.program,
            memory=limited and said.kills > 0,
            seconds=time.monotonic() - self._given,
            seen=self._seen,
        )

    def clear(self) -> bool:
        """Takes the box away. True when the engine says that it is gone, or that there never was one."""
        if self._attached is not None:  # an engine does not remove a box whose output waits to be read
            wire.shut(self._attached.sock)
            self._attached.sock.close()
        if not self._asked or (self.box and self._engine.remove(self.box)):
            return True
        self._on_left(self.name, not self.box)
        return False

    def _make(self) -> None:
        import docker.errors

        self._go_on()
        self._asked = True  # until an answer comes, a box of this name may be made at any time
        try:
            self.box = self._engine.create(self._body, self.name)
        except docker.errors.APIError:
            self._asked = False
            raise
        self._go_on()
        self._attached = self._engine.attach(self.box)
        self._attached.sock.settimeout(REQUEST_LIMIT)
        self._frames = wire.read_frames(self._attached)
        self._go_on()
        self._engine.start(self.box)
        self._go_on()
        with contextlib.suppress(ConnectionError):  # it has ended: what it said tells why
            self._attached.sock.sendall(GET_READY.encode())
        self._line = self._read_first()
        if not self._line.fits(self._expected):
            raise wire.BadAnswer(f"the box sees another folder: {self._line!r}")
        self._seen = self._engine.inspect(self.box)
        self._attached.sock.settimeout(None)

    def _go_on(self) -> None:
        if self._halted:
            raise _Halted

    def _read_first(self) -> FirstLine:
        first = b""
        for stream, data in self._frames:
            if stream == "err":  # it may overtake the first line; only the box's own init says anything now
                self._held += data[: _MOST_HELD - len(self._held)]
                continue
            first += data
            if b"\n" in first or len(first) >= _LONGEST_LINE:
                break
        else:
            self._over = True
        line = FirstLine.read(first[:-1]) if first.endswith(b"\n") else None
        if line is None:
            raise wire.BadAnswer(f"the box did not begin as it should: {first[:200]!r}")
        return line

    def _not_begun(self, problem: Exception) -> Ended:
        """Its command was not given. Where it has ended by itself, how is told."""
        code: int | None = None
        if (self._over or (self._line is not None and self._line.other)) and not self._halted:
            with contextlib.suppress(Exception):  # an engine that is going away answers with anything
                code = int(self._engine.end_of(self.box, _LOST_LIMIT)["State"]["ExitCode"])
        return Ended(started=False, code=code, line=self._line, held=self._held, problem=problem)

    def _read(self, marks: Marks, output: OutputKeeper) -> Said | None:
        """Reads until both marks came, and gives what they say; None when the box ended without. Raises OSError."""
        for stream, data in self._frames:
            if own := marks.take(stream, data):
                self._give(output, stream, own)
            if (said := marks.said) is not None:
                return said
        for stream in ("out", "err"):
            if rest := marks.rest(stream):
                self._give(output, stream, rest)
        return None

    def _give(self, output: OutputKeeper, stream: Stream, data: bytes) -> None:
        with self._giving:
            if not self._let_go:
                output.feed(stream, data)

    def _see_end(self, lost: str) -> Ended:
        """Waits for the box's end and reads how it ended. An engine that went away is given a moment to come back.

        How a box ended that was told to is of no interest, only that it is gone.
        """
        if self._halted and not self._let_go:
            return Ended(line=self._line, seconds=time.monotonic() - self._given, seen=self._seen)
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
        seconds = time.monotonic() - self._given
        return Ended(code=code, line=self._line, seconds=seconds, seen=seen, lost=lost)

    # From any thread

    def halt(self) -> bool:
        """Sees to it that the command does not start, or else that ``kill`` ends it. Returns at once.

        True when it was never given its command, and now never will be.
        """
        with self._lock:
            self._halted = True
            return not self._given

    def kill(self) -> None:
        """Ends what runs, after ``halt``. Blocks while the engine does it; says nothing when it does not."""
        with contextlib.suppress(OSError):  # whoever kills waits for the end, and tells when it does not come
            self._engine.kill(self.box, _KILL_LIMIT)

    def let_go(self) -> None:
        """Nothing more is given to the output, from this call on. The thread still takes the box away when it can.

        Blocks while the output takes its last piece.
        """
        with self._giving:
            self._let_go = True
        if self._attached is not None:
            wire.shut(self._attached.sock)


class _Halted(Exception):
    """Nobody wants it any more."""


class Going:
    """The boxes of this process that are taken away while nobody waits for it."""

    def __init__(self) -> None:
        self._lives: set[Life] = set()
        self._changed = threading.Condition()

    def add(self, life: Life) -> None:
        """It is to be cleared, by whoever has it."""
        with self._changed:
            self._lives.add(life)

    def clear(self, life: Life) -> bool:
        """Takes the box away, as ``Life.clear``, and counts it among those that go until that is done."""
        self.add(life)
        try:
            return life.clear()
        finally:
            with self._changed:
                self._lives.discard(life)
                self._changed.notify_all()

    def wait(self, limit: float) -> bool:
        """Blocks until none is going, ``limit`` seconds at most. Whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lives, limit)


def live(
    life: Life,
    going: Going,
    command: str | tuple[str, ...],
    output: OutputKeeper,
    *,
    on_given: Callable[[], None],
    on_ended: Callable[[Ended], None],
) -> Ended:
    """The whole of a box that serves a command. Blocks until the engine says that it is gone.

    ``on_ended`` is told, in the same thread and before the box is taken away, when all of the command is dead already
    and ``output`` has finished. What ``output`` raises ends the box first.
    """
    ended = Ended(started=False)
    try:
        there = life.is_made() if life.ahead else life.make()
        ended = life.serve(command, output, on_given) if there else life.trouble or ended
        if ended.clean:
            output.finish()
            going.add(life)
            on_ended(ended)
            time.sleep(_BEHIND)
    finally:
        sure = going.clear(life)
    return ended if sure or ended.code is not None else replace(ended, sure=False)
