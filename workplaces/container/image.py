"""The image: there already, or got once for everyone who waits for it, with its progress, until the last lets go."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from workplaces.container.engine import Engine
from workplaces.container.wire import CONNECT_LIMIT, EngineConnection, answer, ask
from workplaces.place import NextStep, OnProgress, PlaceUnavailable, Progress
from workplaces.threads import in_thread
from workplaces.words import PLACE_WORDS

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
# distribution/reference: [host/]path[:tag][@digest]
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_LONGEST_NAME = 512
_TOLD_EVERY = 0.1
_FRESH = 1.0  # seconds

# What an engine says when it could not get an image, told apart. The first that fits is meant.
_REASONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (key, re.compile(pattern, re.IGNORECASE))
    for key, pattern in (
        ("space", r"no space left on device|disk quota exceeded|not enough space"),
        ("many", r"toomanyrequests|too many requests|rate limit"),
        (
            "arch",
            r"no matching manifest|does not match the (specified|detected) (host )?platform|no match for platform",
        ),
        ("login", r"unauthorized|authentication required|no basic auth|denied|docker login|forbidden"),
        ("missing", r"not found|manifest unknown|name unknown|does not exist|no such image"),
        (
            "offline",
            r"no such host|dial tcp|dial udp|i/o timeout|connection refused|connection reset|network is unreachable"
            r"|no route to host|TLS handshake|timeout exceeded|deadline exceeded|temporary failure|server misbehaving"
            r"|unexpected EOF|: EOF",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An image's name taken apart. ``name`` without its tag, ``tag`` a tag or a digest, never empty."""

    name: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Raises PlaceUnavailable, with words, for what names no image."""
        found = _REFERENCE.fullmatch(text.strip()) if len(text) <= _LONGEST_NAME else None
        if found is None or len(found["name"]) > 255:
            step = NextStep(PLACE_WORDS["image.next.name"], action="settings:container.image")
            shown = "".join(letter if letter.isprintable() else "?" for letter in text)[:200]
            raise PlaceUnavailable(PLACE_WORDS["image.name"].format(image=shown), next_step=step)
        return cls(found["name"], found["digest"] or found["tag"] or "latest")

    @property
    def registry(self) -> str:
        first, slash, _ = self.name.partition("/")
        return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"

    def __str__(self) -> str:
        return f"{self.name}{'@' if ':' in self.tag else ':'}{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that the engine has. ``digest`` is what its registry calls this very content, empty if made here.

    ``volumes`` are the paths that the image would have on a disk of their own.
    """

    reference: Reference
    id: str
    digest: str = ""
    size: int = 0
    volumes: tuple[str, ...] = ()


OnGot = Callable[[Image], None]


class Images:
    """Gives images, getting each missing one once. ``on_got`` is called (on the loop) when one was fetched."""

    def __init__(self, on_got: OnGot | None = None) -> None:
        self._known: dict[tuple[str, str], Image] = {}
        self._pulls: dict[tuple[str, str], _Pull] = {}
        self._marks: dict[tuple[str, Reference, str], tuple[int, ...]] = {}
        self._on_got = on_got

    async def ensure(self, engine: Engine, name: str, on_progress: OnProgress | None = None) -> Image:
        """The image, fetched if it is not there. Raises PlaceUnavailable. Cancelling the last who waits ends the pull.

        ``on_progress`` is called on this loop, at most ten times a second.
        """
        reference = Reference.parse(name)
        key = (engine.endpoint.address, str(reference))
        if (image := self._known.get(key)) is not None:
            return image
        pull = self._pulls.get(key)
        if pull is None:
            image = await in_thread(lambda: inspect(engine, reference), "conch-image")
            pull = self._pulls.get(key)
            if image is None:
                pull = pull or self._start(engine, reference, key)
        if image is None and pull is not None:
            image = await pull.wait(on_progress)
        assert image is not None  # noqa: S101 - one of the two gave it or raised
        self._known[key] = image
        return image

    def known(self, engine: Engine, name: str) -> Image | None:
        """The image, if ``ensure`` gave it before. Asks nobody. Raises PlaceUnavailable for a bad name."""
        return self._known.get((engine.endpoint.address, str(Reference.parse(name))))

    async def there(self, engine: Engine, name: str) -> bool:
        """Whether the image is here already. Fetches nothing. Raises PlaceUnavailable for a bad name."""
        reference = Reference.parse(name)
        return await in_thread(lambda: inspect(engine, reference) is not None, "conch-image")

    def ask_same(self, engine: Engine, image: Image) -> Callable[[], bool]:
        """Asks whether the image's name still stands for it, and gives what reads the answer, to be called once: the
        engine looks it up meanwhile. Both block, for little more than the engine takes, and raise nothing; they may be
        called from any thread. False when the engine does not say.

        An engine whose list of images is a file here is not asked again until that file is another.
        """
        key = (engine.endpoint.address, image.reference, image.id)
        listed = _listed(engine)
        if listed and self._marks.get(key) == listed:
            return lambda: True
        same = _ask_same(engine, image)

        def read() -> bool:
            is_same = same()
            self._marks[key] = listed if is_same else ()
            return is_same

        return read

    def forget(self, engine: Engine, image: Image) -> None:
        """The engine no longer has it."""
        self._known.pop((engine.endpoint.address, str(image.reference)), None)

    def _start(self, engine: Engine, reference: Reference, key: tuple[str, str]) -> _Pull:
        pull = _Pull(engine, reference, asyncio.get_running_loop())
        self._pulls[key] = pull

        def ended(future: asyncio.Future[Image]) -> None:
            if self._pulls.get(key) is pull:
                del self._pulls[key]
            if not future.cancelled() and future.exception() is None and self._on_got:
                self._on_got(future.result())

        pull.start(on_let_go=lambda: self._pulls.pop(key, None)).add_done_callback(ended)
        return pull


def inspect(engine: Engine, reference: Reference) -> Image | None:
    """What the engine has under this name, None when nothing. Blocks. Raises PlaceUnavailable when it does not say."""
    import docker.errors

    try:
        found = engine.client.inspect_image(str(reference))
    except docker.errors.NotFound:
        return None
    except Exception as error:
        raise failed(reference, str(error)) from error
    digests = [str(digest).rpartition("@")[2] for digest in found.get("RepoDigests") or ()]
    return Image(
        reference=reference,
        id=str(found["Id"]),
        digest=digests[0] if digests else "",
        size=int(found.get("Size") or 0),
        volumes=tuple(sorted((found.get("Config") or {}).get("Volumes") or ())),
    )


def _ask_same(engine: Engine, image: Image) -> Callable[[], bool]:
    """Asked without the SDK, which alone would take longer than a command may."""
    name = str(image.reference)
    path = f"/v{engine.facts.api}/images/{quote(name, safe='/:@')}/json"
    listed = engine.facts.kind == "podman" and ":" not in image.reference.tag  # Podman inspects longer than it lists
    if listed:
        path = f"/v{engine.facts.api}/images/json?filters={quote(json.dumps({'reference': [name]}))}"
    try:
        asked = ask(engine.endpoint, path, CONNECT_LIMIT)
    except (OSError, ValueError, AttributeError, TypeError):
        return lambda: False

    def same() -> bool:
        try:
            status, content = answer(asked)
            found = json.loads(content)
            if listed:
                found = next((each for each in found if name in (each.get("RepoTags") or ())), {})
            return status == 200 and found.get("Id") == image.id
        except (OSError, ValueError, AttributeError, TypeError):
            return False

    return same


def _listed(engine: Engine) -> tuple[int, ...]:
    """How the engine's own list of its images stands, where it keeps one here; nothing while that is fresh, since two
    changes within one tick of the clock could look like none."""
    if not engine.facts.images:
        return ()
    try:
        seen = os.stat(engine.facts.images)  # noqa: PTH116 - for every command
    except OSError:
        return ()
    mark = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return mark if abs(time.time() - seen.st_ctime) > _FRESH else ()


def failed(reference: Reference, message: str, program: str = "docker") -> PlaceUnavailable:
    """The words for an image that could not be got, from what the engine said. ``program`` is the engine's own."""
    why = next((key for key, pattern in _REASONS if pattern.search(message)), "failed")
    first_line = message.strip().splitlines()[0][:300] if message.strip() else ""
    words = PLACE_WORDS[f"image.{why}"].format(image=reference, registry=reference.registry, reason=first_line)
    login = f"{program} login {'' if reference.registry == 'docker.io' else reference.registry}".strip()
    steps = {
        "space": NextStep(PLACE_WORDS["image.next.space"], command=f"{program} system prune"),
        "many": NextStep(PLACE_WORDS["image.next.wait"]),
        "login": NextStep(PLACE_WORDS["image.next.login"], command=login),
        "offline": NextStep(PLACE_WORDS["image.next.online"]),
        "failed": NextStep(PLACE_WORDS["image.next.wait"]),
    }
    other = NextStep(PLACE_WORDS["image.next.name"], action="settings:container.image")
    return PlaceUnavailable(words, next_step=steps.get(why, other), details=message[:2000])


@dataclass(slots=True)
class Layers:
    """How far a pull is, from the engine's lines. ``done`` and ``total`` only ever grow."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    done: int = 0
    total: int = 0

    def take(self, line: Mapping[str, Any]) -> None:
        layer, status, detail = line.get("id"), line.get("status"), line.get("progressDetail")
        if not isinstance(layer, str):
            return
        done, total = self.sizes.get(layer, (0, 0))
        if status == "Downloading" and isinstance(detail, dict):
            current, size = detail.get("current"), detail.get("total")
            done = max(done, current if isinstance(current, int) else 0)
            total = max(total, done, size if isinstance(size, int) else 0)
        elif status in ("Download complete", "Verifying Checksum", "Pull complete"):
            done = total
        self.sizes[layer] = done, total
        self.done = max(self.done, sum(done for done, _ in self.sizes.values()))
        self.total = max(self.total, self.done, sum(total for _, total in self.sizes.values()))


class _Pull:
    """One image on its way. Lives on one loop; the engine is talked to in a thread."""

    def __init__(self, engine: Engine, reference: Reference, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._reference = reference
        self._loop = loop
        self._told: dict[object, OnProgress] = {}
        self._waiting = 0
        self._layers = Layers()
        self._connection = EngineConnection(engine.endpoint, CONNECT_LIMIT)
        self._let_go = threading.Event()
        self._ended: asyncio.Future[Image] | None = None
        self._on_let_go: Callable[[], object] = lambda: None

    def start(self, *, on_let_go: Callable[[], object]) -> asyncio.Future[Image]:
        self._on_let_go = on_let_go
        self._ended = in_thread(self._pull, "conch-pull")
        return self._ended

    async def wait(self, on_progress: OnProgress | None) -> Image:
        assert self._ended is not None  # noqa: S101
        mark = object()
        self._waiting += 1
        if on_progress:
            self._told[mark] = on_progress
            on_progress(self._progress())
        try:
            return await asyncio.shield(self._ended)
        finally:
            self._waiting -= 1
            self._told.pop(mark, None)
            if not self._waiting and not self._ended.done():
                self._let_go.set()
                self._on_let_go()
                self._connection.cut()

    def _progress(self) -> Progress:
        words = PLACE_WORDS["image.pulling"].format(image=self._reference)
        return Progress(words, self._layers.done, self._layers.total)

    def _tell(self) -> None:
        for on_progress in list(self._told.values()):
            on_progress(self._progress())

    def _pull(self) -> Image:
        try:
            self._read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise failed(self._reference, f"{self._engine.name}: {error!r}") from error
        finally:
            self._connection.close()
        image = inspect(self._engine, self._reference)
        if image is None:
            raise failed(self._reference, "the engine said that it has the image, and has not")
        return image

    def _read(self) -> None:
        name, tag = quote(self._reference.name, safe=""), quote(self._reference.tag, safe="")
        address = f"/v{self._engine.facts.api}/images/create?fromImage={name}&tag={tag}"
        connection = self._connection
        connection.connect()
        connection.sock.settimeout(None)  # an engine may be long at a layer and say nothing; Stop cuts the connection
        if self._let_go.is_set():
            raise ConnectionAbortedError("nobody waits for it any more")
        connection.request("POST", address, headers=self._login())
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(64 * 1024).decode("utf-8", "replace")
            raise failed(self._reference, _message(text) or f"{response.status} {text}", self._engine.facts.kind)
        told = 0.0
        while line := response.readline(1024 * 1024):
            told = self._take(line, told)
        self._loop.call_soon_threadsafe(self._tell)

    def _take(self, line: bytes, told: float) -> float:
        entry = json.loads(line) if line.strip() else {}
        if not isinstance(entry, dict):
            raise ValueError(f"not a line of an engine's: {line[:200]!r}")
        if error := entry.get("error"):
            detail = entry.get("errorDetail")
            message = str(detail.get("message") if isinstance(detail, dict) else error)
            raise failed(self._reference, message, self._engine.facts.kind)
        self._layers.take(entry)
        now = self._loop.time()
        if now - told >= _TOLD_EVERY:
            self._loop.call_soon_threadsafe(self._tell)
            return now
        return told

    def _login(self) -> dict[str, str]:
        """What the person's own ``docker login`` kept for this registry, as ``docker pull`` would send it."""
        import docker.auth
        import docker.errors

        registry, _ = docker.auth.resolve_repository_name(self._reference.name)
        try:
            header = docker.auth.get_config_header(self._engine.client, registry)
        except (docker.errors.DockerException, OSError):  # no helper program, a locked keychain: then without
            return {}
        return {"X-Registry-Auth": header.decode("ascii")} if header else {}


def _message(text: str) -> str:
    try:
        answer = json.loads(text)
    except ValueError:
        return ""
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""
