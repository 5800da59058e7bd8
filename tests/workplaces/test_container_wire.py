"""A box's output off the raw socket: whole however it is cut, and refused when it is no such thing."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workplaces.container.contexts import Endpoint
from workplaces.container.wire import Attached, BadAnswer, EngineConnection, Frames, attach, connect, read_frames

FRAMES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)))


def packed(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", kind, len(data)) + data


@given(FRAMES, st.lists(st.integers(1, 50)))
def test_output_is_whole_however_it_comes(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(packed(kind, data) for kind, data in frames)
    taken, said = Frames(), {"out": b"", "err": b""}
    while stream:
        size = cuts.pop() if cuts else len(stream)
        for name, data in taken.take(stream[:size]):
            said[name] += data
        stream = stream[size:]
    assert taken.whole
    assert said["out"] == b"".join(data for kind, data in frames if kind == 1)
    assert said["err"] == b"".join(data for kind, data in frames if kind == 2)


@given(st.binary(min_size=8, max_size=200))
def test_what_is_no_such_stream_is_refused_or_runs_short(noise: bytes) -> None:
    taken = Frames()
    if noise[0] > 3 or noise[1:4] != b"\0\0\0":
        with pytest.raises(BadAnswer):
            list(taken.take(noise))
    else:
        assert sum(len(data) for _, data in taken.take(noise[:9])) <= 1


def test_a_large_frame_is_not_gathered() -> None:
    taken = Frames()
    assert list(taken.take(struct.pack(">BxxxI", 1, 0xFFFFFFFF))) == []
    assert list(taken.take(b"x" * 10)) == [("out", b"x" * 10)]
    assert not taken.whole


@contextmanager
def serving(folder: Path, serve: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """One connection at a time, each given to ``serve``."""
    path = folder / "s.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                serve(caller)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Endpoint(f"unix://{path}", "a test")
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


HEAD = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def test_bytes_that_come_with_the_headers_are_not_lost(tmp_path: Path) -> None:
    asked = []

    def serve(caller: socket.socket) -> None:
        asked.append(caller.recv(4096))
        caller.sendall(HEAD + packed(1, b"early ") + packed(2, b"x")[:3])
        caller.sendall(packed(2, b"x")[3:] + packed(1, b"late"))

    with serving(tmp_path, serve) as endpoint:
        attached = attach(endpoint, "1.41", "b0x", 5)
        said = list(read_frames(attached))
        attached.sock.close()
    assert said == [("out", b"early "), ("err", b"x"), ("out", b"late")]
    assert asked[0].startswith(b"POST /v1.41/containers/b0x/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 101",
        b"HTTP/1.1 404 Not Found\r\n\r\n{}",
        b"HTTP/1.1 500 X\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"x" * 100_000,
        b"\r\n\r\n",
    ],
)
def test_an_engine_that_does_not_attach_is_refused(tmp_path: Path, answer: bytes) -> None:
    def serve(caller: socket.socket) -> None:
        caller.recv(4096)
        caller.sendall(answer)

    with serving(tmp_path, serve) as endpoint, pytest.raises(OSError):  # noqa: PT011 - BadAnswer, or a reset
        attach(endpoint, "1.41", "b0x", 5)


def test_an_engine_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    let_go = threading.Event()
    with serving(tmp_path, lambda caller: let_go.wait() and None) as endpoint:
        with pytest.raises(TimeoutError):
            attach(endpoint, "1.41", "b0x", 0.1)
        let_go.set()


def test_output_that_breaks_off_is_told() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(packed(1, b"whole") + packed(1, b"half")[:10])
        theirs.shutdown(socket.SHUT_WR)
        frames = read_frames(Attached(ours, b""))
        assert next(frames) == ("out", b"wholeha"), "what came together is given together"
        with pytest.raises(BadAnswer):
            next(frames)


def test_a_cut_connection_wakes_who_waits_on_it(tmp_path: Path) -> None:
    with serving(tmp_path, lambda caller: caller.recv(4096) and caller.recv(4096) and None) as endpoint:
        connection = EngineConnection(endpoint, 5)
        connection.connect()
        connection.request("GET", "/")
        threading.Timer(0.1, connection.cut).start()
        with pytest.raises((OSError, EOFError)):
            connection.getresponse()
        connection.close()


def test_nobody_there_is_an_error_of_the_systems(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect(Endpoint(f"unix://{tmp_path}/none", "a test"))
    with pytest.raises(ConnectionRefusedError):
        connect(Endpoint("tcp://127.0.0.1:1", "a test"))
