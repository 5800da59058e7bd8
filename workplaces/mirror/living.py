"""A far side whose requests go over one shell there that lives on, instead of a program for each.

The shell reads requests from its standard input, one at a time. A request is a line: a key, the mark that ends the
answer, the size of the request's own input, and the script. The key is 128 random bits of this channel: should the two
sides ever lose step, what the shell reads next has no key before it, and it ends instead of running somebody's file.
Marks and key travel on standard input alone. The shell ends when its input does.

It is a quicker way and never another answer: whatever is wrong with it, a request that was not answered is run as a
program of its own, and the next one starts a new shell.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from workplaces.mirror import scripts, watching
from workplaces.mirror.far import BOOTSTRAP, Far, FarLost, Running, quoted

MOST_INPUT: Final = 256 * 1024
"""A request whose input (bytes) is larger gets a program of its own: it would keep the others waiting."""

IDLE: Final = 180.0
_PAUSE: Final = 60.0  # seconds without another try where it could not be had
_SENT: Final = 1.0
_MOST_NOISE: Final = 1024 * 1024
_TEXTS: Final = tuple(text.encode() for text in (scripts.LIST, scripts.PUSH, scripts.PULL))

# Only a dd that reads on until it has all of a block leaves what follows to the shell. What a script did not read of
# its input is read after it.
LOOP: Final = f"p={quoted(watching.LINE)}; " + scripts.line(r"""
case $(uname -s) in
  Linux) [ "$(exec python3 -I -S -c "$p" probe 2>/dev/null </dev/null)" != ok ] || exec python3 -I -S -c "$p" ;;
esac
exec 3<&0 </dev/null
IFS=' ' read -r h s <&3
b=$(printf abcd | (dd bs=3 count=1 iflag=fullblock && cat >/dev/null) 2>/dev/null)
[ "$b" = abc ] || b=no
printf '\n%s %s\n' "$h" "$b"
while IFS=' ' read -r k e z c <&3; do
  [ "$k" = "$s" ] || exit 1
  if [ "$z" = 0 ]; then
    (exec 3<&-; eval "$c")
  elif [ "$z" = - ]; then
    eval "$c"
    continue
  else
    dd bs="$z" count=1 iflag=fullblock <&3 2>/dev/null | (exec 3<&-; (eval "$c"); r=$?; cat >/dev/null; exit "$r")
  fi
  printf '\n%s %s\n' "$e" "$?"
done
""")

Start = Callable[[str, Iterable[bytes]], Running]


class Living:
    """``Far`` over another one. Requests at the same time get programs of their own, all but one.

    ``start`` starts the shell, as ``far.run`` does unless it is given. ``used`` is called whenever something comes.
    ``idle`` is how long (seconds) it lives unused.
    """

    def __init__(
        self,
        far: Far,
        *,
        start: Start | None = None,
        used: Callable[[], None] = lambda: None,
        idle: float = IDLE,
    ) -> None:
        self._far = far
        self._start = start or far.run
        self._used = used
        self._idle = idle
        self._busy = threading.Lock()
        self._shell: Shell | None = None
        self._not_before = 0.0

    @property
    def name(self) -> str:
        return self._far.name

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        if command != BOOTSTRAP:
            return self._far.run(command, given)
        parts = iter(given)
        taken: list[bytes] = []
        try:
            small = _take(parts, taken)
        except BaseException as error:  # noqa: BLE001 - it is given to who waits in end(), as when a thread feeds it
            return _Failed(error)
        if small and self._busy.acquire(blocking=False):
            try:
                shell = self._ready(takes=len(taken) > 1)
                if shell is not None:
                    return _Answer(self, shell, taken)
            except BaseException:
                self._busy.release()
                raise
            self._busy.release()
        return self._far.run(BOOTSTRAP, itertools.chain(taken, parts))

    def close(self) -> None:
        """Ends the shell there. Another request starts a new one. For any thread."""
        if self._busy.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._busy.release()
        elif (shell := self._shell) is not None:
            shell.stop()  # whoever uses it lets go of it

    def _ready(self, *, takes: bool) -> Shell | None:
        """The shell, None when it is not to be had (for a request with an input, if that it ``takes``)."""
        shell = self._shell
        if shell is not None and shell.over:
            self._drop()
            shell = None
        if shell is None:
            if time.monotonic() < self._not_before:
                return None
            shell = self._shell = Shell(self._start, self._idle)
            if not shell.greet():
                self._drop()
                self._not_before = time.monotonic() + _PAUSE
                return None
        return None if takes and not shell.takes else shell

    def _drop(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            with contextlib.suppress(FarLost):
                shell.end()

    # For an answer

    def again(self, taken: list[bytes]) -> Running:
        return self._far.run(BOOTSTRAP, taken)

    def came(self) -> None:
        self._used()

    def done(self, *, whole: bool) -> tuple[int | None, bytes]:
        """The answer is not read any more. Unless it was ``whole`` the shell is done with, and how it ended is told."""
        try:
            if whole or (shell := self._shell) is None:
                return None, b""
            self._shell = None
            return shell.end()
        finally:
            self._busy.release()


class Shell:
    """One shell there."""

    def __init__(self, start: Start, idle: float) -> None:
        """Raises FarLost when nothing can be started."""
        self.takes = False
        self.over = False
        self.held = bytearray()
        self._key = secrets.token_hex(16)
        self._hello = secrets.token_hex(16)
        self._idle = idle
        self._texts: set[int] = set()
        self._sent = threading.Event()
        self._to_send: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._running = start(BOOTSTRAP, self._input())

    def greet(self) -> bool:
        """Waits until it is there. Whether it is. Raises FarLost."""
        hello = f"\n{self._hello} ".encode()
        while (at := self.held.find(hello)) < 0 or (end := self.held.find(b"\n", at + 1)) < 0:
            data = self._running.read()
            if not data or len(self.held) > _MOST_NOISE:
                return False
            self.held += data
        self.takes = self.held[at + len(hello) : end] == b"abc"
        del self.held[: end + 1]
        return True

    def ask(self, end: str, taken: list[bytes]) -> None:
        """Sends a request: a line with a script, and what that reads."""
        line, sent = taken[0].removesuffix(b"\n"), b""
        for number, text in enumerate(_TEXTS):
            if line.endswith(text):  # a shell reads its input byte by byte: long texts come once
                if number not in self._texts:
                    self._texts.add(number)
                    word = quoted(text.decode())
                    sent = f"{self._key} - - t{number}={word}\n".encode()
                line = line.removesuffix(text) + b'eval "$t%d"' % number
        rest = b"".join(taken[1:])
        self._sent.clear()
        self._to_send.put(sent + f"{self._key} {end} {len(rest)} ".encode() + line + b"\n" + rest)
        self._sent.wait(_SENT)  # it is on its way before whoever asked is busy with something else

    def read(self) -> bytes:
        data = self._running.read()
        self.over |= not data
        return data

    def stop(self) -> None:
        self.over = True
        self._running.stop()

    def end(self) -> tuple[int | None, bytes]:
        """Raises FarLost."""
        self.over = True
        self._to_send.put(None)
        return self._running.end()

    def _input(self) -> Iterator[bytes]:
        try:
            yield f"{LOOP}\n{self._hello} {self._key}\n".encode()
            while (data := self._to_send.get(timeout=self._idle)) is not None:
                yield data
                self._sent.set()
        except queue.Empty:
            pass  # it is idle
        finally:  # also when nobody takes any more
            self.over = True
            self._sent.set()


class _Answer:
    """What a shell answers to one request; or a program of its own, when the shell was gone before it said a word."""

    def __init__(self, living: Living, shell: Shell, taken: list[bytes]) -> None:
        self._living = living
        self._shell = shell
        self._taken = taken
        end = secrets.token_hex(16)
        self._mark = f"\n{end} ".encode()
        self._lock = threading.Lock()
        self._instead: Running | None = None
        self._stopped = False
        self._begun = bool(shell.held)
        self._ended = False
        self._code: int | None = None
        shell.ask(end, taken)

    def read(self) -> bytes:
        if self._instead is not None:
            return self._instead.read()
        shell, held = self._shell, self._shell.held
        while True:
            given = self._next()
            if given or self._over():
                return given
            data = shell.read()
            if data:
                self._living.came()
                self._begun = True
                held += data
            elif self._begun or not self._other_way():
                return b""
            else:
                return self.read()

    def _over(self) -> bool:
        return self._ended

    def _next(self) -> bytes:
        """What of the answer is known to be one."""
        held, mark = self._shell.held, self._mark
        at = held.find(mark)
        if at < 0:
            at = max(0, len(held) - len(mark) + 1)
        elif (end := held.find(b"\n", at + len(mark))) >= 0:
            code = bytes(held[at + len(mark) : end])
            del held[at : end + 1]
            self._code = int(code) if code.isdigit() and len(code) < 4 else None
            self._ended = True
        given = bytes(held[:at])
        del held[:at]
        return given

    def _other_way(self) -> bool:
        with self._lock:
            if self._stopped:
                return False
            self._instead = self._living.again(self._taken)
        return True

    def end(self) -> tuple[int | None, bytes]:
        whole = self._ended and not self._stopped and not self._shell.held
        if self._instead is None:
            said = self._living.done(whole=whole)
            return (self._code, b"") if self._ended else said
        try:
            with contextlib.suppress(FarLost):
                self._living.done(whole=False)
        finally:
            answer = self._instead.end()
        return answer

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._instead is not None:
                self._instead.stop()
            elif not self._ended:
                self._shell.stop()


class _Failed:
    """A request whose input could not be made: nothing was sent."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def read(self) -> bytes:
        return b""

    def end(self) -> tuple[int | None, bytes]:
        raise self._error

    def stop(self) -> None:
        """Nothing runs."""


def _take(parts: Iterator[bytes], taken: list[bytes]) -> bool:
    """Takes all there is, or as much as shows that it is too much. Whether it was all."""
    size = 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size > MOST_INPUT:
            return False
    return True
