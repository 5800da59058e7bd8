"""The engine's socket, where the SDK cannot be used: output taken over the raw connection, and pulls that can be cut.

Attaching through the SDK leaves bytes that came with the HTTP headers in a buffer that is then lost, and gives no way
to end a request that never answers. Here the socket is ours.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from workplaces.container.contexts import Endpoint
from workplaces.output import Stream

CONNECT_LIMIT = 3.0
_CHUNK = 256 * 1024
_LONGEST_HEADERS = 64 * 1024
_LONGEST_ANSWER = 4 * 1024 * 1024
_STREAMS: dict[int, Stream] = {0: "out", 1: "out", 2: "err", 3: "err"}  # 0 is stdin's echo, 3 the engine's own words


class BadAnswer(OSError):
    """What came is not what an engine says."""


class Refused(BadAnswer):
    """The engine said no. ``text`` is what it said, empty when that could not be read."""

    def __init__(self, words: str, status: int, text: str) -> None:
        super().__init__(words)
        self.status = status
        self.text = text


def connect(endpoint: Endpoint, limit: float = CONNECT_LIMIT) -> socket.socket:
    """A new connection to the engine. Raises OSError. ``limit`` seconds hold for each step until it is changed."""
    parts = urlsplit(endpoint.address)
    if parts.scheme == "unix":
        if sys.platform == "win32":
            raise BadAnswer("unix sockets of an engine are not used on Windows")
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(limit)
            made.connect(endpoint.path)
        except BaseException:
            made.close()
            raise
        return made
    if parts.scheme == "npipe":
        return _pipe(endpoint, limit)
    plain = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 2375), timeout=limit)
    if endpoint.tls is None:
        return plain
    try:
        return endpoint.tls.context().wrap_socket(plain, server_hostname=parts.hostname)
    except BaseException:
        plain.close()
        raise


def _pipe(endpoint: Endpoint, limit: float) -> socket.socket:
    from docker.transport import NpipeSocket

    made: Any = NpipeSocket()  # it has the part of a socket that is used here
    made.settimeout(int(limit))
    made.connect(endpoint.path)
    return cast(socket.socket, made)


class EngineConnection(http.client.HTTPConnection):
    """One HTTP connection to the engine, on a socket that another thread may shut."""

    def __init__(self, endpoint: Endpoint, limit: float) -> None:
        super().__init__("localhost", timeout=limit)
        self._endpoint = endpoint
        self._raw: socket.socket | None = None  # `sock` is taken away when an answer ends with its connection

    def connect(self) -> None:
        self.sock = self._raw = connect(self._endpoint, self.timeout or CONNECT_LIMIT)

    def cut(self) -> None:
        """Ends whatever waits on this connection, from any thread."""
        if (raw := self._raw) is not None:
            shut(raw)


def post(endpoint: Endpoint, path: str, limit: float) -> int:
    """One POST on a connection of its own, which is gone afterwards. Gives the status. Raises OSError."""
    connection = EngineConnection(endpoint, limit)
    try:
        connection.request("POST", path)
        return connection.getresponse().status
    except http.client.HTTPException as error:
        raise BadAnswer(repr(error)) from error
    finally:
        connection.close()


def ask(endpoint: Endpoint, path: str, limit: float) -> socket.socket:
    """Sends one GET on a connection of its own, for ``answer`` to read. Raises OSError."""
    sock = connect(endpoint, limit)
    try:
        sock.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode("ascii"))
    except BaseException:
        sock.close()
        raise
    return sock


def answer(sock: socket.socket) -> tuple[int, bytes]:
    """Status and content of what was asked, read by hand: a third of what a library takes. Raises OSError."""
    told = b""
    with contextlib.closing(sock):
        while len(told) < _LONGEST_ANSWER and (data := sock.recv(_CHUNK)):
            told += data
    head, _, content = told.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise BadAnswer(f"not an engine's answer: {head[:200]!r}")
    return int(words[1]), content


def shut(sock: socket.socket) -> None:
    """Wakes a thread that reads the socket: it sees the end. Closing alone would leave it waiting."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except (OSError, AttributeError):
        return


@dataclass(frozen=True, slots=True)
class Attached:
    """A box's stdin and output. ``early`` is what already came with the headers."""

    sock: socket.socket
    early: bytes


def attach(endpoint: Endpoint, api: str, box: str, limit: float) -> Attached:
    """Takes over a connection for a box's stdin, stdout and stderr. To be asked for before the box is started.

    Raises OSError, Refused when the engine refuses. Reading has no time limit afterwards.
    """
    sock = connect(endpoint, limit)
    try:
        sock.sendall(
            f"POST /v{api}/containers/{box}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\nHost: localhost\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode("ascii")
        )
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(4096)
            if not data or len(head) > _LONGEST_HEADERS:
                raise BadAnswer(f"attach ended in its headers: {head[:200]!r}")
            head += data
        headers, _, early = head.partition(b"\r\n\r\n")
        status = headers.split(b"\r\n", 1)[0].split(b" ")
        if len(status) < 2 or not status[1].isdigit():
            raise BadAnswer(f"attach was refused: {headers[:200]!r} {early[:300]!r}")
        if status[1] not in (b"101", b"200"):
            raise _refused(sock, int(status[1]), headers, early)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return Attached(sock, early)


def _refused(sock: socket.socket, status: int, headers: bytes, early: bytes) -> Refused:
    """The engine's no, with what it says, which may come a moment after the headers."""
    length = re.search(rb"(?im)^content-length: *(\d+)", headers)
    wanted = min(int(length[1]) if length else len(early), _LONGEST_HEADERS)
    with contextlib.suppress(OSError):
        while len(early) < wanted and (data := sock.recv(4096)):
            early += data
    text = early.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        text = str(json.loads(text)["message"])
    return Refused(f"attach was refused: {headers[:200]!r} {text[:300]}", status, text)


class Frames:
    """Takes a box's multiplexed output apart: eight bytes (stream, three zeros, length), then so many bytes.

    Payloads are given on as they come, never kept for more: a frame's length is the engine's word, not our memory. What
    came together of one stream is given together, since an engine makes many small frames of a long output.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream: Stream = "out"
        self._left = 0

    def take(self, data: bytes | memoryview) -> Iterator[tuple[Stream, bytes]]:
        """Gives (stream, bytes) for what came. Raises BadAnswer when it is not such a stream."""
        view, at, pieces = memoryview(data), 0, list[memoryview]()
        while at < len(view):
            if self._left:
                piece = view[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            part = view[at : at + 8 - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == 8:
                kind, padding, left = struct.unpack(">B3sI", self._header)
                stream = _STREAMS.get(kind) if padding == b"\0\0\0" else None
                if pieces and stream != self._stream:
                    yield self._stream, b"".join(pieces)
                    pieces.clear()
                if stream is None:
                    raise BadAnswer(f"not a box's output: {self._header!r}")
                self._stream, self._left, self._header = stream, left, b""
        if pieces:
            yield self._stream, b"".join(pieces)

    @property
    def whole(self) -> bool:
        """False when the stream ended within a frame."""
        return not self._left and not self._header


def read_frames(attached: Attached) -> Iterator[tuple[Stream, bytes]]:
    """A box's output until it ends. Raises OSError (BadAnswer among them) when the connection breaks."""
    frames = Frames()
    yield from frames.take(attached.early)
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while count := attached.sock.recv_into(buffer):
        yield from frames.take(view[:count])
    if not frames.whole:
        raise BadAnswer("the output broke off")
