"""A real relay for tests without an engine: the same program, with a pipe where an engine would be."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workplaces.container import hosts_relay
from workplaces.container.hosts import HostList, Tried
from workplaces.container.hosts_pipe import Pipe
from workplaces.container.hosts_proxy import Proxy
from workplaces.container.wire import Attached

PUBLIC = "93.184.216.34"


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Relay:
    """Started as a door starts it. ``port`` is where programs find the proxy, ``names`` where DNS would be."""

    def __init__(self) -> None:
        self.port, self.names = free_port(), free_port(socket.SOCK_DGRAM)
        source = Path(hosts_relay.__file__).read_text("utf-8")
        line = [sys.executable, "-I", "-c", source, str(self.port), str(self.names)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        ours, theirs = socket.socketpair()
        self._theirs = theirs
        for work in (self._out, self._in):
            threading.Thread(target=work, daemon=True).start()
        self.pipe = Pipe(Attached(ours, b""), asyncio.get_running_loop())
        self.pipe.start()

    def _out(self) -> None:
        """Its output in an engine's frames."""
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            while data := self.process.stdout.read(60_000):
                self._theirs.sendall(struct.pack(">BxxxI", 1, len(data)) + data)
        with contextlib.suppress(OSError):
            self._theirs.shutdown(socket.SHUT_WR)

    def _in(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while data := self._theirs.recv(60_000):
                view = memoryview(data)
                while len(view):
                    view = view[self.process.stdin.write(view) or 0 :]
        self.process.stdin.close()

    def close(self) -> int:
        """Ends it as a door ends: its stdin does. Gives its exit code."""
        self.pipe.close()
        return self.process.wait(10)


@dataclass
class Internet:
    """What the proxy reaches: PUBLIC stands for a server here. ``asked`` and ``dialled`` tell what the proxy did."""

    names: dict[str, Sequence[str]]
    port: int
    asked: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name not in self.names:
            raise OSError("no such name")
        return self.names[name]

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port))
        if address != PUBLIC:
            raise OSError("nothing is there")
        return await asyncio.open_connection("127.0.0.1", self.port)


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path


def certificate(folder: Path, *names: str) -> Certificate:
    """A certificate that signed itself, for these names."""
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    alternative = ",".join(f"DNS:{name}" for name in names)
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={names[0]} -addext subjectAltName={alternative}"
    line = ["openssl", *words.split(), "-keyout", str(made.key), "-out", str(made.file)]
    subprocess.run(line, check=True, capture_output=True)
    return made


Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


@contextlib.asynccontextmanager
async def tls_server(made: Certificate, handle: Handle, host: str = "127.0.0.1") -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key)
    server = await asyncio.start_server(handle, host, 0, ssl=context)  # type: ignore[arg-type]
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def proxy_for(hosts: str, internet: Internet) -> Proxy:
    listed = HostList.parse(hosts)
    assert listed is not None
    return Proxy(listed, Tried(), Tried(), internet.resolve, internet.dial)
