"""The transcript against a QTextBrowser with the same text: ``python -m tests.bench.transcript [--json] [--rounds N]``.

Each measurement is a fresh process, offscreen, the two widgets in turn. The bars (``BARS``) are ratios in this run, or
budgets where nothing is there to compare with. The last line is one JSON object; the exit code is 1 when a bar was
missed.

- first paint: a chat of 10,000 rows comes into an empty window that shows, until its first painted frame.
- memory: what the process grew by, shown, scrolled through and streamed into.
- scroll: 95th percentile of one wheel step, laid out and painted, of 400 through the whole chat.
- stream: CPU seconds for 3,000 tokens into the end, at 30 frames a second and 120 tokens a second, all painted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

ROWS = 10_000
TOKENS = 3_000
TOKENS_A_FRAME = 4
BARS = {"first_paint_ratio": 0.25, "memory_ratio": 0.5, "scroll_p95_ms": 16.0, "stream_cpu_s": 0.5}
_SENTENCE = (
    "the answer is in the test that sorts a set of names before it compares them and so on while a container "
    "runs each command where the person chose it to run and says so in the row that shows what was printed"
)
_WORDS = _SENTENCE.split(" ")


def texts() -> list[str]:
    """Rows of log-normal length, the same in every process."""
    dice = random.Random(7)
    out = []
    for _ in range(ROWS):
        length = min(400, max(3, int(dice.lognormvariate(3.0, 0.9))))
        out.append(" ".join(dice.choices(_WORDS, k=length)))
    return out


def tokens() -> list[str]:
    """An answer of 3,000 tokens, 15 kB: paragraphs, a list, a block of code, again and again."""
    dice = random.Random(11)
    out: list[str] = []
    while len(out) < TOKENS:
        kind = dice.randrange(4)
        if kind < 2:
            out += [f"{word} " for word in dice.choices(_WORDS, k=70)]
            out += ["**with** ", "some ", "`marks`", ".", "\n\n"]
        elif kind == 2:
            for _ in range(5):
                out += ["- ", *(f"{word} " for word in dice.choices(_WORDS, k=12)), "\n"]
            out += ["\n"]
        else:
            out += ["```python\n"]
            for number in range(12):
                out += ["    ", f"name_{number}", " = ", "sorted", "(names", ", ", "key=len", ")\n"]
            out += ["```\n", "\n"]
    return out[:TOKENS]


def resident() -> float:
    """This process's memory in MB."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 1e6


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def measure(kind: str) -> dict[str, float]:
    """One widget, in this process."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication, QWidget

    app = QApplication([])
    rows = texts()
    bare = QWidget()
    bare.resize(900, 700)
    bare.show()
    app.processEvents()
    bare.close()
    return _transcript(app.processEvents, rows) if kind == "transcript" else _browser(app.processEvents, rows)


def _results(first: float, grown: float, frames: list[float], cpu: float, slowest: float) -> dict[str, float]:
    return {
        "first_paint_ms": first * 1000,
        "memory_mb": grown,
        "scroll_median_ms": statistics.median(frames) * 1000,
        "scroll_p95_ms": p95(frames) * 1000,
        "stream_cpu_s": cpu,
        "stream_slowest_ms": slowest * 1000,
    }


def _settle(pump: Callable[[], None]) -> None:
    """Lets the empty window finish what it does in the background at its start."""
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        pump()
        time.sleep(0.01)


def _scroll(bar: object, step: int, pump: Callable[[], None]) -> list[float]:
    """From the end up through the whole, and back down."""
    frames: list[float] = []
    for number in range(400):
        if number % 20 == 19:  # a jump, as by the scroll bar
            bar.setValue(bar.maximum() * (number + 1) // 400)  # type: ignore[attr-defined]
            pump()
        before = time.perf_counter()
        bar.setValue(bar.value() + (-step if number % 40 < 30 else step))  # type: ignore[attr-defined]
        pump()
        frames.append(time.perf_counter() - before)
    return frames


def _transcript(pump: Callable[[], None], rows: list[str]) -> dict[str, float]:
    from app.chats.events import (
        AnswerText,
        ChatEvent,
        StepFinished,
        StepStarted,
        TurnFinished,
        TurnStarted,
        UserMessage,
    )
    from ui.theme import Themes
    from ui.transcript.model import TranscriptModel
    from ui.transcript.view import TranscriptView

    events: list[ChatEvent] = []
    for number, text in enumerate(rows):
        turn = f"t{number // 5}"
        match number % 5:
            case 0:
                events += [
                    UserMessage(turn=turn, text=text, seq=number),
                    TurnStarted(turn=turn, engine="x", place="container", mode="ask", seq=number),
                ]
            case 2:
                step = f"s{number}"
                events += [
                    StepStarted(
                        turn=turn, step=step, tool="run_command", words=text, command="make", place="container"
                    ),
                    StepFinished(turn=turn, step=step, outcome="ok", code=0, seconds=1.0, where="container"),
                ]
            case 4:
                events += [
                    AnswerText(turn=turn, answer=turn, text=f"\n\n{text}", seq=number),
                    TurnFinished(turn=turn, outcome="done"),
                ]
            case _:
                events.append(AnswerText(turn=turn, answer=turn, text=text, seq=number))
    view = TranscriptView(Themes())
    view.resize(900, 700)
    view.show()
    _settle(pump)
    before = resident()
    start = time.perf_counter()
    model = TranscriptModel()
    model.load(events)
    view.set_model(model)
    pump()
    first = time.perf_counter() - start
    assert len(model.rows.all) == ROWS, len(model.rows.all)
    frames = _scroll(view.verticalScrollBar(), 120, pump)
    view.scroll_to_end()
    pump()
    cpu, slowest = time.process_time(), 0.0
    model.rows.add(TurnStarted(turn="last", engine="x", place="", mode="ask"))
    for number, token in enumerate(tokens()):
        model.rows.add(AnswerText(turn="last", answer="last", text=token))
        if number % TOKENS_A_FRAME == 0:
            frame = time.perf_counter()
            model.tell()
            pump()
            slowest = max(slowest, time.perf_counter() - frame)
    model.tell()
    pump()
    cpu = time.process_time() - cpu
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()
    return _results(first, resident() - before, frames, cpu, slowest)


def _browser(pump: Callable[[], None], rows: list[str]) -> dict[str, float]:
    from PySide6.QtGui import QTextCursor
    from PySide6.QtWidgets import QTextBrowser

    view = QTextBrowser()
    view.setUndoRedoEnabled(False)
    view.resize(900, 700)
    view.show()
    _settle(pump)
    before = resident()
    start = time.perf_counter()
    cursor = QTextCursor(view.document())
    cursor.beginEditBlock()
    for text in rows:
        cursor.insertText(text)
        cursor.insertBlock()
    cursor.endEditBlock()
    pump()
    first = time.perf_counter() - start
    bar = view.verticalScrollBar()
    frames = _scroll(bar, 120, pump)
    bar.setValue(bar.maximum())
    pump()
    cpu, slowest = time.process_time(), 0.0
    end = QTextCursor(view.document())
    end.movePosition(QTextCursor.MoveOperation.End)
    for number, token in enumerate(tokens()):
        end.insertText(token)
        if number % TOKENS_A_FRAME == 0:
            frame = time.perf_counter()
            bar.setValue(bar.maximum())
            pump()
            slowest = max(slowest, time.perf_counter() - frame)
    return _results(first, resident() - before, frames, time.process_time() - cpu, slowest)


def run(rounds: int) -> dict[str, object]:
    """All rounds, and how each bar stands."""
    found: dict[str, list[dict[str, float]]] = {"browser": [], "transcript": []}
    for _ in range(rounds):
        for kind, results in found.items():
            command = [sys.executable, "-m", "tests.bench.transcript", "--measure", kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    # The work is the same in every round, and what the machine does besides only adds to it: the least is the cost.
    least = {kind: {name: min(one[name] for one in results) for name in results[0]} for kind, results in found.items()}
    ours, base = least["transcript"], least["browser"]
    against = {
        "first_paint_ratio": ours["first_paint_ms"] / base["first_paint_ms"],
        "memory_ratio": ours["memory_mb"] / base["memory_mb"],
        "scroll_p95_ms": ours["scroll_p95_ms"],
        "stream_cpu_s": ours["stream_cpu_s"],
        "stream_ratio": ours["stream_cpu_s"] / base["stream_cpu_s"],
    }
    missed = [name for name, bar in BARS.items() if not against[name] < bar]
    return {"name": "transcript", "rounds": rounds, **against, "bars": BARS, "missed": missed, "least": least}


def main() -> int:
    parser = argparse.ArgumentParser(description="The transcript against a QTextBrowser with the same text.")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", choices=["transcript", "browser"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure)))
        return 0
    result = run(asked.rounds)
    if not asked.json:
        for name, bar in BARS.items():
            print(f"{name:20} {result[name]:8.3f}   bar {bar}   {'MISSED' if name in result['missed'] else 'ok'}")  # type: ignore[operator]
        for kind, values in result["least"].items():  # type: ignore[attr-defined]
            print(kind, {name: round(value, 2) for name, value in values.items()})
    print(json.dumps(result))
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
