"""What a real test needs of this machine, and what happens when it is not there."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

# Which Debian package brings each program that a real test starts.
PACKAGES = {
    "Xvfb": "xvfb",
    "busybox": "busybox",
    "bwrap": "bubblewrap",
    "catatonit": "catatonit",
    "conmon": "conmon",
    "dbus-run-session": "dbus",
    "debootstrap": "debootstrap",
    "docker-registry": "docker-registry",
    "dockerd": "docker.io",
    "fish": "fish",
    "git": "git",
    "gnome-keyring-daemon": "gnome-keyring",
    "ip": "iproute2",
    "newgidmap": "uidmap",
    "newuidmap": "uidmap",
    "podman": "podman",
    "runc": "runc",
    "setpriv": "util-linux",
    "slirp4netns": "slirp4netns",
    "ssh": "openssh-client",
    "ssh-add": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "tcsh": "tcsh",
    "useradd": "passwd",
    "usermod": "passwd",
    "unshare": "util-linux",
    "xdotool": "xdotool",
    "xwininfo": "x11-utils",
}
# Programs that live where an ordinary user's PATH does not look.
_EXTRA_PATH = "/usr/sbin:/sbin:/usr/local/sbin"


def in_ci() -> bool:
    """Whether this run must not leave a real test out."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def program(name: str) -> str | None:
    """Where a program is, also looked for where only root's PATH looks; None when it is not there."""
    return shutil.which(name) or shutil.which(name, path=_EXTRA_PATH)


def missing(reason: str) -> NoReturn:
    """Ends the test: failed in CI, where every real test must run, skipped with the reason elsewhere."""
    if in_ci():
        pytest.fail(f"in CI every real test must run: {reason}", pytrace=False)
    pytest.skip(reason)


def need(*programs: str, root: bool = False) -> None:
    """Says what a test leans on. Ends it (see ``missing``) when one of the programs is not here, or root is needed."""
    for name in programs:
        if program(name) is None:
            package = PACKAGES.get(name)
            missing(f"{name} is not here" + (f" (Debian package {package})" if package else ""))
    if root and os.geteuid() != 0:
        missing("it needs root, to start an engine of its own")
