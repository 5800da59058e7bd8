"""Which host a TLS client asks for (RFC 8446, 4.1.2; RFC 6066, 3): its first message, read and never changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_LONGEST = 64 * 1024


class NotTls(ValueError):
    """What came is not how a TLS client begins."""


async def first_message(read: Callable[[], Awaitable[bytes]]) -> tuple[bytes, str]:
    """All the bytes of it, and the name that is asked for; empty when none is.

    Raises NotTls, and EOFError when it ends before it is whole, though it may have become one.
    """
    taken = bytearray()
    while (message := _message(taken)) is None:
        data = await read()
        if not data:
            raise EOFError
        if len(taken) > _LONGEST:
            raise NotTls
        taken += data
    try:
        return bytes(taken), _name(message)
    except (IndexError, UnicodeDecodeError):
        raise NotTls from None


def _message(taken: bytes | bytearray) -> bytes | None:
    """The ClientHello out of its records, None while it is not whole. Raises NotTls as soon as it cannot be one."""
    message, at = b"", 0
    while len(taken) - at >= 5:
        length = int.from_bytes(taken[at + 3 : at + 5], "big")
        if taken[at] != _HANDSHAKE or taken[at + 1] != 3 or not 0 < length <= 1 << 14:
            raise NotTls
        message += bytes(taken[at + 5 : at + 5 + length])
        at += 5 + length
        if message and message[0] != _CLIENT_HELLO:
            raise NotTls
        if len(message) >= 4 and len(message) - 4 >= (wanted := int.from_bytes(message[1:4], "big")):
            return message[4 : 4 + wanted]
    if taken and taken[0] != _HANDSHAKE:
        raise NotTls
    return None


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def take(self, count: int) -> bytes:
        if count > len(self._data):
            raise IndexError
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> _Bytes:
        """What follows its own length, which has ``size`` bytes."""
        return _Bytes(self.take(self.number(size)))


def _name(message: bytes) -> str:
    hello = _Bytes(message)
    hello.take(2 + 32)  # version, random
    hello.block(1)  # session
    hello.block(2)  # ciphers
    hello.block(1)  # compression
    if not len(hello):
        return ""
    extensions = hello.block(2)
    while len(extensions):
        kind, body = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = body.block(2)
            while len(names):
                name_kind, name = names.number(1), names.block(2)
                if name_kind == _HOST_NAME:
                    return name.take(len(name)).decode("ascii")
    return ""
