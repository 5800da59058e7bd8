"""A display of the tests' own (Xvfb), with xdotool for the mouse and the keyboard."""

from __future__ import annotations

import os
import secrets
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.engines.needs import program
from tests.real.engines.processes import start, stop, wait_until
from tests.real.engines.screen import Screen


class Display:
    """``name`` is what DISPLAY takes."""

    def __init__(self, name: str, xauthority: Path) -> None:
        self.name = name
        self.xauthority = xauthority

    @property
    def env(self) -> dict[str, str]:
        """This process's environment with this display, and Qt on X11."""
        kept = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
        return {**kept, "DISPLAY": self.name, "XAUTHORITY": str(self.xauthority), "QT_QPA_PLATFORM": "xcb"}

    def xdotool(self, *words: str) -> str:
        """Runs xdotool. Raises CalledProcessError when it says no (a search that finds nothing does)."""
        line = [program("xdotool") or "xdotool", *words]
        done = subprocess.run(line, env=self.env, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    def windows(self, *, name: str = "", pid: int = 0) -> list[str]:
        """The ids of the windows on show that have this title (a pattern) or belong to this process."""
        words = ["--pid", str(pid)] if pid else ["--name", name]
        line = [program("xdotool") or "xdotool", "search", "--onlyvisible", *words]
        done = subprocess.run(line, env=self.env, check=False, capture_output=True, text=True, timeout=30)
        return done.stdout.split()

    def picture(self, file: Path) -> None:
        """Writes what is on the display to a PNG."""
        from PySide6.QtGui import QImage

        screen = Screen(self.name, self.xauthority)
        try:
            whole = screen.whole()
            image = QImage(screen.picture(whole), whole.width, whole.height, QImage.Format.Format_RGB32)
        finally:
            screen.close()
        image.save(str(file))


def _cookie(secret: bytes) -> bytes:
    """An entry of an Xauthority file (Xauth.h) that fits whatever number the display gets: FamilyWild, no number."""
    parts = (b"", b"", b"MIT-MAGIC-COOKIE-1", secret)
    return struct.pack(">H", 65535) + b"".join(struct.pack(">H", len(part)) + part for part in parts)


@contextmanager
def display(scratch: Path, *, size: str = "1400x950x24") -> Iterator[Display]:
    """An Xvfb on a free number that it picks itself. Only who has its cookie may draw there."""
    scratch.mkdir(parents=True, exist_ok=True)
    xauthority = scratch / "Xauthority"
    xauthority.touch(mode=0o600)
    xauthority.write_bytes(_cookie(secrets.token_bytes(16)))
    told, tell = os.pipe()
    log = scratch / "xvfb.log"
    words = [program("Xvfb") or "Xvfb", "-displayfd", str(tell), "-screen", "0", size, "-nolisten", "tcp", "-noreset"]
    words += ["-auth", str(xauthority)]
    os.set_inheritable(tell, True)
    process = start(words, log, pass_fds=(tell,))
    os.close(tell)
    try:
        with os.fdopen(told) as answer:
            os.set_blocking(told, False)
            heard: list[str] = []

            def ready() -> bool:
                line = answer.readline()
                if line:
                    heard.append(line)
                return bool(heard) and heard[-1].endswith("\n")

            wait_until(ready, process, log, what="Xvfb")
        yield Display(f":{''.join(heard).strip()}", xauthority)
    finally:
        stop(process)
