"""What a row says, and what a model is told: never more than is so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chats.events import StepFinished, StepStarted
from app.tools.answers import cut, for_model
from app.tools.base import bounded
from app.tools.words import command_words, todo


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest", "Ran the tests"),
        ("pytest -q tests/test_a.py", "Ran tests"),
        ("python -m pytest", "Ran the tests"),
        ("cd app && npm test", "Ran the tests"),
        ("CI=1 cargo test", "Ran the tests"),
        ("pytest --version", "Ran pytest …"),
        ("pytest && rm -rf /", "Ran pytest …"),
        ("pytest; echo done", "Ran pytest …"),
        ("ls", "Listed files"),
        ("ls -la src", "Listed the files in src"),
        ("find . -name x", "Looked for files"),
        ("find . -delete", "Ran find …"),
        ("cat a.txt", "Read a.txt"),
        ("cat a b c", "Read 3 files"),
        ("cat a > b", "Ran cat …"),
        ("grep -rn x .", "Searched with grep"),
        ("npm install", "Ran npm install"),
        ("npm install left-pad", "Ran npm install …"),
        ("npm run build", "Ran npm run build"),
        ("git commit -m 'x y'", "Ran git commit …"),
        ("git", "Ran git"),
        ("python script.py --fast", "Ran script.py …"),
        ("python -c pass", "Ran a line of python"),
        ("sh -c 'make test'", "Ran the tests"),
        ("./run.sh", "Ran ./run.sh"),
        ("rm -rf build", "Ran rm …"),
        ("for i in 1 2; do pytest; done", "Ran a line of shell"),
        ("echo a\necho b\n", "Ran 2 lines of shell"),
        ("echo 'unclosed", "Ran echo …"),
        ("x" * 300, f"Ran {'x' * 57}…"),
        ("a\x1b[31mb", "Ran a\\x1b[31mb"),
    ],
)
def test_words(command: str, words: str) -> None:
    assert command_words(command) == words


@given(st.text())
def test_any_text_has_words_on_one_line(command: str) -> None:
    words = command_words(command)
    assert words
    assert words.isprintable()
    assert len(words) < 600


def test_words_before_it_is_done() -> None:
    assert todo("Ran the tests") == "Run the tests"
    assert todo("Wrote a.py") == "Write a.py"
    assert todo("Something else") == "Something else"


def started(**other: Any) -> StepStarted:
    return StepStarted(step="s", tool="run_command", words="", command="x", place="container", **other)


def finished(**other: Any) -> StepFinished:
    proof = {"folder": "/w", "target": "box 3f", "sealed": True, "network": False}
    return StepFinished(
        **{"step": "s", "outcome": "ok", "code": 0, "seconds": 1.25, "where": "container", "proof": proof, **other}
    )


def test_the_answer_names_the_place_the_folder_and_the_end() -> None:
    assert for_model(started(), finished(text="hi\n", size=3)) == (
        "Ran in a container (box 3f), in /w, sealed, without network. Exit code 0, after 1.2 s.\nOutput:\nhi\n"
    )
    assert "It printed nothing." in for_model(started(), finished())
    assert "Exit code 137" in for_model(started(), finished(outcome="failed", code=137, note="Out of memory."))
    assert "Out of memory." in for_model(started(), finished(outcome="failed", code=137, note="Out of memory."))
    assert "may have done a part" in for_model(started(), finished(outcome="timed_out", code=None))
    here = StepStarted(step="s", tool="run_command", words="", place="computer")
    assert for_model(here, finished(where="")).startswith("Ran on this computer, in /w")
    there = StepStarted(step="s", tool="run_command", words="", place="ssh:build-box")
    assert for_model(there, finished(where="build-box")).startswith("Ran on build-box (box 3f)")
    assert "not known" in for_model(started(), None)


def test_what_did_not_run_says_not_to_try_elsewhere() -> None:
    told = for_model(started(), finished(outcome="not_run", words="Docker is not running.", next_label="Start Docker"))
    assert told.startswith("Docker is not running. Start Docker. The command did not run, here or anywhere else.")
    assert for_model(started(), finished(outcome="refused", words="No.", note="The person did not allow this.")) == (
        "The person did not allow this."
    )


@given(st.text(max_size=400), st.integers(min_value=20, max_value=200))
def test_cut_keeps_both_ends(text: str, most: int) -> None:
    short = cut(text, most)
    if len(text) <= most:
        assert short == text
    else:
        assert short.startswith(text[: most * 2 // 5])
        assert short.endswith(text[-(most * 3 // 5) :])
        assert "characters are not shown" in short


def test_arguments_are_kept_within_bounds() -> None:
    kept = bounded({"content": "x" * 100_000, "deep": [[[[[["far"]]]]]], "half": "\ud83d", "n": 1})
    assert len(kept["content"]) < 70_000
    assert kept["content"].endswith("more characters)")
    assert kept["half"] == "?"
    assert "far" not in str(kept["deep"])
