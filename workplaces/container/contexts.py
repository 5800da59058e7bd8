"""Where an engine may be: what the person said (DOCKER_HOST, a docker context), else the known sockets.

Reads files and the environment; connects to nothing. The rules are the docker CLI's own: DOCKER_HOST wins over
DOCKER_CONTEXT, that over ``currentContext`` in ``~/.docker/config.json``; the context ``default`` is no context.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workplaces.words import PLACE_WORDS

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS material for an engine, as docker keeps it: ``ca.pem``, ``cert.pem``, ``key.pem`` in one folder."""

    folder: Path
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Raises OSError (an SSLError is one) when the material is not there or not good."""
        made = ssl.create_default_context()
        if (self.folder / "ca.pem").exists():
            made.load_verify_locations(self.folder / "ca.pem")
        if (self.folder / "cert.pem").exists():
            made.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        if not self.verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        return made


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place to look for an engine. ``source`` says who named it, as a sentence can hold it.

    ``explicit`` is True when the person named it: it is then never passed over for another.
    """

    address: str
    source: str
    explicit: bool = False
    tls: Tls | None = None

    @property
    def path(self) -> str:
        """The socket's or pipe's path, empty for an address on a network."""
        scheme, _, rest = self.address.partition("://")
        return rest if scheme in ("unix", "npipe") else ""

    @property
    def podman(self) -> bool:
        """Whether Podman is what is looked for there."""
        return "Podman" in self.source

    @property
    def elsewhere(self) -> bool:
        """Whether it is on another computer, as far as its address tells."""
        parts = urlsplit(self.address)
        return parts.scheme == "ssh" or (parts.scheme == "tcp" and parts.hostname not in _LOOPBACK)


class BadEndpoint(ValueError):
    """What the person said about the engine cannot be followed. ``str(error)`` is a sentence for them."""


def endpoints(env: Mapping[str, str], home: Path) -> tuple[Endpoint, ...]:
    """Where to look, in order. One that the person named stands alone. Raises BadEndpoint."""
    named = _named(env, home)
    return (named,) if named else known(env, home)


def known(env: Mapping[str, str], home: Path) -> tuple[Endpoint, ...]:
    """The sockets where Docker, Docker Desktop, OrbStack, Colima, Rancher Desktop and Podman put themselves."""
    if sys.platform == "win32":
        return (
            Endpoint("npipe:////./pipe/docker_engine", "Docker"),
            Endpoint("npipe:////./pipe/dockerDesktopLinuxEngine", "Docker Desktop"),
            Endpoint("npipe:////./pipe/podman-machine-default", "Podman's machine"),
        )
    runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    places = [
        ("/var/run/docker.sock", "Docker"),
        (f"{home}/.docker/run/docker.sock", "Docker Desktop"),
        (f"{home}/.docker/desktop/docker.sock", "Docker Desktop"),
        (f"{home}/.orbstack/run/docker.sock", "OrbStack"),
        *((path, "Colima") for path in _colima(env, home)),
        (f"{home}/.rd/docker.sock", "Rancher Desktop"),
        (f"{runtime}/docker.sock", "rootless Docker"),
        (f"{runtime}/podman/podman.sock", "Podman"),
        ("/run/podman/podman.sock", "Podman"),
    ]
    seen: set[str] = set()
    found = []
    for path, source in places:
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            found.append(Endpoint(f"unix://{path}", source))
    return tuple(found)


def _colima(env: Mapping[str, str], home: Path) -> list[str]:
    """The sockets of Colima's profiles, the default one first whether it is there or not."""
    folders = [Path(env["COLIMA_HOME"])] if env.get("COLIMA_HOME") else [home / ".colima"]
    folders.append(Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "colima")
    first = f"{folders[0]}/default/docker.sock"
    others: list[str] = []
    for folder in folders:
        try:
            others += sorted(str(path) for path in folder.glob("*/docker.sock"))
        except OSError:
            continue
    return [first, *(path for path in others if path != first)]


def _named(env: Mapping[str, str], home: Path) -> Endpoint | None:
    folder = Path(env.get("DOCKER_CONFIG") or home / ".docker")
    if host := env.get("DOCKER_HOST", "").strip():
        tls = None
        if env.get("DOCKER_TLS_VERIFY") or env.get("DOCKER_TLS"):
            tls = Tls(Path(env.get("DOCKER_CERT_PATH") or folder), verify=bool(env.get("DOCKER_TLS_VERIFY")))
        return Endpoint(_address(host, "DOCKER_HOST"), "DOCKER_HOST", explicit=True, tls=tls)
    name = env.get("DOCKER_CONTEXT", "").strip() or _current(folder)
    return None if name in ("", "default") else _context(name, folder)


def _current(folder: Path) -> str:
    """The current context's name. A settings file that cannot be read names none, as for the docker CLI."""
    settings = _object(_read(folder / "config.json"))
    name = settings.get("currentContext")
    return name.strip() if isinstance(name, str) else ""


def _context(name: str, folder: Path) -> Endpoint:
    source = PLACE_WORDS["engine.source.context"].format(name=name)
    key = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    text = _read(folder / "contexts" / "meta" / key / "meta.json")
    if text is None:
        raise BadEndpoint(PLACE_WORDS["engine.context-gone"].format(name=name))
    docker = _object(_object(_object(text).get("Endpoints")).get("docker"))
    host = docker.get("Host")
    if not isinstance(host, str) or not host.strip():
        raise BadEndpoint(PLACE_WORDS["engine.context-bad"].format(name=name))
    tls_folder = folder / "contexts" / "tls" / key / "docker"
    skip = docker.get("SkipTLSVerify") is True
    tls = Tls(tls_folder, verify=not skip) if tls_folder.is_dir() or skip else None
    return Endpoint(_address(host.strip(), source), source, explicit=True, tls=tls)


def _address(text: str, source: str) -> str:
    """The address in one spelling. Raises BadEndpoint for what is none."""
    scheme, separator, rest = text.partition("://")
    try:
        parts = urlsplit(text)
        network_ok = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        network_ok = False
    if separator and rest and "\0" not in text and text.isprintable():
        if scheme == "unix":
            return "unix:///" + rest.lstrip("/")
        if scheme == "npipe":
            return text.replace("\\", "/")
        if scheme in ("tcp", "ssh") and network_ok:
            return text
    raise BadEndpoint(PLACE_WORDS["engine.address"].format(source=source, address=text if text.isprintable() else "?"))


def _read(path: Path) -> Any:
    """A JSON file's content, None when it is not there or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
