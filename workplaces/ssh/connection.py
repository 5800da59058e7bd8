"""The connection to one machine: made when something is to run there, kept for the next, made anew when it broke.

Everything here blocks and may be called from any thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workplaces.output import Stream
from workplaces.place import PlaceUnavailable
from workplaces.ssh import script
from workplaces.ssh.channel import Channel, Full, Gone
from workplaces.ssh.facts import Facts, read_facts
from workplaces.ssh.lines import IDLE, CannotShare, Line, SeparateLine, SharedLine, Ssh, Way
from workplaces.ssh.shells import as_taken, begin_talk, close, start_shell
from workplaces.ssh.talk import Take, Talk
from workplaces.ssh.trouble import is_full, is_gone, trouble, was_never_in

SESSIONS = 8  # programs at once: sshd takes ten on one connection unless told otherwise (MaxSessions)
_LOOK_LIMIT = 30.0
_SWEEP_LIMIT = 20.0
_FULL_LIMIT = 20.0
_NAP = 0.1
_LONGEST_ANSWER = 64 * 1024

Stopping = Callable[[], bool]


def never() -> bool:
    return False


class Connection:
    """``host`` as the settings name it. ``folder`` is Conch's own; ``kinds`` are the ways tried, the best first."""

    def __init__(
        self, host: str, folder: Path, settings: Path, *, kinds: Sequence[str] = (), program: str = ""
    ) -> None:
        self.host = host
        self._folder = folder
        self._settings = settings
        self._kinds = tuple(kinds) or (("library", "separate") if sys.platform == "win32" else ("shared", "separate"))
        self._program = program
        # A name of this process's own: another Conch's socket is never taken for ours.
        text = f"{host}\0{secrets.token_hex(16)}"
        self._name = f"c{hashlib.sha256(text.encode()).hexdigest()[:14]}"
        self._making = threading.Lock()
        self._slots = threading.BoundedSemaphore(SESSIONS)
        self._in_use = 0
        self._counting = threading.Lock()
        self._last_use = time.monotonic()
        self._way: Way | None = None
        self._line: Line | None = None
        self._closed = False
        self._facts: Facts | None = None
        self._ahead: tuple[Line, Channel] | None = None
        self.before_drop: Callable[[], None] = lambda: None  # what stays there ends before the line does

    # ---- its life ----

    @property
    def up(self) -> bool:
        line = self._line
        return line is not None and self._facts is not None and line.up

    @property
    def facts(self) -> Facts | None:
        """What is known of the machine, None before it was reached once."""
        return self._facts

    def ready(self) -> Facts:
        """Connects unless it is connected. Raises PlaceUnavailable, with why it cannot."""
        with self._making:
            self._refuse_closed()
            if self._facts is not None and self._line is not None and self._line.up:
                return self._facts
            self._drop()
            try:
                facts = self._connect()
                self._refuse_closed()
                self._facts = facts
            except Gone as error:
                self._drop()
                raise trouble("full" if isinstance(error, Full) else "closed", self.host, str(error)) from error
            except BaseException:
                self._drop()
                raise
            return facts

    def _refuse_closed(self) -> None:
        if self._closed:
            raise trouble("closed", self.host, "Conch is ending")

    def look(self) -> Facts:
        """Whether it answers now: connects, or asks it again. Raises PlaceUnavailable."""
        before = self._facts
        facts = self.ready()
        if facts is not before or self._in_use:
            return facts  # it was reached just now, or commands run on it
        with self._making:
            line, way = self._line, self._way
            if line is not None and way is not None and line.up:
                with contextlib.suppress(Gone, PlaceUnavailable):
                    self._facts = self._ask(line, way, (facts.boot,))
                    return self._facts
            if not self._in_use:
                self._drop()
        return self.ready()

    def tidy(self) -> None:
        """Closes it when nobody used it for IDLE seconds."""
        if self._line is not None and self._making.acquire(blocking=False):
            try:
                # whoever is to use it counts first, and only then asks whether it is connected
                with self._counting:
                    idle = self._in_use == 0 and time.monotonic() - self._last_use > IDLE
                if idle:
                    self._drop()
            finally:
                self._making.release()

    def close(self) -> None:
        """Closes it for good, also one that is being made. What runs on it is its callers' to end first."""
        self._closed = True
        line = self._line
        if line is not None:
            line.abort()
        with self._making:
            self._drop()

    def _drop(self) -> None:
        self.before_drop()
        self.forget_ahead()
        line, self._line = self._line, None
        way, self._way = self._way, None
        self._facts = None
        if line is not None:
            line.close()
        if way is not None:
            way.forget()

    def _connect(self) -> Facts:
        ssh = Ssh.find(self._folder, self._settings, self._program)
        way = self._way = Way(ssh, self.host, self._name)
        why: PlaceUnavailable | None = None
        for kind in self._kinds:
            line = _line(kind, way)
            self._line = line
            try:
                line.open()
                return self._ask(line, way, (script.BOOT, script.BOOT_RESTRICTED, ""))
            except CannotShare as error:
                line.close()
                why = why or error.words
        raise why or trouble("failed", self.host, "no way was left")

    def _ask(self, line: Line, way: Way, boots: Sequence[str]) -> Facts:
        """Asks the machine what it is, by the first line that its login shell takes."""
        said: list[str] = []
        for boot in boots:
            mark = secrets.token_hex(16)
            heard = bytearray()
            began = time.monotonic()
            talk = begin_talk(line, boot, mark, _hearing(heard))
            try:
                talk.send(script.plain(mark, script.look()))
                talk.end_input()
                in_time = talk.wait_over(_LOOK_LIMIT)
                if talk.end is not None:
                    return read_facts(bytes(heard), line, way, boot, talk.begun_at - began)
                noise = talk.noise()
                if not in_time:
                    raise trouble("silent", self.host, noise)
                status = talk.status()
            finally:
                talk.close()
            if is_full(noise) and line.kind != "separate":
                raise trouble("full", self.host, noise)
            if status == 255 and not talk.begun:
                raise way.why(noise)
            said.append(f"{boot}: {status} {noise}")
        word = "no-shell" if all(": 127 " in one or ": 126 " in one for one in said[:2]) else "login"
        raise trouble(word, self.host, "\n".join(said))

    # ---- what runs on it ----

    def begin(self, data: Callable[[str], bytes], take: Take, stopping: Stopping = never) -> Talk | None:
        """Starts a script there and gives it once it was reached, or is over without.

        ``data`` gives what to send, for a mark. None when ``stopping`` before anything was sent. Raises
        PlaceUnavailable when it is sure that nothing ran. What it gives must be closed with ``finish``.
        """
        again = 2
        until = time.monotonic() + _FULL_LIMIT
        line: Line | None = None
        while self._take_slot(stopping):
            kept = False
            try:
                mark = secrets.token_hex(16)
                line, boot = self._reached()
                talk = self._talk(line, boot, mark, take)
                try:
                    talk.send(data(mark))
                    talk.wait_begun(stopping, _LOOK_LIMIT)
                    if not talk.over or talk.begun or not self._nothing_ran(talk):
                        kept = True
                        return talk
                finally:
                    if not kept:
                        talk.close()
            except Full as error:
                if time.monotonic() > until:
                    raise trouble("full", self.host, str(error)) from error
                time.sleep(_NAP)
            except Gone as error:
                again -= 1
                if not again:
                    raise trouble("closed", self.host, str(error)) from error
                self._broke(line)
            finally:
                if not kept:
                    self._free_slot()
        return None

    def open_ahead(self, stopping: Stopping = never) -> None:
        """Opens the channel of the next script, which then need not wait for it. Nothing is sent. Never raises.

        There is one at most. ``forget_ahead`` when no script came, after ``stopping`` says that none will.
        """
        with contextlib.suppress(Gone, PlaceUnavailable):
            line, boot = self._reached()
            if self._ahead is None:
                opened = line, start_shell(line, boot or "\n" + script.BOOT)
                with self._counting:
                    kept = self._ahead is None and self._line is line
                    if kept:
                        self._ahead = opened
                if not kept:
                    close(opened[1])
                elif stopping():
                    self.forget_ahead()

    def forget_ahead(self) -> None:
        """Closes the channel that was opened ahead, unless a script took it."""
        with self._counting:
            ahead, self._ahead = self._ahead, None
        if ahead is not None:
            close(ahead[1])

    def _talk(self, line: Line, boot: str, mark: str, take: Take) -> Talk:
        with self._counting:
            ahead, self._ahead = self._ahead, None
        if ahead is not None:
            if ahead[0] is line and ahead[1].alive:
                return Talk(ahead[1], mark, take)
            close(ahead[1])
        return begin_talk(line, boot, mark, take)

    def finish(self, talk: Talk) -> None:
        """Lets go of what ``begin`` gave."""
        try:
            talk.close()
        finally:
            self._free_slot()

    def sweep(self, run: str, session: str = "") -> bool:
        """Ends what is left of a run there. Whether it is sure that nothing of it lives; never raises."""
        heard = bytearray()
        try:
            talk = self.begin(
                lambda mark: script.plain(mark, script.sweep(run, session)),
                _hearing(heard),
            )
        except PlaceUnavailable:
            return False
        if talk is None:
            return False
        try:
            talk.end_input()
            talk.wait_over(_SWEEP_LIMIT)
        finally:
            self.finish(talk)
        return bytes(heard) == b"gone\n"

    def program(self, command: str) -> Channel:
        """Gives a command line to the login shell there, as it is. Raises PlaceUnavailable.

        A line that begins as BOOT does is changed where the login shell takes another. ``release`` it afterwards.
        """
        self._take_slot(never)
        try:
            return self.resident(command)
        except BaseException:
            self._free_slot()
            raise

    def resident(self, command: str) -> Channel:
        """``program`` for what stays there. It does not keep the connection: it ends when nothing else uses that."""
        line: Line | None = None
        for attempt in range(3):
            try:
                line, boot = self._reached()
                return start_shell(line, as_taken(command, boot))
            except Gone as error:
                if attempt == 2:
                    raise trouble("closed", self.host, str(error)) from error
                self._broke(line)
        raise AssertionError("the last attempt gives it or raises")

    def use(self) -> None:
        """Something came over it: it is not idle."""
        self._last_use = time.monotonic()

    def release(self) -> None:
        """One program that ``program`` started is done with."""
        self._free_slot()

    def _reached(self) -> tuple[Line, str]:
        """The line, connected, and what its login shell takes. Raises PlaceUnavailable and Gone."""
        boot = self.ready().boot
        line = self._line
        if line is None:
            raise Gone("it was closed")
        return line, boot

    def _nothing_ran(self, talk: Talk) -> bool:
        """What became of a script that was not reached. Raises when it is sure that it did not run, with why."""
        noise = talk.noise()
        status = talk.status()
        line, way = self._line, self._way
        shared = line is not None and line.kind != "separate"
        if shared and is_full(noise):
            raise Full(noise)
        if shared and is_gone(noise):
            raise Gone(noise)
        if status == 255 and not shared and way is not None and was_never_in(noise):
            raise way.why(noise)
        if status in (126, 127):
            raise trouble("no-shell", self.host, noise)
        return False

    def _broke(self, line: Line | None) -> None:
        """That connection is not there any more: the next that needs one makes it, unless somebody did already."""
        with self._making:
            if self._line is line:
                self._drop()

    def _take_slot(self, stopping: Stopping) -> bool:
        """Waits until one more program may run there. False when it is not wanted any more."""
        while not stopping():
            if self._slots.acquire(timeout=_NAP):
                with self._counting:
                    self._in_use += 1
                return True
        return False

    def _free_slot(self) -> None:
        with self._counting:
            self._in_use -= 1
            self._last_use = time.monotonic()
        self._slots.release()


def _line(kind: str, way: Way) -> Line:
    if kind == "shared":
        return SharedLine(way)
    if kind == "separate":
        return SeparateLine(way)
    from workplaces.ssh.library import LibraryLine

    return LibraryLine(way)


def _hearing(heard: bytearray) -> Take:
    def take(stream: Stream, data: bytes) -> None:
        if stream == "out":
            heard.extend(data[: max(0, _LONGEST_ANSWER - len(heard))])

    return take
