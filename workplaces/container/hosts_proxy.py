"""The proxy: HTTPS to the hosts on the list, and nothing else. It runs in Conch, in a thread of its own.

A program in a box asks it by ``CONNECT name:443`` (RFC 9110, 9.3.6). The name must be on the list; it is looked up
once, here; the connection goes to an address of that answer that is the internet's, and to no other; and what the
program says first must be TLS that asks for that very name, since one address serves many. Plain HTTP is refused
whatever the host: anybody on the way could read and change it, so a name would promise nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from workplaces.container.hosts import HTTPS, HostList, Tried, is_public, plain_name
from workplaces.container.hosts_pipe import Connection
from workplaces.container.hosts_tls import NotTls, first_message
from workplaces.threads import in_thread
from workplaces.words import PLACE_WORDS

T = TypeVar("T")

_LONGEST_HEAD = 16 * 1024
_HEAD_LIMIT = 30.0
_LOOK_UP_LIMIT = 10.0
_CONNECT_LIMIT = 10.0
_TRY_LIMIT = 3.0  # where there is another address
_PIECE = 64 * 1024
_CONNECT = re.compile(rb"CONNECT ([^ ]+) HTTP/1\.[01]")
_OTHER = re.compile(rb"[A-Z]+ ([^ ]+) HTTP/1\.[01]")
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 504: "Gateway Timeout"}

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Gives a name's addresses, best first. Raises OSError."""
Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to an address, which is never a name. Raises OSError."""


async def look_up(name: str) -> list[str]:
    """As this computer's own programs look names up."""
    found = await in_thread(lambda: socket.getaddrinfo(name, HTTPS, type=socket.SOCK_STREAM), "conch-look-up")
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def dial(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address, port)


class _Refused(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True)
class Proxy:
    """What one command may reach. ``tried`` takes what it was refused, ``inward`` listed names that lead inwards."""

    hosts: HostList
    tried: Tried
    inward: Tried
    resolve: Resolve = look_up
    dial: Dial = dial

    async def serve(self, box: Connection) -> None:
        """One connection of a program in the box, to its end. Raises OSError when the program goes away."""
        try:
            name, rest = await self._asked(box)
            there, back = await self._reach(name)
        except _Refused as refused:
            await _answer(box, refused.status, str(refused))
            return
        try:
            await box.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._pass_on(box, name, rest, there, back)
        finally:
            back.close()

    def hear_name(self, question: bytes) -> None:
        """A program looked a name up by itself, as DNS writes it. It got no answer."""
        labels = []
        while question and (length := question[0]):
            labels.append(question[1 : 1 + length].decode("ascii", "replace"))
            question = question[1 + length :]
        if labels:
            self.tried.add(".".join(labels), "")

    async def _asked(self, box: Connection) -> tuple[str, bytes]:
        """The name to connect to, which is on the list, and what came after the request. Raises _Refused."""
        line, rest = await _head(box)
        if (found := _CONNECT.fullmatch(line)) is None:
            if (other := _OTHER.fullmatch(line)) is not None:
                self._refuse_plain(other[1].decode("ascii", "replace"))
            raise _Refused(400, PLACE_WORDS["hosts.answer.not-http"])
        host, _, port = found[1].decode("ascii", "replace").rpartition(":")
        name = plain_name(host)
        if not name or not self.hosts.allows(name):
            self.tried.add(host, port)
            raise _Refused(403, PLACE_WORDS["hosts.answer.not-listed"].format(host=name or "?"))
        if port != str(HTTPS):
            self.tried.add(host, port)
            raise _Refused(403, PLACE_WORDS["hosts.answer.port"])
        return name, rest

    def _refuse_plain(self, address: str) -> None:
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or "", parts.port or 80
        except ValueError:
            host, port = "", 80
        if host:
            self.tried.add(host, port)
            raise _Refused(403, PLACE_WORDS["hosts.answer.plain"])

    async def _reach(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Looks the name up, once, and connects to what was found. Raises _Refused."""
        try:
            found = await asyncio.wait_for(self.resolve(name), _LOOK_UP_LIMIT)
        except (OSError, UnicodeError, TimeoutError):
            raise _Refused(502, PLACE_WORDS["hosts.answer.unknown"].format(host=name)) from None
        good = [address for address in found if is_public(address)]
        if not good:
            (self.inward if found else Tried()).add(name, HTTPS)
            raise _Refused(403, PLACE_WORDS["hosts.answer.inward"].format(host=name))
        for address in good:
            limit = _CONNECT_LIMIT if address == good[-1] else _TRY_LIMIT
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(self.dial(address, HTTPS), limit)
        raise _Refused(504, PLACE_WORDS["hosts.answer.silent"].format(host=name))

    async def _pass_on(
        self,
        box: Connection,
        name: str,
        rest: bytes,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        begun = [rest] if rest else []

        async def more() -> bytes:
            return begun.pop() if begun else await box.read()

        try:
            first, asked = await asyncio.wait_for(first_message(more), _HEAD_LIMIT)
        except (EOFError, TimeoutError):
            return
        except NotTls:
            self.tried.add(name, HTTPS)
            return
        if plain_name(asked) != name:
            self.tried.add(asked or name, HTTPS)
            return
        back.write(first)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_out(box, back))
                both.create_task(_in(there, box))
        except* OSError:  # one of the two is gone, and so is the other then
            pass


async def _out(box: Connection, back: asyncio.StreamWriter) -> None:
    await back.drain()
    while data := await box.read(_PIECE):
        back.write(data)
        await back.drain()
    if back.can_write_eof():
        back.write_eof()


async def _in(there: asyncio.StreamReader, box: Connection) -> None:
    while data := await there.read(_PIECE):
        await box.write(data)
    box.end()


async def _head(box: Connection) -> tuple[bytes, bytes]:
    """The first line of a request, and what came after its headers. Raises _Refused."""
    head = b""
    try:
        async with asyncio.timeout(_HEAD_LIMIT):
            while b"\r\n\r\n" not in head:
                data = await box.read()
                if not data or len(head) > _LONGEST_HEAD:
                    raise _Refused(400, PLACE_WORDS["hosts.answer.not-http"])
                head += data
    except TimeoutError:
        raise _Refused(400, PLACE_WORDS["hosts.answer.not-http"]) from None
    headers, _, rest = head.partition(b"\r\n\r\n")
    return headers.partition(b"\r\n")[0], rest


async def _answer(box: Connection, status: int, words: str) -> None:
    body = f"{words}\n".encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    await box.write(head.encode("ascii") + body)
    box.end()
    with contextlib.suppress(TimeoutError):  # what the program still says is let go, so that it sees the answer whole
        async with asyncio.timeout(1.0):
            while await box.read():
                pass


class ProxyThread:
    """The loop that all connections live on, in a thread of its own: the window's never waits for it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="conch-hosts", daemon=True).start()

    def ask(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Runs it there; the answer comes to the loop that asks."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
