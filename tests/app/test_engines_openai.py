"""An OpenAI-compatible server that behaves, one that does not, and one that is not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.chats.events import AnswerText, StepFinished, StepStarted, TurnFinished
from app.engines import openai_compatible
from app.engines.address import BadAddress, endpoint
from app.keys.secret import Secret
from tests.app.rig import Rig, rig
from tests.doubles.openai import Answer, Call, Fail, OpenAIDouble, Raw, Request

KEY = "sk-test-0123456789abcdef-secret"


async def key(base_url: str) -> Secret | None:
    return Secret(KEY)


async def turn(conch: Rig, text: str = "hello") -> TurnFinished:
    chat = await conch.chat()
    conch.turns.send(chat, text)
    return await conch.ended(chat)


def said(conch: Rig) -> str:
    return "".join(event.text for _, event in conch.seen if isinstance(event, AnswerText))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible.OpenAICompatible.__init__, "__kwdefaults__", {"backoff": 0.01})


@pytest.mark.parametrize(
    ("typed", "chat"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1/chat/completions"),
        ("http://localhost:11434/", "http://localhost:11434/v1/chat/completions"),
        (" https://api.openai.com/v1 ", "https://api.openai.com/v1/chat/completions"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_the_address_with_or_without_v1(typed: str, chat: str) -> None:
    assert endpoint(typed).chat == chat


@pytest.mark.parametrize(
    "typed",
    [
        "", "localhost:11434", "ftp://h", "file:///etc/passwd", "http://", "http://user:hunter2@h", "http://h:0",
        "http://h:99999", "http://h/?key=hunter2", "http://h/#x", "http://a b", "javascript:alert(1)", "http://h\\@evil",
    ],
)  # fmt: skip
async def test_an_address_that_is_none(tmp_path: Path, typed: str) -> None:
    with pytest.raises(BadAddress) as error:
        endpoint(typed)
    assert "hunter2" not in str(error.value)
    async with rig(tmp_path, base_url=typed) as conch:
        end = await turn(conch)
        assert end.outcome == "failed"
        assert "Settings → Models" in end.words
        choice = conch.catalog.offered()[1]
        assert not choice.ready
        assert choice.next_step is not None


async def test_the_key_goes_in_the_header_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with OpenAIDouble(key=KEY) as model:
        model.script(["Hello.", Fail(status=400, message=f"bad key {KEY} was used"), Fail(status=500)])
        async with rig(tmp_path, base_url=model.base_url, key=key) as conch:
            assert (await turn(conch)).outcome == "done"
            end = await turn(conch)
            assert end.outcome == "failed"
            assert KEY not in end.words
            model.key = "another"
            end = await turn(conch)
            assert end.words == "127.0.0.1 did not take the key. Put in a new one in Settings → Models."
            engine = conch.catalog.engine("openai")
            assert KEY not in repr(vars(engine))
        assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert all(KEY not in json.dumps(request.body) + request.path for request in model.requests)
    assert KEY not in caplog.text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


async def test_a_key_is_not_sent_in_the_clear_across_the_internet(tmp_path: Path) -> None:
    async with rig(tmp_path, base_url="http://api.example.com", key=key) as conch:
        end = await turn(conch)
        assert "Use https://" in end.words


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with OpenAIDouble() as elsewhere:
        answer = (
            f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere.base_url}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with raw_server(answer) as address, rig(tmp_path, base_url=address, key=key) as conch:
            end = await turn(conch)
            assert "does not follow" in end.words
        assert not elsewhere.requests


@contextlib.asynccontextmanager
async def raw_server(answer: bytes, *, hold: bool = False, listen: bool = True) -> AsyncIterator[str]:
    """Bytes for whoever connects. ``hold``: nothing more comes, and the connection stays."""
    held = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if listen:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            if hold:
                await held.wait()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        held.set()
        server.close()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Fail(status=401, message="no"), "127.0.0.1 wants a key. Put one in Settings → Models."),
        (Fail(status=404, message="The model does not exist", code="model_not_found"), "has no model “double-1”"),
        (Fail(status=404, message='model "double-1" not found, try pulling it first'), "has no model “double-1”"),
        (Fail(status=404, message="Not Found"), "No model's server is at http://127.0.0.1"),
        (Fail(status=400, message="maximum context length is 8192", code="x"), "longer than the model can read"),
        (Fail(status=429, message="You exceeded your current quota", code="insufficient_quota"), "no credit left"),
        (Fail(status=429, message="slow down", retry_after=3600), "asks to wait 60 minutes"),
        (Fail(status=400, message="temperature is odd"), "did not take the request: “temperature is odd”"),
        (Raw(body=b"<html><body>Router login</body></html>", content_type="text/html"), "answers with a web page"),
        (Raw(body=b"hello there", content_type="text/plain"), "not as a model's server does"),
        (Raw(body=b"{]", content_type="application/json"), "not as a model's server does"),
        (Raw(body=b"data: {]\n\n"), "not as a model's server does"),
        (Raw(body=b'{"models": []}', content_type="application/json"), "not as a model's server does"),
        (Raw(body=b""), "not as a model's server does"),
        (Raw(body=b"<html>gone</html>", status=502), "has trouble of its own (error 502)"),
        (Answer(text=""), "gave an empty answer"),
    ],
)  # fmt: skip
async def test_what_a_server_says_no_with(tmp_path: Path, step: Fail | Raw | Answer, words: str) -> None:
    with OpenAIDouble() as model:
        model.script([step] * openai_compatible.MOST_TRIES)
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert end.outcome == "failed"
            assert words in end.words
            assert "\n" not in end.words
            assert len(end.words) < 500


async def test_what_may_work_is_asked_again(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script(
            [Fail(status=503), Fail(status=429, retry_after=0), Raw(body=b'data: {"choices"', status=200), "Here."]
        )
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            # A stream of which nothing was understood is no server of models, so it is not asked again.
            assert "not as a model's server" in end.words
            assert len(model.requests) == 3
            end = await turn(conch)
            assert (end.outcome, said(conch)) == ("done", "Here.")
        model.script([Fail(status=500)] * 10)
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert "trouble of its own" in (await turn(conch)).words
            assert model.left == 10 - openai_compatible.MOST_TRIES


@pytest.mark.parametrize("shown", [False, True])
async def test_an_answer_that_breaks_off(tmp_path: Path, shown: bool) -> None:
    """Before anything was shown it is asked again; after that what came is kept, and it is said."""
    with OpenAIDouble() as model:
        model.script([Answer(text="This is the answer", cut_after=3 if shown else 1), "Again from the start."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            if shown:
                assert end.outcome == "failed"
                assert end.words.startswith("The answer broke off. What came of it is kept.")
                assert said(conch) == "This is the answer"[:24]
                assert model.left == 1
            else:
                assert (end.outcome, said(conch)) == ("done", "Again from the start.")


async def test_nothing_is_run_of_a_call_that_broke_off(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(text="I will", calls=[Call("run_command", {"command": "rm -rf build"})], cut_after=4)])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "failed"
            assert not conch.container.requests


async def test_nobody_is_there(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with rig(tmp_path, base_url=address) as conch:
            end = await turn(conch)
            assert end.words == f"Nothing answers at {address}. Start it, or change the address in Settings → Models."


async def test_no_such_name(tmp_path: Path) -> None:
    async with rig(tmp_path, base_url="http://nowhere.invalid") as conch:
        assert "No computer is named nowhere.invalid" in (await turn(conch)).words


async def test_a_server_that_is_not_what_it_says(tmp_path: Path) -> None:
    """https asked of one that speaks plain http."""
    answer = raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", listen=False)
    async with answer as address, rig(tmp_path, base_url=address.replace("http://", "https://")) as conch:
        assert "did not prove that it is 127.0.0.1" in (await turn(conch)).words


async def test_a_server_that_says_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "SILENCE", 0.2)
    async with raw_server(b"", hold=True) as address, rig(tmp_path, base_url=address) as conch:
        assert "said no more" in (await turn(conch)).words


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"])
async def test_stop_does_not_wait_for_a_server_that_hangs(tmp_path: Path, answer: bytes) -> None:
    async with raw_server(answer, hold=True) as address, rig(tmp_path, base_url=address) as conch:
        chat = await conch.chat()
        conch.turns.send(chat, "hello")
        await asyncio.sleep(0.1)
        async with asyncio.timeout(1):
            await conch.turns.stop(chat)
        assert conch.shown(chat, TurnFinished)[0].outcome == "stopped"


async def test_whole_answers_without_a_stream(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "All at once."}, "finish_reason": "stop"}]}
    with OpenAIDouble() as model:
        model.script(
            [
                Raw(
                    body=[b" \n", json.dumps(body).encode()[:20], json.dumps(body).encode()[20:]],
                    content_type="application/json",
                )
            ]
        )
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "done"
            assert said(conch) == "All at once."


async def test_an_error_within_a_stream(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        begin = b'data: {"choices":[{"delta":{"content":"Half"}}]}\n\n'
        model.script([Raw(body=begin + b'data: {"error":{"message":"out of memory","code":500}}\n\n')])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert "out of memory" in end.words
            assert said(conch) == "Half"


async def test_bytes_cut_anywhere_and_comments_between(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        text = "Grüße 🤣 \u2028 and a\u0085line"
        model.script([Answer(text=text, piece=2, bytes_at_once=3, comments=True)])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "done"
            assert said(conch) == text


async def test_a_stream_that_comes_fast_is_not_held_up(tmp_path: Path) -> None:
    events = [f'data: {{"choices":[{{"delta":{{"content":"{number} "}}}}]}}\n\n'.encode() for number in range(3000)]
    events.append(b"data: [DONE]\n\n")
    body = b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with raw_server(head + body) as address, rig(tmp_path, base_url=address) as conch, asyncio.timeout(3):
        assert (await turn(conch)).outcome == "done"
        assert said(conch) == "".join(f"{number} " for number in range(3000))


async def test_a_cut_off_answer_is_said_and_kept(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(text="The first part", finish="length"), Answer(text="Hm", finish="content_filter")])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert (end.outcome, said(conch)) == ("done", "The first part")
            assert "length limit" in end.words
            assert "content filter" in (await turn(conch)).words


async def test_nonsense_is_told_to_the_model_and_it_may_mend_it(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script(
            [
                Answer(calls=[Call("run_command", '{"command": "ls'), Call("explode", {}), Call("run_command", {})]),
                Answer(calls=[Call("run_command", {"command": "ls"})]),
                "Mended.",
            ]
        )
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "done"
            assert [request.command for request in conch.container.requests] == ["ls"]
            # What made no sense is not a row of the chat.
            assert sum(isinstance(event, StepStarted) for _, event in conch.seen) == 1
        told = model.requests[1].tool_answers()
        assert "are not a JSON object" in told[0]
        assert "There is no tool “explode”" in told[1]
        assert "“command” is missing" in told[2]


async def test_nonsense_without_end_is_ended(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("explode", {})])] * 10)
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert end.outcome == "failed"
            assert "makes no sense, 3 times in a row" in end.words
        assert model.left == 7


async def test_work_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "MOST_ROUNDS", 4)
    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "ls"})])] * 10)
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert (end.outcome, end.words) == ("done", "It stopped after 4 rounds of work. Send “go on” to let it.")
            assert len(conch.container.requests) == 4


async def test_a_model_that_knows_no_tools_still_talks(tmp_path: Path) -> None:
    def plain(request: Request) -> str:
        assert not request.tools
        assert "You have no tools" in request.messages[0]["content"]
        return "Only talk."

    with OpenAIDouble() as model:
        model.script([Fail(status=400, message="registry.example/double-1 does not support tools"), plain])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            end = await turn(conch)
            assert (end.outcome, said(conch)) == ("done", "Only talk.")
            assert "cannot use tools" in end.words


async def test_a_server_that_does_not_know_an_option(tmp_path: Path) -> None:
    with OpenAIDouble() as model:
        model.script([Fail(status=400, message="Unrecognized request argument supplied: stream_options"), "Fine."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "done"
        assert "stream_options" not in (model.requests[1].body or {})


async def test_ids_that_are_missing_or_the_same(tmp_path: Path) -> None:
    calls = [{"index": 0, "function": {"name": "run_command", "arguments": {"command": name}}} for name in ("a", "b")]
    chunk = {"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    with OpenAIDouble() as model:
        model.script([Raw(body=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()), "Both."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            assert (await turn(conch)).outcome == "done"  # the double refuses an answer without its call
            assert [request.command for request in conch.container.requests] == ["a", "b"]


async def test_a_long_output_is_cut_for_the_model(tmp_path: Path) -> None:
    async def floods(request) -> int:  # type: ignore[no-untyped-def]
        request.output.feed("out", b"BEGIN" + b"x" * 300_000 + b"END")
        return 0

    with OpenAIDouble() as model:
        model.script([Answer(calls=[Call("run_command", {"command": "flood"})]), "Long."])
        async with rig(tmp_path, base_url=model.base_url) as conch:
            conch.container.work = floods
            await turn(conch)
            [finished] = [event for _, event in conch.seen if isinstance(event, StepFinished)]
            assert finished.left_out == 300_008 - 128 * 1024
        [told] = model.requests[1].tool_answers()
        assert len(told) < 32_000
        assert "BEGIN" in told
        assert told.endswith("END")
        assert "of 300,008 bytes are not shown" in told
        assert "characters are not shown" in told
