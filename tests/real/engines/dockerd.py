"""A real Docker of the tests' own: its data, socket, bridge and settings touch no other Docker on this machine.

Each run of the tests holds one *slot* (a number) for as long as it lives, so several runs at once never share boxes.
A slot's data stays in the cache from run to run, so the default image is pulled into it once.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.real.engines import cgroups, images
from tests.real.engines.folders import Held, cache, mounts_under, remove, sockets
from tests.real.engines.needs import program
from tests.real.engines.processes import start, stop, stop_stray, wait_until
from tests.real.engines.registry import Registry
from tests.real.engines.throttle import Throttle

PROGRAMS = ("dockerd", "docker-registry", "debootstrap", "ip")
_SLOTS = 16


class Dockerd:
    """A running Docker.

    ``host`` is what DOCKER_HOST takes, ``socket`` the same as a path. ``image`` is the product's default image, which
    the registry mirror on loopback serves, as it does ``bare`` (no shell in it) and ``slow`` (a pull to watch).
    ``registry`` (``127.0.0.1:<port>``) answers honestly that it has no other image; anything else outside is refused
    at once, since no traffic leaves this machine; ``line`` is the way to it. ``gateway`` is this computer as an open
    box sees it.
    """

    image = images.NODE
    bare = images.BARE
    slow = images.SLOW

    def __init__(self, number: int, data: Path, *, group: str | None = None) -> None:
        """Starts it. Raises DidNotStart with the end of its log."""
        self._number = number
        self._data = data
        self._group = group
        self._run = sockets() / f"docker-{number}"
        self._bridge = f"conch-t{number}"
        self.gateway = f"10.253.{number}.1"
        self.socket = self._run / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.home = self._run / "home"
        self._process: subprocess.Popen[bytes] | None = None
        self._stop_stray()
        self.home.mkdir(parents=True, exist_ok=True)
        self._registry = Registry(images.storage(), self._run / "registry", readonly=True)
        self.line = Throttle(self._registry.port)
        self.registry = f"127.0.0.1:{self.line.port}"
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, with this Docker and a HOME without anybody's Docker settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
        return {**kept, "DOCKER_HOST": self.host, "HOME": str(self.home)}

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it (again). Its boxes and images are as they were."""
        cgroups.ready()
        self._make_bridge()
        log = self._data.parent / f"dockerd-{self._number}.log"
        nowhere = "http://127.0.0.1:1"  # what the mirror does not have must not be asked for outside
        env = {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "HOME": str(self.home),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        (self._run / "daemon.json").write_text("{}")
        self._process = start(self._arguments(), log, env=env)
        wait_until(self._answers, self._process, log, what="dockerd")

    def _arguments(self) -> list[str]:
        own = f"conch-t{self._number}"
        return [
            program("dockerd") or "dockerd",
            f"--config-file={self._run / 'daemon.json'}",
            f"--data-root={self._data}",
            f"--exec-root={self._run / 'exec'}",
            f"--pidfile={self._run / 'docker.pid'}",
            f"--host={self.host}",
            f"--group={self._group or os.getgid()}",
            f"--containerd-namespace={own}",
            f"--containerd-plugins-namespace={own}-plugins",
            # a bridge of its own: "none" would take the machine's docker0 away, and the firewall is left alone
            f"--bridge={self._bridge}",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            "--ip-masq=false",
            "--userland-proxy=false",
            f"--registry-mirror=http://{self.registry}",
            "--shutdown-timeout=3",
            "--log-level=warn",
        ]

    def _answers(self) -> bool:
        try:
            return self.get("/_ping")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, bytes]:
        """Asks the engine's API something, by no client of anybody's. Raises OSError when it is not there."""
        connection = http.client.HTTPConnection("docker", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(30)
        try:
            connection.sock.connect(str(self.socket))
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @contextmanager
    def client(self) -> Iterator[Any]:
        """The docker SDK on this engine, to look with: never the product's own client."""
        import docker

        client = docker.DockerClient(base_url=self.host, timeout=60)
        try:
            yield client
        finally:
            client.close()

    def slowly(self, bytes_per_second: float) -> AbstractContextManager[None]:
        """For as long as this lasts, images come that slowly."""
        return self.line.slowly(bytes_per_second)

    @contextmanager
    def runtime(self, name: str, program: Path) -> Iterator[None]:
        """For as long as this lasts, the engine has this runtime too."""
        self._configure({"runtimes": {name: {"path": str(program)}}})
        try:
            wait_for(lambda: name in json.loads(self.get("/info")[1])["Runtimes"], "the engine has the runtime")
            yield
        finally:
            self._configure({})

    def _configure(self, settings: dict[str, Any]) -> None:
        assert self._process is not None
        (self._run / "daemon.json").write_text(json.dumps(settings))
        self._process.send_signal(signal.SIGHUP)

    def pull(self, image: str) -> None:
        with self.client() as client:
            client.api.pull(image)

    def has(self, image: str) -> bool:
        with self.client() as client:
            return any(image.removeprefix("docker.io/library/") in found.tags for found in client.images.list())

    def forget(self, image: str) -> None:
        """Removes an image, so that the next pull of it starts from nothing."""
        import docker.errors

        with self.client() as client, contextlib.suppress(docker.errors.ImageNotFound):
            client.images.remove(image, force=True)

    def boxes(self, **labels: str) -> list[str]:
        """The ids of all boxes there, running or not, with these labels (``conch_work="1"`` is ``conch.work=1``)."""
        wanted = [f"{name.replace('_', '.')}={value}" for name, value in labels.items()]
        with self.client() as client:
            return [box["Id"] for box in client.api.containers(all=True, filters={"label": wanted})]

    def clear(self) -> None:
        """Removes every box, and every image but the default one."""
        with self.client() as client:
            for box in client.api.containers(all=True):
                client.api.remove_container(box["Id"], force=True, v=True)
            for image in client.api.images(all=False):
                if self.image.removeprefix("docker.io/library/") not in (image["RepoTags"] or ()):
                    client.api.remove_image(image["Id"], force=True)

    def stop(self) -> None:
        """Stops the engine, as a reboot or its person would. Its boxes stop; ``start`` brings it back."""
        if self._process is not None:
            stop(self._process)
            self._process = None
        self._stop_stray()

    def close(self) -> None:
        """Ends all that it started, and takes its bridge away. Its data stays."""
        if self.running:
            with contextlib.suppress(Exception):
                self.clear()
        self.stop()
        self.line.close()
        self._registry.stop()
        self._ip("link", "del", self._bridge, check=False)
        remove(self._run)

    def _stop_stray(self) -> None:
        """Ends what is left of an earlier one with this number, whose run died before it could."""
        for pidfile, mark in (
            (self._run / "docker.pid", str(self._run)),
            (self._run / "exec/containerd/containerd.pid", str(self._run)),
        ):
            with contextlib.suppress(OSError, ValueError):
                stop_stray(int(pidfile.read_text()), mark)
        for folder in (self._run, self._data):
            for point in mounts_under(folder):
                subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)

    def _make_bridge(self) -> None:
        self._ip("link", "del", self._bridge, check=False)
        self._ip("link", "add", "name", self._bridge, "type", "bridge")
        self._ip("addr", "add", f"{self.gateway}/24", "dev", self._bridge)
        self._ip("link", "set", self._bridge, "up")

    def _ip(self, *words: str, check: bool = True) -> None:
        line = [program("ip") or "ip", *words]
        subprocess.run(line, check=check, stdout=subprocess.DEVNULL, stderr=None if check else subprocess.DEVNULL)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not in {seconds:g} s: {what}")
        time.sleep(0.05)


def _slot() -> tuple[int, Held]:
    """A number that no other run of the tests holds."""
    for number in range(_SLOTS):
        with contextlib.suppress(BlockingIOError):
            return number, Held(sockets() / f"slot-{number}.lock", wait=False)
    raise RuntimeError("too many runs of the tests are going on at once")


@contextmanager
def shared(*, group: str | None = None) -> Iterator[Dockerd]:
    """The engine of a whole run: the default image is there, nothing else is."""
    number, held = _slot()
    try:
        engine = Dockerd(number, cache() / f"docker-{number}" / "data", group=group)
        try:
            engine.clear()
            engine.pull(engine.image)
            yield engine
        finally:
            engine.close()
    finally:
        held.free()


@contextmanager
def fresh(scratch: Path, *, group: str | None = None) -> Iterator[Dockerd]:
    """An engine that has never held anything: no image, no box. Its data is gone afterwards."""
    number, held = _slot()
    data = scratch / "docker-data"
    try:
        engine = Dockerd(number, data, group=group)
        try:
            yield engine
        finally:
            engine.close()
            remove(data)
    finally:
        held.free()
