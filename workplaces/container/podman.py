"""Podman behind the same calls: its boxes are made through its own API, and what it made is read back before it runs.

Its Docker-compatible *create* breaks promises of the seal, so the body that ``box.seal`` describes is told again in
libpod's words (docs/decisions/0007 has what was measured). libpod does not know what it does not know: it ignores such
fields. So a box that is not as it was asked for is taken away again, before anything ran in it.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from workplaces.container import paths, wire
from workplaces.container.engine import REQUEST_LIMIT, Engine, EngineFacts
from workplaces.container.selinux import RELABEL

_API = "/v4.0.0/libpod"
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.004, 0.1
_MOST_PROCESSES = 1 << 15  # the most that a kernel gives numbers to by default: Podman takes that for itself
_SIGNALS = {"SIGKILL": 9}
# Since Linux 5.14 a user's processes are counted in each user namespace of their own: in a box with one, so only its.
_COUNTS_BY_NAMESPACE = (5, 14)


class PodmanEngine(Engine):
    """A Podman that answered, rootful or rootless."""

    def create(self, body: Mapping[str, Any], name: str) -> str:
        import docker.errors

        body = paths.told(body) if sys.platform == "win32" else body
        try:
            made = self._ask("POST", "/containers/create", libpod(body, self.facts, name))
        except docker.errors.APIError as error:
            if "image not known" in str(error.explanation):  # as Docker says it
                raise docker.errors.ImageNotFound(str(error), error.response, error.explanation) from error
            raise
        box = str(made["Id"])
        try:
            missing = not_kept(body, self._inspect(box), self.facts)
        except BaseException:
            self.remove(box)
            raise
        if missing:
            self.remove(box)
            raise docker.errors.APIError(f"it did not keep what was asked: {', '.join(missing)}")
        return box

    def attach(self, box: str, limit: float = REQUEST_LIMIT) -> wire.Attached:
        """Podman makes the box's processes here, so this is where it refuses what its runtime refuses."""
        import docker.errors

        try:
            return super().attach(box, limit)
        except wire.Refused as refused:
            raise docker.errors.APIError(refused.text or str(refused), explanation=refused.text) from refused

    def inspect(self, box: str) -> Mapping[str, Any]:
        return as_docker(self._inspect(box))

    def end_of(self, box: str, limit: float) -> Mapping[str, Any]:
        """Asks again and again: Podman's own wait looks four times a second, which is long after a quick command."""
        end = time.monotonic() + limit
        pause = _SHORTEST_PAUSE
        while True:
            seen = self.inspect(box)
            if seen["State"]["Status"] in ("exited", "stopped", "removing", "dead"):
                return seen
            if time.monotonic() > end:
                raise TimeoutError(f"the box did not end in {limit:g} seconds")
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)

    def _is_busy(self, error: Any) -> bool:
        """It says 500 where Docker says 409, to a box that is on its way."""
        return super()._is_busy(error) or (error.status_code == 500 and "state improper" in str(error.explanation))

    def _inspect(self, box: str) -> dict[str, Any]:
        return self._ask("GET", f"/containers/{quote(box, safe='')}/json")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        import docker.errors
        import requests

        client = self.client
        try:
            response = client.request(method, client.base_url + _API + path, json=body, timeout=client.timeout)
            response.raise_for_status()
        except requests.exceptions.HTTPError as error:
            raise docker.errors.create_api_error_from_http_exception(error) from error
        answer = response.json()
        if not isinstance(answer, dict):
            raise wire.BadAnswer(f"not an answer of Podman's: {str(answer)[:200]}")
        return answer


def libpod(body: Mapping[str, Any], facts: EngineFacts, name: str) -> dict[str, Any]:
    """The body of Docker's create, as libpod's ``SpecGenerator``. Each thing that Podman would do else, and may not:

    * ``httpproxy`` off: it would hand this computer's proxy settings in. ``image_volume_mode`` ignore: volumes of the
      image's own are covered by the body's mounts.
    * ``notmpcopyup`` on every tmpfs: without it, what lies under a cover is copied into it.
    * ``userns`` keep-id for a rootless one: the person is the person inside, and what the command makes is theirs. One
      mapping for every box, since each new one copies the whole image. For a rootful one none, whatever its settings
      say: its numbers are this computer's.
    * Both ``nofile`` and ``nproc``: for a missing one it takes a default that it may not be allowed to set. Never more
      than this process may have, since an ordinary user's Podman may not have more either.
    """
    host = body["HostConfig"]
    spec: dict[str, Any] = {
        "name": name,
        "image": _full_name(body["Image"]),
        "entrypoint": body["Entrypoint"],
        "command": body["Cmd"],
        "env": dict(entry.partition("=")[::2] for entry in body["Env"]),
        "httpproxy": False,
        "work_dir": body["WorkingDir"],
        "labels": body["Labels"],
        "stdin": body["OpenStdin"],
        "terminal": body["Tty"],
        "stop_signal": _SIGNALS[body["StopSignal"]],
        "stop_timeout": 0,
        "healthconfig": body["Healthcheck"],
        "remove": host["AutoRemove"],
        "init": host["Init"],
        "cap_drop": host["CapDrop"],
        "no_new_privileges": "no-new-privileges" in host["SecurityOpt"],
        "selinux_opts": [word.removeprefix("label=") for word in host["SecurityOpt"] if word.startswith("label=")],
        "read_only_filesystem": host["ReadonlyRootfs"],
        "image_volume_mode": "ignore",
        "ipcns": {"nsmode": host["IpcMode"]},
        "netns": _network(host["NetworkMode"]),
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "mounts": [*map(_tmpfs, *zip(*host["Tmpfs"].items(), strict=True)), *map(_mount, host["Mounts"])],
        "r_limits": _limits(host["Ulimits"], facts),
        "resource_limits": _resources(host),
    }
    if body["User"]:
        spec["user"] = body["User"]
    spec["userns"] = {"nsmode": "keep-id" if facts.rootless else "host"}
    if facts.rootless and spec["netns"]["nsmode"] == "container":
        spec["userns"] = spec["netns"]  # a network is of one user namespace, and so is the box that shares it
    return spec


def _network(mode: str) -> dict[str, str]:
    """Docker's ``container:<id>`` in libpod's words, and its one-word modes."""
    nsmode, _, other = mode.partition(":")
    return {"nsmode": nsmode, "value": other} if other else {"nsmode": nsmode}


def _full_name(image: str) -> str:
    """An image's name with its registry: without one, Podman would look for it in places of its own settings."""
    name, slash, _ = image.partition("/")
    if slash and ("." in name or ":" in name or name == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def _tmpfs(target: str, options: str) -> dict[str, Any]:
    return {
        "type": "tmpfs",
        "source": "tmpfs",
        "destination": target,
        "options": [*options.split(","), "notmpcopyup"],
    }


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    way = "ro" if mount["ReadOnly"] else "rw"
    if mount["Type"] == "tmpfs":
        options = mount["TmpfsOptions"]
        # As Docker gives one that is described like this: nothing on it can be started.
        words = f"{way},noexec,nosuid,nodev,size={options['SizeBytes']},mode={options['Mode']:o}"
        return _tmpfs(mount["Target"], words)
    options = ["rbind", way, mount["BindOptions"]["Propagation"], *([mount[RELABEL]] if RELABEL in mount else [])]
    return {"type": "bind", "source": mount["Source"], "destination": mount["Target"], "options": options}


def _limits(limits: Sequence[Mapping[str, Any]], facts: EngineFacts) -> list[dict[str, Any]]:
    wanted = {str(limit["Name"]): int(limit["Hard"]) for limit in limits}
    wanted.setdefault("nofile", 1 << 14)
    wanted.setdefault("nproc", processes(facts))
    return [
        {"type": name, "soft": least, "hard": least}
        for name, least in ((name, min(most, own_limit(name))) for name, most in wanted.items())
    ]


def _wanted(limits: Sequence[Mapping[str, Any]], facts: EngineFacts) -> dict[str, int]:
    return {f"RLIMIT_{limit['type'].upper()}": limit["hard"] for limit in _limits(limits, facts)}


def _found(limits: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {str(limit["Name"]): int(limit["Hard"]) for limit in limits}


def processes(facts: EngineFacts) -> int:
    """The most processes (RLIMIT_NPROC) of a box: a guard where the engine's own limit does not hold, if it can be.

    Else it is out of the way: it would count all that the person has running.
    """
    from workplaces.container.box import PIDS

    return PIDS if counts_processes(facts) else _MOST_PROCESSES


def counts_processes(facts: EngineFacts) -> bool:
    """Whether RLIMIT_NPROC stands in for a limit of processes that the engine does not keep."""
    found = re.match(r"(\d+)\.(\d+)", facts.kernel)
    new = found is not None and (int(found[1]), int(found[2])) >= _COUNTS_BY_NAMESPACE
    return facts.kind == "podman" and facts.rootless and "pids" not in facts.limits and new


def own_limit(name: str) -> int:
    """The most that this process may have of it. Windows has none of this, and no Podman that could be short of it."""
    if sys.platform == "win32":
        return _MOST_PROCESSES
    import resource

    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


def _resources(host: Mapping[str, Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if "Memory" in host:
        limits["memory"] = {"limit": host["Memory"]}
        if "MemorySwap" in host:
            limits["memory"]["swap"] = host["MemorySwap"]
    if "PidsLimit" in host:
        limits["pids"] = {"limit": host["PidsLimit"]}
    if "NanoCpus" in host:
        limits["cpu"] = {"period": 100_000, "quota": host["NanoCpus"] // 10_000}
    return limits


def as_docker(seen: Mapping[str, Any]) -> dict[str, Any]:
    """What libpod says of a box, as Docker would. What is the same in both is left as it is."""
    config, host = dict(seen.get("Config") or {}), dict(seen.get("HostConfig") or {})
    network = str(host.get("NetworkMode") or "")
    none = not seen.get("EffectiveCaps") and not seen.get("BoundingCaps")
    host["CapDrop"], host["CapAdd"] = (["ALL"], []) if none else ([], host.get("CapAdd") or ["?"])
    if not host.get("NanoCpus") and host.get("CpuQuota") and host.get("CpuPeriod"):
        host["NanoCpus"] = int(host["CpuQuota"]) * 1_000_000_000 // int(host["CpuPeriod"])
    image = str(seen.get("Image") or "")
    networks = (seen.get("NetworkSettings") or {}).get("Networks") or {network: {}}
    return {
        **seen,
        "Image": image if ":" in image or not image else f"sha256:{image}",
        "Config": config,
        "HostConfig": host,
        "Mounts": seen.get("Mounts") or [],
        "NetworkSettings": {**(seen.get("NetworkSettings") or {}), "Networks": networks},
    }


def not_kept(body: Mapping[str, Any], seen: Mapping[str, Any], facts: EngineFacts) -> list[str]:
    """What of the seal is not in what Podman says of the box that it made. Empty when all is."""
    asked, config, host = body["HostConfig"], seen.get("Config") or {}, seen.get("HostConfig") or {}
    mounts = {str(mount.get("Destination")): mount for mount in seen.get("Mounts") or ()}
    tmpfs = host.get("Tmpfs") or {}

    def mounted(mount: Mapping[str, Any]) -> bool:
        if mount["Type"] == "tmpfs":
            return mount["Target"] in tmpfs
        found = mounts.get(mount["Target"]) or {}
        return found.get("Source") == mount["Source"] and found.get("RW") is not mount["ReadOnly"]

    kept: dict[str, Callable[[], bool]] = {
        "capabilities": lambda: not seen.get("EffectiveCaps") and not seen.get("BoundingCaps"),
        "no new privileges": lambda: "no-new-privileges" in (host.get("SecurityOpt") or ()),
        "a read-only root": lambda: host.get("ReadonlyRootfs") is True,
        "no network": lambda: asked["NetworkMode"] != "none" or host.get("NetworkMode") == "none",
        "the network of a door": lambda: (
            not asked["NetworkMode"].startswith("container:") or host.get("NetworkMode") == asked["NetworkMode"]
        ),
        "the user": lambda: not body["User"] or config.get("User") == body["User"],
        "namespaces": lambda: (
            host.get("PidMode") in ("", "private", None) and host.get("IpcMode") in ("private", "shareable")
        ),
        "the person's own numbers": lambda: facts.rootless is bool(host.get("IDMappings")),
        "no privileges": lambda: host.get("Privileged") is False,
        "the mounts": lambda: all(map(mounted, asked["Mounts"])) and all(target in tmpfs for target in asked["Tmpfs"]),
        "no other mounts": lambda: set(mounts) <= {mount["Target"] for mount in asked["Mounts"]} | set(tmpfs),
        "memory": lambda: "Memory" not in asked or host.get("Memory") == asked["Memory"],
        "processes": lambda: "PidsLimit" not in asked or host.get("PidsLimit") == asked["PidsLimit"],
        "limits": lambda: _wanted(asked["Ulimits"], facts).items() <= _found(host["Ulimits"]).items(),
    }
    missing = []
    for what, holds in kept.items():
        with contextlib.suppress(TypeError, AttributeError, ValueError, KeyError):
            if holds():
                continue
        missing.append(what)
    return missing
