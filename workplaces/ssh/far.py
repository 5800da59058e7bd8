"""A machine over SSH, as the mirror needs one: a command line run there, bytes in, bytes out."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable

from workplaces.mirror.far import FarLost, Running
from workplaces.mirror.living import Living
from workplaces.place import PlaceUnavailable
from workplaces.ssh.channel import Channel
from workplaces.ssh.connection import Connection
from workplaces.words import PLACE_WORDS

_SILENCE = 180.0  # seconds without a byte after which nobody is there
_MOST_ERRORS = 64 * 1024
_AHEAD = 8  # pieces that are read before they are asked for
_JOIN = 10.0


class SshFar:
    """``Far`` over a connection. See there."""

    def __init__(self, connection: Connection, *, silence: float = _SILENCE) -> None:
        self._connection = connection
        self._silence = silence

    @property
    def name(self) -> str:
        return self._connection.host

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        return self._running(command, given, self._connection.program, self._connection.release)

    def stay(self, command: str, given: Iterable[bytes]) -> Running:
        """``run`` for what stays and waits: it is none of those that run at once, and keeps no connection in use."""
        return self._running(command, given, self._connection.resident, lambda: None)

    def _running(
        self, command: str, given: Iterable[bytes], start: Callable[[str], Channel], release: Callable[[], None]
    ) -> Running:
        try:
            channel = start(command)
        except PlaceUnavailable as error:
            raise FarLost(error.words, details=error.details) from error
        return _Running(self._connection, channel, given, self._silence, release)


def living(connection: Connection) -> Living:
    """A machine that is asked through one shell which lives on there, as long as the connection does."""
    far = SshFar(connection)
    made = Living(far, start=far.stay, used=connection.use)
    connection.before_drop = made.close
    return made


class _Running:
    def __init__(
        self,
        connection: Connection,
        channel: Channel,
        given: Iterable[bytes],
        silence: float,
        release: Callable[[], None],
    ) -> None:
        self._release = release
        self._connection = connection
        self._channel = channel
        self._silence = silence
        self._ahead: queue.Queue[bytes] = queue.Queue(maxsize=_AHEAD)
        self._errors = bytearray()
        self._failed: BaseException | None = None
        self._stopped = False
        self._ended = False
        self._threads = [
            threading.Thread(target=self._feed, args=(given,)),
            threading.Thread(target=self._listen),
            threading.Thread(target=self._read_ahead),
        ]
        for thread in self._threads:
            thread.name, thread.daemon = "conch-ssh-far", True
            thread.start()

    def read(self) -> bytes:
        if self._ended:
            return b""
        try:
            data = self._ahead.get(timeout=self._silence)
        except queue.Empty:
            self.stop()
            raise FarLost(PLACE_WORDS["ssh.silent"].format(host=self._connection.host)) from None
        self._ended = not data
        return data

    def end(self) -> tuple[int | None, bytes]:
        try:
            if not self._ended:
                self.stop()  # nobody reads the rest
            code = None if self._stopped else self._channel.status()
        finally:
            self._let_go()
        if self._failed is not None:
            raise self._failed
        errors = bytes(self._errors)
        if code == 255 and not self._stopped:
            # Nothing of ours ends so: the connection did.
            words = PLACE_WORDS["ssh.closed"].format(host=self._connection.host)
            raise FarLost(words, details=errors.decode(errors="replace"))
        return code, errors

    def stop(self) -> None:
        self._stopped = True
        self._channel.close()

    def _let_go(self) -> None:
        self._channel.close()
        self._ended = True
        while any(thread.is_alive() for thread in self._threads[1:]):
            with contextlib.suppress(queue.Empty):
                self._ahead.get(timeout=0.05)
        self._threads[0].join(_JOIN)
        if not self._threads[0].is_alive():
            self._channel.let_go()
        self._release()

    # ---- in threads ----

    def _feed(self, given: Iterable[bytes]) -> None:
        try:
            for data in given:
                if not self._channel.write(data):
                    return  # it ended before it read everything: its code says why
        except BaseException as error:  # noqa: BLE001 - it is given to who waits in end()
            self._failed = error
            self.stop()
        finally:
            self._channel.end_input()

    def _listen(self) -> None:
        while data := self._channel.read("err"):
            self._errors += data[: _MOST_ERRORS - len(self._errors)]

    def _read_ahead(self) -> None:
        while data := self._channel.read("out"):
            self._ahead.put(data)
        self._ahead.put(b"")
