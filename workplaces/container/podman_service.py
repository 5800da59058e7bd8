"""A Podman service of Conch's own, on Linux, where a Podman is installed and nothing of it listens.

``podman system service`` is Podman's API on a socket. This one is in a folder that only the person may enter, ends with
Conch, and ends by itself when nobody has asked it for a minute: so it is not left behind when Conch is killed either.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from workplaces.container.contexts import Endpoint
from workplaces.container.programs import own_env, program
from workplaces.container.refusals import Unusable
from workplaces.words import PLACE_WORDS

IDLE = 60  # seconds without a request or a box that somebody listens to, after which it ends
START_LIMIT = 15.0
_END_LIMIT = 5.0
_LONGEST_PATH = 100  # of a socket: the kernel takes 107 bytes


class PodmanService:
    """The service. Its calls block and may be made from any thread. ``folder`` is made when it is first needed."""

    def __init__(self, folder: Path, env: Mapping[str, str], *, idle: int = IDLE) -> None:
        self._folder = folder
        self._env = env
        self._idle = idle
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Path | None = None
        self._lock = threading.Lock()

    def possible(self) -> bool:
        """Whether there is a Podman to start."""
        return bool(program("podman", self._env))

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def is_at(self, endpoint: Endpoint) -> bool:
        return self._socket is not None and endpoint.address == f"unix://{self._socket}"

    def start(self) -> Endpoint:
        """Starts it unless it runs. Gives where it is. Raises Unusable, with what Podman said, when it does not."""
        with self._lock:
            if self.running() and self._socket is not None:
                return self._endpoint(self._socket)
            self._end()
            folder = self._ready_folder()
            _sweep(folder)
            self._socket = folder / f"{secrets.token_hex(4)}.sock"
            endpoint = self._endpoint(self._socket)
            log = folder / "log"
            with contextlib.suppress(OSError):
                log.unlink()
            try:
                self._process = self._spawn(self._socket, log)
            except OSError as error:
                raise Unusable("unstarted", endpoint, str(error), "Podman") from None
            self._wait(endpoint, log)
            return endpoint

    def close(self) -> None:
        """Ends it. Boxes go on without it, so they are ended first by whoever made them."""
        with self._lock:
            self._end()

    def _endpoint(self, path: Path) -> Endpoint:
        return Endpoint(f"unix://{path}", PLACE_WORDS["engine.source.own"])

    def _spawn(self, path: Path, log: Path) -> subprocess.Popen[bytes]:
        words = [program("podman", self._env), "system", "service", f"--time={self._idle}", f"unix://{path}"]
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as said:
            return subprocess.Popen(
                words,
                env=own_env(self._env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # an ordinary user's is two processes; so both are ended at once
            )

    def _wait(self, endpoint: Endpoint, log: Path) -> None:
        assert self._process is not None  # noqa: S101
        end = time.monotonic() + START_LIMIT
        while not _listens(Path(endpoint.path)):
            if self._process.poll() is not None or time.monotonic() > end:
                said = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
                self._end()
                raise Unusable("unstarted", endpoint, said[-1][:300] if said else "", "Podman")
            time.sleep(0.005)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and sys.platform != "win32":
            import signal

            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_LIMIT)
                    break
        path, self._socket = self._socket, None
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def _ready_folder(self) -> Path:
        """Conch's own folder, or a short one where that is too deep for a socket. Only the person may enter it."""
        folder = self._folder
        if len(os.fsencode(folder)) + len("/12345678.sock") > _LONGEST_PATH:
            key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
            folder = Path(self._env.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"conch-{key}"
        endpoint = self._endpoint(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            raise Unusable("unstarted", endpoint, str(error), "Podman") from None
        if not folder.is_dir() or folder.is_symlink() or (sys.platform != "win32" and found.st_uid != os.getuid()):
            raise Unusable("unstarted", endpoint, f"{folder} is somebody else's", "Podman")
        folder.chmod(0o700)
        return folder


def _listens(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(str(path))
        return True
    return False


def _sweep(folder: Path) -> None:
    """Takes sockets away that a killed service left. Those of another Conch's, which answer, stay."""
    for path in folder.glob("*.sock"):
        if not _listens(path):
            with contextlib.suppress(OSError):
                path.unlink()
