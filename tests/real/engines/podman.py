"""A real Podman of the tests' own, rootful or an ordinary user's: its data, socket and settings touch no other Podman.

Each run of the tests holds one *slot* (a number) of a kind for as long as it lives, so several runs at once never share
boxes. A slot's data stays in the cache from run to run, so the default image is pulled into it once. Everything that
makes it this Podman is in ``env``: a ``podman`` started with it works on the same boxes and images.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.real.engines import cgroups, images
from tests.real.engines.folders import Held, cache, locked, mounts_under, remove, sockets
from tests.real.engines.needs import program
from tests.real.engines.person import Person
from tests.real.engines.processes import start, stop, stop_stray, wait_until
from tests.real.engines.registry import Registry
from tests.real.engines.throttle import Throttle

Kind = Literal["rootful", "rootless"]

PROGRAMS = ("podman", "runc", "conmon", "catatonit", "docker-registry", "debootstrap", "ip")
ROOTLESS_PROGRAMS = (*PROGRAMS, "newuidmap", "newgidmap", "slirp4netns", "usermod")
CNI = Path("/usr/lib/cni/bridge")  # the network of a rootful Podman (Debian package containernetworking-plugins)
_TUN = Path("/dev/net/tun")  # what slirp4netns opens, the network of a rootless Podman
_SLOTS = 16
_MOST = 1 << 20
_SUBORDINATE = 65536  # user numbers inside a box of a rootless Podman

# Podman asks for a million open files, and not every machine lets root raise its limits: then what it has must do.
# crun refuses control groups of version 1 beside version 2; without systemd Podman makes them itself. Locks in files:
# those in shared memory are one set for all rootful Podmans of a machine.
_CONF = """\
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{run}/libpod"
image_copy_tmp_dir = "storage"
[network]
network_backend = "cni"
network_config_dir = "{run}/networks"
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{data}"
rootless_storage_path = "{data}"
runroot = "{run}/storage"
"""
# The mirror stands in the place of Docker's registry, so nothing is ever asked for outside.
_REGISTRIES = """\
unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "docker.io"
location = "{mirror}"
insecure = true
[[registry]]
location = "{mirror}"
insecure = true
"""
# The default network without the plugins that write to the machine's firewall.
_NETWORK = """\
{{"cniVersion": "0.4.0", "name": "podman", "plugins": [{{
  "type": "bridge", "bridge": "{bridge}", "isGateway": true, "ipMasq": false,
  "ipam": {{"type": "host-local", "dataDir": "{run}/leases", "routes": [{{"dst": "0.0.0.0/0"}}],
            "ranges": [[{{"subnet": "{net}.0/24", "gateway": "{net}.1"}}]]}}
}}]}}
"""


class Podman:
    """A running ``podman system service``.

    ``host`` is what DOCKER_HOST takes, ``socket`` the same as a path. ``image`` is the product's default image, which
    the registry mirror on loopback serves, as it does ``bare`` (no shell in it) and ``slow`` (a pull to watch).
    ``registry`` (``127.0.0.1:<port>``) answers honestly that it has no other image; nothing goes outside.
    ``runtime_dir`` is what XDG_RUNTIME_DIR is where a rootless one lives: its socket is where everyone looks for it.
    """

    image = images.NODE
    bare = images.BARE
    slow = images.SLOW

    def __init__(self, number: int, data: Path, person: Person | None, *, group: int | None = None) -> None:
        """Starts it, as ``person`` or as root. ``group`` may use a rootful one. Raises DidNotStart."""
        self.kind: Kind = "rootless" if person else "rootful"
        self.person = person
        self._data = data
        self._group = group
        self._run = sockets() / f"podman-{self.kind}-{number}"
        self._bridge = f"conch-p{number}"
        self._net = f"10.252.{number}"
        self.runtime_dir = self._run / "user"
        self.socket = self.runtime_dir / "podman/podman.sock"
        self.host = f"unix://{self.socket}"
        self.home = self._run / "home"
        self._process: subprocess.Popen[bytes] | None = None
        self._stop_strays()
        remove(self._run)  # a new one, so that Podman sees that nothing of its earlier boxes runs
        for folder in (self._run, self.runtime_dir, self.socket.parent, self.home, self._run / "networks", self._data):
            self._folder(folder)
        self.runtime_dir.chmod(0o700 if person else 0o755)
        self._registry = Registry(images.storage(), self._run / "registry", readonly=True)
        self._line = Throttle(self._registry.port)
        self.registry = f"127.0.0.1:{self._line.port}"
        try:
            self._write_settings()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def env(self) -> dict[str, str]:
        """The environment of whoever uses this Podman: its settings, a HOME of its own, and no proxy."""
        settings = {
            "CONTAINERS_CONF": str(self._run / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._run / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self._run / "registries.conf"),
            "DOCKER_HOST": self.host,
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime_dir),
        }
        base = self.person.env if self.person else os.environ
        others = ("DOCKER_", "CONTAINER", "XDG_")
        kept = {name: value for name, value in base.items() if not name.startswith(others)}
        return {**{name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}, **settings}

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the service (again). Its boxes and images are as they were; running boxes went on without it."""
        cgroups.ready()
        log = self._data.parent / f"{self._data.name}.log"
        line = self.argv("system", "service", "--time=0", self.host, log_level="warn")
        self._process = start(line, log, env=self.env, cwd=self.home)
        wait_until(self._answers, self._process, log, what="podman")
        if self._group is not None:
            os.chown(self.socket, -1, self._group)
            self.socket.chmod(0o660)

    def argv(self, *words: str, log_level: str = "error") -> list[str]:
        """What root starts, with ``env``, for ``podman …`` on this one's boxes, as whose it is."""
        podman = [program("podman") or "podman", f"--log-level={log_level}", *words]
        if self.person is None:
            return podman
        become = [f"--reuid={self.person.uid}", f"--regid={self.person.gid}", "--init-groups", "--inh-caps=-all"]
        return [program("setpriv") or "setpriv", *become, "--pdeathsig=TERM", "--", *podman]

    def cli(self, *words: str, timeout: float = 60.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs ``podman …`` on this one's boxes: without the service, and without the product's own client."""
        return subprocess.run(
            self.argv(*words),
            env=self.env,
            cwd=self.home,
            timeout=timeout,
            check=check,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def get(self, path: str) -> tuple[int, bytes]:
        """Asks the engine's API something, by no client of anybody's. Raises OSError when it is not there."""
        connection = http.client.HTTPConnection("podman", timeout=30)
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
        return self._line.slowly(bytes_per_second)

    def pull(self, image: str) -> None:
        """Gets an image over the API. Raises RuntimeError with what Podman says: it comes after a status of 200."""
        with self.client() as client:
            for line in client.api.pull(*image.rsplit(":", 1), stream=True, decode=True):
                if "error" in line:
                    raise RuntimeError(line["error"])

    def prepare(self) -> None:
        """Makes a person's copy of the default image for ``keep-id``: some seconds, once for an image and a person."""
        if self.person:
            self.cli("rm", self.cli("create", "--userns=keep-id", "--network=none", self.image).stdout.strip())

    def has(self, image: str) -> bool:
        return self.cli("image", "exists", image, check=False).returncode == 0

    def forget(self, image: str) -> None:
        """Removes an image, so that the next pull of it starts from nothing."""
        self.cli("image", "rm", "--force", image, check=False)

    def boxes(self, **labels: str) -> list[str]:
        """The ids of all boxes there, running or not, with these labels (``conch_work="1"`` is ``conch.work=1``)."""
        wanted = [f"--filter=label={name.replace('_', '.')}={value}" for name, value in labels.items()]
        return self.cli("ps", "--all", "--quiet", "--no-trunc", *wanted).stdout.split()

    def clear(self) -> None:
        """Removes every box, every image but the default one, and every other name of that."""
        self.cli("rm", "--all", "--force", "--time=0", "--volumes")
        names = self.cli("image", "ls", "--format={{.Repository}}:{{.Tag}}").stdout.split()
        for name in names:
            if name != self.image and "<none>" not in name:
                self.cli("untag", name, name, check=False)
        kept = self.cli("image", "ls", "--quiet", "--no-trunc", self.image, check=False).stdout.split()
        others = set(self.cli("image", "ls", "--quiet", "--no-trunc").stdout.split()) - set(kept)
        if others:
            self.cli("image", "rm", "--force", *others)

    def crash(self) -> None:
        """Kills the service, as a bug or the kernel would. Its boxes go on; ``start`` brings it back."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the service. Its boxes go on: Podman has no daemon that they hang on. ``start`` brings it back."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        # An ordinary user's service is two processes, and the second outlives the first for a moment, or for good.
        services = [pid for pid in self._ours() if b"\0system\0service\0" in _read(pid, "cmdline")]
        for pid in services:
            _kill(pid, number)
        if self._process is not None:
            stop(self._process)
            self._process = None
        for pid in services:
            stop_stray(pid, "service", seconds=5)

    def close(self) -> None:
        """Ends all that it started, and takes its network away. Its data stays."""
        with contextlib.suppress(Exception):
            self.clear()
        self.stop()
        self._stop_strays()
        self._line.close()
        self._registry.stop()
        subprocess.run([program("ip") or "ip", "link", "del", self._bridge], check=False, stderr=subprocess.DEVNULL)
        remove(self._run)

    def _answers(self) -> bool:
        try:
            return self.get("/_ping")[0] == 200
        except OSError:
            return False

    def _folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if self.person:
            os.chown(folder, self.person.uid, self.person.gid)

    def _write_settings(self) -> None:
        known = {
            "run": self._run,
            "data": self._data,
            "mirror": self.registry,
            "bridge": self._bridge,
            "net": self._net,
            "files": _limit(resource.RLIMIT_NOFILE),
            "processes": min(_limit(resource.RLIMIT_NPROC), int(Path("/proc/sys/kernel/pid_max").read_text())),
        }
        texts = {"containers.conf": _CONF, "storage.conf": _STORAGE, "registries.conf": _REGISTRIES}
        if self.person is None:
            texts["networks/87-podman-bridge.conflist"] = _NETWORK
        for name, text in texts.items():
            (self._run / name).write_text(text.format(**known))

    def _stop_strays(self) -> None:
        """Ends what hangs on this number still: a service whose run died, its boxes, what holds a user's namespace."""
        ours = self._ours()
        boxes = {pid for pid in _pids() if _parent(pid) in ours} - ours
        for pid in (*boxes, *ours):
            _kill(pid)
        for folder in (self._run, self._data):
            for point in mounts_under(folder):
                subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)

    def _ours(self) -> set[int]:
        """Every process that was started for this one, by this run or an earlier one of the same number."""
        mark = f"{self._run}/".encode()
        told = ((pid, _read(pid, "cmdline") + _read(pid, "environ")) for pid in _pids() if pid != os.getpid())
        return {pid for pid, words in told if mark in words}


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _parent(pid: int) -> int:
    words = _read(pid, "stat").rpartition(b")")[2].split()
    return int(words[1]) if words else 0


def _kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _limit(which: int) -> int:
    hard = resource.getrlimit(which)[1]
    return min(hard, _MOST) if hard != resource.RLIM_INFINITY else _MOST


def _subordinate(person: Person) -> None:
    """Sees to it that they have user numbers for what is in a box, as ``useradd`` gives to people."""
    with locked(sockets() / "person.lock"):
        used = [_SUBORDINATE * 8]
        for file in (Path("/etc/subuid"), Path("/etc/subgid")):
            for line in file.read_text().splitlines() if file.exists() else ():
                name, first, count = line.split(":")
                if name in (person.name, str(person.uid)):
                    return
                used.append(int(first) + int(count))
        numbers = f"{max(used)}-{max(used) + _SUBORDINATE - 1}"
        words = [f"--add-subuids={numbers}", f"--add-subgids={numbers}", person.name]
        subprocess.run([program("usermod") or "usermod", *words], check=True)


def _open_tun() -> None:
    """Lets everyone open the tun device, as udev does. Some machines boot without udev."""
    if _TUN.exists() and _TUN.stat().st_mode & 0o666 != 0o666:
        _TUN.chmod(0o666)


def _data(person: Person | None, number: int) -> Path:
    """Where a slot's images are from run to run. An ordinary user's cannot be in root's home."""
    if person is None:
        return cache() / f"podman-{number}"
    kept = Path("/var/cache/conch-tests")
    kept.mkdir(mode=0o755, parents=True, exist_ok=True)
    data = kept / f"podman-{number}"
    if data.exists() and data.stat().st_uid != person.uid:  # of a user who is no more
        remove(data)
    return data


@contextmanager
def _slot(kind: Kind) -> Iterator[int]:
    """A number that no other run of the tests holds."""
    for number in range(_SLOTS):
        with contextlib.suppress(BlockingIOError):
            held = Held(sockets() / f"podman-{kind}-{number}.lock", wait=False)
            break
    else:
        raise RuntimeError("too many runs of the tests are going on at once")
    try:
        yield number
    finally:
        held.free()


@contextmanager
def _shared(person: Person | None, group: int | None) -> Iterator[Podman]:
    kind: Kind = "rootless" if person else "rootful"
    with _slot(kind) as number:
        engine = Podman(number, _data(person, number), person, group=group)
        try:
            engine.clear()
            if not engine.has(engine.image):
                engine.pull(engine.image)
                engine.prepare()
            yield engine
        finally:
            engine.close()


def rootful_podman(*, group: int | None = None) -> AbstractContextManager[Podman]:
    """Podman as root, for a whole run: the default image is there, nothing else is. ``group`` may use its socket."""
    return _shared(None, group)


def rootless_podman(person: Person) -> AbstractContextManager[Podman]:
    """Podman as an ordinary user, for a whole run: the default image is there, nothing else is."""
    _subordinate(person)
    _open_tun()
    return _shared(person, None)


@contextmanager
def fresh_podman(scratch: Path, *, person: Person | None = None, group: int | None = None) -> Iterator[Podman]:
    """A Podman that has never held anything: no image, no box. Its data is gone afterwards.

    ``scratch`` is a folder that ``person`` may pass through.
    """
    if person:
        _subordinate(person)
        _open_tun()
    with _slot("rootless" if person else "rootful") as number:
        data = scratch / "podman-data"
        engine = Podman(number, data, person, group=group)
        try:
            yield engine
        finally:
            engine.close()
            remove(data)
