"""What measures must itself be right: turns are fair, a missed bar fails, the last line is JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.common import Bar, Samples, parse, ratio, report, take_turns


def test_subjects_take_turns_in_changing_order() -> None:
    called: list[str] = []

    def subject(name: str) -> float:
        called.append(name)
        return float(len(called))

    rounds = take_turns({"a": lambda: subject("a"), "b": lambda: subject("b")}, rounds=4, warm_up=2)
    assert len(rounds["a"].values) == len(rounds["b"].values) == 4
    assert "".join(called[4:]) == "abbaabba"


def test_a_sample_says_its_middle_and_its_worst() -> None:
    samples = Samples(tuple(float(value) for value in range(100, 0, -1)))
    assert (samples.median, samples.p95, samples.least) == (50.5, 95.0, 1.0)
    assert Samples((3.0,)).p95 == 3.0
    assert ratio({"a": Samples((3.0, 3.0, 30.0)), "b": Samples((2.0,))}, "a", "b") == 1.5


def test_the_raw_samples_go_to_a_file(tmp_path: Path) -> None:
    given = parse(["--raw", str(tmp_path / "raw.json")], rounds=3)
    assert report("some", {"a": Samples((0.002, 0.003))}, [Bar("too much", 1.6, 1.5)], given) == 1
    assert json.loads((tmp_path / "raw.json").read_text())["samples"]["a"]["values"] == [2.0, 3.0]


def test_a_missed_bar_is_an_exit_code_and_json_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = {"a": Samples((0.002, 0.003))}
    given = parse(["--json"], rounds=3)
    assert report("some", rounds, [Bar("fits", 1.4, 1.5)], given) == 0
    assert report("some", rounds, [Bar("fits", 1.4, 1.5), Bar("too much", 1.6, 1.5)], given) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [bar["held"] for bar in last["bars"]] == [True, False]
    assert last["samples"]["a"]["median"] == 2.5
