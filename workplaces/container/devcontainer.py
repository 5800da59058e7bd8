"""The image that a folder's own ``devcontainer.json`` names (containers.dev, "devcontainer.json reference").

It is only ever offered: whoever made the folder wrote it, and the person decides what their boxes are made from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workplaces.container.image import Reference
from workplaces.place import PlaceUnavailable
from workplaces.plain import read_plain

_LARGEST = 256 * 1024
_MOST = 20


@dataclass(frozen=True, slots=True)
class Offer:
    """An image, and the file that names it, from the folder on."""

    image: str
    file: Path


def offered_images(folder: Path) -> tuple[Offer, ...]:
    """What the folder's files name, the usual place first. Without those that are built (a Dockerfile, a compose file)
    or that a variable is part of. Touches the disk; never raises."""
    found: dict[str, Offer] = {}
    for file in _files(folder):
        image = _settings(file).get("image")
        if not isinstance(image, str) or "$" in image:
            continue
        try:
            Reference.parse(image)
        except PlaceUnavailable:
            continue
        found.setdefault(image.strip(), Offer(image.strip(), file.relative_to(folder)))
    return tuple(found.values())


def _files(folder: Path) -> Iterator[Path]:
    inner = folder / ".devcontainer"
    yield from (inner / "devcontainer.json", folder / ".devcontainer.json")
    try:
        names = sorted(os.listdir(inner))[:_MOST]  # noqa: PTH208 - names alone
    except OSError:
        return
    yield from (inner / name / "devcontainer.json" for name in names)


def _settings(file: Path) -> dict[str, Any]:
    """The file's content: JSON with comments and trailing commas."""
    try:
        text = read_plain(file, _LARGEST).decode("utf-8-sig")
    except (OSError, ValueError):
        return {}
    import json5

    try:
        content = json5.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
