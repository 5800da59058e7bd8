"""What is at an address: asked what it is, and refused when it could not keep a box's promises."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from typing import Any

from workplaces.container import wire
from workplaces.container.contexts import Endpoint
from workplaces.container.engine import REQUEST_LIMIT, Engine, EngineFacts
from workplaces.container.refusals import Unusable, reason_of
from workplaces.container.selinux import enforcing

TRY_LIMIT = 3.0
OLDEST_API = (1, 40)  # Docker 19.03
NEWEST_API = (1, 51)  # Docker 28.3, the newest that this was written for; newer ones speak it too
OLDEST_PODMAN = 4
PODMAN_LIMIT = 10.0  # seconds for Podman to tell what it is: it asks the system's package manager about each program
_LONGEST_ANSWER = 1 << 20
_MOST_IDLE = 16  # connections kept for the next request


def try_engine(endpoint: Endpoint, limit: float = TRY_LIMIT) -> Engine:
    """Asks what is at an address. Raises Unusable. Takes a few times ``limit`` seconds at most."""
    if endpoint.elsewhere:
        raise Unusable("elsewhere", endpoint)
    try:
        wire.connect(endpoint, limit).close()
    except Exception as error:  # noqa: BLE001 - a named pipe's errors are Windows' own, and no OSError
        raise Unusable(reason_of(error), endpoint, str(error)) from None
    try:
        version = _ping(endpoint, limit) or _get(endpoint, "/version", limit)
        api = _check_version(endpoint, version)
        client = _client(endpoint, limit, api)
        if is_podman(version):
            told = _get(endpoint, "/v4.0.0/libpod/info", max(limit, PODMAN_LIMIT))
            facts = read_facts(endpoint, version, docker_info(told), api, told)
        else:
            facts = read_facts(endpoint, version, client.info(), api)
        _check_whose(endpoint, facts)
    except Unusable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a liar's answer leads to: it is not an engine that can be used
        raise Unusable("silent" if _timed_out(error) else "broken", endpoint, str(error)) from None
    client.timeout = int(REQUEST_LIMIT)
    if facts.kind == "podman":
        from workplaces.container.podman import PodmanEngine

        return PodmanEngine(endpoint, client, facts)
    return Engine(endpoint, client, facts)


def read_facts(
    endpoint: Endpoint,
    version: Mapping[str, Any],
    info: Mapping[str, Any],
    api: str,
    podman: Mapping[str, Any] | None = None,
) -> EngineFacts:
    """Reads what an engine said of itself; ``podman`` is what libpod's own ``info`` says, if it is one.

    Raises Unusable for what cannot keep the seal, TypeError and the like for nonsense.
    """
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    if info.get("OSType", "linux") != "linux":
        raise Unusable("windows", endpoint)
    if any("name=userns" in option for option in options):
        raise Unusable("userns", endpoint)
    system = str(info.get("OperatingSystem", ""))
    kernel = str(info.get("KernelVersion", ""))
    return EngineFacts(
        name="Podman" if podman is not None else "Docker",
        version=str(version["Version"]),
        api=api,
        system=system,
        native=sys.platform == "linux" and kernel == platform.release() and "Docker Desktop" not in system,
        cpus=max(1, int(info["NCPU"])),
        memory=max(0, int(info["MemTotal"])),
        cgroups=str(info.get("CgroupVersion", "1")),
        limits=_limits(info, podman),
        seccomp=any("name=seccomp" in option and "unconfined" not in option for option in options),
        kind="podman" if podman is not None else "docker",
        rootless=any("name=rootless" in option for option in options) or info.get("Rootless") is True,
        kernel=kernel,
        runtimes=() if podman is not None else tuple(sorted(info.get("Runtimes") or {})),
        gpus=podman is None and _has_gpus(info),
        selinux=any("name=selinux" in option for option in options) and enforcing(),
    )


def _limits(info: Mapping[str, Any], podman: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The limits that hold. Podman says yes to each even where it ignores them: its control groups tell."""
    told = {"memory": "MemoryLimit", "swap": "SwapLimit", "pids": "PidsLimit", "cpus": "CpuCfsQuota"}
    kept = [limit for limit, key in told.items() if info.get(key, True) is True]
    if info.get("CgroupDriver") == "none":
        return ()
    if podman is not None:
        groups = {"memory": "memory", "swap": "memory", "pids": "pids", "cpus": "cpu"}
        there = podman["host"].get("cgroupControllers") or ()
        kept = [limit for limit in kept if groups[limit] in there]
    return tuple(kept)


def _has_gpus(info: Mapping[str, Any]) -> bool:
    """Whether it can give graphics processors away: by NVIDIA's runtime, or by a device that it found (CDI)."""
    devices = info.get("DiscoveredDevices") or ()
    return "nvidia" in (info.get("Runtimes") or {}) or any("gpu" in str(device.get("ID")) for device in devices)


def docker_info(podman: Mapping[str, Any]) -> dict[str, Any]:
    """What libpod's ``info`` says, as Docker's would. Raises KeyError and the like for nonsense.

    Podman answers Docker's question too, but looks at everything again for it, which takes long.
    """
    host = podman["host"]
    security = host["security"]
    return {
        "OSType": host["os"],
        "OperatingSystem": host["distribution"]["distribution"],
        "KernelVersion": host["kernel"],
        "NCPU": host["cpus"],
        "MemTotal": host["memTotal"],
        "CgroupVersion": str(host["cgroupVersion"]).removeprefix("v"),
        "SecurityOptions": [f"name={kind}" for kind in ("seccomp", "selinux") if security.get(f"{kind}Enabled")],
        "Rootless": security["rootless"],
    }


def is_podman(version: Mapping[str, Any]) -> bool:
    return any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def _check_version(endpoint: Endpoint, version: Mapping[str, Any]) -> str:
    """The API version to speak. Raises Unusable for too old a one."""
    if is_podman(version):
        found = re.match(r"\d+", str(version["Version"]))
        if found is None or int(found[0]) < OLDEST_PODMAN:
            raise Unusable("old", endpoint, str(version["Version"]), "Podman")
    major, _, minor = str(version["ApiVersion"]).partition(".")
    newest = (int(major), int(minor))
    if newest < OLDEST_API:
        raise Unusable("old", endpoint, f"API {version['ApiVersion']}")
    return "{}.{}".format(*min(newest, NEWEST_API))


def _check_whose(endpoint: Endpoint, facts: EngineFacts) -> None:
    """A rootless engine makes files for the person that it runs as. Raises Unusable when that is somebody else."""
    if not facts.rootless or not facts.native or sys.platform == "win32" or not endpoint.address.startswith("unix:"):
        return
    with contextlib.suppress(OSError):
        if os.stat(endpoint.path).st_uid != os.getuid():  # noqa: PTH116
            raise Unusable("whose", endpoint, engine=facts.name)


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


def _get(endpoint: Endpoint, path: str, limit: float) -> dict[str, Any]:
    """Asks without the SDK, whose import would be wasted on a dead engine."""
    connection = wire.EngineConnection(endpoint, limit)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(_LONGEST_ANSWER)
    answer = json.loads(text)
    if response.status != 200 or not isinstance(answer, dict):
        raise wire.BadAnswer(f"{response.status} {text[:200]!r}")
    return answer


def _ping(endpoint: Endpoint, limit: float) -> dict[str, Any]:
    """A Podman's ``/version``, from what it says beside its answer to a ping. Empty for another engine.

    Its real one starts every program that Podman leans on, and asks which package each is from.
    """
    connection = wire.EngineConnection(endpoint, limit)
    with contextlib.closing(connection):
        connection.request("GET", "/_ping")
        headers = connection.getresponse().headers
    version, api = headers.get("Libpod-API-Version", ""), headers.get("API-Version", "")
    found = {"Version": version, "ApiVersion": api, "Components": [{"Name": "Podman Engine"}]}
    return found if version and api else {}


def _timed_out(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TimeoutError) or "timed out" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
