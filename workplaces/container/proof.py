"""What exactly ran a command, as the engine says when its box has ended, and the note for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workplaces.container import limits
from workplaces.container.box import kept_inside, words_of
from workplaces.container.engine import Engine
from workplaces.container.image import Image
from workplaces.container.life import Ended, Life
from workplaces.container.paths import inside
from workplaces.folder import WorkFolder
from workplaces.place import CONTAINER, Proof, RunRequest
from workplaces.words import PLACE_WORDS

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def prove(engine: Engine, image: Image, folder: WorkFolder, life: Life, ended: Ended | None, *, open: bool) -> Proof:
    """The proof. What the engine says of the box is read back; where it no longer said anything, that is said.

    ``box`` says whether the box was made ahead of its command; either way it served this one and no other.
    """
    seen: Mapping[str, Any] = ended.seen if ended else {}
    details = {
        "engine": engine.name,
        "endpoint": engine.endpoint.address,
        "found": engine.endpoint.source,
        "image": str(image.reference),
        "image id": str(seen.get("Image") or image.id),
        "box": "made ahead" if life.ahead else "made for it",
        "digest": image.digest if seen.get("Image", image.id) == image.id else "",
    }
    if ended is not None and ended.line is not None:
        details["folder proven by"] = (
            "device and inode" if engine.facts.native else "names, sizes and times of what is in it"
        )
    if not seen:
        return Proof(
            place=str(CONTAINER),
            target=life.box,
            folder=str(folder.path),
            network=open,
            sealed=not open,
            details={**details, "read back": "no"},
        )
    networks = sorted((seen.get("NetworkSettings") or {}).get("Networks") or {})
    host, config = seen.get("HostConfig") or {}, seen.get("Config") or {}
    mounts = {str(mount.get("Destination")): mount for mount in seen.get("Mounts") or ()}
    parts = [folder.path / path for path in kept_inside(folder)] + ([folder.outside.target] if folder.outside else [])
    git_writable = any(bool(mounts.get(inside(path), {}).get("RW", True)) for path in parts)
    details |= {
        "read back": "yes",
        "network": ", ".join(networks) or str(host.get("NetworkMode")),
        "user": str(config.get("User") or "the image's own"),
        "capabilities": "none" if host.get("CapDrop") == ["ALL"] and not host.get("CapAdd") else "some",
        "new privileges": "no" if "no-new-privileges" in (host.get("SecurityOpt") or ()) else "yes",
        "seccomp": "the engine's" if engine.facts.seccomp else "none",
        "root": "read-only" if host.get("ReadonlyRootfs") else "writable",
        "memory": size(int(host.get("Memory") or 0)) if host.get("Memory") else "no limit",
        "processes": limits.processes(host, engine.facts),
        "processors": f"{int(host['NanoCpus']) / 1e9:g}" if host.get("NanoCpus") else "no limit",
        "runtime": str(host.get("Runtime") or "the engine's own"),
        "graphics": "yes" if host.get("DeviceRequests") else "no",
        "open files": limits.open_files(host),
        ".git": "writable" if git_writable else "read-only" if parts else "none",
        "covered": str(len(folder.covers)),
    }
    if missing := limits.missing_words(engine.facts):
        details["not limited"] = missing
    network = bool(set(networks) - {"none"}) or str(host.get("NetworkMode")).startswith("container:")
    return Proof(
        place=str(CONTAINER),
        target=str(seen.get("Id") or life.box),
        folder=str(config.get("WorkingDir") or folder.path),
        network=network,
        sealed=not network and not git_writable,
        details=details,
    )


def note(request: RunRequest, engine: Engine, image: Image, folder: WorkFolder, ended: Ended) -> str:
    """What the model should know beside the output and the code. Empty when there is nothing to say."""
    said = []
    if ended.memory or (ended.seen.get("State") or {}).get("OOMKilled"):
        limit = int((ended.seen.get("HostConfig") or {}).get("Memory") or 0)
        said.append(PLACE_WORDS["container.oom" if limit else "container.oom.all"].format(memory=size(limit)))
    program = words_of(request.command)[0]
    if not ended.program and ended.code in (126, 127):
        key = "container.not-found" if ended.code == 127 else "container.not-executable"
        said.append(PLACE_WORDS[key].format(program=program, image=image.reference))
    if ended.lost:
        key = "container.cut" if ended.code is not None else "container.ended" if ended.sure else "container.lost"
        said.append(PLACE_WORDS[key].format(engine=engine.name))
    return " ".join(said)


def size(count: int) -> str:
    """A number of bytes as a person reads it: 1.1 GB, 4 GB."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / (1024 if count % 1024 == 0 else 1000), unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if value < 1000 else f"{value:.0f} {_UNITS[unit]}"
