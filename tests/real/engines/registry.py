"""A real registry (Debian's docker-registry) on loopback, and how an image gets into one."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import subprocess
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from tests.real.engines.needs import program
from tests.real.engines.processes import DidNotStart, start, stop, wait_until

_CONFIG = """\
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {storage}}}
  delete: {{enabled: true}}
  maintenance: {{readonly: {{enabled: {readonly}}}, uploadpurging: {{enabled: false}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""
_LOGIN = "auth: {{htpasswd: {{realm: tests, path: {path}}}}}"
# Who may have images where a sign-in is asked for, and that in an htpasswd file's words.
PERSON = "me:correct-horse"
_PERSONS = "me:$2y$05$abcdefghijklmnopqrstuuZ0Fx87Pb/Aqb0E90lfvCwzXnaFKUHpS\n"

_KIND = "application/vnd.docker.distribution.manifest"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Registry:
    """One docker-registry over a storage folder. ``address`` is ``127.0.0.1:<port>``."""

    def __init__(self, storage: Path, scratch: Path, *, readonly: bool, login: bool = False) -> None:
        self._log = scratch / "registry.log"
        scratch.mkdir(parents=True, exist_ok=True)
        storage.mkdir(parents=True, exist_ok=True)
        for attempt in range(3):  # the free port may be gone by the time the registry asks for it
            self.port = free_port()
            self.address = f"127.0.0.1:{self.port}"
            config = scratch / "registry.yml"
            auth = _LOGIN.format(path=scratch / "persons") if login else ""
            (scratch / "persons").write_text(_PERSONS)
            config.write_text(
                _CONFIG.format(storage=storage, port=self.port, readonly=str(readonly).lower(), auth=auth)
            )
            name = program("docker-registry") or "docker-registry"
            self._process = start([name, "serve", str(config)], self._log)
            try:
                wait_until(self._answers, self._process, self._log, what="docker-registry", seconds=15)
            except DidNotStart:
                stop(self._process)
                if attempt == 2:
                    raise
            else:
                return

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/v2/")[0] in (200, 401)
        except OSError:
            return False

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Message, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def _upload(self, name: str, digest: str, size: int, body: bytes | BinaryIO) -> None:
        if self._ask("HEAD", f"/v2/{name}/blobs/{digest}")[0] == 200:
            return
        status, headers, text = self._ask("POST", f"/v2/{name}/blobs/uploads/", b"")
        if status != 202:
            raise RuntimeError(f"the registry took no upload: {status} {text!r}")
        place = urlsplit(headers["Location"])
        status, _, text = self._ask(
            "PUT",
            f"{place.path}?{place.query}&digest={digest}",
            body,
            {"Content-Type": "application/octet-stream", "Content-Length": str(size)},
        )
        if status != 201:
            raise RuntimeError(f"the registry did not keep {digest}: {status} {text!r}")

    def put(
        self, name: str, tag: str, layers: Sequence[Layer], config: Mapping[str, Any], *, architecture: str = ""
    ) -> str:
        """Puts an image there, as a push does. Returns its manifest's digest. For this computer's kind of processor
        unless it is said for which."""
        for layer in layers:
            with layer.file.open("rb") as packed:
                self._upload(name, layer.digest, layer.size, packed)
        whole = {
            "architecture": architecture or _architecture(),
            "os": "linux",
            "created": "2025-01-01T00:00:00Z",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": "2025-01-01T00:00:00Z", "created_by": "conch tests"} for _ in layers],
        }
        text = json.dumps(whole, sort_keys=True).encode()
        config_digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        self._upload(name, config_digest, len(text), text)
        kind = "application/vnd.docker"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{kind}.distribution.manifest.v2+json",
            "config": {"mediaType": f"{kind}.container.image.v1+json", "size": len(text), "digest": config_digest},
            "layers": [
                {"mediaType": f"{kind}.image.rootfs.diff.tar.gzip", "size": layer.size, "digest": layer.digest}
                for layer in layers
            ],
        }
        return self._put_manifest(name, tag, manifest)

    def put_list(self, name: str, tag: str, digest: str, architecture: str) -> str:
        """Puts a list of one image there: for whoever has another kind of processor there is none."""
        _, _, text = self._ask("GET", f"/v2/{name}/manifests/{digest}", headers={"Accept": f"{_KIND}.v2+json"})
        one = {
            "mediaType": f"{_KIND}.v2+json",
            "size": len(text),
            "digest": digest,
            "platform": {"architecture": architecture, "os": "linux"},
        }
        return self._put_manifest(
            name, tag, {"schemaVersion": 2, "mediaType": f"{_KIND}.list.v2+json", "manifests": [one]}
        )

    def _put_manifest(self, name: str, tag: str, manifest: Mapping[str, Any]) -> str:
        body = json.dumps(manifest, sort_keys=True).encode()
        status, headers, answer = self._ask(
            "PUT", f"/v2/{name}/manifests/{tag}", body, {"Content-Type": str(manifest["mediaType"])}
        )
        if status != 201:
            raise RuntimeError(f"the registry did not keep {name}:{tag}: {status} {answer!r}")
        return headers["Docker-Content-Digest"]

    def stop(self) -> None:
        stop(self._process)


@dataclass(frozen=True, slots=True)
class Layer:
    """A packed layer in a file: ``digest`` and ``size`` as packed, ``diff_id`` unpacked."""

    file: Path
    digest: str
    size: int
    diff_id: str


def _architecture() -> str:
    import platform

    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def pack(blocks: Iterable[bytes], file: Path) -> Layer:
    """Packs a tar stream into a layer, lightly: reading it back quickly matters more than its size."""
    plain, packed, size = hashlib.sha256(), hashlib.sha256(), 0
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    with file.open("wb") as out:

        def write(block: bytes) -> None:
            nonlocal size
            packed.update(block)
            size += len(block)
            out.write(block)

        for block in blocks:
            plain.update(block)
            write(squeeze.compress(block))
        write(squeeze.flush())
    return Layer(file, f"sha256:{packed.hexdigest()}", size, f"sha256:{plain.hexdigest()}")


def pack_folder(folder: Path, file: Path) -> Layer:
    """Packs a whole folder as a layer, owners by number, in a fixed order."""
    line = ["tar", "--numeric-owner", "--sort=name", "--one-file-system", "-C", str(folder), "-cf", "-", "."]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        stream = tar.stdout
        layer = pack(iter(lambda: stream.read(1 << 20), b""), file)
    if tar.returncode != 0:
        raise RuntimeError(f"tar could not read {folder}")
    return layer
