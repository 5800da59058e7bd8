"""Where a folder of this computer is in a box: at the same path, and on Windows at ``/c/x`` for ``C:\\x``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from workplaces.folder import shown


def inside(path: PurePath) -> str:
    """The path in a box. A Windows path loses its colon and has its drive as the first folder, in lower case.

    A share (``\\\\server\\share\\x``) is ``/server/share/x``.
    """
    if isinstance(path, PurePosixPath):
        return str(path)
    if not path.is_absolute():
        return path.as_posix()
    drive = path.drive.replace("\\", "/").strip("/").removesuffix(":")
    first = drive.lower() if len(drive) == 1 else drive
    return "/".join(["", first, *path.parts[1:]])


def shown_inside(folder: Path) -> str:
    """The folder's path in a box, as a sentence can hold it. Windows lets no name hold what does not print."""
    return shown(folder) if isinstance(folder, PurePosixPath) else inside(folder)


def told(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an engine on Windows is told for a box: sources stay as they are, what is in the box is a path of Linux.

    Shallow mounts come first again, now that their depth can be told.
    """
    host = body["HostConfig"]
    mounts = [{**mount, "Target": _linux(mount["Target"])} for mount in host["Mounts"]]
    mounts.sort(key=lambda mount: mount["Target"].count("/"))
    return {**body, "WorkingDir": _linux(body["WorkingDir"]), "HostConfig": {**host, "Mounts": mounts}}


def _linux(path: str) -> str:
    return path if path.startswith("/") else inside(PureWindowsPath(path))
