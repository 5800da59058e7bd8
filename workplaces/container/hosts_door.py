"""One door: a container without any network, in which nothing runs but a relay that Conch holds by stdin and stdout.

A box that shares a door's network sees a loopback with one port on it, and nothing else there is: no address of this
computer, no other box, no name server. What comes to that port is answered by Conch's own proxy (``hosts_proxy``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from workplaces.container.box import CHAT_LABEL, HOME_LABEL, OWNER_LABEL, WORK_LABEL
from workplaces.container.engine import Engine
from workplaces.container.hosts import NAMES_PORT, PORT, HostList
from workplaces.container.hosts_pipe import Pipe
from workplaces.container.image import Image
from workplaces.container.run import NotNow
from workplaces.container.trouble import silent
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

DOOR_LABEL = "conch.door"
_READY_LIMIT = 20.0
_RUNTIMES = ("runc", "crun", "io.containerd.runc.v2")  # a box's network is the kernel's in these
_MEMORY = 256 << 20
_PIDS = 32

# Whichever Python the image has becomes the relay; without one the box ends, having said so.
_NO_PYTHON = "conch: no python3"
_CHOOSE = f'command -v python3 >/dev/null || {{ echo "{_NO_PYTHON}" >&2; exit 127; }}; exec python3 -I -c "$@"'

OnDoorLeft = Callable[[Engine, str, bool], None]
"""Told (engine, name, late) of a door that could not be removed; ``late`` when it may yet have to appear."""


@dataclass(frozen=True, slots=True)
class DoorAsk:
    """What a door is wanted for: a command that may reach ``hosts``, on this engine, in a box from this image."""

    engine: Engine
    image: Image
    hosts: HostList
    user: str
    installation: str
    owner: str
    runtime: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """A door that was made for the same serves as well."""
        return self.engine.endpoint.address, self.image.id, self.user


@dataclass(slots=True, eq=False)
class Door:
    """``since`` is when it began to wait for a command (monotonic seconds)."""

    engine: Engine
    key: tuple[str, str, str]
    box: str
    pipe: Pipe
    since: float = 0.0


def door_body(ask: DoorAsk) -> dict[str, Any]:
    """What the engine is told to make. Sealed as a box is, with no folder, no network and nothing to write to.

    ``AutoRemove``: it ends with its stdin, so it is gone even when Conch ended suddenly. ``Dns``: the only name server
    is the relay, which answers that there is no such name; the engine's own resolver is not asked. A volume of the
    image's own would be a disk that stays: an empty tmpfs stands there.
    """
    source = files("workplaces.container").joinpath("hosts_relay.py").read_text("utf-8")
    empty = {"SizeBytes": 4096, "Mode": 0o555}
    volumes = [{"Type": "tmpfs", "Target": path, "ReadOnly": True, "TmpfsOptions": empty} for path in ask.image.volumes]
    host: dict[str, Any] = {
        "AutoRemove": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "Init": True,
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "NetworkMode": "none",
        "Dns": ["127.0.0.1"],
        "DnsSearch": ["."],
        "Tmpfs": {"/tmp": "ro,noexec,nosuid,nodev,size=4096,mode=555"},  # noqa: S108
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}, {"Name": "nofile", "Soft": 1024, "Hard": 1024}],
        "Mounts": volumes,
    }
    limits = ask.engine.facts.limits
    if "memory" in limits:
        host["Memory"] = _MEMORY
    if "swap" in limits:
        host["MemorySwap"] = _MEMORY
    if "pids" in limits:
        host["PidsLimit"] = _PIDS
    return {
        "Image": str(ask.image.reference),
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", _CHOOSE, "sh", source, str(PORT), str(NAMES_PORT)],
        "User": ask.user,
        "Env": ["LANG=C.UTF-8"],
        "WorkingDir": "/",
        "Labels": {
            WORK_LABEL: "1",
            CHAT_LABEL: "",
            HOME_LABEL: ask.installation,
            OWNER_LABEL: ask.owner,
            DOOR_LABEL: "1",
        },
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


def refuse(ask: DoorAsk) -> None:
    """Raises PlaceUnavailable where a door was not seen to hold.

    A connection with TLS may not be read and written at once. A runtime with a network of its own (gVisor, Kata) does
    not share another box's.
    """
    step = NextStep(PLACE_WORDS["hosts.next"], action="settings:container.hosts")
    if ask.engine.endpoint.tls is not None:
        raise PlaceUnavailable(PLACE_WORDS["hosts.engine"].format(engine=ask.engine.name), next_step=step)
    if ask.runtime and ask.runtime not in _RUNTIMES:
        raise PlaceUnavailable(PLACE_WORDS["hosts.runtime"].format(runtime=ask.runtime), next_step=step)


def make_door(ask: DoorAsk, loop: asyncio.AbstractEventLoop, on_left: OnDoorLeft) -> Door:
    """Makes one and waits until its relay is there. Blocks. Raises PlaceUnavailable or NotNow: nothing is left then."""
    import docker.errors

    engine = ask.engine
    name = f"conch-door-{secrets.token_hex(6)}"
    made = no_image = no_engine = False
    pipe: Pipe | None = None
    try:
        box = engine.create(door_body(ask), name)
        made = True
        pipe = Pipe(engine.attach(box), loop)
        pipe.start()
        engine.start(box)
        pipe.here.wait(_READY_LIMIT)
        _check_network(engine.inspect(box))
        if pipe.here.is_set() and not pipe.dead:
            return Door(engine, ask.key, box, pipe)
        why = pipe.said.decode("utf-8", "replace")
    except docker.errors.APIError as error:
        why = (pipe.said.decode("utf-8", "replace") if pipe else "") or str(error.explanation or error)
        no_image = not made and isinstance(error, docker.errors.NotFound)
    except (ValueError, KeyError, TypeError) as error:
        why = str(error)
    except (docker.errors.DockerException, OSError) as error:
        why, no_engine = repr(error), True
    if pipe is not None:
        pipe.close()
    if not engine.remove(name) or (no_engine and not made):
        on_left(engine, name, not made)
    if no_engine:
        raise NotNow(silent(engine, why), engine=True)
    words = _no_door(engine, ask.image, why)
    raise NotNow(words, image=True) if no_image else words


def _check_network(seen: Mapping[str, Any]) -> None:
    """Raises ValueError when the engine gave the door a network after all."""
    networks = set((seen.get("NetworkSettings") or {}).get("Networks") or {})
    mode = str((seen.get("HostConfig") or {}).get("NetworkMode"))
    if mode != "none" or networks - {"none"}:
        raise ValueError(f"the door has a network: {mode} {sorted(networks)}")


def _no_door(engine: Engine, image: Image, why: str) -> PlaceUnavailable:
    if _NO_PYTHON in why:
        words = PLACE_WORDS["hosts.image"].format(image=image.reference)
        step = NextStep(PLACE_WORDS["image.next.name"], action="settings:container.image")
        return PlaceUnavailable(words, next_step=step, details=why)
    first_line = why.strip().splitlines()[0][:300] if why.strip() else ""
    words = PLACE_WORDS["hosts.failed"].format(engine=engine.name, reason=first_line).strip()
    return PlaceUnavailable(words, next_step=NextStep(PLACE_WORDS["hosts.next.again"]), details=why[:2000])
