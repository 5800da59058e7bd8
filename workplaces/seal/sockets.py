"""Every unix socket with a path that a command could talk to: an engine's is root, an agent's is the person's keys.

A read-only file system does not stop a connection, so each must be covered by name. Those in use are asked of the
kernel, anew for every command; those of engines that are not running yet, or that listen from a network namespace of
their own, are looked for where they put themselves.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterator
from pathlib import Path

# Folders of sockets and of machines' keys, from the home folder.
_ENGINE_FOLDERS = (
    *(".docker", ".lima", ".colima", ".config/colima", ".orbstack", ".rd", ".1password"),
    *(".local/share/containers/podman/machine", ".local/share/docker", ".minikube", ".crc"),
)
_ENGINE_FILES = (
    ".bitwarden-ssh-agent.sock",
    ".Xauthority",
    ".ICEauthority",
    ".config/containers/podman-connections.json",
)
_SYSTEM = (
    *("/var/snap/lxd/common/lxd", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/libvirt", "/var/lib/rancher"),
    *("/var/lib/mysql/mysql.sock", "/var/spool/postfix/private", "/var/spool/postfix/public", "/var/agentx"),
)
_NAMED_BY = ("DOCKER_HOST", "CONTAINER_HOST", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "XAUTHORITY", "WAYLAND_DISPLAY")
_LINE = re.compile(rb"^[0-9a-f]+: [0-9A-F]+ [0-9A-F]+ [0-9A-F]+ [0-9A-F]+ [0-9A-F]+ +([0-9]+) (?!@)(.+)$", re.MULTILINE)
_UNIX = "unix://"


def sockets_and_engines(home: Path) -> tuple[str, ...]:
    """Paths to hide from a sealed command: sockets in use, engines' sockets and folders. Most do not exist."""
    found = [os.path.join(home, name) for name in (*_ENGINE_FOLDERS, *_ENGINE_FILES)]  # noqa: PTH118 - many, and often
    return (*found, *_SYSTEM, *_named(), *_contexts(home), *bound())


def bound() -> Iterator[str]:
    """The paths of the sockets in use on this computer, as the kernel lists them. Those that are gone stay out."""
    try:
        with open("/proc/net/unix", "rb") as listed:  # noqa: PTH123 - read for every command
            lines = listed.read()
    except OSError:
        return
    relative: dict[int, bytes] = {}
    for inode, path in _LINE.findall(lines):
        if path.startswith(b"/"):
            yield os.fsdecode(path)
        else:
            relative[int(inode)] = path
    if relative:
        _find(relative)
        yield from (path for inode in relative if (path := _found.get(inode)))
    _forget(relative)


# Where a socket bound by a relative name lies, by its inode. Empty where it could not be told.
_found: dict[int, str] = {}


def _forget(still: Container[int]) -> None:
    for inode in [inode for inode in _found if inode not in still]:
        del _found[inode]


def _find(sockets: dict[int, bytes]) -> None:
    """Sockets bound by a relative name (a long path is often bound so): looked for from where their programs stand."""
    unknown = {f"socket:[{inode}]": inode for inode in sockets if inode not in _found}
    if not unknown:
        return
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            here = os.readlink(process / "cwd")  # noqa: PTH115 - a name, not a path of ours
            links = [os.readlink(entry.path) for entry in os.scandir(process / "fd")]  # noqa: PTH115
        except OSError:
            continue  # it ended, or it is somebody else's
        for link in links:
            if link in unknown:
                _found[unknown[link]] = os.path.normpath(os.path.join(here, os.fsdecode(sockets[unknown[link]])))  # noqa: PTH118
    for inode in unknown.values():
        _found.setdefault(inode, "")


def _named() -> Iterator[str]:
    for name in _NAMED_BY:
        value = os.environ.get(name, "").removeprefix(_UNIX)
        if os.path.isabs(value):  # noqa: PTH117 - before it is a path
            yield value.split(":")[0] if name == "GPG_AGENT_INFO" else value


def _contexts(home: Path) -> Iterator[str]:
    """The sockets that docker contexts name."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "contexts" / "meta"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - read for every command
    except OSError:
        return
    for name in names:
        try:
            endpoint = json.loads((folder / name / "meta.json").read_bytes())["Endpoints"]["docker"]["Host"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(endpoint, str) and endpoint.startswith(_UNIX):
            yield "/" + endpoint.removeprefix(_UNIX).lstrip("/")
