"""Podman's machine: the virtual machine that Podman runs in where it cannot run by itself (macOS, Windows)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workplaces.container.contexts import Endpoint
from workplaces.container.programs import program, run

ASK_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. ``endpoint`` is where it listens when it runs, None when Podman does not say."""

    name: str
    running: bool
    endpoint: Endpoint | None


def found_machines(env: Mapping[str, str], home: Path, platform: str = sys.platform) -> list[Machine]:
    """Podman's machines, as ``podman machine inspect`` tells. Asks a program, for ASK_LIMIT seconds at most."""
    podman = program("podman", env, platform)
    if not podman or (platform == "linux" and not _has_settings(env, home)):
        return []
    ran = run((podman, "machine", "inspect"), env, ASK_LIMIT)
    try:
        told = json.loads(ran.out) if ran.code == 0 else []
    except (ValueError, RecursionError):
        return []
    return [_read(entry, platform) for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []


def machines(env: Mapping[str, str], home: Path) -> Iterator[Endpoint]:
    """Where the machines listen that run."""
    for machine in found_machines(env, home):
        if machine.running and machine.endpoint is not None:
            yield machine.endpoint


def _has_settings(env: Mapping[str, str], home: Path) -> bool:
    """On Linux hardly anybody has one: it is only asked about where there is a trace of one."""
    return (Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "podman" / "machine").is_dir()


def _read(entry: Mapping[str, Any], platform: str) -> Machine:
    where = entry.get("ConnectionInfo")
    kind, scheme = ("PodmanPipe", "npipe") if platform == "win32" else ("PodmanSocket", "unix")
    told = where.get(kind) if isinstance(where, dict) else None
    path = told.get("Path") if isinstance(told, dict) else None
    endpoint = None
    if isinstance(path, str) and path:
        endpoint = Endpoint(f"{scheme}://{path.replace(chr(92), '/')}", "Podman's machine")
    return Machine(str(entry.get("Name") or ""), str(entry.get("State")).lower() == "running", endpoint)
