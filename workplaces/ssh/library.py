"""A line that a library holds open, for systems whose ssh cannot share a connection (Windows).

Set up from what ``ssh -G`` says of each machine on the way, so it means what the person's ssh means: address, port and
user, known_hosts, keys and agent, jumps and ProxyCommand. ``paramiko`` is imported here and nowhere else; it takes a
quarter of a second, so only in a thread that connects.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

import paramiko

from workplaces.output import Stream
from workplaces.pipes import READ
from workplaces.place import PlaceUnavailable
from workplaces.ssh.channel import Channel, Full, Gone
from workplaces.ssh.keys import Unmet, host_key_checker, sign_in
from workplaces.ssh.lines import CannotShare, Way
from workplaces.ssh.meaning import Meaning
from workplaces.ssh.options import CONNECT_LIMIT, strict_checking
from workplaces.ssh.proxy import Socket, connect, through_program
from workplaces.ssh.trouble import unreachable

# What it raises is told in words; its own log would hold each of them again, as a mistake of ours.
_LOG = f"{__name__}.paramiko"
logging.getLogger(_LOG).setLevel(logging.CRITICAL)

_ALIVE_EVERY = 15
_OPEN_LIMIT = 20.0
_DEEPEST = 8


class LibraryLine:
    """One transport a machine, and one for each on the way to it."""

    kind = "library"

    def __init__(self, way: Way) -> None:
        self._way = way
        self._transports: list[paramiko.Transport] = []
        self.fingerprint = ""

    @property
    def up(self) -> bool:
        return bool(self._transports) and all(transport.is_active() for transport in self._transports)

    def open(self) -> None:
        try:
            self._reach(self._way.meaning, self._way.strict, depth=0)
        except BaseException:
            self.close()
            raise
        key = self._transports[-1].get_remote_server_key()
        self.fingerprint = key.fingerprint

    def channel(self, command: str) -> Channel:
        if not self.up:
            raise Gone("the connection is closed")
        transport = self._transports[-1]
        channel: paramiko.Channel | None = None
        try:
            channel = transport.open_session(timeout=_OPEN_LIMIT)
            if command:
                channel.exec_command(command.encode("utf-8", "surrogateescape"))
            else:
                channel.invoke_shell()
        except (paramiko.SSHException, EOFError, OSError) as error:
            if channel is not None:
                channel.close()
            # with the connection standing it is this one program that the machine would not take
            raise (Full if transport.is_active() else Gone)(repr(error)) from error
        return LibraryChannel(channel)

    def abort(self) -> None:
        for transport in list(self._transports):
            transport.close()

    def close(self) -> None:
        for transport in reversed(self._transports):
            with contextlib.suppress(OSError, EOFError):
                transport.close()
        for transport in self._transports:
            transport.join(_OPEN_LIMIT)
        self._transports.clear()

    # ---- connecting ----

    def _reach(self, meaning: Meaning, strict: str, *, depth: int) -> None:
        """Connects to one machine, to those on its way first. Raises PlaceUnavailable and CannotShare."""
        if depth > _DEEPEST:
            raise unreachable(meaning.host, "too many jumps", None)
        ssh, config = self._way.ssh, self._way.config
        for at, jump in enumerate(meaning.jumps):
            words = [*(("-l", jump.user) if jump.user else ()), *(("-p", jump.port) if jump.port else ())]
            if at:
                words += ["-o", "ProxyJump=none"]  # as ssh does: only the first may have jumps of its own
            hop = ssh.ask(config, jump.host, *words)
            self._reach(hop, strict_checking(hop.first("stricthostkeychecking", "ask")), depth=depth + 1)
        transport = paramiko.Transport(self._socket(meaning))
        self._transports.append(transport)
        transport.daemon = True
        transport.set_log_channel(_LOG)
        transport.banner_timeout = transport.auth_timeout = transport.handshake_timeout = _OPEN_LIMIT
        with self._in_words(meaning):
            check = host_key_checker(meaning, strict)
            check.prefer(transport)
            transport.start_client(timeout=_OPEN_LIMIT)
            check.check(transport.get_remote_server_key())
            sign_in(transport, meaning)
        transport.set_keepalive(_ALIVE_EVERY)

    def _socket(self, meaning: Meaning) -> Socket | paramiko.Channel:
        with self._in_words(meaning):
            if self._transports:
                address = (meaning.hostname, meaning.port)
                return self._transports[-1].open_channel("direct-tcpip", address, ("127.0.0.1", 0), timeout=_OPEN_LIMIT)
            proxy = meaning.first("proxycommand")
            if proxy:
                return through_program(proxy, meaning, self._way.ssh.folder)
            return connect(meaning.hostname, meaning.port, CONNECT_LIMIT)

    def _in_words(self, meaning: Meaning) -> _InWords:
        return _InWords(self._way.meaning, meaning)


class _InWords:
    """Turns what the library raises into what ssh would have said, so that both are told in the same words."""

    def __init__(self, wanted: Meaning, at: Meaning) -> None:
        self._wanted = wanted
        self._at = at

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, PlaceUnavailable | CannotShare) or not isinstance(error, Exception):
            return
        locked: Path | None = None
        if isinstance(error, Unmet):
            said = error.said
            locked = error.locked
        elif isinstance(error, paramiko.ChannelException):
            # the machine before let us in, and could not reach this one
            said = f"channel 0: open failed: {error}\nstdio forwarding failed\n{_reason(error)}"
        elif isinstance(error, paramiko.AuthenticationException):
            said = f"Permission denied ({error})"
        elif isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
            said = f"Unable to negotiate: {error}"
        elif isinstance(error, TimeoutError):
            said = f"timed out: {error}"
        elif isinstance(error, OSError):
            said = f"connect to host: {error}"
        else:
            said = f"Connection closed: {error!r}"
        at, wanted = self._at, self._wanted
        if at is not wanted and any(jump.host == at.host for jump in wanted.jumps):
            words = unreachable(wanted.host, said, wanted, locked=locked, jump=at.host)
        else:
            words = unreachable(wanted.host, said, wanted, locked=locked)
        if said.startswith(("Permission denied", "Unable to negotiate")):
            raise CannotShare(said, words) from error  # ssh itself knows more ways to sign in: let it try
        raise words from error


def _reason(error: paramiko.ChannelException) -> str:
    return "Connection refused" if error.code == 2 else str(error)


class LibraryChannel:
    """A program there, on the library's connection."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._writing = threading.Lock()

    @property
    def alive(self) -> bool:
        return not self._channel.closed and not self._channel.exit_status_ready()

    def read(self, stream: Stream) -> bytes:
        receive = self._channel.recv if stream == "out" else self._channel.recv_stderr
        try:
            return receive(READ)
        except (OSError, EOFError):
            return b""

    def write(self, data: bytes) -> bool:
        try:
            self._channel.sendall(data)
        except (OSError, EOFError):
            return False
        return True

    def end_input(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def status(self) -> int | None:
        if not self._channel.status_event.wait(5.0):
            return 255
        code = self._channel.exit_status
        return code if code >= 0 else 255

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.close()

    def let_go(self) -> None:
        """Nothing is held."""
