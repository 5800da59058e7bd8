"""Pieces of an answer put together, wherever they were cut and whatever a server leaves out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines.deltas import Gathered
from app.engines.sse import SseDecoder, TooLarge


def fed(chunks: list[bytes]) -> list[str]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def test_events_as_the_standard_reads_them() -> None:
    data = b"data: a\n\ndata:b\r\n\r\ndata: c\rdata: d\r\r: comment\n\nevent: x\nid: 1\n\ndata\n\ndata:  e\n\n"
    assert fed([data]) == [
        "a", "b", "c\nd", "", " e",
    ]  # fmt: skip
    assert fed([b"\xef\xbb\xbfdata: a\n\n"]) == ["a"]
    assert fed([b"data: not ended"]) == ["not ended"]
    assert fed([]) == []
    assert fed([b"data: \xff\n\n"]) == ["�"]


@given(
    texts=st.lists(st.text().filter(lambda text: "\n" not in text and "\r" not in text), max_size=6),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(min_value=0), max_size=30),
)
def test_where_it_is_cut_changes_nothing(texts: list[str], end: bytes, cuts: list[int]) -> None:
    data = b""
    for text in texts:
        data += b": keep-alive" + end + end + b"data: " + text.encode() + end + b"data: more" + end + end
    assert fed(chunked(data, cuts)) == [f"{text}\nmore" for text in texts]


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=10))
def test_any_bytes_cut_anywhere_are_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert fed(chunked(data, cuts)) == fed([data])


def test_what_is_too_large_is_not_held() -> None:
    decoder = SseDecoder(largest=1000)
    for _ in range(11):
        decoder.feed(b"data: " + b"x" * 90 + b"\n")
    with pytest.raises(TooLarge):
        decoder.feed(b"data: " + b"x" * 90 + b"\n")
    with pytest.raises(TooLarge):
        SseDecoder(largest=1000).feed(b"x" * 2000)


def gathered(*deltas: dict[str, Any]) -> Gathered:
    whole = Gathered()
    for delta in deltas:
        whole.feed({"choices": [{"index": 0, "delta": delta}]})
    return whole


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    piece: dict[str, Any] = {"function": {}}
    if index is not None:
        piece["index"] = index
    if id:
        piece["id"] = id
    if name:
        piece["function"]["name"] = name
    if arguments is not None:
        piece["function"]["arguments"] = arguments
    return {"tool_calls": [piece]}


def seen(whole: Gathered) -> list[tuple[str, dict[str, Any] | None]]:
    return [(one.name, one.parsed()) for one in whole.calls]


@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["run", "read"]), st.dictionaries(st.text(), st.text())), min_size=1, max_size=4
    ),
    cuts=st.lists(st.integers(min_value=0), max_size=8),
    mixed=st.randoms(use_true_random=False),
)
def test_parallel_calls_in_pieces(calls: list[tuple[str, dict[str, str]]], cuts: list[int], mixed: Any) -> None:
    """As OpenAI sends them: a head with id and name, then the arguments in pieces, the calls' pieces mixed."""
    whole = Gathered()
    rest = []
    for index, (name, arguments) in enumerate(calls):
        whole.feed({"choices": [{"delta": call(index, f"id{index}", name, "")}]})
        text = json.dumps(arguments, ensure_ascii=False)
        places = sorted({cut % (len(text) + 1) for cut in cuts})
        rest.append([(index, text[a:b]) for a, b in zip([0, *places], [*places, len(text)], strict=True)])
    while any(rest):
        index, piece = mixed.choice([pieces for pieces in rest if pieces]).pop(0)
        whole.feed({"choices": [{"delta": call(index, arguments=piece)}]})
    assert seen(whole) == calls
    assert [one.id for one in whole.calls] == [f"id{index}" for index in range(len(calls))]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        # Ollama: whole calls, every one numbered 0
        ([call(0, "a", "x", '{"n":1}'), call(0, "b", "x", '{"n":2}')], [("x", {"n": 1}), ("x", {"n": 2})]),
        # No index, no id
        ([call(name="x", arguments='{"n"'), call(arguments=":1}")], [("x", {"n": 1})]),
        ([call(name="x", arguments='{"n":1}'), call(name="x", arguments="{}")], [("x", {"n": 1}), ("x", {})]),
        ([call(name="x"), call(name="y")], [("x", {}), ("y", {})]),
        # The id and the name said again with each piece
        ([call(0, "a", "x", '{"n"'), call(0, "a", "x", ":1}")], [("x", {"n": 1})]),
        # The id comes later, and an index that begins at 1
        ([call(1, name="x"), call(1, "a"), call(1, arguments="{}")], [("x", {})]),
        # An object in place of text, and text that holds JSON as text
        ([call(0, "a", "x", {"n": 1})], [("x", {"n": 1})]),
        ([call(0, "a", "x", json.dumps('{"n":1}'))], [("x", {"n": 1})]),
        # The old way
        ([{"function_call": {"name": "x", "arguments": "{"}}, {"function_call": {"arguments": "}"}}], [("x", {})]),
        # Half a call, and nonsense
        ([call(0, "a", "x", '{"n":')], [("x", None)]),
        ([call(0, "a", "x", "[1]")], [("x", None)]),
        ([{"tool_calls": [None, 3, {"function": 4}]}], [("", {})]),
    ],
)  # fmt: skip
def test_calls_as_servers_send_them(deltas: list[dict[str, Any]], expected: list[Any]) -> None:
    assert seen(gathered(*deltas)) == expected


def test_text_as_servers_send_it() -> None:
    assert (
        gathered({"content": "a"}, {"content": None}, {"content": [{"type": "text", "text": "b"}, "c"]}, {}).text
        == "abc"
    )
    whole = Gathered()
    assert whole.feed({"choices": [{"message": {"content": "all of it"}, "finish_reason": "stop"}]}) == "all of it"
    assert whole.finish == "stop"
    assert whole.feed({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": None}}) == ""
    assert (whole.tokens_in, whole.tokens_out) == (3, None)


FIELDS = [
    "choices", "delta", "message", "tool_calls", "function", "index", "id", "name", "arguments", "content", "usage",
    "error",
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
    max_leaves=20,
)


@given(st.lists(json_values, max_size=5))
def test_any_json_is_no_reason_to_fall(values: list[Any]) -> None:
    whole = Gathered()
    for value in values:
        whole.feed(value)
    seen(whole)
