"""Runs inside the door, the container whose network a box shares: all that comes to one port there goes to Conch.

It is given to the image's own Python (3.7 or newer) as text, so it knows nothing of Conch and imports only what every
Python has. It decides nothing. Connections travel in frames over its stdin and stdout: kind, number, length, bytes.

    to Conch:    H here I am, O opened, D bytes, E no more bytes, R gone, W so many bytes were taken, P answer to a
                 ping, N a name was asked for (a question of DNS)
    from Conch:  D, E, R, W, P

Each side sends at most WINDOW bytes of a connection that the other did not say it took, so nothing here grows.
It ends with its stdin.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys

HEADER = struct.Struct(">cIH")
WINDOW = 256 * 1024
MOST = 128
PIECE = 32 * 1024


class Connection:
    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.credit = WINDOW
        self.out = bytearray()
        self.ending = False  # Conch has no more bytes for it
        self.ended = False  # and it was told so
        self.read_all = False


class Relay:
    def __init__(self, port: int, names_port: int) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(128)
        self.listener.setblocking(False)
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self.connections: dict[int, Connection] = {}
        self.number = 0
        self.told = bytearray()
        self.given = bytearray()
        self.pings: list[bytes] = []
        self.names: socket.socket | None = _names(names_port)
        self.open = True

    def say(self, kind: bytes, number: int, data: bytes = b"") -> None:
        self.told += HEADER.pack(kind, number, len(data)) + data

    def run(self) -> None:
        self.say(b"H", 0)
        while self.open:
            pings, self.pings = self.pings, []
            if not pings:
                self.turn(None)
                continue
            for _ in range(3):  # what had come by then is taken first: a connection, its bytes, and its end
                self.turn(0)
            for ping in pings:
                self.say(b"P", 0, ping)

    def turn(self, limit: float | None) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(0, selectors.EVENT_READ)
            if self.told:
                waiting.register(1, selectors.EVENT_WRITE)
            room = len(self.told) < WINDOW
            if room and len(self.connections) < MOST:
                waiting.register(self.listener, selectors.EVENT_READ)
            if room and self.names is not None:
                waiting.register(self.names, selectors.EVENT_READ)
            for one in self.connections.values():
                wanted = selectors.EVENT_READ if room and one.credit > 0 and not one.read_all else 0
                if one.out or (one.ending and not one.ended):
                    wanted |= selectors.EVENT_WRITE
                if wanted:
                    waiting.register(one.sock, wanted, one)
            events = waiting.select(limit)
        for key, mask in events:
            if key.data is not None:
                self.serve(key.data, mask)
            elif key.fd == 0:
                self.hear()
            elif key.fd == 1:
                self.tell()
            elif self.names is not None and key.fd == self.names.fileno():
                self.refuse_name()
            else:
                self.accept()

    def tell(self) -> None:
        del self.told[: os.write(1, self.told[:PIECE])]

    def hear(self) -> None:
        data = os.read(0, 4 * PIECE)
        if not data:
            self.open = False
        self.given += data
        while len(self.given) >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self.given)
            end = HEADER.size + length
            if len(self.given) < end:
                return
            body = bytes(self.given[HEADER.size : end])
            del self.given[:end]
            self.take(kind, number, body)

    def take(self, kind: bytes, number: int, body: bytes) -> None:
        one = self.connections.get(number)
        if kind == b"P":
            self.pings.append(body)
        elif one is None:
            return
        elif kind == b"D":
            one.out += body
        elif kind == b"E":
            one.ending = True
        elif kind == b"W":
            one.credit += int.from_bytes(body, "big")
        else:
            self.forget(one)

    def accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        self.number = (self.number + 1) % (1 << 32)
        self.connections[self.number] = Connection(self.number, sock)
        self.say(b"O", self.number)

    def serve(self, one: Connection, mask: int) -> None:
        if self.connections.get(one.number) is not one:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self.write(one)
            if mask & selectors.EVENT_READ:
                self.read(one)
        except BlockingIOError:
            return
        except OSError:
            self.say(b"R", one.number)
            self.forget(one)
            return
        if one.read_all and one.ended:
            self.forget(one)

    def write(self, one: Connection) -> None:
        if one.out:
            count = one.sock.send(one.out[:PIECE])
            del one.out[:count]
            self.say(b"W", one.number, count.to_bytes(4, "big"))
        if one.ending and not one.out and not one.ended:
            one.ended = True
            one.sock.shutdown(socket.SHUT_WR)

    def read(self, one: Connection) -> None:
        data = one.sock.recv(min(PIECE, one.credit))
        if data:
            one.credit -= len(data)
            self.say(b"D", one.number, data)
        else:
            one.read_all = True
            self.say(b"E", one.number)

    def forget(self, one: Connection) -> None:
        self.connections.pop(one.number, None)
        one.sock.close()

    def refuse_name(self) -> None:
        """A program that asks for a name's address by itself: the name is told, and the answer is that there is none.

        The answer repeats the question (RFC 1035, 4.1) with NXDOMAIN, so that nobody waits or asks again.
        """
        assert self.names is not None  # noqa: S101
        try:
            data, asker = self.names.recvfrom(4096)
            if data[2] & 0x80:  # it is no question
                return
            end = 12
            while data[end]:
                end += data[end] + 1
            self.say(b"N", 0, data[12 : min(end, 300)])
            flags = bytes([0x80 | data[2] & 0x79, 0x83])
            self.names.sendto(data[:2] + flags + b"\0\1" + bytes(6) + data[12 : end + 5], asker)
        except (OSError, IndexError):
            return


def _names(port: int) -> socket.socket | None:
    try:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", port))
        made.setblocking(False)
    except OSError:  # an engine that keeps low ports for root: then these programs are refused without being heard
        return None
    return made


if __name__ == "__main__":
    Relay(int(sys.argv[1]), int(sys.argv[2])).run()
