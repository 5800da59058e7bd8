"""The mark at a command's end: found however it is cut, never shown, never mistaken."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workplaces.container.marks import Marks, Said
from workplaces.container.wire import BadAnswer
from workplaces.output import Stream

MARK = "abababababababababababababababac"
END = f"{MARK} 7 there 0\n".encode()


def taken(marks: Marks, stream: Stream, data: bytes, cuts: list[int]) -> bytes:
    own = b""
    while data:
        size = cuts.pop() if cuts else len(data)
        own += marks.take(stream, data[:size])
        data = data[size:]
    return own


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(1, 40)), st.lists(st.integers(1, 40)))
def test_each_stream_is_whole_without_its_mark_however_it_comes(
    out: bytes, err: bytes, cuts: list[int], more: list[int]
) -> None:
    marks = Marks(MARK)
    assert taken(marks, "out", out + END, cuts) == out
    assert marks.said is None, "one mark is not the end"
    assert taken(marks, "err", err + END, more) == err
    assert marks.said == Said(7, program=True, kills=0)


@given(st.lists(st.sampled_from([MARK[:-1], MARK[:5], "ab", "a", "b", MARK[1:], MARK[:-1] + "b"])), st.integers(1, 9))
def test_what_only_looks_like_a_mark_is_the_commands(pieces: list[str], size: int) -> None:
    text = "".join(pieces).encode()
    assume(MARK.encode() not in text)
    marks = Marks(MARK)
    own = taken(marks, "out", text, [size] * len(text))
    assert own + marks.rest("out") == text
    assert marks.said is None


def test_without_a_mark_all_is_the_commands() -> None:
    marks = Marks("")
    assert marks.take("out", END) == END
    assert (marks.rest("out"), marks.said) == (b"", None)


def test_a_mark_that_is_said_twice_counts_once() -> None:
    marks = Marks(MARK)
    assert marks.take("out", b"x" + END + END) == b"x"
    assert marks.take("err", END) == b""
    assert marks.take("out", b"more") == b""
    assert marks.said == Said(7, program=True, kills=0)


def test_a_program_that_is_missing_and_kills_for_memory_are_read() -> None:
    marks = Marks(MARK)
    for stream in ("out", "err"):
        marks.take(stream, f"{MARK} 137 missing 3\n".encode())
    assert marks.said == Said(137, program=False, kills=3)


@pytest.mark.parametrize("end", [b" 7 there\n", b" x there 0\n", b"\n", b" 7777 there 0\n", b" 7 there 0" + b"x" * 100])
def test_a_mark_with_nonsense_behind_it_is_refused(end: bytes) -> None:
    with pytest.raises(BadAnswer, match="did not end as it should"):
        Marks(MARK).take("out", MARK.encode() + end)


def test_two_ends_that_differ_are_refused() -> None:
    marks = Marks(MARK)
    marks.take("out", END)
    marks.take("err", END.replace(b"7", b"8"))
    with pytest.raises(BadAnswer, match="two things"):
        assert marks.said
