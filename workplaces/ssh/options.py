"""How ssh is started: what it is told before it reads the person's own settings, so that ours win (ssh_config(5): the
first value obtained is used).

It is started in a folder of Conch's own, and every file of ours is named from there. So a socket's name stays within
what the system takes however long the folder's own name is, and a folder with a space in its name needs no quoting in
the command that ssh makes of ProxyJump.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

CONNECT_LIMIT = 10  # seconds a machine may take to answer at all
_ALIVE_EVERY = 15  # seconds of silence after which it is asked whether it is still there
_ALIVE_TIMES = 3

# No password is ever asked for, and nothing of this computer goes along: no agent, no display, no ports, no commands.
_FIRST: tuple[tuple[str, str], ...] = (
    ("BatchMode", "yes"),
    ("ForwardAgent", "no"),
    ("ForwardX11", "no"),
    ("ForwardX11Trusted", "no"),
    ("ClearAllForwardings", "yes"),
    ("PermitLocalCommand", "no"),
    ("Tunnel", "no"),
    # What would run or be shared in place of ours.
    ("RemoteCommand", "none"),
    ("RequestTTY", "no"),
    ("ControlMaster", "no"),
    ("ControlPath", "none"),
    ("ControlPersist", "no"),
    # Nothing is learnt from a machine, and a dead one is noticed.
    ("UpdateHostKeys", "no"),
    ("ConnectTimeout", str(CONNECT_LIMIT)),
    ("ServerAliveInterval", str(_ALIVE_EVERY)),
    ("ServerAliveCountMax", str(_ALIVE_TIMES)),
    ("LogLevel", "INFO"),
    ("FingerprintHash", "sha256"),
)
# Known from these versions on; an older one calls them a mistake. The value of SetEnv is there to keep theirs out.
_SINCE_7_8 = (("SetEnv", "CONCH=1"),)
_SINCE_8_7 = (("SessionType", "default"), ("StdinNull", "no"), ("ForkAfterAuthentication", "no"))
_VERSION = re.compile(r"OpenSSH(?:_for_Windows)?_(\d+)\.(\d+)")


def version(said: str) -> tuple[int, int]:
    """The version in what ``ssh -V`` said; (0, 0) when it names none."""
    found = _VERSION.search(said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def first_options(ssh: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    """What is given first, for that version of ssh."""
    return _FIRST + (_SINCE_7_8 if ssh >= (7, 8) else ()) + (_SINCE_8_7 if ssh >= (8, 7) else ())


def command_options(ssh: tuple[int, int], **more: str) -> list[str]:
    """The same as words of a command line. ``more`` stands before it, so it wins."""
    pairs = (*more.items(), *first_options(ssh))
    return [word for name, value in pairs for word in ("-o", f"{name}={value}")]


def settings_text(person: Path, ssh: tuple[int, int], strict: Mapping[str, str]) -> str:
    """A settings file that holds what is given first and then the person's own.

    ssh hands it on to the ssh that it starts for each jump, which would otherwise ask for passwords and share the
    person's own connections. ``strict`` is what StrictHostKeyChecking is for each machine that is named.
    """
    lines = [f"{name} {value}" for name, value in first_options(ssh)]
    for host, value in strict.items():
        lines += [f'Host "{host}"', f"  StrictHostKeyChecking {value}"]
    lines += ["Host *" if strict else "", f"Include {_quoted(person)}", f"Include {_quoted(system_settings())}"]
    return "\n".join(lines) + "\n"


def system_settings() -> Path:
    """Where the settings for everyone on this computer are."""
    if sys.platform == "win32":
        return Path(os.environ.get("PROGRAMDATA", "C:\\ProgramData")) / "ssh" / "ssh_config"
    return Path("/etc/ssh/ssh_config")


def strict_checking(theirs: str) -> str:
    """What StrictHostKeyChecking is to be: as theirs, but never asking, and never taking a key that changed."""
    if theirs.lower() in ("no", "off", "false", "accept-new"):
        return "accept-new"
    return "yes"


def environment(unsent: Iterable[str] = (), base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment ssh is started with: the person's own, without what would ask them on their screen.

    ``unsent`` are patterns of names that their settings would send to the machine (SendEnv): those are left out.
    """
    patterns = tuple(unsent)
    base = os.environ if base is None else base
    keep = {
        name: value
        for name, value in base.items()
        if name != "SSH_ASKPASS" and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    return {**keep, "SSH_ASKPASS_REQUIRE": "never"}


def _quoted(path: Path) -> str:
    """A file's name for an Include, which is a pattern there."""
    text = re.sub(r"([*?\[\]])", r"[\1]", str(path)) if sys.platform != "win32" else str(path).replace("\\", "/")
    return f'"{text}"'
