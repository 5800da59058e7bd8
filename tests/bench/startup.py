"""How long Conch takes to start: ``python -m tests.bench.startup [--json] [--rounds N]``.

- *window*: from starting ``packaging/run`` (already set up) to the first paint of Conch's window, on a display (Xvfb),
  against an empty PySide6 main window in turns. Seen from outside, on the display. At once a key is pressed, and the
  window must take it: what it shows changes.
- *set-up*: what ``packaging/run`` adds to starting Python itself, once it has been set up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.common import Bar, Samples, parse, ratio, report, take_turns, timed
from tests.bench.screen import Screen, authority
from tests.real.engines.display import display

ROOT = Path(__file__).resolve().parents[2]
RUN = str(ROOT / "packaging" / "run")
PYTHON = str(ROOT / ".venv" / "bin" / "python")
MOST_TIMES, MOST_ADDED_MS, MOST_KEY_MS = 1.5, 50.0, 250.0
_EMPTY = (
    "import sys; from PySide6.QtWidgets import QApplication, QMainWindow\n"
    "app = QApplication(sys.argv); window = QMainWindow(); window.resize(1100, 760); window.show(); app.exec()"
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments, rounds=15, about=__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as scratch, display(Path(scratch)) as shown:
        authority(str(shown.xauthority))
        env = {**shown.env, "HOME": scratch, "CONCH_HOME": f"{scratch}/home", "XDG_RUNTIME_DIR": scratch}
        env.pop("DBUS_SESSION_BUS_ADDRESS", None)
        subprocess.run([RUN, "--version"], env=env, check=True, stdout=subprocess.DEVNULL)
        screen = Screen(shown.name)
        try:
            keys: list[float] = []
            windows = take_turns(
                {
                    "conch": lambda: _first_paint(screen, [RUN], env, keys),
                    "empty window": lambda: _first_paint(screen, [PYTHON, "-I", "-c", _EMPTY], env, None),
                },
                rounds=given.rounds,
                warm_up=2,
            )
        finally:
            screen.close()
        starts = take_turns(
            {
                "packaging/run --version": timed(_quietly([RUN, "--version"], env)),
                "python -I -m app --version": timed(_quietly([PYTHON, "-I", "-m", "app", "--version"], env)),
            },
            rounds=2 * given.rounds,
            warm_up=2,
        )
    added = starts["packaging/run --version"].median - starts["python -I -m app --version"].median
    taken = Samples(tuple(keys[2:]))  # without the warm-up
    bars = [
        Bar("window, over an empty one", ratio(windows, "conch", "empty window"), MOST_TIMES),
        Bar("a key pressed at the first paint is taken within", 1e3 * taken.median, MOST_KEY_MS, "ms"),
        Bar("packaging/run adds", 1e3 * added, MOST_ADDED_MS, "ms"),
    ]
    return report("startup", {**windows, "key taken after": taken, **starts}, bars, given)


def _first_paint(screen: Screen, line: list[str], env: dict[str, str], keys: list[float] | None) -> float:
    """Seconds from starting the program to its window's first paint. ``keys`` gets the seconds until a key shows."""
    screen.clear()
    start = time.perf_counter()
    with subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            shown, painted = screen.painted(20)
            if keys is not None:
                before = screen.picture(shown)
                pressed = time.perf_counter()
                screen.press("Control_L", "k")
                keys.append(screen.changed(shown, before, share=0.02, seconds=10) - pressed)
        except TimeoutError as error:
            process.kill()
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise SystemExit(f"{' '.join(line)}: {error}\n{said}") from None
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    return painted - start


def _quietly(line: list[str], env: dict[str, str]) -> Callable[[], object]:
    return lambda: subprocess.run(line, env=env, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
