"""A shim before a real engine's socket that holds what passes: Stop is quick, and nothing is left once it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.looking import heartbeat, names, until
from workplaces.container.place import Container
from workplaces.place import RunRequest, Stopped


class Shim:
    """Passes an engine's socket on. Requests that hold ``mark`` wait until ``go``; ``back`` waits answers instead."""

    def __init__(self, path: Path, engine: Path) -> None:
        self.host = f"unix://{path}"
        self.held = threading.Event()
        self.go = threading.Event()
        self.mark = b""
        self.back = False
        self._engine = engine
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.go.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(str(self._engine))
                answers_held = threading.Event()
                threading.Thread(target=self._pass, args=(caller, engine, answers_held, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(engine, caller, answers_held, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answer_held: threading.Event, back: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not back and self.mark and self.mark in data.split(b"\r\n", 1)[0]:
                    answer_held.set()
                    self.held.set()
                    if not self.back:
                        self.go.wait()
                if back and self.back and answer_held.is_set():
                    self.go.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def at_work() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name in ("conch-box", "conch-leftover")}


@pytest.fixture
def shim(docker_host: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    made = Shim(tmp_path / "shim.sock", docker_host.socket)
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yield made
    made.close()


@pytest.mark.parametrize("back", [False, True], ids=["the-request", "the-answer"])
@pytest.mark.parametrize("mark", [b"/images/", b"/containers/create", b"/attach", b"/start"])
async def test_stop_while_the_engine_hangs(
    shim: Shim, docker_host: Dockerd, tmp_path: Path, mark: bytes, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workplaces.container.run.STOP_LIMIT", 2.0)
    work = tmp_path / "work"
    work.mkdir()
    place = Container(tmp_path / "conch", image=lambda: docker_host.image)
    assert (await place.standing()).ready
    others = at_work()
    shim.mark, shim.back = mark, back
    request = RunRequest(command="sleep 1; touch PROOF", folder=work)
    async with heartbeat() as longest:
        running = asyncio.get_running_loop().create_task(place.run(request))
        await until(shim.held.is_set)
        began = time.monotonic()
        running.cancel()
        with pytest.raises(Stopped) as raised:
            await running
        seconds = time.monotonic() - began
    assert longest[0] < 0.2
    if mark == b"/start":
        assert raised.value.sure or "may still run" in raised.value.words
    else:
        assert raised.value.sure
        assert seconds < 1.5
    shim.go.set()
    await until(lambda: at_work() <= others, 90, "the threads that saw to it end")  # a busy disk makes an engine slow
    assert docker_host.boxes() == []
    if mark != b"/start":
        assert names(work) == set()
    await place.close()
