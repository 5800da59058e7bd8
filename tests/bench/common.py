"""How Conch is measured: always against something public, in the same run, in turns.

    rounds = take_turns({"conch": start_conch, "empty window": start_empty}, rounds=15)
    sys.exit(report("startup", rounds, [Bar("start", ratio(rounds, "conch", "empty window"), 1.5, "x")], args))

Each subject is called once a round and gives seconds (or bytes, or whatever is compared). The order changes from round
to round, so that a slow moment of the machine falls on all of them. A bar that is missed makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Subject = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Samples:
    """What one subject measured, a value a round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        """The value that 95 of 100 stay under (the nearest rank)."""
        ordered = sorted(self.values)
        return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]

    @property
    def least(self) -> float:
        return min(self.values)


Rounds = Mapping[str, Samples]


@dataclass(frozen=True, slots=True)
class Bar:
    """What was promised: ``value`` stays at or under ``most`` (``unit``: "x" for a ratio, "ms", "MB"…)."""

    name: str
    value: float
    most: float
    unit: str = "x"

    @property
    def held(self) -> bool:
        return self.value <= self.most


def take_turns(subjects: Mapping[str, Subject], *, rounds: int, warm_up: int = 1) -> Rounds:
    """Measures every subject once a round, each round in another order. The warm-up rounds are thrown away."""
    names = list(subjects)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            value = subjects[name]()
            if number >= 0:
                measured[name].append(value)
    return {name: Samples(tuple(values)) for name, values in measured.items()}


def timed(work: Callable[[], object]) -> Subject:
    """A subject that gives the seconds that ``work`` took."""

    def subject() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return subject


def ratio(rounds: Rounds, name: str, base: str) -> float:
    """How many times ``base`` it takes: the median over ``base``'s median."""
    return rounds[name].median / rounds[base].median


def parse(arguments: Sequence[str] | None = None, *, rounds: int, about: str = "") -> argparse.Namespace:
    """``--rounds N``, ``--json`` and ``--raw FILE``, as every measurement takes them."""
    return parser_for(rounds=rounds, about=about).parse_args(arguments)


def parser_for(*, rounds: int, about: str = "") -> argparse.ArgumentParser:
    """As ``parse``, for a measurement that takes more."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"how often each is measured (default {rounds})")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--raw", metavar="FILE", help="write the same JSON, every sample in it, to a file")
    return parser


def report(
    name: str,
    rounds: Rounds,
    bars: Sequence[Bar],
    given: argparse.Namespace,
    *,
    unit: str = "ms",
    facts: Mapping[str, object] | None = None,
) -> int:
    """Prints what was measured and whether each bar held. Returns the exit code: 1 when one was missed.

    ``unit`` is what the samples are shown in: "ms" (they are seconds), "MB" (they are bytes) or "" (as they are).
    """
    scale = {"ms": 1e3, "MB": 1e-6}.get(unit, 1.0)
    width = max((len(subject) for subject in rounds), default=0)
    print(f"{name}: {len(next(iter(rounds.values())).values) if rounds else 0} rounds, in turns")
    for subject, samples in rounds.items():
        middle, most, least = (scale * value for value in (samples.median, samples.p95, samples.least))
        print(f"  {subject:<{width}}  median {middle:9.2f}  p95 {most:9.2f}  least {least:9.2f} {unit}")
    for bar in bars:
        print(f"  {'held  ' if bar.held else 'MISSED'}  {bar.name}: {bar.value:.3g} {bar.unit} (at most {bar.most:g})")
    if given.json or given.raw:
        whole = {
            "name": name,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "unit": unit,
            "samples": {
                subject: {
                    "median": samples.median * scale,
                    "p95": samples.p95 * scale,
                    "values": [round(value * scale, 4) for value in samples.values],
                }
                for subject, samples in rounds.items()
            },
            "bars": [
                {"name": bar.name, "value": bar.value, "most": bar.most, "unit": bar.unit, "held": bar.held}
                for bar in bars
            ],
            "facts": dict(facts or {}),
        }
        text = json.dumps(whole)
        if given.raw:
            Path(given.raw).write_text(text + "\n", "utf-8")
        if given.json:
            print(text)
    sys.stdout.flush()
    return 0 if all(bar.held for bar in bars) else 1
