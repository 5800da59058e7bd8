"""The box on macOS: a Seatbelt profile for a policy, and the command line that puts it on.

It was written from Apple's own profiles and ``sandbox-exec(1)``, and its text is tested; **it was never run on a Mac**.
Seatbelt allows and denies by path and has no namespaces: there is no private ``/tmp`` (a sealed command writes to a
folder of its own that TMPDIR names), and a command's processes are found by its group, descent and mark instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from workplaces.seal.policy import Policy

PROGRAM = "/usr/bin/sandbox-exec"
# Devices that a shell and a build write to.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/tty", "/dev/ptmx")
_PRELUDE = """\
(version 1)
(deny default)
(import "system.sb")
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-priv-task-port (target same-sandbox))
(allow pseudo-tty)
(allow ipc-posix-sem)
(allow file-read*)
(allow file-read* file-write-data file-ioctl {devices})
"""
_OPEN = """\
(version 1)
(allow default)
"""


def profile(policy: Policy) -> str:
    """The profile, in Seatbelt's language. A later rule wins over an earlier one, so what is denied comes last."""
    if policy.sealed:
        text = _PRELUDE.format(devices=_named("literal", map(Path, _DEVICES)))
        text += _rule("allow", "file-write*", _named("subpath", policy.writable))
    else:
        text = _OPEN
    kept = _named("subpath", policy.read_only)
    text += _rule("deny", "file-write*", kept)
    # A folder on the way, and what is kept itself, may not be renamed or removed.
    text += _rule("deny", "file-write-unlink", _named("literal", (*policy.pinned, *policy.read_only)))
    hidden = (*policy.hidden_folders, *policy.hidden_files)
    text += _rule("deny", "file-read* file-write* process-exec", _named("subpath", hidden))
    inner = [path for path in policy.writable if path != Path("/") and any(out in path.parents for out in hidden)]
    text += _rule("allow", "file-read* file-write*", _named("subpath", inner))
    if not policy.network:
        text += "(deny network*)\n(deny system-socket)\n"
    return text


def command(policy: Policy, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``argv`` under the policy."""
    return [PROGRAM, "-p", profile(policy), "--", *argv]


def _rule(verdict: str, operations: str, filters: str) -> str:
    return f"({verdict} {operations} {filters})\n" if filters else ""


def _named(kind: str, paths: Iterable[Path]) -> str:
    return " ".join(f"({kind} {_quoted(str(path))})" for path in paths)


def _quoted(text: str) -> str:
    """A string as Seatbelt's language (a Scheme) reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
