"""Cutting a stream at our marks, wherever it is cut into pieces, whatever the command prints."""

from __future__ import annotations

import itertools
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from workplaces.ssh import script
from workplaces.ssh.marks import Marks, Said

MARK = "0123456789abcdef" * 2


def fed(data: bytes, cuts: list[int]) -> tuple[bytes, list[str], Marks]:
    marks = Marks(MARK)
    out, said = b"", []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        for piece in marks.feed(data[start:end]):
            if isinstance(piece, Said):
                said.append(piece.words)
            else:
                out += piece
    return out + marks.rest(), said, marks


@given(
    noise=st.binary(max_size=60),
    body=st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([MARK[:n].encode() for n in range(33)]))),
    cuts=st.lists(st.integers(0, 10_000), max_size=12),
)
def test_what_is_between_the_marks_is_the_commands_own(noise: bytes, body: list[bytes], cuts: list[int]) -> None:
    printed = b"|".join(body)
    if MARK.encode() + b" " in printed or MARK.encode() in noise:
        return
    data = noise + f"{MARK} here\n".encode() + printed + f"{MARK} end 3 sure\n".encode() + b"what comes after"
    out, said, marks = fed(data, cuts)
    assert out == printed
    assert said == ["here", "end 3 sure"]
    assert marks.begun
    assert marks.ended
    assert marks.noise == noise


def test_a_stream_that_breaks_off_gives_what_came() -> None:
    out, said, marks = fed(f"{MARK} here\nhalf {MARK[:9]}".encode(), [])
    assert (out, said, marks.ended) == (f"half {MARK[:9]}".encode(), ["here"], False)
    out, said, marks = fed(b"only noise", [3])
    assert (out, said, marks.begun, marks.noise) == (b"", [], False, b"only noise")


def test_a_mark_without_an_end_is_not_held_for_ever() -> None:
    _, said, _ = fed(f"{MARK} ".encode() + b"x" * 100_000, [50, 20_000])
    assert len(said) == 1


def test_the_line_for_a_login_shell_is_plain() -> None:
    for line in (script.BOOT, script.BOOT_RESTRICTED):
        quoted = line.split("'")
        assert len(quoted) == 3
        assert not set("\\!\n`'") & set(quoted[1])


def test_a_script_that_does_not_come_whole_does_nothing() -> None:
    whole = script.plain(MARK, "echo ran")
    for cut in (len(whole), *range(len(whole) - 1, 0, -7)):
        done = subprocess.run(
            ["/bin/sh", "-c", script.BOOT.removeprefix("exec ")], input=whole[:cut], capture_output=True
        )
        assert (b"ran" in done.stdout) == (cut == len(whole))
