"""The double keeps the contract that it stands for, seen with another client."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from tests.doubles.openai import Answer, Call, Fail, OpenAIDouble, Raw

_ASK = {"model": "double-1", "messages": [{"role": "user", "content": "hi"}], "stream": True}


async def _events(double: OpenAIDouble, body: dict[str, object]) -> list[str]:
    async with (
        httpx.AsyncClient() as client,
        client.stream("POST", f"{double.base_url}/chat/completions", json=body) as answer,
    ):
        return [line.removeprefix("data: ") async for line in answer.aiter_lines() if line.startswith("data: ")]


async def test_it_streams_text_in_pieces() -> None:
    async with OpenAIDouble() as double:
        double.script([Answer(text="Grüße, 世界 and more", piece=3, bytes_at_once=5, comments=True)])
        events = await _events(double, {**_ASK, "stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Grüße, 世界 and more"
    assert len(deltas) > 6
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert double.requests[0].messages == _ASK["messages"]


async def test_it_streams_a_call_in_pieces_and_wants_its_answer() -> None:
    async with OpenAIDouble() as double:
        double.script([Answer(calls=[Call("run_command", {"command": "ls -la"})], piece=4), "Done."])
        events = await _events(double, _ASK)
        parts = [json.loads(event)["choices"][0]["delta"].get("tool_calls") for event in events[:-1]]
        calls = [part[0] for part in parts if part]
        assert calls[0]["function"]["name"] == "run_command"
        arguments = "".join(call["function"].get("arguments", "") for call in calls)
        assert json.loads(arguments) == {"command": "ls -la"}
        said = {"id": calls[0]["id"], "type": "function", "function": {"name": "run_command", "arguments": arguments}}
        spoken = {"role": "assistant", "content": None, "tool_calls": [said]}
        async with httpx.AsyncClient() as client:
            url = f"{double.base_url}/chat/completions"
            asked = [*_ASK["messages"], spoken]  # type: ignore[misc]
            refused = await client.post(url, json={**_ASK, "messages": asked})
            assert refused.status_code == 400
            told = [*asked, {"role": "tool", "tool_call_id": calls[0]["id"], "content": "a.txt"}]
            taken = await client.post(url, json={**_ASK, "stream": False, "messages": told})
        assert taken.json()["choices"][0]["message"]["content"] == "Done."
        assert double.requests[-1].tool_answers() == ["a.txt"]


async def test_it_fails_talks_nonsense_and_goes_away_when_told_to() -> None:
    with OpenAIDouble(key="k") as double:
        double.script(
            [Fail(status=429, retry_after=7), Raw(body=b"data: {nonsense\n\n"), Answer(text="x", cut_after=1)]
        )
        async with httpx.AsyncClient(headers={"Authorization": "Bearer k"}) as client:
            url = f"{double.base_url}/chat/completions"
            busy = await client.post(url, json=_ASK)
            assert (busy.status_code, busy.headers["retry-after"]) == (429, "7")
            assert (await client.post(url, json=_ASK)).text == "data: {nonsense\n\n"
            assert "[DONE]" not in (await client.post(url, json=_ASK)).text
            assert (await client.get(f"{double.base_url}/models")).json()["data"][0]["id"] == "double-1"
            wrong = await client.get(f"{double.base_url}/models", headers={"Authorization": "Bearer other"})
            assert wrong.status_code == 401
            assert (await client.post(url, json=_ASK)).status_code == 500


async def test_it_notices_that_its_caller_hung_up() -> None:
    async with OpenAIDouble() as double:
        double.script([Answer(text="slowly", piece=1, hang_after=2)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await _events(double, _ASK)
        end = time.monotonic() + 5
        while not double.hung_up and time.monotonic() < end:
            await asyncio.sleep(0.02)
        assert double.hung_up == 1
