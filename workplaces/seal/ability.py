"""Whether a box can be made here: found out by making one, never by looking for a program."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from workplaces.place import NextStep, PlaceUnavailable
from workplaces.seal.bubblewrap import OLDEST, Bubblewrap
from workplaces.seal.policy import Policy, private_folders
from workplaces.seal.seccomp import filter_program
from workplaces.words import PLACE_WORDS

_TRIES = 3
_PATIENCE = 10.0
NEED = "bubblewrap"
# In the box: its own abilities, its network devices, and whether the kernel's settings can be opened for writing.
_LOOK = (
    "cat /proc/self/status /proc/net/dev; { true >> /proc/sys/kernel/core_pattern; } 2>/dev/null && echo WRITES; exit 0"
)
_INSTALL = (
    ("apt-get", "sudo apt install bubblewrap"),
    ("dnf", "sudo dnf install bubblewrap"),
    ("pacman", "sudo pacman -S bubblewrap"),
    ("zypper", "sudo zypper install bubblewrap"),
    ("apk", "sudo apk add bubblewrap"),
    ("emerge", "sudo emerge sys-apps/bubblewrap"),
    ("nix-env", "nix-env -iA nixpkgs.bubblewrap"),
)
_APPARMOR = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap {path} flags=(unconfined) {{\\n"
    "  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
)
_SYSCTL = "echo {name}={value} | sudo tee /etc/sysctl.d/90-conch.conf && sudo sysctl --system"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBox:
    """Why no box can be made: one sentence, the one next step, and what was seen, for the log."""

    words: str
    next_step: NextStep | None
    details: str = ""

    def error(self) -> PlaceUnavailable:
        return PlaceUnavailable(self.words, next_step=self.next_step, need=NEED, details=self.details)


def probe() -> Bubblewrap | NoBox:
    """Makes a box and looks round in it. Takes some ten milliseconds; raises nothing."""
    path = shutil.which("bwrap")
    if path is None:
        return NoBox(words=PLACE_WORDS["box.missing"], next_step=_install(PLACE_WORDS["box.missing.next"]))
    version = _version(path)
    if version < OLDEST:
        label = PLACE_WORDS["box.old.next"]
        return NoBox(
            words=PLACE_WORDS["box.old"].format(version=".".join(map(str, version)) or "?"), next_step=_install(label)
        )
    failed = ""
    for users in (True, False):
        made = Bubblewrap(path, version, users)
        failed = _try(made)
        if not failed:
            return made
    return _refused(path, failed)


def _try(made: Bubblewrap) -> str:
    """Makes a box, and again when a mount went away meanwhile (another box's, most likely): nothing against this one.
    Gives what went wrong, empty when it is as it must be."""
    failed = ""
    for _ in range(_TRIES):
        failed = _once(made)
        if "No such file or directory" not in failed:
            break
    return failed


def _once(made: Bubblewrap) -> str:
    """Makes a box with all that a sealed one asks for, and looks round in it. What went wrong, as ``_try`` gives it."""
    policy = Policy(start=Path("/"), sealed=True, network=False, env={"PATH": os.defpath}, private=private_folders())
    words = made.options(policy, Path(os.devnull))
    program = filter_program()
    read, write = os.pipe()
    try:
        if program:
            os.write(write, program)
            words += ["--seccomp", str(read)]
        os.close(write)
        done = subprocess.run(
            [made.path, *words, "--", "/bin/sh", "-c", _LOOK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            pass_fds=(read,),
            env={},
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap: {error}"
    finally:
        os.close(read)
    if done.returncode != 0:
        return done.stderr.strip() or f"bwrap ended with {done.returncode}"
    return _wrong(done.stdout, bool(program))


def _wrong(seen: str, filtered: bool) -> str:
    """What in the box is not as it must be, by what it answered."""
    status = dict(re.findall(r"^(\w+):\s*(\S+)", seen, re.MULTILINE))
    devices = set(re.findall(r"^ *([\w.@-]+): *\d+ ", seen, re.MULTILINE))
    wanted = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2" if filtered else "0"}
    wrong = [f"{name} is {status.get(name)}" for name, value in wanted.items() if status.get(name) != value]
    if devices - {"lo"}:
        wrong.append(f"it has the network devices {', '.join(sorted(devices))}")
    if "WRITES" in seen:
        wrong.append("the kernel's settings can be written")
    return "the box does not hold: " + "; ".join(wrong) if wrong else ""


def _version(path: str) -> tuple[int, ...]:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        line = [path, "--version"]
        told = subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE, check=False).stdout
        if found := re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", told):
            return tuple(int(part) for part in found.groups() if part is not None)
    return ()


def _install(label: str) -> NextStep:
    return NextStep(label, command=next((line for name, line in _INSTALL if shutil.which(name)), ""))


def _refused(path: str, failed: str) -> NoBox:
    """Words for a bubblewrap that is there and could not make its box."""
    label = PLACE_WORDS["box.refused.next"]
    if _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1 and os.geteuid() != 0:
        step = NextStep(label, command=_APPARMOR.format(path=os.path.realpath(path)))
        return NoBox(words=PLACE_WORDS["box.apparmor"], next_step=step, details=failed)
    for name, value in (("kernel.unprivileged_userns_clone", 1), ("user.max_user_namespaces", 15000)):
        if _setting("/proc/sys/" + name.replace(".", "/")) == 0:
            step = NextStep(label, command=_SYSCTL.format(name=name, value=value))
            return NoBox(words=PLACE_WORDS["box.refused"], next_step=step, details=failed)
    step = NextStep(PLACE_WORDS["box.failed.next"], action="choose-place")
    refused = re.search(r"namespace|uid map|Operation not permitted|Permission denied", failed)
    words = PLACE_WORDS["box.refused" if refused else "box.failed"]
    return NoBox(words=words, next_step=step, details=failed)


def _setting(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
