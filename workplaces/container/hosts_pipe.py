"""Conch's end of the door: the connections that the relay in a door takes, each as a pair of a reader and a writer.

The engine's attached connection is read and written by a thread each, since it may be a socket, or a pipe of Windows.
Everything else is on the loop of the proxy's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import secrets
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from workplaces.container import wire
from workplaces.container.hosts_relay import HEADER, MOST, PIECE, WINDOW

_MOST_SAID = 4096
_MOST_UNTAKEN = 64  # pieces that the loop has not come to; the relay waits meanwhile, and with it who floods it
_MOST_HELD = 4 * MOST  # the relay keeps to its own; one that it has done with may take a moment here


class Broken(ConnectionError):
    """What came is not what a relay says."""


class Connection:
    """One connection of a program in the box. Only used on the proxy's loop."""

    def __init__(self, pipe: Pipe, number: int) -> None:
        self._pipe = pipe
        self._number = number
        self._given = bytearray()
        self._room = WINDOW  # how much more may come
        self._at_end = False
        self._credit = WINDOW  # how much more may go
        self._gone = False
        self._said_end = False
        self._changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def read(self, most: int = PIECE) -> bytes:
        """Some bytes, none at the end. Raises ConnectionError when it is gone."""
        while not self._given and not self._at_end:
            await self._wait()
        data = bytes(self._given[:most])
        del self._given[:most]
        if data:
            self._room += len(data)
            self._pipe.say(b"W", self._number, len(data).to_bytes(4, "big"))
        return data

    async def write(self, data: bytes) -> None:
        """Returns when all of it is on its way. Raises ConnectionError when it is gone."""
        view = memoryview(data)
        while len(view):
            while self._credit <= 0:
                await self._wait()
            self._check()
            count = min(len(view), self._credit, PIECE)
            self._credit -= count
            self._pipe.say(b"D", self._number, bytes(view[:count]))
            view = view[count:]

    def end(self) -> None:
        """No more bytes go there."""
        if not self._said_end and not self._gone:
            self._said_end = True
            self._pipe.say(b"E", self._number)

    def close(self) -> None:
        if not self._gone and not (self._said_end and self._at_end):
            self._pipe.say(b"R", self._number)
        self.lose()

    def lose(self) -> None:
        self._gone = True
        self._pipe.forget(self._number)
        self._changed.set()

    def take(self, kind: bytes, body: bytes) -> None:
        if kind == b"D":
            self._room -= len(body)
            if self._room < 0 or self._at_end:
                raise Broken("more came than was asked for")
            self._given += body
        elif kind == b"E":
            self._at_end = True
        elif kind == b"W":
            self._credit = min(self._credit + int.from_bytes(body, "big"), WINDOW)
        else:
            self.lose()
        self._changed.set()

    async def _wait(self) -> None:
        self._check()
        self._changed.clear()
        await self._changed.wait()
        self._check()

    def _check(self) -> None:
        if self._gone:
            raise ConnectionAbortedError("it is gone")


Serve = Callable[[Connection], Coroutine[Any, Any, None]]
OnName = Callable[[bytes], None]


class Pipe:
    """The frames of one door. ``serve`` is started for each connection, on ``loop``; ``on_name`` told of names asked.

    Both are None while no command has the door: what comes then is closed at once.
    """

    def __init__(self, attached: wire.Attached, loop: asyncio.AbstractEventLoop) -> None:
        self._attached = attached
        self._loop = loop
        self._connections: dict[int, Connection] = {}
        self._serve: Serve | None = None
        self._on_name: OnName | None = None
        self._going: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._given = bytearray()
        self._pings: dict[bytes, asyncio.Future[None]] = {}
        self._untaken = threading.Semaphore(_MOST_UNTAKEN)
        self.said = b""  # what came on stderr: why there is no relay
        self.here = threading.Event()  # the relay is there, or will never be
        self.dead = False

    def start(self) -> None:
        """From any thread."""
        threading.Thread(target=self._read, name="conch-door-read", daemon=True).start()
        threading.Thread(target=self._write, name="conch-door-write", daemon=True).start()

    # On the loop

    @property
    def idle(self) -> bool:
        """Whether no connection is open."""
        return not self._connections

    def say(self, kind: bytes, number: int, data: bytes = b"") -> None:
        if not self.dead:
            self._going.put(HEADER.pack(kind, number, len(data)) + data)

    def forget(self, number: int) -> None:
        self._connections.pop(number, None)

    def let(self, serve: Serve, on_name: OnName) -> None:
        self._serve, self._on_name = serve, on_name

    async def shut(self) -> None:
        """Nobody is served any more, and whoever was is cut off."""
        self._serve = self._on_name = None
        tasks = [one.task for one in self._connections.values() if one.task is not None]
        for one in list(self._connections.values()):
            one.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ping(self, limit: float) -> bool:
        """Whether the relay answers in time. What it had been told by programs before is here then."""
        if self.dead:
            return False
        mark = secrets.token_bytes(8)
        waiting = self._pings[mark] = self._loop.create_future()
        self.say(b"P", 0, mark)
        await asyncio.wait({waiting}, timeout=limit)
        self._pings.pop(mark, None)
        return waiting.done() and not self.dead

    def _take(self, frames: list[tuple[bytes, int, bytes]]) -> None:
        self._untaken.release()
        for kind, number, body in frames:
            if kind == b"O":
                self._accept(number)
            elif kind == b"P":
                if (waiting := self._pings.get(body)) is not None and not waiting.done():
                    waiting.set_result(None)
            elif kind == b"N":
                if self._on_name is not None:
                    self._on_name(body)
            elif (one := self._connections.get(number)) is not None:
                try:
                    one.take(kind, body)
                except Broken:
                    self.close()
                    return

    def _accept(self, number: int) -> None:
        one = Connection(self, number)
        if self._serve is None or len(self._connections) >= _MOST_HELD:
            self.say(b"R", number)
            return
        self._connections[number] = one
        one.task = self._loop.create_task(_served(self._serve, one))

    def _lost(self) -> None:
        for one in list(self._connections.values()):
            one.lose()
        for waiting in self._pings.values():
            if not waiting.done():
                waiting.set_result(None)

    # From any thread

    def close(self) -> None:
        """Ends the connection, and with it the relay."""
        self.dead = True
        self._untaken.release(_MOST_UNTAKEN)  # a reader that waits goes on, and sees the end
        self._going.put(None)
        wire.shut(self._attached.sock)

    def _read(self) -> None:
        try:
            for stream, data in wire.read_frames(self._attached):
                if stream == "err":
                    self.said = (self.said + data)[-_MOST_SAID:]
                    continue
                self._given += data
                if frames := self._parse():
                    self._untaken.acquire()
                    self._loop.call_soon_threadsafe(self._take, frames)
        except (OSError, RuntimeError):  # the engine is gone, the relay does not speak as one, or the loop is closed
            pass
        finally:
            self.close()
            self._attached.sock.close()
            self.here.set()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._lost)

    def _parse(self) -> list[tuple[bytes, int, bytes]]:
        frames = []
        at = 0
        while len(self._given) - at >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._given, at)
            if kind not in b"HODERWPN":
                raise Broken(f"not a relay: {bytes(self._given[:40])!r}")
            end = at + HEADER.size + length
            if len(self._given) < end:
                break
            if kind == b"H":
                self.here.set()
            else:
                frames.append((kind, number, bytes(self._given[at + HEADER.size : end])))
            at = end
        del self._given[:at]
        return frames

    def _write(self) -> None:
        try:
            while (data := self._going.get()) is not None:
                self._attached.sock.sendall(data)
        except OSError:
            self.close()


async def _served(serve: Serve, one: Connection) -> None:
    try:
        await serve(one)
    except (OSError, asyncio.CancelledError):
        pass
    finally:
        one.close()
