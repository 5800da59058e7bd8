"""A line to one machine: how programs are started there. Two that use ``ssh`` itself; ``library.py`` has the third."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workplaces.place import PlaceUnavailable
from workplaces.ssh.channel import NO_WINDOW, Channel, Gone, Program, end
from workplaces.ssh.meaning import Meaning, meaning
from workplaces.ssh.options import (
    CONNECT_LIMIT,
    command_options,
    environment,
    settings_text,
    strict_checking,
    version,
)
from workplaces.ssh.trouble import cannot_share, missing_ssh, unreachable

IDLE = 180
"""Seconds after the last command until a connection that nobody uses is closed."""

_ASK_LIMIT = 8.0  # how long ssh may take to say what a name means: Match exec runs programs
_OPEN_LIMIT = 60.0  # how long connecting may take in all, jumps and slow sign-ins included
_QUICK = 3.0
_FINGERPRINT = re.compile(r"Host key fingerprint is (SHA256:\S+)")


class CannotShare(Exception):
    """This way cannot be had here, and another may. ``words`` are for when there is no other."""

    def __init__(self, details: str, words: PlaceUnavailable | None = None) -> None:
        super().__init__(details)
        self.words = words


class Line(Protocol):
    """A way to one machine. Everything blocks."""

    @property
    def kind(self) -> str:
        """``shared``, ``separate`` or ``library``."""
        ...

    @property
    def fingerprint(self) -> str:
        """The host key's, where it was seen; else empty."""
        ...

    def open(self) -> None:
        """Connects. Raises PlaceUnavailable with why it cannot, and CannotShare."""
        ...

    @property
    def up(self) -> bool:
        """Whether it seems connected. Quick."""
        ...

    def channel(self, command: str) -> Channel:
        """Gives ``command`` to the login shell there. Raises Gone; an ssh may tell that only at the channel's end."""
        ...

    def abort(self) -> None:
        """Makes an ``open`` that is going on in another thread fail soon, where that can be done."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """This computer's ssh. ``folder`` is Conch's own (0700): it is started there. ``settings`` are the person's."""

    program: str
    version: tuple[int, int]
    folder: Path
    settings: Path

    @classmethod
    def find(cls, folder: Path, settings: Path, program: str = "") -> Ssh:
        """Looks for it. Raises PlaceUnavailable when there is none."""
        import shutil

        found = program or shutil.which("ssh") or ""
        if not found:
            raise missing_ssh()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "geteuid") and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
        try:
            said = subprocess.run([found, "-V"], capture_output=True, timeout=_QUICK, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise missing_ssh(str(error)) from error
        return cls(
            program=found, version=version((said.stderr + said.stdout).decode()), folder=folder, settings=settings
        )

    def write(self, name: str, strict: Mapping[str, str]) -> None:
        """Writes the settings file that ssh is given, whole or not at all."""
        path = self.folder / name
        new = self.folder / f"{name}.{secrets.token_hex(4)}"
        new.write_text(settings_text(self.settings, self.version, strict), encoding="utf-8")
        new.replace(path)

    def ask(self, config: str, host: str, *words: str) -> Meaning:
        """What a name means. ``words`` stand before it. Raises PlaceUnavailable when the settings say nonsense."""
        argv = [self.program, "-F", config, *words, "-G", "--", host]
        try:
            done = self.run(argv, _ASK_LIMIT)
        except subprocess.TimeoutExpired as error:
            raise unreachable(host, f"ssh -G timed out\n{error}", None) from error
        if done.returncode != 0:
            raise unreachable(host, done.stderr.decode(errors="replace"), None)
        return meaning(host, done.stdout.decode(errors="replace"))

    def run(self, argv: Sequence[str], limit: float) -> subprocess.CompletedProcess[bytes]:
        """Runs it with nothing to ask the person on. Raises TimeoutExpired, with all of it ended."""
        with self.start(argv, out=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except BaseException:
                end(process)
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def start(self, argv: Sequence[str], *, out: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                env=environment(),
                cwd=self.folder,
                start_new_session=True,
                creationflags=NO_WINDOW,
            )
        except OSError as error:
            raise missing_ssh(str(error)) from error


class Way:
    """What is known of the way to one machine before anything is connected: what its name means, and ours of it.

    ``config`` is a settings file of ours in ``ssh.folder``.
    """

    def __init__(self, ssh: Ssh, host: str, name: str) -> None:
        """Asks ssh, so it blocks. ``name`` is for files. Raises PlaceUnavailable."""
        self.ssh = ssh
        self.host = host
        self.name = name
        self.config = f"{name}.conf"
        ssh.write(self.config, {})
        self.meaning = ssh.ask(self.config, host)
        strict = {host: strict_checking(self.meaning.first("stricthostkeychecking", "ask"))}
        for jump in self.meaning.jumps:
            theirs = ssh.ask(self.config, jump.host).first("stricthostkeychecking", "ask")
            strict.setdefault(jump.host, strict_checking(theirs))
        ssh.write(self.config, strict)
        self.strict = strict[host]

    def argv(self, *words: str, command: str = "", **more: str) -> list[str]:
        options = command_options(self.ssh.version, StrictHostKeyChecking=self.strict, **more)
        return [
            self.ssh.program,
            "-F",
            self.config,
            *options,
            "-T",
            *words,
            "--",
            self.host,
            *([command] * bool(command)),
        ]

    def why(self, said: str) -> Exception:
        """Words for what ssh said, after a closer look where it says too little."""
        if "UNKNOWN port 65535" in said and self.meaning.jumps:
            said = self._say_again() or said
        return unreachable(self.host, said, self.meaning, locked=self._locked_key(said))

    def forget(self) -> None:
        (self.ssh.folder / self.config).unlink(missing_ok=True)

    def _say_again(self) -> str:
        """A shared connection's ssh keeps to itself what the one for a jump said; without sharing it is heard."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.ssh.run(self.argv(command="exit 0"), _OPEN_LIMIT).stderr.decode(errors="replace")
        return ""

    def _locked_key(self, said: str) -> Path | None:
        """A key that would be tried and needs its passphrase; only looked for when a machine took none."""
        if "denied" not in said:
            return None
        for text in self.meaning.said.get("identityfile", ()):
            path = Path(text.strip('"')).expanduser()
            if is_locked(path):
                return path
        return None


def is_locked(key: Path) -> bool:
    """Whether a private key is kept under a passphrase, by its head (PROTOCOL.key of OpenSSH; RFC 1421)."""
    import base64
    import binascii

    try:
        with key.open("rb") as file:
            text = file.read(16 * 1024)
    except OSError:
        return False
    if b"ENCRYPTED" in text[:400]:
        return True
    body = b"".join(text.split(b"\n")[1:6])
    try:
        head = base64.b64decode(body[: len(body) // 4 * 4])
    except binascii.Error:
        return False
    magic = b"openssh-key-v1\0"
    if not head.startswith(magic):
        return False
    size = int.from_bytes(head[len(magic) : len(magic) + 4], "big")
    return head[len(magic) + 4 : len(magic) + 4 + size] not in (b"none", b"")


class SeparateLine:
    """Each program over a connection of its own. Slower, and needs nothing but ssh."""

    kind = "separate"
    fingerprint = ""
    up = True

    def __init__(self, way: Way) -> None:
        self._way = way

    def open(self) -> None:
        """Nothing is held open."""

    def channel(self, command: str) -> Channel:
        way = self._way
        argv = way.argv(command=command)
        env = environment(way.meaning.words("sendenv"))
        try:
            return Program(argv, env=env, cwd=way.ssh.folder)
        except OSError as error:
            raise missing_ssh(str(error)) from error

    def abort(self) -> None:
        """Nothing is being opened."""

    def close(self) -> None:
        """Nothing is held open."""


class SharedLine:
    """One connection that ssh itself holds open (ControlMaster); each program is a session on it.

    The ssh that holds it belongs to no program of ours: it ends by itself when nobody used it for IDLE seconds, so a
    Conch that dies leaves none for long.
    """

    kind = "shared"

    def __init__(self, way: Way) -> None:
        self._way = way
        self._socket = f"{way.name}.s"
        self._pid = 0
        self._opening: subprocess.Popen[bytes] | None = None
        self.fingerprint = ""

    @property
    def up(self) -> bool:
        return self._pid > 0 and (self._way.ssh.folder / self._socket).exists()

    def open(self) -> None:
        way = self._way
        if self._check():
            return
        (way.ssh.folder / self._socket).unlink(missing_ok=True)
        no_session = {"SessionType": "none"} if way.ssh.version >= (8, 7) else {}
        argv = way.argv(
            *(() if no_session else ("-N",)),
            ControlMaster="yes",
            ControlPath=self._socket,
            ControlPersist=str(IDLE),
            VisualHostKey="yes",
            **no_session,
        )
        with way.ssh.start(argv) as process:
            self._opening = process
            try:
                said = process.communicate(timeout=_OPEN_LIMIT)[1].decode(errors="replace")
            except subprocess.TimeoutExpired:
                end(process)
                said = process.communicate()[1].decode(errors="replace") + "\nssh: timed out"
                raise way.why(said) from None
            except BaseException:
                end(process)
                raise
            finally:
                self._opening = None
        if process.returncode != 0:
            if cannot_share(said):
                raise CannotShare(said)
            raise way.why(said)
        found = _FINGERPRINT.findall(said)
        self.fingerprint = found[-1] if found else ""
        if not self._check():
            raise CannotShare(said)

    def channel(self, command: str) -> Channel:
        if not self.up:
            raise Gone("there is no socket")
        # With no settings and a ProxyCommand that fails there is no other way for it than the shared connection.
        argv = [self._way.ssh.program, "-F", "none", *self._control("ControlMaster=no", "ProxyCommand=false")]
        argv += ["-T", "--", self._way.host, command]
        try:
            return Program(argv, env=environment(), cwd=self._way.ssh.folder)
        except OSError as error:
            raise missing_ssh(str(error)) from error

    def abort(self) -> None:
        process = self._opening
        if process is not None:
            end(process)

    def close(self) -> None:
        if self._pid <= 0:
            return
        socket = self._way.ssh.folder / self._socket
        if "sent" in self._tell("exit"):
            until = time.monotonic() + _QUICK
            while time.monotonic() < until and socket.exists():
                time.sleep(0.01)
        socket.unlink(missing_ok=True)
        self._pid = 0

    def _check(self) -> bool:
        """Whether the connection is there, and by which process."""
        found = re.search(r"pid=(\d+)", self._tell("check"))
        self._pid = int(found[1]) if found else 0
        return self._pid > 0

    def _tell(self, word: str) -> str:
        argv = [self._way.ssh.program, "-F", "none", *self._control(), "-O", word, "--", self._way.host]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = self._way.ssh.run(argv, CONNECT_LIMIT)
            return (done.stdout + done.stderr).decode(errors="replace")
        return ""

    def _control(self, *options: str) -> list[str]:
        pairs = ("BatchMode=yes", f"ControlPath={self._socket}", *options)
        return [word for pair in pairs for word in ("-o", pair)]
