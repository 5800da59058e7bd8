"""Output on its way to our own stdout: as it is to a pipe, clean to a terminal, and never waited for too long."""

from __future__ import annotations

import os
import pty
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.progress import ProgressLine, line
from app.cli.streams import Outlet
from workplaces.place import Progress

NOISE = bytes(range(256)) * 5000


def never() -> bool:
    return False


def nothing() -> None:
    return None


def reading(number: int, into: bytearray) -> threading.Thread:
    def read() -> None:
        while piece := _read(number):
            into.extend(piece)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def _read(number: int) -> bytes:
    try:
        return os.read(number, 65536)
    except OSError:  # the other side of a terminal went
        return b""


def test_a_pipe_gets_every_byte_as_it_is() -> None:
    reader, writer = os.pipe()
    got = bytearray()
    thread = reading(reader, got)
    outlet = Outlet(writer, never, nothing)
    for start in range(0, len(NOISE), 100_000):
        outlet.write(NOISE[start : start + 100_000])
    outlet.finish()
    os.close(writer)
    thread.join(10)
    os.close(reader)
    assert bytes(got) == NOISE


def test_a_file_gets_every_byte_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        outlet = Outlet(file.fileno(), never, nothing)
        outlet.write(NOISE)
        outlet.finish()
    assert (tmp_path / "f").read_bytes() == NOISE


def test_a_terminal_gets_text_that_can_do_nothing() -> None:
    master, slave = pty.openpty()
    got = bytearray()
    outlet = Outlet(slave, never, nothing)
    thread = reading(master, got)
    smile = "🙂".encode()
    for piece in (b"a\x1b]0;title\x07b\x1b[31mred\x1b[0m ", smile[:2], smile[2:], b"\n\x00\x9b2J", smile[:1]):
        outlet.write(piece)
    outlet.finish()
    os.close(slave)
    thread.join(10)
    os.close(master)
    text = got.decode()
    assert "abred 🙂" in text
    assert "\x1b" not in text
    assert "title" not in text
    assert text.rstrip().endswith("\ufffd")


def test_a_reader_that_went_is_told_once_and_nothing_is_raised() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lost: list[int] = []
    outlet = Outlet(writer, never, lambda: lost.append(1))
    for _ in range(3):
        outlet.write(NOISE)
    assert lost == [1]
    assert outlet.nobody_reads
    os.close(writer)


def test_a_slow_reader_is_waited_for_until_the_command_is_to_end() -> None:
    reader, writer = os.pipe()
    stop = threading.Event()
    outlet = Outlet(writer, stop.is_set, nothing)
    thread = threading.Thread(target=outlet.write, args=(NOISE,))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()  # 1.3 MB do not fit a pipe that nobody reads
    stop.set()
    began = time.monotonic()
    thread.join(5)
    assert not thread.is_alive()
    assert time.monotonic() - began < 2
    outlet.write(NOISE)  # and comes back at once from then on
    os.close(writer)
    os.close(reader)


def test_what_a_ready_reader_takes_is_written_even_while_stopping() -> None:
    reader, writer = os.pipe()
    Outlet(writer, lambda: True, nothing).write(b"the last words")
    assert os.read(reader, 100) == b"the last words"
    os.close(writer)
    os.close(reader)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_told() -> None:
    number = os.open("/dev/full", os.O_WRONLY)
    lost: list[int] = []
    outlet = Outlet(number, never, lambda: lost.append(1))
    outlet.write(b"x")
    os.close(number)
    assert lost == [1]
    assert not outlet.nobody_reads
    assert outlet.trouble is not None
    assert outlet.trouble.strerror == "No space left on device"


def test_a_pipe_that_somebody_made_not_to_wait_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    got = bytearray()
    thread = reading(reader, got)
    Outlet(writer, never, nothing).write(NOISE)
    os.close(writer)
    thread.join(10)
    os.close(reader)
    assert bytes(got) == NOISE


STEPS = [
    Progress("Getting the image.", 0, 0),
    Progress("Getting the image.", 120_000_000, 400_000_000),
    Progress("Making a box."),
]


def shown(open_one: Callable[[], tuple[int, int]]) -> str:
    reader, writer = open_one()
    got = bytearray()
    thread = reading(reader, got)
    progress = ProgressLine(writer)
    for step in STEPS:
        progress.show(step)
        progress.show(step)
        time.sleep(0.11)
    progress.clear()
    progress.clear()
    os.close(writer)
    thread.join(10)
    os.close(reader)
    return got.decode()


def test_progress_in_a_pipe_is_a_line_for_each_new_thing() -> None:
    assert shown(os.pipe) == "Getting the image.\nMaking a box.\n"


def test_progress_on_a_terminal_is_one_line_that_goes() -> None:
    text = shown(pty.openpty)
    assert "\r\x1b[KGetting the image. 120 of 400 MB" in text
    assert text.endswith("\r\x1b[KMaking a box.\r\x1b[K")
    assert "\n" not in text


def test_bytes_without_an_end_are_said_as_they_are() -> None:
    assert line(Progress("Getting it.", 5_000_000)) == "Getting it. 5 MB"
