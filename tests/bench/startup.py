"""How long Conch takes to start: ``python -m tests.bench.startup [--json] [--rounds N]``.

- *window*: from starting ``packaging/run`` (already set up) to the first paint of Conch's window, on a display (Xvfb),
  against an empty PySide6 main window in turns. Seen from outside, on the display.
- *keys*: at that very moment letters are typed. They must show, and all of them, in order, be what Conch keeps as the
  draft: a picture would not tell a letter from the place chip, which may come later than the letters.
- *set-up*: what ``packaging/run`` adds to starting Python itself, once it has been set up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.common import Bar, Samples, parse, ratio, report, take_turns, timed
from tests.real.engines.display import display
from tests.real.engines.screen import Box, Screen, Shown, where_they_differ

ROOT = Path(__file__).resolve().parents[2]
RUN = str(ROOT / "packaging" / "run")
PYTHON = str(ROOT / ".venv" / "bin" / "python")
MOST_TIMES, MOST_ADDED_MS, MOST_KEY_MS = 1.5, 50.0, 100.0
WARM_UP = 2
LETTERS = "mwkqgbhd"  # each once, so that one that came twice or too early is seen as well
MOST_KEPT_AFTER = 5.0  # seconds; Conch keeps a draft a moment after the last key
_EMPTY = (
    "import sys; from PySide6.QtWidgets import QApplication, QMainWindow\n"
    "app = QApplication(sys.argv); window = QMainWindow(); window.resize(1100, 760); window.show(); app.exec()"
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments, rounds=15, about=__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch, display(Path(scratch)) as shown:
        env = {**shown.env, "HOME": scratch, "XDG_RUNTIME_DIR": scratch}
        env.pop("DBUS_SESSION_BUS_ADDRESS", None)
        subprocess.run([RUN, "--version"], env=env, check=True, stdout=subprocess.DEVNULL)
        screen = Screen(shown.name, shown.xauthority)
        screen.watch()
        try:
            conch = Conch(screen, Path(scratch), env)
            windows = take_turns(
                {"conch": conch.first_paint, "empty window": lambda: _empty(screen, env)},
                rounds=given.rounds,
                warm_up=WARM_UP,
            )
        finally:
            screen.close()
        starts = take_turns(
            {
                "packaging/run --version": timed(_quietly([RUN, "--version"], env)),
                "python -I -m app --version": timed(_quietly([PYTHON, "-I", "-m", "app", "--version"], env)),
            },
            rounds=2 * given.rounds,
            warm_up=WARM_UP,
        )
    added = starts["packaging/run --version"].median - starts["python -I -m app --version"].median
    taken = Samples(tuple(conch.keys[WARM_UP:]))
    bars = [
        Bar("window, over an empty one", ratio(windows, "conch", "empty window"), MOST_TIMES),
        Bar("letters typed at the first paint show within", 1e3 * taken.median, MOST_KEY_MS, "ms"),
        Bar("starts that lost a letter", float(conch.lost), 0.0, ""),
        Bar("packaging/run adds", 1e3 * added, MOST_ADDED_MS, "ms"),
    ]
    return report("startup", {**windows, "letters show after": taken, **starts}, bars, given)


class Conch:
    """Starts Conch again and again on a home that has been used before. ``keys`` holds how soon letters showed."""

    def __init__(self, screen: Screen, scratch: Path, env: dict[str, str]) -> None:
        self.keys: list[float] = []
        self.lost = 0
        self._screen = screen
        self._used, self._home = scratch / "used home", scratch / "home"
        self._env = {**env, "CONCH_HOME": str(self._home)}
        folder = scratch / "work"
        folder.mkdir()
        with _window(screen, [RUN, str(folder)], self._env) as (shown, _):
            screen.settled(shown)
        shutil.copytree(self._home, self._used)
        with self._start() as (shown, _):  # where letters show, once the window is at rest
            empty = screen.settled(shown)
            _type(screen)
            self._box: Box = where_they_differ(empty, screen.settled(shown), shown)
            if (kept := self._kept()) != LETTERS:
                raise SystemExit(f"Conch kept {kept!r} of {LETTERS!r}, typed into a window at rest")

    @contextmanager
    def _start(self) -> Iterator[tuple[Shown, float]]:
        shutil.rmtree(self._home)
        shutil.copytree(self._used, self._home)
        with _window(self._screen, [RUN], self._env) as seen:
            yield seen

    def first_paint(self) -> float:
        """Seconds from starting it to its window's first paint."""
        with self._start() as (shown, seconds):
            before, pressed = self._screen.picture(shown), time.perf_counter()
            _type(self._screen)
            self.keys.append(self._screen.changed(shown, before, self._box, seconds=10) - pressed)
            self.lost += self._kept() != LETTERS
        return seconds

    def _kept(self) -> str:
        """The draft on the disk, once it is all that was typed; or what it still is after a while."""
        store = f"file:{self._home}/chats.sqlite3?mode=ro"
        end = time.perf_counter() + MOST_KEPT_AFTER
        while True:
            with contextlib.closing(sqlite3.connect(store, uri=True)) as file:
                text = "".join(kept for (kept,) in file.execute("SELECT text FROM drafts"))
            if text == LETTERS or time.perf_counter() > end:
                return text
            time.sleep(0.02)


def _empty(screen: Screen, env: dict[str, str]) -> float:
    with _window(screen, [PYTHON, "-I", "-c", _EMPTY], env) as (_, seconds):
        return seconds


def _type(screen: Screen) -> None:
    for letter in LETTERS:
        screen.press(letter)


@contextmanager
def _window(screen: Screen, line: list[str], env: dict[str, str]) -> Iterator[tuple[Shown, float]]:
    """Starts a program and waits for its window. Gives the seconds until it was painted; ends the program."""
    screen.clear()
    start = time.perf_counter()
    with subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            shown, painted = screen.painted(20)
            yield shown, painted - start
        except TimeoutError as error:
            process.kill()
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise SystemExit(f"{' '.join(line)}: {error}\n{said}") from None
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _quietly(line: list[str], env: dict[str, str]) -> Callable[[], object]:
    return lambda: subprocess.run(line, env=env, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
