"""Host keys and the person's own, for the library's line: known_hosts by sshd(8), and keys in ssh's own order."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hmac
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.agent import AgentKey, AgentSSH

from workplaces.ssh.lines import is_locked
from workplaces.ssh.meaning import Meaning

_LARGEST_FILE = 8 * 1024 * 1024
_SIGNED_BY = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class Unmet(Exception):
    """A host key or one of ours was not taken. ``said`` is it as ssh says it; ``locked`` a key that is under a
    passphrase."""

    def __init__(self, said: str, locked: Path | None = None) -> None:
        super().__init__(said)
        self.said = said
        self.locked = locked


# ---- the machine's key ----


@dataclass(frozen=True, slots=True)
class _Known:
    marker: str
    kind: str
    blob: bytes


class HostKeyChecker:
    """What is known of one machine's keys, read when it is made."""

    def __init__(self, name: str, files: tuple[Path, ...], mine: Path | None, *, add: bool, hashed: bool) -> None:
        self._name = name
        self._mine = mine
        self._add = add
        self._hashed = hashed
        self._known = tuple(known for file in files for known in _read(file, name))

    def prefer(self, transport: paramiko.Transport) -> None:
        """Asks the machine for a kind of key that is known, if it has one."""
        options = transport.get_security_options()
        wanted = [kind for known in self._known for kind in _SIGNED_BY.get(known.kind, (known.kind,))]
        usual = tuple(options.key_types)
        options.key_types = tuple(dict.fromkeys([kind for kind in wanted if kind in usual] + list(usual)))

    def check(self, key: paramiko.PKey) -> None:
        """Raises Unmet unless the key is known, or is new and may be learnt."""
        blob, kind = key.asbytes(), key.get_name()
        if any(known.marker == "@revoked" and known.blob == blob for known in self._known):
            raise Unmet("REVOKED HOST KEY DETECTED")
        trusted = [known for known in self._known if not known.marker]
        if any(known.blob == blob for known in trusted):
            return
        if any(known.kind == kind for known in trusted):
            raise Unmet(f"REMOTE HOST IDENTIFICATION HAS CHANGED: {key.fingerprint}")
        if not self._add:
            raise Unmet(f"Host key verification failed: no hostkey is known for {self._name} ({key.fingerprint})")
        if self._mine is not None:
            self._learn(self._mine, kind, blob)

    def _learn(self, file: Path, kind: str, blob: bytes) -> None:
        name = paramiko.HostKeys.hash_host(self._name) if self._hashed else self._name
        line = f"{name} {kind} {base64.b64encode(blob).decode()}\n"
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as known:
                known.write(line)
        except OSError:
            return  # as ssh: it is met again as new


def host_key_checker(meaning: Meaning, strict: str) -> HostKeyChecker:
    """For one machine, by its known_hosts files. ``strict`` is what StrictHostKeyChecking is to be."""
    name = meaning.first("hostkeyalias") or meaning.hostname.lower()
    if not meaning.first("hostkeyalias") and meaning.port != 22:
        name = f"[{name}]:{meaning.port}"
    own = tuple(Path(word).expanduser() for word in meaning.words("userknownhostsfile") if word != "none")
    shared = tuple(Path(word).expanduser() for word in meaning.words("globalknownhostsfile") if word != "none")
    hashed = meaning.first("hashknownhosts") == "yes"
    return HostKeyChecker(name, own + shared, own[0] if own else None, add=strict == "accept-new", hashed=hashed)


def _read(file: Path, name: str) -> Iterator[_Known]:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LARGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) >= 3 and marker != "@cert-authority" and _names(words[0], name):
            try:
                yield _Known(marker, words[1], base64.b64decode(words[2], validate=True))
            except binascii.Error:
                continue


def _names(field: str, name: str) -> bool:
    if field.startswith("|1|"):
        parts = field.split("|")
        try:
            salt, wanted = base64.b64decode(parts[2]), base64.b64decode(parts[3])
        except (binascii.Error, IndexError):
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), wanted)
    held = [one for one in field.split(",") if _fits(name, one.removeprefix("!"))]
    return bool(held) and not any(one.startswith("!") for one in held)


def _fits(name: str, pattern: str) -> bool:
    # "[" begins no class here: it is how a port is written
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


# ---- the person's keys ----


def sign_in(transport: paramiko.Transport, meaning: Meaning) -> None:
    """Tries the keys that ssh would, in its order. Raises Unmet when none is taken."""
    files = [Path(text.strip('"')).expanduser() for text in meaning.said.get("identityfile", ())]
    files = [file for file in files if file.exists()]
    locked: Path | None = None
    with _Agent(meaning.first("identityagent", "SSH_AUTH_SOCK")) as agent:
        held = agent.keys()
        only = meaning.first("identitiesonly") == "yes"
        mine = [(file, _public(file)) for file in files]
        ordered: list[AgentKey | Path] = []
        for _, blob in mine:
            ordered += [key for key in held if blob and key.blob == blob]
        if not only:
            ordered += [key for key in held if key not in ordered]
        tried = {key.blob for key in ordered if isinstance(key, AgentKey)}
        ordered += [file for file, blob in mine if blob is None or blob not in tried]
        for one in ordered:
            key = one if isinstance(one, AgentKey) else _load(one)
            if key is None:
                if isinstance(one, Path) and is_locked(one):
                    locked = locked or one
                continue
            try:
                if not transport.auth_publickey(meaning.user, key):
                    return
            except paramiko.BadAuthenticationType as error:
                raise Unmet(f"Permission denied ({','.join(error.allowed_types)}).", locked) from error
            except paramiko.AuthenticationException:
                continue
    raise Unmet("Permission denied (publickey).", locked)


def _load(file: Path) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(file)
    except Exception:  # noqa: BLE001 - the reader raises what it likes; a key that cannot be read is not tried
        return None


def _public(file: Path) -> bytes | None:
    """What a key file's public half is, None when that is not known without its passphrase."""
    try:
        words = file.with_name(f"{file.name}.pub").read_text(errors="replace").split()
        return base64.b64decode(words[1])
    except (OSError, IndexError, binascii.Error):
        key = _load(file)
        return key.asbytes() if key is not None else None


class _Agent:
    """The agent that the settings name. ``none`` is none; a name or a path is where it listens."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._agent: AgentSSH | None = None

    def __enter__(self) -> _Agent:
        self._agent = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        if self._agent is not None:
            self._agent._close()  # type: ignore[attr-defined]

    def keys(self) -> list[AgentKey]:
        return list(self._agent.get_keys()) if self._agent is not None else []

    def _open(self) -> AgentSSH | None:
        try:
            if sys.platform == "win32":
                return paramiko.Agent()
            name = self._where.strip('"')
            path = os.environ.get(name.lstrip("$").strip("{}"), "") if "/" not in name else name
            if not path:
                return None
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(10)
                sock.connect(str(Path(path).expanduser()))
                agent = AgentSSH()
                agent._connect(sock)  # type: ignore[attr-defined]
            except BaseException:
                sock.close()
                raise
            return agent
        except (OSError, paramiko.SSHException):
            return None
