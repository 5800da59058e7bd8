"""The bytes to a machine: a socket of this computer's, or a program that carries them (ProxyCommand)."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

from workplaces.ssh.channel import NO_WINDOW
from workplaces.ssh.meaning import Meaning
from workplaces.ssh.options import environment

Socket = socket.socket
_PIECE = 64 * 1024
_TOKEN = re.compile(r"%(.)")


def connect(host: str, port: int, limit: float) -> Socket:
    """Connects. Raises OSError (socket.gaierror when the name is not found)."""
    try:
        made = socket.create_connection((host, port), timeout=limit)
    except socket.gaierror as error:
        raise OSError(f"Could not resolve hostname {host}: {error}") from error
    made.settimeout(None)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def through_program(command: str, meaning: Meaning, folder: Path) -> Socket:
    """Starts a ProxyCommand and gives the socket that it carries on. It ends when the socket is closed."""
    line = _expanded(command, meaning)
    shell: str | list[str] = (
        line if sys.platform == "win32" else [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {line}"]
    )
    process = subprocess.Popen(
        line if sys.platform == "win32" else shell,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=environment(),
        cwd=folder,
        start_new_session=True,
        creationflags=NO_WINDOW,
    )
    ours, theirs = socket.socketpair()
    for target in (_to_program, _from_program):
        threading.Thread(target=target, args=(theirs, process), name="conch-proxy", daemon=True).start()
    return ours


def _to_program(sock: Socket, process: subprocess.Popen[bytes]) -> None:
    """Carries what we send. Once we are done the program is ended."""
    pipe = process.stdin
    with contextlib.suppress(OSError, ValueError):
        while pipe is not None and (data := sock.recv(_PIECE)):
            view = memoryview(data)
            while view:
                view = view[os.write(pipe.fileno(), view) :]
    with contextlib.suppress(OSError):
        process.kill()
    process.wait()
    for end in (process.stdin, process.stdout):
        if end is not None:
            with contextlib.suppress(OSError):
                end.close()
    sock.close()


def _from_program(sock: Socket, process: subprocess.Popen[bytes]) -> None:
    pipe = process.stdout
    with contextlib.suppress(OSError, ValueError):
        while pipe is not None and (data := os.read(pipe.fileno(), _PIECE)):
            sock.sendall(data)
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _expanded(command: str, meaning: Meaning) -> str:
    """The command with its tokens filled in (ssh_config(5), TOKENS)."""
    values = {"%": "%", "h": meaning.hostname, "n": meaning.host, "p": str(meaning.port), "r": meaning.user}
    return _TOKEN.sub(lambda found: values.get(found[1], found[0]), command)
