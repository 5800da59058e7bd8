"""The control groups an engine needs. Some machines boot with few of them mounted."""

from __future__ import annotations

import subprocess
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")


def ready() -> None:
    """Mounts what is missing, as Debian's cgroupfs-mount does. Needs root; does nothing where systemd has done it."""
    if (_ROOT / "cgroup.controllers").exists():  # version 2 is one mount, and it is there
        return
    known = {line.split("\t")[0] for line in Path("/proc/cgroups").read_text().splitlines()[1:]}
    mounted = _mounted()
    if str(_ROOT) not in mounted:
        _mount("tmpfs", "mode=755", "cgroup", _ROOT)
    for name in _NEEDED:
        if name not in known or any(name in point.rsplit("/", 1)[-1].split(",") for point in mounted):
            continue
        (_ROOT / name).mkdir(exist_ok=True)
        _mount("cgroup", name, "cgroup", _ROOT / name)


def _mounted() -> set[str]:
    points = {line.split(" ")[1] for line in Path("/proc/mounts").read_text().splitlines()}
    return {point for point in points if point.startswith(str(_ROOT))}


def _mount(kind: str, options: str, source: str, point: Path) -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, source, str(point)], check=True)
