"""Engines' own programs: where they are, also for an app that was not started from a terminal, and running them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# An app that the Dock starts has a short PATH: what Homebrew and the installers of engines add is not in it.
_MORE = {
    "darwin": (
        "/opt/podman/bin",
        "/opt/homebrew/bin",
        "/usr/local/bin",
        "~/.orbstack/bin",
        "~/.rd/bin",
        "~/.docker/bin",
    ),
    "linux": ("/usr/local/sbin", "/usr/sbin", "/sbin", "~/.rd/bin", "~/.local/bin"),
}
_TEMPERED = ("CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "DOCKER_HOST", "DOCKER_CONTEXT")
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. ``code`` is None when it was not there, or did not end in time."""

    code: int | None
    out: str = ""
    said: str = ""

    @property
    def line(self) -> str:
        """The last thing that it said, for a sentence."""
        lines = [line for line in (self.said or self.out).splitlines() if line.strip()]
        return lines[-1].strip()[:_LONGEST_LINE] if lines else ""


def program(name: str, env: Mapping[str, str], platform: str = sys.platform) -> str:
    """Where a program is, by the PATH of ``env`` and where engines put theirs. Empty when it is not here."""
    home = env.get("HOME") or str(Path.home())
    more = [folder.replace("~", home, 1) for folder in _MORE.get(platform, ())]
    return shutil.which(name, path=os.pathsep.join([env.get("PATH", os.defpath), *more])) or ""


def run(argv: Sequence[str], env: Mapping[str, str], limit: float) -> Ran:
    """Runs a program and waits for it, ``limit`` seconds at most. It is not told of another engine. Never raises."""
    try:
        done = subprocess.run(
            list(argv),
            env=own_env(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
            start_new_session=sys.platform != "win32",  # a person's Ctrl+C ends Conch, not what an engine is doing
        )
    except subprocess.TimeoutExpired as error:
        return Ran(None, said=str(error))
    except (OSError, ValueError) as error:
        return Ran(None, said=str(error))
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def own_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment for an engine's own program: the person's, without what would send it to another engine."""
    return {name: value for name, value in env.items() if name not in _TEMPERED}
