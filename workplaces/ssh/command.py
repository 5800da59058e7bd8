"""One command there: started, heard, ended with everything that came of it, and looked after when the line breaks."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from workplaces.output import OutputKeeper, Stream
from workplaces.place import PlaceUnavailable
from workplaces.ssh import script
from workplaces.ssh.connection import Connection
from workplaces.ssh.talk import Talk
from workplaces.ssh.trouble import trouble

BEAT = 10.0  # seconds between the words that tell the machine that we are still here
SILENCE = 60  # seconds without one after which it ends the command by itself
START_LIMIT = 60.0
STOP_LIMIT = 10.0
_PUMP = 1 / 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. ``code`` is None when that was not seen, or it was ended.

    ``started`` is False when it is sure that it never was. ``folder`` is where it ran, as it was seen there; ``lost``
    says that the connection broke; ``silent`` that the machine ended it because it heard nothing from here for too
    long; ``whole`` is False when some of its output may be missing.
    """

    code: int | None = None
    started: bool = True
    timed_out: bool = False
    sure: bool = True
    seconds: float = 0.0
    folder: str = ""
    lost: bool = False
    silent: bool = False
    whole: bool = True


class _NotWanted(Exception):
    """It was stopped before anything was sent."""


class Command:
    """``run`` blocks, in a thread; ``stop`` is for any other. ``folder`` is absolute, there."""

    def __init__(
        self,
        connection: Connection,
        command: str | tuple[str, ...],
        folder: str,
        output: OutputKeeper,
        timeout: float,
        *,
        beat: float = BEAT,
        silence: int = SILENCE,
    ) -> None:
        self._connection = connection
        self._command = command
        self._folder = folder
        self._output = output
        self._timeout = timeout
        self._beat = beat
        self._silence = silence
        self._run = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._talk: Talk | None = None
        self._stopping = False
        self._sent = False

    @property
    def sent(self) -> bool:
        """Whether it was given to the machine. What was stopped before that never is."""
        with self._lock:
            return self._sent

    def stop(self) -> None:
        """Ends it. ``run`` comes back when all of it is dead there, or that cannot be seen."""
        with self._lock:
            self._stopping = True
            talk = self._talk
        if talk is not None:
            talk.stir()

    def run(self) -> Ended:
        """Raises PlaceUnavailable when nothing ran."""
        try:
            talk = self._connection.begin(self._data, self._take, self._is_stopping)
        except _NotWanted:
            talk = None
        if talk is None:
            return Ended(started=False)
        with self._lock:
            self._talk = talk
        try:
            began = talk.begun_at or time.monotonic()
            timed_out = not self._follow(talk, began)
            if timed_out or self._stopping:
                talk.send(b"stop\n")
                talk.wait_over(STOP_LIMIT)
            seconds = time.monotonic() - began
        finally:
            with self._lock:
                self._talk = None
            self._connection.finish(talk)
        return self._made_of(talk, seconds, timed_out=timed_out)

    def _data(self, mark: str) -> bytes:
        with self._lock:
            if self._stopping:
                raise _NotWanted
            self._sent = True
        return script.run(mark, self._run, self._folder, self._command, self._silence)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _take(self, stream: Stream, data: bytes) -> None:
        self._output.feed(stream, data)

    def _follow(self, talk: Talk, began: float) -> bool:
        """Waits for the end, telling the machine now and then that we are here. False when the time is over."""
        beat = time.monotonic() + self._beat
        while not (talk.over or self._stopping):
            now = time.monotonic()
            # its time begins when it does
            deadline = (talk.begun_at + self._timeout) if talk.begun else (began + START_LIMIT)
            if now >= deadline:
                return False
            if now >= beat:
                talk.send(b"beat\n")
                beat = now + self._beat
            wait = min(deadline, beat) - now
            if self._output.waiting:
                self._output.pump()
                wait = min(wait, _PUMP)
            talk.wait(self._is_other(talk, talk.begun), wait)
        return True

    def _is_other(self, talk: Talk, begun: bool) -> Callable[[], bool]:
        return lambda: talk.over or self._stopping or talk.begun != begun

    def _made_of(self, talk: Talk, seconds: float, *, timed_out: bool) -> Ended:
        folder = next((words[3:] for words in talk.said if words.startswith("at ")), "")
        if talk.end is not None:
            if talk.end[:1] == ["folder"]:
                raise self._no_folder(" ".join(talk.end[1:]))
            code = int(talk.end[0]) if talk.end[:1] and talk.end[0].isdecimal() else None
            sure = talk.end[-1] == "sure" or self._sweep(talk)
            silent = "silent" in talk.said and not timed_out and not self._stopping
            return Ended(
                code=None if timed_out or self._stopping or silent else code,
                timed_out=timed_out,
                sure=sure,
                seconds=seconds,
                folder=folder,
                silent=silent,
                whole=talk.whole,
            )
        # The machine did not say how it ended: the line broke, or what looked after it there was ended too.
        sure = self._sweep(talk)
        lost = not timed_out and not self._stopping
        started = talk.begun or not sure
        if not started and not self._stopping:
            raise trouble("closed", self._connection.host, talk.noise())
        return Ended(
            started=started, timed_out=timed_out, sure=sure, seconds=seconds, folder=folder, lost=lost, whole=False
        )

    def _sweep(self, talk: Talk) -> bool:
        session = next((words[8:] for words in talk.said if words.startswith("session ")), "")
        return self._connection.sweep(self._run, session)

    def _no_folder(self, said: str) -> PlaceUnavailable:
        host = self._connection.host
        low = said.lower()
        if "no space" in low or "quota" in low:
            return trouble("space", host, said)
        if "permission" in low or "read-only" in low:
            return trouble("home", host, said)
        return trouble("copy-gone", host, said)
