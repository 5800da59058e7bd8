"""A line to a server on loopback that can be made slow, so that what takes long elsewhere takes long here."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_BLOCK = 1 << 16


class Throttle:
    """Passes connections on to a port of this machine. ``slowly`` limits what comes back, over all connections;
    ``passed`` is how many bytes did."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._rate = 0.0  # bytes a second, 0 = as fast as it goes
        self.passed = 0
        self._turn = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def slowly(self, bytes_per_second: float) -> Iterator[None]:
        """For as long as this lasts, the server seems to be on a slow line."""
        self._rate = bytes_per_second
        try:
            yield
        finally:
            self._rate = 0.0

    def cut(self) -> None:
        """Breaks every connection that there is now. New ones are taken."""
        for end in tuple(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in (self._listener, *tuple(self._open)):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open |= {caller, server}
                threading.Thread(target=self._pass, args=(caller, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, caller, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(_BLOCK):
                if back and self._rate:
                    with self._turn:  # one at a time, so the limit is for all of them together
                        time.sleep(len(block) / self._rate if self._rate else 0)
                target.sendall(block)
                if back:
                    self.passed += len(block)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._open.discard(end)
