"""An engine that answered: what it is, and the calls that a box's life needs of it.

Everything here that talks to an engine runs in a thread and has a time limit. The docker SDK is imported there on first
use, because that alone takes a third of a second.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workplaces.container import paths, selinux, wire
from workplaces.container.contexts import Endpoint

REQUEST_LIMIT = 60.0
NEED = "container"

Kind = Literal["docker", "podman"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine says of itself. ``native``: it runs on this very kernel, so a folder's inode is the same there."""

    name: str = "Docker"
    version: str = ""
    api: str = "1.41"
    system: str = ""
    native: bool = True
    cpus: int = 1
    memory: int = 0
    cgroups: str = ""
    limits: tuple[str, ...] = ("memory", "swap", "pids", "cpus")
    seccomp: bool = True
    kind: Kind = "docker"
    rootless: bool = False
    kernel: str = ""
    runtimes: tuple[str, ...] = ()
    gpus: bool = False
    selinux: bool = False

    def user(self, uid: int, gid: int) -> str:
        """Who a box's command is, so that what it makes belongs to the person with these numbers.

        Under a rootless Docker root inside is the person, and nobody else inside is. It is asked for by its number: an
        image may name another user. A rootless Podman in a virtual machine knows the person by numbers of its own,
        which it takes when none are asked for.
        """
        if not self.rootless:
            return f"{uid}:{gid}"
        if self.kind == "docker":
            return "0:0"
        return f"{uid}:{gid}" if self.native else ""


# How a box's removal went: it is gone, there was none, it is not to be had just now (ask again), or no answer of use.
Removal = Literal["removed", "none", "busy", "failed"]


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answered, and all that a box's life needs of it, in Docker's shapes whichever engine it is.

    Every call blocks, may be made from any thread, and ends after REQUEST_LIMIT unless it says otherwise. Where nothing
    else is said it raises docker's APIError when the engine refuses (NotFound: no such box), and another
    DockerException, an OSError or a ValueError when the engine does not answer as one should.
    """

    endpoint: Endpoint
    client: Any  # docker.APIClient, whose published types are half there; for images, and for what is in this class
    facts: EngineFacts

    @property
    def name(self) -> str:
        return f"{self.facts.name} {self.facts.version}".strip()

    def answers(self, limit: float) -> bool:
        """Whether it answers within ``limit`` seconds, asked on a connection of its own. Raises nothing."""
        return _ping(self.endpoint, limit)

    def create(self, body: Mapping[str, Any], name: str) -> str:
        """Makes the box that ``box.seal`` describes. Gives its id. An engine that cannot keep all of it refuses."""
        asked = selinux.as_binds(paths.told(body) if sys.platform == "win32" else body)
        return str(self.client.create_container_from_config(asked, name=name)["Id"])

    def attach(self, box: str, limit: float = REQUEST_LIMIT) -> wire.Attached:
        """Takes over a connection for its output, before it is started. Reading has no time limit afterwards."""
        return wire.attach(self.endpoint, self.facts.api, box, limit)

    def start(self, box: str) -> None:
        """Starts it. Returns when the engine says that it runs (or has run)."""
        self.client.start(box)

    def inspect(self, box: str) -> Mapping[str, Any]:
        """What the engine says of it now, as Docker's ``GET /containers/{id}/json``."""
        seen: Mapping[str, Any] = self.client.inspect_container(box)
        return seen

    def end_of(self, box: str, limit: float) -> Mapping[str, Any]:
        """Waits at most ``limit`` seconds for its end, then gives ``inspect``. Raises when it has not ended by then."""
        self.client.wait(box, timeout=limit)
        return self.inspect(box)

    def kill(self, box: str, limit: float) -> None:
        """Kills what runs in it. An engine that says no ("not running" any more, or not yet) is no trouble.

        On a connection of its own: the SDK's stay open, one for each that was ever used at once. Raises OSError.
        """
        wire.post(self.endpoint, f"/v{self.facts.api}/containers/{box}/kill?signal=KILL", limit)

    def remove(self, box: str) -> bool:
        """Removes it with whatever runs in it and its volumes. True when the engine says that it is gone. No raising.

        An engine that is busy with it (it is being removed already, or started still) is asked again.
        """
        end = time.monotonic() + REQUEST_LIMIT
        while (how := self.remove_once(box)) == "busy" and time.monotonic() < end:
            time.sleep(0.05)
        return how in ("removed", "none")

    def remove_once(self, box: str) -> Removal:
        """As ``remove``, asked once."""
        import docker.errors

        try:
            self.client.remove_container(box, force=True, v=True)
        except docker.errors.NotFound:
            return "none"
        except docker.errors.APIError as error:
            return "busy" if self._is_busy(error) else "failed"
        except Exception:  # noqa: BLE001 - no answer, or nothing like one
            return "failed"
        return "removed"

    def boxes(self, labels: Sequence[str]) -> list[tuple[str, Mapping[str, str]]]:
        """The id and the labels of each box, running or not, that has all these (``name=value``)."""
        found = self.client.containers(all=True, filters={"label": list(labels)})
        return [(str(box["Id"]), box.get("Labels") or {}) for box in found]

    def close(self) -> None:
        """Lets go of its connections."""
        self.client.close()

    def _is_busy(self, error: Any) -> bool:
        return bool(error.status_code == 409)


def _ping(endpoint: Endpoint, limit: float) -> bool:
    connection = wire.EngineConnection(endpoint, limit)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    return False
