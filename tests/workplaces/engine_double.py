"""An engine that is none: it answers as Docker's API does, on a unix socket, and can be made to hang, lie or break.

For what a real engine does not do on demand. Of what a box does inside only its shell's part is played here: it says
its first line, waits for the line with the command, and says the mark at the end. The real ones show the rest.
"""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

VERSION = {"Version": "24.0.1", "ApiVersion": "1.43", "Components": [{"Name": "Engine", "Version": "24.0.1"}]}
INFO = {
    "OSType": "linux",
    "OperatingSystem": "Double 1",
    "KernelVersion": "double",
    "NCPU": 8,
    "MemTotal": 8 << 30,
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}
IMAGE_ID = "sha256:" + "1" * 64
DIGEST = "sha256:" + "2" * 64


@dataclass
class Box:
    """One box of the double. Its command runs until ``ended`` is set. ``given`` is the line that it was given.

    ``marks``: its shell says the mark at the end. Without, the box just ends.
    """

    name: str
    id: str
    body: dict[str, Any]
    status: str = "created"
    code: int = 0
    given: bytes = b""
    marks: bool = True
    memory: int = 0
    attached: Any = None
    ended: threading.Event = field(default_factory=threading.Event)

    def say(self, kind: int, data: bytes) -> None:
        self.attached.sendall(struct.pack(">BxxxI", kind, len(data)) + data)


class EngineDouble:
    """Serves until ``close``. ``hang(...)`` holds matching requests until ``wake``; ``answer(...)`` gives them that."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "engine.sock"
        self.host = f"unix://{self.socket}"
        self.version: Any = dict(VERSION)
        self.info: Any = dict(INFO)
        self.images = {"double:1": {"Id": IMAGE_ID, "RepoDigests": [f"double@{DIGEST}"], "Size": 5}}
        self.boxes: dict[str, Box] = {}
        self.served: list[Box] = []  # every box there ever was
        self.asked: list[str] = []
        self.pull: Callable[[Handler, str], None] = lambda handler, name: handler.lines([])
        self.first_line: Callable[[dict[str, Any]], bytes] = _first_line
        self.runs: Callable[[Box], None] = lambda box: box.ended.set()
        self._rules: list[tuple[re.Pattern[str], Callable[[Handler], bool]]] = []
        self._awake = threading.Event()
        self._awake.set()
        double = self

        class Bound(Handler):
            engine = double

        self._server = _Server(str(self.socket), Bound)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.wake()
        for box in self.boxes.values():
            box.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def hang(self, pattern: str) -> None:
        """Requests that match are held until ``wake``, then answered as if nothing had been."""
        self._awake.clear()

        def wait(handler: Handler) -> bool:
            self._awake.wait()
            return False

        self._rules.append((re.compile(pattern), wait))

    def wake(self) -> None:
        self._awake.set()

    def answer(self, pattern: str, status: int, content: Any) -> None:
        """Requests that match get this, whatever they ask."""

        def give(handler: Handler) -> bool:
            handler.give(content, status)
            return True

        self._rules.append((re.compile(pattern), give))

    def drop(self, pattern: str) -> None:
        """Requests that match lose their connection."""

        def cut(handler: Handler) -> bool:
            handler.close_connection = True
            return True

        self._rules.append((re.compile(pattern), cut))

    def calm(self) -> None:
        """From now on it answers as it should."""
        self._rules.clear()
        self.wake()

    def meets(self, handler: Handler) -> bool:
        """Whether a rule answered the request."""
        line = f"{handler.command} {urlsplit(handler.path).path}"
        self.asked.append(line)
        return any(rule(handler) for pattern, rule in list(self._rules) if pattern.search(line))

    def end(self, box: Box, code: int = 137) -> None:
        """The box ends, as one that was killed by somebody."""
        box.code, box.status = code, "exited"
        box.ended.set()

    def find(self, name: str) -> Box | None:
        return next((box for box in self.boxes.values() if name in (box.id, box.name)), None)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: EngineDouble

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"

    def give(self, content: Any, status: int = 200) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)

    def lines(self, lines: list[Any]) -> None:
        """A chunked answer of JSON lines, as a pull gives."""
        self.begin_lines()
        for line in lines:
            self.line(line)
        self.wfile.write(b"0\r\n\r\n")

    def begin_lines(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def line(self, content: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode() + b"\r\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.engine.meets(self):
            return
        parts = urlsplit(self.path)
        path = re.sub(r"^/v[0-9.]+(?=/)", "", parts.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if path == "/_ping":
            self.give(b"OK")
        elif path == "/version":
            self.give(self.engine.version)
        elif path == "/info":
            self.give(self.engine.info)
        elif path.startswith("/images/"):
            self._image(path, query)
        elif path == "/containers/json":
            self.give([{"Id": box.id, "Labels": box.body["Labels"]} for box in self.engine.boxes.values()])
        elif path == "/containers/create":
            self._create(query["name"], json.loads(body))
        else:
            self._box(*path.removeprefix("/containers/").partition("/")[::2])

    do_GET = do_POST = do_DELETE = _serve

    def _image(self, path: str, query: dict[str, str]) -> None:
        if path == "/images/create":
            self.engine.pull(self, f"{query['fromImage']}:{query['tag']}")
            return
        name = path.removeprefix("/images/").removesuffix("/json")
        found = self.engine.images.get(name)
        self.give(found or {"message": f"No such image: {name}"}, 200 if found else 404)

    def _create(self, name: str, body: dict[str, Any]) -> None:
        if body["Image"] not in self.engine.images:
            self.give({"message": f"No such image: {body['Image']}"}, 404)
            return
        box = Box(name, f"{len(self.engine.asked):064x}", body)
        self.engine.boxes[box.id] = box
        self.engine.served.append(box)
        self.give({"Id": box.id, "Warnings": []}, 201)

    def _box(self, name: str, action: str) -> None:
        box = self.engine.find(name)
        if box is None:
            self.give({"message": f"No such container: {name}"}, 404)
        elif self.command == "DELETE":
            self._end(box, 137)
            self.engine.boxes.pop(box.id, None)
            self.give(b"", 204)
        elif action == "attach":
            self._attach(box)
        elif action == "start":
            box.status = "running"
            if first := self.engine.first_line(box.body):
                box.say(1, first)
            if not first or first.endswith(b" other\n"):
                threading.Thread(target=self._run, args=(box,), daemon=True).start()
            self.give(b"", 204)
        elif action == "kill":
            running = box.status == "running"
            if running:
                self._end(box, 137)
            self.give(b"" if running else {"message": "is not running"}, 204 if running else 409)
        elif action == "wait":
            box.ended.wait()
            self.give({"StatusCode": box.code})
        elif action == "json":
            self.give(_seen(box))

    def _run(self, box: Box) -> None:
        self.engine.runs(box)
        box.ended.wait()
        mark = re.search(rb"'%s %s %s %s\\n' ([0-9a-f]{32}) ", box.given)
        if mark and box.marks and box.status == "running":
            with contextlib.suppress(OSError):
                for kind in (1, 2):
                    box.say(kind, mark[1] + b" %d there %d\n" % (box.code, box.memory))
        self._end(box, box.code)

    def _end(self, box: Box, code: int) -> None:
        if not box.ended.is_set() or box.status == "running":
            box.code = box.code or code
        box.status = "exited"
        box.ended.set()

    def _attach(self, box: Box) -> None:
        box.attached = self.connection  # before the answer: a start may follow it at once
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        self.wfile.flush()
        threading.Thread(target=self._listen, args=(box,), daemon=True).start()
        while box.status != "exited":
            box.ended.wait(0.01)
        self.close_connection = True

    def _listen(self, box: Box) -> None:
        """The box's shell: one line to get ready, one group of lines that is its command."""
        lines = b""
        with contextlib.suppress(OSError):
            while data := self.connection.recv(1 << 16):
                lines += data
                _, newline, line = lines.partition(b"\n")
                if newline and line.endswith(b"}\n"):
                    box.given = line
                    self._run(box)
                    return
        if box.status == "running" and not box.given:  # nobody is there any more who could give it a command
            self._end(box, 0)


def _first_line(body: dict[str, Any]) -> bytes:
    return f"{' '.join(body['Cmd'][3].replace('*', '1').split())} shut\n".encode()


def _seen(box: Box) -> dict[str, Any]:
    return {
        "Id": box.id,
        "Image": IMAGE_ID,
        "State": {"Running": box.status == "running", "ExitCode": box.code, "OOMKilled": False},
        "Config": box.body,
        "HostConfig": box.body["HostConfig"],
        "NetworkSettings": {"Networks": {box.body["HostConfig"]["NetworkMode"]: {}}},
        "Mounts": [],
    }
