"""A machine that lies, behind a real SSH transport: what it answers is made up, how it travels is not.

Client and server are two ends of a pair of sockets in this process, so a case costs milliseconds. The client's end is
the product's own: ``LibraryLine``, ``LibraryChannel``, ``SshFar``.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

import paramiko

from workplaces.ssh.channel import Channel, Gone
from workplaces.ssh.connection import Connection
from workplaces.ssh.far import SshFar
from workplaces.ssh.library import LibraryLine
from workplaces.ssh.lines import Way
from workplaces.ssh.trouble import trouble

_PATIENCE = 10.0
_LOG = "conch.tests.ssh_liar"
logging.getLogger(_LOG).setLevel(logging.CRITICAL)  # a line that goes is meant here
_KEY = paramiko.ECDSAKey.generate()


@dataclass(slots=True)
class Answer:
    """What one command there says: pieces of output (maybe endless), of errors, and how it ends.

    ``code`` None: it ends without a word about how. ``drop``: the whole connection goes with it. ``stall``: after its
    last byte it neither says more nor ends.
    """

    out: Iterable[bytes] = ()
    err: Iterable[bytes] = ()
    code: int | None = 0
    drop: bool = False
    stall: bool = False


@dataclass(slots=True)
class SshLiar:
    """The machine. ``answer`` is asked with a command line and all that was written to it."""

    answer: Callable[[str, bytes], Answer]
    ran: list[str] = field(default_factory=list)
    _ends: list[paramiko.Transport] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _line: LibraryLine = field(init=False)

    def __post_init__(self) -> None:
        self._connect()

    def far(self, *, silence: float = 30.0) -> SshFar:
        """The product's own far side, over this connection."""
        return SshFar(cast(Connection, self), silence=silence)

    # ---- what SshFar asks of a connection ----

    @property
    def host(self) -> str:
        return "build-box"

    def program(self, command: str) -> Channel:
        if not self._line.up:
            self._connect()
        try:
            return self._line.channel(command)
        except Gone as error:  # it was dropped in between: as the product's own says it
            raise trouble("closed", self.host, str(error)) from error

    def release(self) -> None:
        """Nothing is counted."""

    # ---- its life ----

    def _connect(self) -> None:
        self._end()
        ours, theirs = socket.socketpair()
        server = paramiko.Transport(theirs)
        server.add_server_key(_KEY)
        server.daemon = True
        server.set_log_channel(_LOG)
        server.start_server(threading.Event(), _Server(self))
        client = paramiko.Transport(ours)
        client.daemon = True
        client.set_log_channel(_LOG)
        client.start_client(timeout=_PATIENCE)
        client.auth_none("build")
        self._ends = [client, server]
        self._line = LibraryLine(cast(Way, None))  # it is connected already, so it never asks the way
        self._line._transports.append(client)

    def _end(self) -> None:
        for end in self._ends:
            end.close()
        for end in self._ends:
            end.join(_PATIENCE)

    def close(self) -> None:
        """Ends it. Fails when something of it still runs: a client that never lets go of an endless answer."""
        self._over.set()
        self._end()
        for thread in self._threads:
            thread.join(_PATIENCE)
        assert not [thread for thread in self._threads if thread.is_alive()]

    def serve(self, channel: paramiko.Channel, command: str) -> None:
        """Answers one command, in a thread of its own."""
        thread = threading.Thread(target=self._serve, args=(channel, command), daemon=True)
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def _serve(self, channel: paramiko.Channel, command: str) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            given = bytearray()
            while data := channel.recv(1 << 16):
                given += data
            self.ran.append(command)
            answer = self.answer(command, bytes(given))
            for piece in answer.err:
                channel.sendall_stderr(piece)
            for piece in answer.out:
                channel.sendall(piece)
            if answer.stall:
                while not channel.closed and not self._over.wait(0.02):
                    pass
            if answer.drop:
                self._ends[1].close()
            elif answer.code is not None:
                channel.send_exit_status(answer.code)
        channel.close()


class _Server(paramiko.ServerInterface):
    def __init__(self, liar: SshLiar) -> None:
        self._liar = liar

    def get_allowed_auths(self, username: str) -> str:
        return "none"

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._liar.serve(channel, command.decode("utf-8", "surrogateescape"))
        return True
