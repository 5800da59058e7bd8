from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workplaces import output
from workplaces.clean import Cleaner
from workplaces.output import HEAD, TAIL, Kept, OutputKeeper, Stream, fold, sweep

# Text, noise, and the beginnings, middles and ends of sequences, so that cuts fall everywhere.
SCRAPS = st.one_of(
    st.binary(max_size=6),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [
            *(
                b"\x1b",
                b"\x1b[",
                b"\x1b[1;31m",
                b"\x1b]0;t",
                b"\x07",
                b"\x1b\\",
                b"\x1bP",
                b"\x1b(B",
                b"\r",
                b"\n",
                b"\\",
            ),
            *(
                b"\xc2\x9b",
                b"\xc2\x9d",
                b"\xc2\x9c",
                b"\xe2\x80\xae",
                "🤣".encode(),
                b"\xf0\x9f",
                b"\x80",
                b"m",
                b"\x18",
            ),
        ]
    ),
)
BYTES = st.lists(SCRAPS, max_size=40).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def cleaned(pieces: list[bytes]) -> tuple[str, bool]:
    cleaner = Cleaner()
    text = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.feed(b"", final=True)
    return text, cleaner.lossy


def keep(pieces: list[tuple[Stream, bytes]], spill: Path | None = None) -> Kept:
    keeper = OutputKeeper(spill_folder=spill)
    for stream, piece in pieces:
        keeper.feed(stream, piece)
    return keeper.finish()


def waiting(keeper: OutputKeeper) -> bool:
    return keeper.waiting


@given(BYTES, st.lists(st.integers(0, 300)))
def test_any_cut_is_cleaned_to_the_same_text(data: bytes, places: list[int]) -> None:
    assert cleaned(cut(data, places)) == cleaned([data])


@given(BYTES)
def test_nothing_that_acts_is_left(data: bytes) -> None:
    text, _ = cleaned([data])
    for letter in text:
        assert letter in "\n\t\r" or ord(letter) >= 0x20
        assert not 0x7F <= ord(letter) <= 0x9F
        assert not 0x202A <= ord(letter) <= 0x202E
        assert not 0x2066 <= ord(letter) <= 0x2069
    text.encode()  # no half of a surrogate pair


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert cleaned([text.encode()]) == (text, False)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"),
        (b"\x1bPq#0;2;0;0;0\x1b\\x", "x"),
        (b"\x1b_Gf=100;AAAA\x1b\\x\x1b^pm\x1b\\y\x1bXsos\x1b\\z", "xyz"),
        (b"\x1b(B\x1b)0\x1b#8\x1b=\x1b>\x1b7\x1b8\x1bc\x1bMx", "x"),
        (b"\xc2\x9b31mred\xc2\x9d0;t\xc2\x9cx\xc2\x85", "redx"),
        (b"a\x00\x01\x07\x08\x0b\x0c\x0e\x7fb", "ab"),
        (b"\x1b[31\nm", "\nm"),
        (b"\x1b]0;never ends\nnext line", "\nnext line"),
        (b"\x1b]0;t\x1b[31mx", "x"),
        (b"\x1b\x1b[mx\x1b", "x"),
        (b"\x1b[\xc3\xa9", "é"),
        (b"a\x80b\xff", "a\ufffdb\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        ("a\u202eb\u2066c\u2069\u200e".encode(), "abc\u200e"),
        ("\ufffd".encode(), "\ufffd"),
        (b"tab\tnew\r\nline\r", "tab\tnew\r\nline\r"),
    ],
)
def test_sequences_and_bytes(data: bytes, text: str) -> None:
    assert cleaned([data])[0] == text
    assert cleaned([data[at : at + 1] for at in range(len(data))])[0] == text


def test_only_bytes_that_are_no_text_are_lossy() -> None:
    assert not cleaned(["\ufffd é".encode()])[1]
    assert cleaned([b"\xe9"])[1]


def test_out_and_err_are_kept_in_order_and_apart() -> None:
    kept = keep([("out", b"1\n"), ("err", b"2\n"), ("out", b"3 \xf0\x9f"), ("err", b"4"), ("out", b"\x98\x80\n")])
    assert (kept.out, kept.err) == ("1\n3 😀\n", "2\n4")
    assert kept.text == "1\n2\n3 4😀\n"
    assert (kept.size, kept.left_out, kept.file) == (12, 0, None)


def test_both_ends_of_a_long_output_are_kept_and_the_middle_is_said() -> None:
    lines = b"".join(b"line %07d\n" % number for number in range(100_000))
    kept = keep([("out", lines)])
    head, said, tail = kept.text.partition("… 1.1 MB not shown …\n")
    assert said
    assert head.encode().removesuffix(b"\n") == lines[:HEAD]
    assert tail.encode() == lines[-TAIL:]
    assert (kept.size, kept.left_out) == (len(lines), len(lines) - HEAD - TAIL)
    assert kept.out == kept.text


def test_a_flood_on_one_stream_does_not_push_out_the_other() -> None:
    kept = keep([("out", b"x\n" * 200_000), ("err", b"the reason\n"), ("out", b"x\n" * 200_000)])
    assert kept.err == "the reason\n"
    assert "the reason" not in kept.text


def test_an_output_that_just_fits_is_whole() -> None:
    data = b"a" * (HEAD + TAIL)
    assert keep([("out", data)]).text == data.decode()
    assert keep([("out", data + b"b")]).left_out == 1


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from(["out", "err"]), BYTES.filter(bool)), max_size=12),
    st.lists(st.integers(0, 400)),
    st.sampled_from([0, 3, 16]),
)
def test_any_cut_of_a_long_output_keeps_the_same(
    pieces: list[tuple[Stream, bytes]], places: list[int], before: int
) -> None:
    small = [(stream, part) for stream, piece in pieces for part in cut(piece, places)]
    single = [(stream, bytes([byte])) for stream, piece in pieces for byte in piece]
    with patch.multiple(output, HEAD=24, TAIL=24, _BEFORE_TAIL=before, _PIECE=7):
        whole, cuts, bytewise = keep(pieces), keep(small), keep(single)
    assert whole == cuts == bytewise


def test_sequences_across_the_cut_leave_nothing_behind() -> None:
    for shift in range(12):
        data = b"-" * (HEAD - shift) + b"\x1b[38;5;196mX" + b"." * 3000 + "é".encode() + b"." * (TAIL - shift)
        text = keep([("out", data)]).text
        assert "38" not in text.replace(" KB", "")
        assert "\ufffd" not in text


def test_a_listener_hears_all_of_a_short_output_cleaned() -> None:
    heard: list[tuple[Stream, str]] = []
    raw: list[tuple[Stream, bytes]] = []
    keeper = OutputKeeper(on_text=lambda *said: heard.append(said), on_bytes=lambda *said: raw.append(said))
    keeper.feed("out", b"a\x1b[3")
    keeper.feed("out", b"1mb\xf0\x9f")
    keeper.feed("err", b"e")
    keeper.feed("out", b"\x98\x80")
    keeper.finish()
    assert heard == [("out", "a"), ("out", "b"), ("err", "e"), ("out", "😀")]
    assert b"".join(data for _, data in raw) == b"a\x1b[31mb\xf0\x9fe\x98\x80"


def test_a_listener_hears_a_bounded_sample_of_a_flood() -> None:
    heard: list[str] = []
    keeper = OutputKeeper(on_text=lambda _, text: heard.append(text))
    began = time.monotonic()
    for number in range(20_000):
        keeper.feed("out", b"line %06d\n" % number * 100)
    seconds = time.monotonic() - began
    keeper.finish()
    sampled = len("".join(heard)) - HEAD
    assert sampled <= 4 * 1024 * (seconds * 30 + 2)
    assert heard[-1].endswith("line 019999\n")
    assert heard[-1].startswith("line ")


def test_a_listener_hears_all_of_a_slow_long_output() -> None:
    heard: list[str] = []
    keeper = OutputKeeper(on_text=lambda _, text: heard.append(text))
    keeper.feed("out", b"x" * HEAD)
    for number in range(20):
        keeper.feed("out", b"later %d\n" % number)
    assert waiting(keeper)
    time.sleep(0.04)
    keeper.pump()
    assert not waiting(keeper)
    assert "".join(heard)[HEAD:] == "".join(f"later {number}\n" for number in range(20))


def test_what_comes_after_the_end_is_ignored() -> None:
    keeper = OutputKeeper()
    keeper.feed("out", b"a")
    first = keeper.finish()
    keeper.feed("out", b"b")
    assert keeper.finish() is first


class TestSpill:
    def test_a_short_text_makes_no_file(self, tmp_path: Path) -> None:
        assert keep([("out", b"short")], tmp_path / "spill").file is None
        assert not (tmp_path / "spill").exists()

    def test_the_whole_is_there_and_only_its_owners(self, tmp_path: Path) -> None:
        pieces: list[tuple[Stream, bytes]] = [("out", b"o" * 1000), ("err", b"e" * 999)] * 200
        file = keep(pieces, tmp_path / "a" / "spill").file
        assert file is not None
        assert file.read_bytes() == b"".join(piece for _, piece in pieces)
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700

    def test_bytes_that_are_no_text_are_kept_as_they_were(self, tmp_path: Path) -> None:
        file = keep([("out", b"\xc4\xe3"), ("err", b"\xba\xc3")], tmp_path).file
        assert file is not None
        assert file.read_bytes() == b"\xc4\xe3\xba\xc3"

    def test_it_never_grows_past_its_cap(self, tmp_path: Path) -> None:
        from workplaces.spill import Spill

        spill = Spill(tmp_path, most=10)
        for _ in range(5):
            spill.write(b"abcd")
        spill.close()
        assert spill.path is not None
        assert spill.path.read_bytes() == b"abcdabcdab"

    def test_a_folder_that_cannot_be_written_costs_the_file_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        kept = keep([("out", b"x" * 300_000)], tmp_path / "file" / "spill")
        assert (kept.file, kept.size) == (None, 300_000)

    def test_old_ones_and_too_many_go(self, tmp_path: Path) -> None:
        files = [keep([("out", b"\xff" * 100)], tmp_path).file for _ in range(4)]
        for age, file in enumerate(files):
            assert file is not None
            moment = time.time() - age * 86400
            os.utime(file, (moment, moment))
        (tmp_path / "other").write_text("x")
        (tmp_path / "link.output").symlink_to("/etc/passwd")
        assert sweep(tmp_path, days=2.5, most=10_000) == 1
        assert sweep(tmp_path, days=2.5, most=150) == 2
        assert sweep(tmp_path / "none") == 0
        assert sorted(tmp_path.iterdir()) == sorted([files[0], tmp_path / "link.output", tmp_path / "other"])  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        ("plain\n", "plain\n"),
        ("10%\r20%\r30%\ndone\n", "30%\ndone\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("10%\r\r\n", "10%\n"),
        ("kept\r", "kept"),
        ("a\rb\n\rc\r\nd", "b\nc\nd"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_fold_is_quick_on_long_lines() -> None:
    began = time.process_time()
    fold("x" * 1_000_000 + "\n" + "y\r" * 500_000)
    assert time.process_time() - began < 2
