"""Conch as a program of its own on a real display, with a real mouse and keyboard (xdotool), over a real Docker.

It runs as an ordinary user with a fresh HOME. What is looked at is what the display shows and what a file holds; what
the chats say is read when the program has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QColor, QImage

from app.chats.events import ChatEvent, StepFinished
from app.chats.store import ChatStore
from tests.real.engines.display import Display
from tests.real.engines.dockerd import Dockerd
from tests.real.engines.person import Person
from ui.tokens import PEARL

FOOT = 140  # pixels: the composer is at the window's foot
PATIENCE = 40.0


@dataclass(frozen=True, slots=True)
class Room:
    """What one test works with: whose it is, and their folders."""

    person: Person
    display: Display
    docker: Dockerd
    scratch: Path
    home: Path
    folder: Path

    def events(self) -> list[ChatEvent]:
        """What happened in all chats, the oldest chat first. For when the program has ended."""

        async def read() -> list[ChatEvent]:
            store = ChatStore(self.home / "chats.sqlite3")
            await store.open()
            try:
                chats = reversed(await store.chats())
                return [event for chat in chats for event in await store.events(chat.id)]
            finally:
                await store.close()

        return asyncio.run(read())

    def steps(self) -> list[StepFinished]:
        return [event for event in self.events() if isinstance(event, StepFinished)]

    def left(self) -> list[str]:
        """The processes that still have something to do with this home or this folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                said = process.joinpath("environ").read_bytes() + process.joinpath("cmdline").read_bytes()
                at = (process / "cwd").readlink()
            except OSError:
                continue
            if os.fsencode(self.home) in said or at.is_relative_to(self.folder):
                found.append(f"{process.name}: {process.joinpath('cmdline').read_bytes()!r}")
        return found


class Screen:
    """A person before the display, with a mouse and a keyboard."""

    def __init__(self, room: Room, process: subprocess.Popen[bytes]) -> None:
        self.room, self.display, self.process = room, room.display, process
        self.window = self.until(lambda: self.display.windows(name="Conch"), "a window is there")[0]

    # Seeing

    def until(self, true: Callable[[], Any], what: str, act: Callable[[], object] = lambda: None) -> Any:
        """Waits until it is so, doing ``act`` now and again meanwhile."""
        end = time.monotonic() + PATIENCE
        turn = 0
        while not (found := true()):
            assert self.process.poll() is None, f"Conch ended with {self.process.returncode}"
            assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}; the title is “{self.title()}”"
            if turn % 6 == 0:
                act()
            turn += 1
            time.sleep(0.05)
        return found

    def title(self) -> str:
        return self.display.xdotool("getwindowname", self.window)

    def titled(self, words: str) -> None:
        self.until(lambda: words in self.title(), f"the title says “{words}”")

    def picture(self) -> QImage:
        file = self.room.scratch / "seen.png"
        self.display.picture(file)
        return QImage(str(file)).convertToFormat(QImage.Format.Format_RGB32)

    def where_is(self, color: QColor, *, foot: bool = False) -> tuple[int, int] | None:
        """The middle of all points of the window in exactly this colour, or of those at its foot alone."""
        seen = self.picture()
        left, top, width, height = self.place()
        first = top + height - FOOT if foot else top
        bits, line = bytes(seen.constBits()), seen.bytesPerLine()
        points = [
            (at % line // 4, at // line)
            for at in (hit.start() for hit in re.finditer(re.escape(_bgra(color)), bits, re.DOTALL))
            if at % 4 == 0 and left <= at % line // 4 < left + width and first <= at // line < top + height
        ]
        if not points:
            return None
        return tuple(sorted(side)[len(points) // 2] for side in zip(*points, strict=True))

    def place(self) -> tuple[int, int, int, int]:
        said = self.display.xdotool("getwindowgeometry", "--shell", self.window)
        values = dict(line.split("=") for line in said.splitlines())
        return int(values["X"]), int(values["Y"]), int(values["WIDTH"]), int(values["HEIGHT"])

    # Doing

    def focus(self, window: str = "") -> None:
        # There is no window manager that would give the keyboard to a new window.
        self.display.xdotool("windowfocus", "--sync", window or self.window)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.display.xdotool("key", key)

    def type(self, text: str) -> None:
        self.display.xdotool("type", "--delay", "4", text)

    def click(self, color: QColor, what: str, *, foot: bool = False) -> None:
        """Clicks what has this colour, once it is seen and stands still."""
        before: tuple[int, int] | None = None

        def still() -> tuple[int, int] | None:
            nonlocal before
            before, last = self.where_is(color, foot=foot), before
            return before if before == last else None

        x, y = self.until(still, f"{what} is seen")
        self.display.xdotool("mousemove", str(x), str(y), "click", "1")

    def send(self, command: str, makes: str) -> str:
        """Types a command and presses Enter, again while the chat still works; gives what the file holds in the end."""
        file = self.room.folder / makes
        assert not file.exists()
        self.type(command)
        self.until(file.exists, f"{makes} is there", lambda: self.press("Return"))
        return file.read_text()


def _bgra(color: QColor) -> bytes:
    return bytes((color.blue(), color.green(), color.red(), 255))


@contextmanager
def conch(room: Room, *arguments: str) -> Iterator[Screen]:
    """Conch, started as ``packaging/run`` starts it. When the test fails, what was seen is kept beside its log."""
    cookie = room.person.home / "Xauthority"
    shutil.copy(room.display.xauthority, cookie)
    os.chown(cookie, room.person.uid, room.person.gid)
    own = {"HOME": str(room.home.parent), "CONCH_HOME": str(room.home), "XDG_RUNTIME_DIR": str(room.home.parent)}
    shown = {"DISPLAY": room.display.name, "XAUTHORITY": str(cookie), "QT_QPA_PLATFORM": "xcb"}
    env = {**room.person.env, **own, **shown, "DOCKER_HOST": room.docker.host}
    said = room.scratch / "said"
    line = room.person.argv(sys.executable, "-I", "-m", "app", *arguments)
    with said.open("wb") as out:
        process = subprocess.Popen(line, cwd=room.folder.parent, env=env, stdout=out, stderr=out)
    try:
        screen = Screen(room, process)
        yield screen
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, said.read_text()
        assert said.read_text() == ""
    except BaseException:
        room.display.picture(room.scratch / "at the end.png")
        print(f"What was seen: {room.scratch / 'at the end.png'}\n{said.read_text()}")
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def room(ordinary_user: Person, xvfb: Display, docker_host: Dockerd, tmp_path: Path, need: Callable[..., None]) -> Room:
    need("bwrap")
    own = ordinary_user.folder(f"of {tmp_path.name}").relative_to(ordinary_user.home)
    ordinary_user.folder(f"{own}/home")
    folder = ordinary_user.folder(f"{own}/tidy-parser")
    (folder / "a.txt").write_text("from here\n")
    return Room(ordinary_user, xvfb, docker_host, tmp_path, ordinary_user.home / own / "home/.conch", folder)


def test_commands_run_where_the_chip_says(room: Room) -> None:
    here = os.uname().nodename
    who = "{ cat /proc/sys/kernel/hostname; id -u; cat a.txt; cat /proc/1/comm; }"
    with conch(room, str(room.folder)) as screen:
        screen.focus()
        # On a home that was never used, and typed as soon as there is a window to type in.
        mine = screen.send(f"{who} > part; mv part mine", "mine").splitlines()
        assert mine == [here, str(room.person.uid), "from here", "bwrap"]
        screen.titled("on this computer")
        assert screen.where_is(PEARL.text), "the window is not blank"

        # The container, with the mouse: on the chip, then on the row with the container's mark.
        screen.click(PEARL.computer, "the chip", foot=True)
        screen.click(PEARL.container, "the container's row")
        screen.titled("in a container (Docker)")
        box = screen.send(f"{who} > part; echo hi > b.txt; mv part inside", "inside").splitlines()
        assert re.fullmatch("[0-9a-f]{12}", box[0])
        assert box[1:] == [str(room.person.uid), "from here", "docker-init"]
        made = room.folder / "b.txt"
        assert (made.read_text(), made.stat().st_uid) == ("hi\n", room.person.uid)

        # This computer and the container again, with the keyboard on the chip.
        screen.press("ctrl+l", "Tab", "alt+Down", "Home", "Return")
        screen.titled("on this computer")
        screen.press("alt+Down", "Down", "Return")
        screen.titled("in a container (Docker)")
        screen.press("ctrl+l")
        other = screen.send("hostname > part; mv part other", "other").strip()
        assert re.fullmatch("[0-9a-f]{12}", other)
        assert other != box[0], "each command has a box of its own"

        # Esc stops it, in the container too.
        screen.send("touch begun; sleep 5 && touch PROOF", "begun")
        begun = time.monotonic()
        screen.press("Escape")
        screen.send("touch after", "after")

        # The default, and a chat that begins there.
        screen.press("ctrl+shift+p", "End", "Tab", "Return", "Escape")
        settings = room.home / "preferences.json"
        screen.until(lambda: json.loads(settings.read_text()).get("place") == "container", "the default is kept")
        screen.press("ctrl+n")
        screen.titled("New chat — in a container (Docker)")
        fresh = screen.send("hostname > part; mv part fresh", "fresh").strip()
        assert re.fullmatch("[0-9a-f]{12}", fresh)
        screen.until(lambda: screen.where_is(PEARL.good), "its row says that all went well")

        screen.press("ctrl+q")
        assert screen.process.wait(PATIENCE) == 0
    assert room.left() == []
    assert room.docker.boxes(conch_work="1") == []

    steps = room.steps()
    assert [step.outcome for step in steps] == ["ok", "ok", "ok", "stopped", "ok", "ok"]
    assert [step.where for step in steps] == ["", *["container"] * 5]
    boxes = [step.proof["target"][:12] for step in steps if step.where]
    assert (boxes[0], boxes[1], boxes[-1]) == (box[0], other, fresh)
    assert len(set(boxes)) == 5
    time.sleep(max(0.0, begun + 6 - time.monotonic()))  # by now it would be there
    assert not (room.folder / "PROOF").exists()


def test_a_first_start_asks_for_a_folder_and_the_palette_picks_the_container(room: Room) -> None:
    with conch(room) as screen:
        # One button, which takes Enter from the first frame on.
        screen.focus()
        screen.press("Return")
        dialog = screen.until(lambda: screen.display.windows(name="Choose a folder"), "the folder dialog is open")[0]
        screen.focus(dialog)
        screen.press("ctrl+a")
        screen.type(str(room.folder))
        screen.press("Return")
        screen.titled("New chat — on this computer")
        screen.focus()
        screen.until(lambda: screen.where_is(PEARL.computer, foot=True), "the chip is there: the places are known")
        # The composer's edge says whether what is typed goes there.
        lit = PEARL.tint(PEARL.accent, 0.4, PEARL.border)
        screen.press("ctrl+f")
        screen.until(lambda: not screen.where_is(lit, foot=True), "the edge is not lit")
        screen.press("ctrl+l")
        screen.until(lambda: screen.where_is(lit, foot=True), "the edge is lit")
        screen.press("ctrl+k")
        screen.type("docker")
        screen.press("Return")
        screen.titled("New chat — in a container (Docker)")
        assert screen.send("cat /proc/1/comm > part; mv part inside", "inside") == "docker-init\n"

        # Closed while a command runs: it is stopped first.
        screen.send("touch begun; sleep 60", "begun")
        screen.press("ctrl+q")
        assert screen.process.wait(PATIENCE) == 0
    assert room.left() == []
    assert room.docker.boxes(conch_work="1") == []
    assert [(step.outcome, step.where) for step in room.steps()] == [("ok", "container"), ("stopped", "container")]
