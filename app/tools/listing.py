"""Walking the work folder: by descriptor, no link followed, no protected place opened. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.tools.base import ToolFailed
from app.tools.folder import DEPENDENCIES, Folder, Parts, show

MOST_LISTED = 1000
MOST_SEEN = 200_000

Kind = Literal["file", "folder", "link", "other", "closed"]


@dataclass(frozen=True, slots=True)
class Found:
    """``closed`` is a folder that is named and not opened: dependencies, .git, or one that may not be read."""

    parts: Parts
    kind: Kind
    size: int = 0
    parent: int = -1
    """The descriptor of the folder it is in, while the walk stands at it."""


def walk(folder: Folder, top: Parts, depth: int) -> Iterator[Found]:
    """What lies under ``top``, a folder's own things sorted by name, folders before what is in them."""
    with folder.directory(top) as number:
        yield from _walk(folder, number, top, depth)


def _walk(folder: Folder, number: int, at: Parts, depth: int) -> Iterator[Found]:
    with os.scandir(number) as entries:
        names = sorted(entries, key=lambda entry: entry.name)
    for entry in names:
        parts = (*at, entry.name)
        if folder.hides(parts):
            continue
        kind = _kind(entry)
        if kind != "folder":
            yield Found(parts, kind, _size(entry) if kind == "file" else 0, number)
            continue
        if entry.name in DEPENDENCIES or entry.name == ".git" or depth <= 1:
            yield Found(parts, "closed" if depth > 1 else "folder")
            continue
        try:
            inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=number)
        except OSError:
            yield Found(parts, "closed")
            continue
        try:
            if folder.hides_identity(os.fstat(inner)):
                continue
            yield Found(parts, "folder")
            yield from _walk(folder, inner, parts, depth - 1)
        finally:
            os.close(inner)


def _kind(entry: os.DirEntry[str]) -> Kind:
    with contextlib.suppress(OSError):
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if entry.is_file(follow_symlinks=False):
            return "file"
    return "other"


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def list_files(folder: Folder, top: Parts, depth: int) -> str:
    """The listing, for the model. Raises ToolFailed."""
    lines: list[str] = []
    more = 0
    for seen, found in enumerate(walk(folder, top, depth)):
        if seen >= MOST_SEEN:
            lines.append(f"… and what lies beyond {MOST_SEEN:,} entries was not looked at.")
            break
        if len(lines) >= MOST_LISTED:
            more += 1
            continue
        lines.append(_line(found, top))
    if not lines:
        return f"{show(top)} is empty." if top else "The work folder is empty."
    if more:
        lines.append(f"… and {more:,} more. List a folder of it, or less deep.")
    return "\n".join(lines)


def _line(found: Found, top: Parts) -> str:
    name = show(found.parts[len(top) :])
    match found.kind:
        case "file":
            return f"{name}  {found.size:,} bytes"
        case "folder":
            return f"{name}/"
        case "closed":
            return f"{name}/  (not opened)"
        case "link":
            return f"{name}  (a link, not followed)"
    return f"{name}  (not a plain file)"


__all__ = ["Found", "ToolFailed", "list_files", "walk"]
