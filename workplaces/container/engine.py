"""The engine: found where the person said or where engines live, asked what it is, and refused in words.

Everything here that talks to an engine runs in a thread and has a time limit. The docker SDK is imported there on first
use, because that alone takes a third of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from workplaces.container import wire
from workplaces.container.contexts import BadEndpoint, Endpoint, endpoints, podman_sockets
from workplaces.container.threads import in_thread
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

TRY_LIMIT = 3.0
REQUEST_LIMIT = 60.0
OLDEST_API = (1, 40)  # Docker 19.03
NEWEST_API = (1, 51)  # Docker 28.3, the newest that this was written for; newer ones speak it too
NEED = "container"
_LONGEST_ANSWER = 1 << 20
_MOST_IDLE = 16  # connections kept for the next request

# Why an engine cannot be used, the most telling first: of several dead ones that one is told.
Why = Literal[
    "denied", "silent", "broken", "old", "windows", "userns", "rootless", "elsewhere", "down", "podman", "gone"
]
_TELLING: tuple[Why, ...] = get_args(Why)

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

    def user(self, uid: int, gid: int) -> str:
        """Who a box's command is, so that what it makes belongs to the person with these numbers.

        Under a rootless Docker root inside is the person, and nobody else inside is. It is asked for by its number: an
        image may name another user.
        """
        return "0:0" if self.rootless and self.kind == "docker" else f"{uid}:{gid}"


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
        return str(self.client.create_container_from_config(dict(body), name=name)["Id"])

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


class Unusable(Exception):
    """One engine that cannot be used, and why."""

    def __init__(self, why: Why, endpoint: Endpoint, details: str = "") -> None:
        super().__init__(f"{endpoint.address} ({endpoint.source}): {why} {details}".strip())
        self.why = why
        self.endpoint = endpoint
        self.details = details


class Engines:
    """Finds the engine once for everyone who asks, and keeps it until it is forgotten or the person names another.

    ``env`` and ``home`` are this process's and the person's unless given.
    """

    def __init__(self, *, env: Mapping[str, str] | None = None, home: Path | None = None) -> None:
        self._env = os.environ if env is None else env
        self._home = home
        self._engine: Engine | None = None
        self._from: tuple[Endpoint, ...] = ()
        self._looking: asyncio.Future[Engine] | None = None
        self._lock = threading.Lock()

    async def find(self, *, look: bool = False) -> Engine:
        """The engine to use. Raises PlaceUnavailable. What was found before is given at once unless ``look``."""
        if self._looking is None or self._looking.done() or self._looking.get_loop() is not asyncio.get_running_loop():
            self._looking = in_thread(lambda: self._find(look), "conch-engine")
        return await asyncio.shield(self._looking)

    def forget(self, engine: Engine) -> None:
        """Looks anew next time: this one did not answer."""
        with self._lock:
            if self._engine is engine:
                self._engine = None

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _find(self, look: bool) -> Engine:
        try:
            candidates = endpoints(self._env, self._home or Path.home())
        except BadEndpoint as error:
            raise PlaceUnavailable(str(error), need=NEED, next_step=_fix_context()) from None
        with self._lock:
            if self._engine is not None and not look and self._from == candidates:
                return self._engine
            known = self._engine
        failures: list[Unusable] = []
        for endpoint in candidates:
            try:
                if known is not None and known.endpoint == endpoint and known.answers(TRY_LIMIT):
                    found = known
                else:
                    found = try_engine(endpoint)
            except Unusable as failure:
                failures.append(failure)
                continue
            with self._lock:
                self._engine, self._from = found, candidates
            return found
        with self._lock:
            self._engine = None
        raise in_words(failures, self._env)


def try_engine(endpoint: Endpoint, limit: float = TRY_LIMIT) -> Engine:
    """Asks what is at an address. Raises Unusable. Takes a few times ``limit`` seconds at most."""
    if endpoint.elsewhere:
        raise Unusable("elsewhere", endpoint)
    try:
        wire.connect(endpoint, limit).close()
    except OSError as error:
        raise Unusable(_why(error), endpoint, str(error)) from None
    try:
        version = _version(endpoint, limit)
        api = _check_version(endpoint, version)
        client = _client(endpoint, limit, api)
        facts = read_facts(endpoint, version, client.info(), api)
    except Unusable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a liar's answer leads to: it is not an engine that can be used
        raise Unusable("silent" if _timed_out(error) else "broken", endpoint, str(error)) from None
    client.timeout = int(REQUEST_LIMIT)
    return Engine(endpoint, client, facts)


def _client(endpoint: Endpoint, limit: float, api: str) -> Any:
    import docker
    from docker.tls import TLSConfig

    tls: Any = False
    if endpoint.tls is not None:
        folder = endpoint.tls.folder
        pair = (str(folder / "cert.pem"), str(folder / "key.pem")) if (folder / "cert.pem").exists() else None
        ca = str(folder / "ca.pem") if (folder / "ca.pem").exists() else None
        tls = TLSConfig(client_cert=pair, ca_cert=ca, verify=endpoint.tls.verify)
    client = docker.APIClient(base_url=endpoint.address, version=api, timeout=int(limit), tls=tls)
    client.trust_env = False  # no proxy and no .netrc stands between a program and its own engine
    if endpoint.address.startswith("unix:"):
        client.mount("http+docker://", _one_pool(endpoint, limit))
    return client


def _one_pool(endpoint: Endpoint, limit: float) -> Any:
    """The SDK's own adapter keeps a connection for each address that was ever asked, and so never uses one twice."""
    from docker.transport import UnixHTTPAdapter

    class OnePool(UnixHTTPAdapter):
        def get_connection(self, url: str | bytes, proxies: Any = None) -> Any:
            return super().get_connection("http+docker://localhost", proxies)

    return OnePool(f"http+unix://{endpoint.path}", int(limit), pool_connections=1, max_pool_size=_MOST_IDLE)


def read_facts(endpoint: Endpoint, version: Mapping[str, Any], info: Mapping[str, Any], api: str) -> EngineFacts:
    """Reads what an engine said of itself. Raises Unusable for what cannot keep the seal, TypeError for nonsense."""
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    if info.get("OSType", "linux") != "linux":
        raise Unusable("windows", endpoint)
    if any("name=rootless" in option for option in options):
        raise Unusable("rootless", endpoint)
    if any("name=userns" in option for option in options):
        raise Unusable("userns", endpoint)
    system = str(info.get("OperatingSystem", ""))
    same_kernel = sys.platform == "linux" and info.get("KernelVersion") == platform.release()
    kept = {"memory": "MemoryLimit", "swap": "SwapLimit", "pids": "PidsLimit", "cpus": "CpuCfsQuota"}
    return EngineFacts(
        name="Docker",
        version=str(version["Version"]),
        api=api,
        system=system,
        native=same_kernel and "Docker Desktop" not in system,
        cpus=max(1, int(info["NCPU"])),
        memory=max(0, int(info["MemTotal"])),
        cgroups=str(info.get("CgroupVersion", "1")),
        limits=tuple(limit for limit, key in kept.items() if info.get(key, True) is True),
        seccomp=any("name=seccomp" in option and "unconfined" not in option for option in options),
    )


def _check_version(endpoint: Endpoint, version: Mapping[str, Any]) -> str:
    """The API version to speak. Raises Unusable for what is no Docker, or too old a one."""
    components = version.get("Components") or ()
    if any("podman" in str(part.get("Name", "")).lower() for part in components):
        raise Unusable("podman", endpoint)
    major, _, minor = str(version["ApiVersion"]).partition(".")
    newest = (int(major), int(minor))
    if newest < OLDEST_API:
        raise Unusable("old", endpoint, f"API {version['ApiVersion']}")
    return "{}.{}".format(*min(newest, NEWEST_API))


def _version(endpoint: Endpoint, limit: float) -> dict[str, Any]:
    """What it says it is, asked without the SDK, whose import would be wasted on a dead engine."""
    connection = wire.EngineConnection(endpoint, limit)
    with contextlib.closing(connection):
        connection.request("GET", "/version")
        response = connection.getresponse()
        text = response.read(_LONGEST_ANSWER)
    answer = json.loads(text)
    if response.status != 200 or not isinstance(answer, dict):
        raise wire.BadAnswer(f"{response.status} {text[:200]!r}")
    return answer


def _ping(endpoint: Endpoint, limit: float) -> bool:
    connection = wire.EngineConnection(endpoint, limit)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    return False


def _why(error: OSError) -> Why:
    if isinstance(error, TimeoutError):
        return "silent"
    if isinstance(error, PermissionError):
        return "denied"
    if isinstance(error, FileNotFoundError) or error.errno == errno.ENOTDIR:
        return "gone"
    return "down" if isinstance(error, ConnectionError) else "broken"


def _timed_out(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TimeoutError) or "timed out" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def in_words(failures: list[Unusable], env: Mapping[str, str]) -> PlaceUnavailable:
    """What the person reads when no engine could be used: the most telling reason and the one next step."""
    details = "; ".join(map(str, failures))
    worst = min(failures, key=lambda failure: _TELLING.index(failure.why), default=None)
    if worst is not None and worst.endpoint.explicit:
        return _named_in_words(worst, details)
    if worst is None or worst.why in ("gone", "podman"):
        if shutil.which("dockerd") or (shutil.which("docker") and not _podman(env)):
            words, step = PLACE_WORDS["engine.down"].format(engine="Docker"), _wake("Docker")
        elif (worst is not None and worst.why == "podman") or _podman(env):
            words, step = PLACE_WORDS["engine.podman"], _install()
        else:
            words, step = PLACE_WORDS["engine.none"], _install()
        return PlaceUnavailable(words, next_step=step, need=NEED, details=details)
    words = PLACE_WORDS[f"engine.{worst.why}"].format(
        engine=worst.endpoint.source, address=worst.endpoint.path or worst.endpoint.address
    )
    return PlaceUnavailable(words, next_step=_step(worst), need=NEED, details=details)


def _named_in_words(failure: Unusable, details: str) -> PlaceUnavailable:
    """An engine that the person named is never passed over: it is told by name, with the reason."""
    reason = PLACE_WORDS[f"engine.{failure.why}"].format(
        engine="Docker", address=failure.endpoint.path or failure.endpoint.address
    )
    words = PLACE_WORDS["engine.named"].format(
        source=failure.endpoint.source, address=failure.endpoint.address, reason=reason
    )
    step = _fix_context() if failure.why in ("gone", "elsewhere") else _step(failure)
    return PlaceUnavailable(words, next_step=step, need=NEED, details=details)


def _step(failure: Unusable) -> NextStep:
    if failure.why == "denied":
        return NextStep(PLACE_WORDS["engine.next.group"], command='sudo usermod -aG docker "$USER"')
    if failure.why in ("down", "gone"):
        return _wake(failure.endpoint.source)
    if failure.why in ("silent", "broken"):
        restart = "sudo systemctl restart docker" if sys.platform == "linux" else ""
        return NextStep(PLACE_WORDS["engine.next.restart"], command=restart)
    if failure.why == "old":
        return NextStep(PLACE_WORDS["engine.next.update"])
    if failure.why == "windows":
        return NextStep(PLACE_WORDS["engine.next.linux"])
    return NextStep(PLACE_WORDS["engine.next.other"])


def _wake(source: str) -> NextStep:
    label = PLACE_WORDS["engine.next.start"].format(engine="Docker" if source.startswith("Docker") else source)
    linux = "systemctl --user start docker-desktop" if source == "Docker Desktop" else "sudo systemctl start docker"
    return NextStep(label, command={"linux": linux, "darwin": "open -a Docker"}.get(sys.platform, ""))


def _install() -> NextStep:
    ways = {
        "apt-get": "sudo apt install docker.io",
        "dnf": "sudo dnf install moby-engine",
        "pacman": "sudo pacman -S docker",
        "zypper": "sudo zypper install docker",
    }
    found = next((line for program, line in ways.items() if shutil.which(program)), "")
    return NextStep(PLACE_WORDS["engine.next.install"], command={"linux": found}.get(sys.platform, ""))


def _fix_context() -> NextStep:
    return NextStep(PLACE_WORDS["engine.next.context"])


def _podman(env: Mapping[str, str]) -> bool:
    return bool(shutil.which("podman")) or any(_is_there(path) for path in podman_sockets(env))


def _is_there(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.exists()
    return False
