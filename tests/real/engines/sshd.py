"""A real OpenSSH server of the tests' own: a machine with its own name, users and homes, reached on loopback.

It runs in its own mount, host name and process namespaces, so its users need no account on this machine, a command
there can be told from a command here, and all of it ends with it. Its users are ordinary ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.engines.folders import Held, remove, sockets
from tests.real.engines.needs import program
from tests.real.engines.processes import alive, start, stop, wait_until

PROGRAMS = ("sshd", "ssh", "ssh-keygen", "unshare", "setpriv")
HOST = "build-box"
_HOMES = Path("/var/lib/conch-test-ssh")
_FIRST_UID = 42_000
_USERS_A_SLOT = 40
_SLOTS = 16
_ENTER = """\
set -e
hostname "$1"
mount --bind "$2/passwd" /etc/passwd
mount --bind "$2/group" /etc/group
[ -z "$4" ] || mount --bind "$4" "$(readlink -f /bin/sh)"
mkdir -p /run/sshd
eval "$5"
exec "$3" -D -e -f "$2/sshd_config"
"""


@dataclass(frozen=True, slots=True)
class User:
    """A user of that machine, who has no password: ``key`` (here) lets in. ``home`` is theirs and lies on this disk."""

    name: str
    uid: int
    home: Path
    key: Path

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Writes a file of theirs, as a person at that machine would."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        for made in (path, *path.parents):
            if made == self.home:
                break
            os.chown(made, self.uid, self.uid, follow_symlinks=False)
        return path


class Sshd:
    """A running server. ``shell`` (a program) stands in for that machine's /bin/sh when it is given.

    ``lacks`` are shell lines that root there runs before it starts, in namespaces of its own ($2 is ``folder``).
    """

    def __init__(
        self,
        number: int,
        *,
        name: str = HOST,
        shell: str = "",
        lacks: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.folder = _HOMES / f"{os.getpid()}-{number}-{name}"
        self.port = _free_port()
        self._number = number
        self._shell = shell
        self._lacks = lacks
        self._options = dict(options or {})
        self._users: dict[str, User] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "log"
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "keys").mkdir(mode=0o755)
        self.host_key = self.folder / "host_key"
        self.make_host_key()
        self.user()
        self.start()

    # ---- who is there ----

    def user(self, name: str = "build", shell: str = "/bin/bash") -> User:
        """The user of that name, made if there is none yet. ``shell`` is their login shell."""
        if name not in self._users:
            uid = _FIRST_UID + self._number * _USERS_A_SLOT + len(self._users)
            home = self.folder / "homes" / name
            home.mkdir(parents=True)
            home.chmod(0o755)
            os.chown(home, uid, uid)
            key = self.folder / f"id_{name}"
            _keygen("-t", "ed25519", "-N", "", "-C", name, "-f", str(key))
            shutil.copyfile(f"{key}.pub", self.folder / "keys" / name)
            self._users[name] = User(name, uid, home, key)
            with (self.folder / "passwd").open("a") as passwd, (self.folder / "group").open("a") as group:
                if not passwd.tell():
                    passwd.write(Path("/etc/passwd").read_text())
                    group.write(Path("/etc/group").read_text())
                passwd.write(f"{name}:*:{uid}:{uid}::{home}:{shell}\n")
                group.write(f"{name}:*:{uid}:\n")
        return self._users[name]

    def make_host_key(self) -> None:
        """A new host key: what ``start`` takes from then on."""
        for path in (self.host_key, self.host_key.with_suffix(".pub")):
            path.unlink(missing_ok=True)
        _keygen("-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.host_key))

    @property
    def known(self) -> str:
        """The line of a known_hosts file that vouches for it."""
        kind, key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    @property
    def fingerprint(self) -> str:
        return _keygen("-l", "-f", str(self.host_key)).split()[1]

    # ---- how it is reached ----

    def settings(self, host: str = "", user: str = "build", *more: str) -> str:
        """A block of an SSH settings file that reaches it."""
        somebody = self.user(user)
        known = self.folder / "known_hosts"
        known.write_text(self.known)
        lines = (
            f"Host {host or self.name}",
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"User {user}",
            f"IdentityFile {somebody.key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {known}",
            "GlobalKnownHostsFile /dev/null",
            *more,
        )
        return "\n  ".join(lines) + "\n"

    # ---- its life ----

    def start(self) -> None:
        """Starts it (again), on the same port."""
        options = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "HostKey": str(self.host_key),
            "AuthorizedKeysFile": str(self.folder / "keys" / "%u"),
            "PidFile": "none",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "no",
            "StrictModes": "no",
            "PrintMotd": "yes",
            "MaxStartups": "200",
            "AcceptEnv": "*",
            "AllowTcpForwarding": "yes",
            # half the time of the default one, which the tests need often
            "KexAlgorithms": "curve25519-sha256,curve25519-sha256@libssh.org",
            **self._options,
        }
        (self.folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        spaces = ["--mount", "--propagation=private", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        words = [self.name, str(self.folder), program("sshd") or "sshd", self._shell, self._lacks]
        line = [program("unshare") or "unshare", *spaces, "--", "/bin/sh", "-c", _ENTER, "enter", *words]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self._process = start(line, self.log, env=env)
        wait_until(self._answers, self._process, self.log, what="sshd")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as peer:
                return peer.recv(4) == b"SSH-"
        except OSError:
            return False

    def stop(self) -> None:
        """Ends it and everything that runs there, at once, as a machine that loses its power."""
        if self._process is not None:
            self._process.kill()  # it waits for its child before it listens to anything else; with it all of them end
            stop(self._process)
            self._process = None

    def close(self) -> None:
        self.stop()
        remove(self.folder)

    def processes(self, mark: str) -> list[str]:
        """The command lines there that hold ``mark``."""
        return [line for _, line in self.table() if mark in line]

    def table(self) -> list[tuple[int, str]]:
        """Every live process of an ordinary user there: who it belongs to, and its command line."""
        first = _FIRST_UID + self._number * _USERS_A_SLOT
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                uid = entry.stat().st_uid
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if first <= uid < first + _USERS_A_SLOT and state not in "ZX":
                    found.append((uid, line))
        return found


def _keygen(*words: str) -> str:
    line = [program("ssh-keygen") or "ssh-keygen", "-q", *words]
    return subprocess.run(line, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def made(
    *, name: str = HOST, shell: str = "", lacks: str = "", options: Mapping[str, str] | None = None
) -> Iterator[Sshd]:
    """A machine of this run's own. What it kept is gone afterwards."""
    _HOMES.mkdir(mode=0o755, exist_ok=True)
    for left in _HOMES.iterdir():
        pid = left.name.split("-")[0]
        if not (pid.isdecimal() and alive(int(pid))):
            remove(left)
    for number in range(_SLOTS):
        with contextlib.suppress(BlockingIOError):
            held = Held(sockets() / f"sshd-{number}.lock", wait=False)
            break
    else:
        raise RuntimeError("too many machines of the tests at once")
    try:
        machine = Sshd(number, name=name, shell=shell, lacks=lacks, options=options)
        try:
            yield machine
        finally:
            machine.close()
    finally:
        held.free()
