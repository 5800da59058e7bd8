"""Conch as a program of its own on a real display, with a real mouse and keyboard (xdotool), over a real Docker."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines.display import Display
from tests.real.engines.dockerd import Dockerd

ROOT = Path(__file__).resolve().parents[2]
CHIP = (395, 735)  # where the place chip of a chat is, in a window of its first size


class Screen:
    """A person before the display. Only what the display shows, or a file holds, is looked at."""

    def __init__(self, display: Display, process: subprocess.Popen[bytes]) -> None:
        self.display, self.process = display, process
        self.window = self.wait_for(lambda: display.windows(name="Conch"), "a window")[0]

    def wait_for(self, true: Callable[[], Any], what: str, seconds: float = 40) -> Any:
        end = time.monotonic() + seconds
        while not (found := true()):
            assert self.process.poll() is None, f"Conch ended with {self.process.returncode}"
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}; the title is “{self.title()}”"
            time.sleep(0.05)
        return found

    def title(self) -> str:
        return self.display.xdotool("getwindowname", self.window)

    def focus(self, window: str = "") -> None:
        # There is no window manager that would give the keyboard to a new window.
        self.display.xdotool("windowfocus", "--sync", window or self.window)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.display.xdotool("key", key)

    def type(self, text: str) -> None:
        self.display.xdotool("type", "--delay", "8", text)

    def click(self, at: tuple[int, int]) -> None:
        place = self.display.xdotool("getwindowgeometry", "--shell", self.window)
        left, top = (int(re.search(rf"^{side}=(-?\d+)", place, re.M)[1]) for side in "XY")  # type: ignore[index]
        self.display.xdotool("mousemove", str(left + at[0]), str(top + at[1]), "click", "1")


@pytest.fixture
def conch(conch_home: Path, xvfb: Display, docker_host: Dockerd, tmp_path: Path) -> Iterator[Screen]:
    env = {**xvfb.env, "CONCH_HOME": str(conch_home), "XDG_RUNTIME_DIR": str(tmp_path)}
    env.pop("DBUS_SESSION_BUS_ADDRESS", None)
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=env, stderr=said, stdout=said)
        try:
            yield Screen(xvfb, process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                ended = process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                ended = process.wait()
    assert ended == 0, (tmp_path / "said").read_text()
    assert "Traceback" not in (tmp_path / "said").read_text()


def ran(home: Path) -> list[tuple[str, str]]:
    """Each command that has ended, as the chats' file holds it: what it printed first, and where it ran."""
    import msgspec

    with sqlite3.connect(f"file:{home}/chats.sqlite3?mode=ro", uri=True) as chats:
        found = chats.execute("SELECT kind, body FROM events ORDER BY rowid").fetchall()
    ended = [msgspec.json.decode(body) for kind, body in found if kind == "step.finished"]
    return [(one.get("text", "").partition("\n")[0], one.get("where", "")) for one in ended]


def test_a_person_picks_the_container_and_this_computer(
    conch: Screen, conch_home: Path, tmp_path: Path, need: Callable[..., None]
) -> None:
    need("bwrap")
    folder = tmp_path / "tidy-parser"
    folder.mkdir()
    inside, here = folder / "inside", folder / "here"

    # The first start: one button, which takes Enter from the first frame on.
    conch.focus()
    conch.press("Return")
    dialog = conch.wait_for(lambda: conch.display.windows(name="Choose a folder"), "the folder dialog")[0]
    conch.focus(dialog)
    conch.press("ctrl+a")
    conch.type(str(folder))
    conch.press("Return")
    conch.wait_for(lambda: conch.title().startswith("New chat — on this computer"), "a new chat on the folder")

    # The container, with the keyboard.
    conch.focus()
    for _ in range(20):
        conch.press("ctrl+shift+p")
        conch.type("doc")
        conch.press("Return")
        if "in a container" in conch.title():
            break
        conch.press("ctrl+a", "BackSpace")  # the places had not been asked yet
        time.sleep(0.3)
    assert conch.title() == "New chat — in a container (Docker) — Conch"
    conch.type("cat /proc/1/comm; cat /proc/1/comm > inside")
    conch.press("Return")
    conch.wait_for(inside.exists, "what the command made is here")
    assert inside.read_text() == "docker-init\n"
    conch.wait_for(lambda: ("docker-init", "container") in ran(conch_home), "it is kept where it ran")

    # This computer, with the mouse on the chip.
    conch.click(CHIP)
    conch.press("Home", "Return")
    conch.wait_for(lambda: "on this computer" in conch.title(), "the chat runs here again")
    conch.type("hostname > here; cat /proc/sys/kernel/hostname")
    conch.press("Return")
    conch.wait_for(lambda: here.exists() and here.read_text(), "what the command made is here")
    name = Path("/proc/sys/kernel/hostname").read_text()
    assert here.read_text() == name
    conch.wait_for(lambda: (name.strip(), "") in ran(conch_home), "nothing is said of where")
