"""A double of an OpenAI-compatible server: ``/v1/chat/completions`` (streaming or not) and ``/v1/models``.

It listens on loopback, on a thread of its own, so nothing the tested program does to its loop can hold it up. What it
says is a script, one step a request; what it is asked is checked as strictly as the real one checks it (a tool's answer
without its call is refused with 400) and kept in ``requests``.

Source: the API reference, "Create chat completion" and "The chat completion chunk object".

    async with OpenAIDouble() as double:            # or: with OpenAIDouble() as double
        double.script([
            Answer(calls=[Call("run_command", {"command": "ls"})]),
            "There are two files.",
        ])
        … double.base_url … double.requests[0].messages
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MODEL = "double-1"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool. ``arguments`` as text goes out as it is, be it JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""

    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model answers.

    ``piece`` is how many characters a chunk carries, ``delay`` the seconds before each chunk. ``cut_after`` closes the
    connection after that many chunks; ``hang_after`` says nothing more after that many, until the caller hangs up.
    ``bytes_at_once`` breaks the stream at that many bytes, in the middle of a letter if need be. ``comments`` puts
    keep-alive lines between the chunks.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    finish: str = ""
    piece: int = 12
    delay: float = 0.0
    cut_after: int | None = None
    hang_after: int | None = None
    bytes_at_once: int = 0
    comments: bool = False
    usage: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The server says no, as the real one does."""

    status: int
    message: str = "double says no"
    code: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Bytes as they are: a server that talks nonsense, or another protocol."""

    body: bytes | Sequence[bytes]
    status: int = 200
    content_type: str = "text/event-stream"
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. Header names are in lower case; ``body`` is the JSON, None when there was none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any] | None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list((self.body or {}).get("messages", []))

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        return [tool["function"]["name"] for tool in (self.body or {}).get("tools", [])]

    def tool_answers(self) -> list[str]:
        """What the tools answered, in order."""
        return [str(message["content"]) for message in self.messages if message["role"] == "tool"]


Step = str | Answer | Fail | Raw | Callable[[Request], "str | Answer | Fail | Raw"]


class OpenAIDouble:
    """A running double. ``base_url`` ends in ``/v1``. ``key``: when given, any other one is refused with 401."""

    def __init__(self, *, models: Sequence[str] = (_MODEL,), key: str | None = None, strict: bool = True) -> None:
        self.models = list(models)
        self.key = key
        self.strict = strict
        self.requests: list[Request] = []
        self.hung_up = 0  # how often a caller went away before the answer was whole
        self._steps: list[Step] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="openai-double")
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._port = 0
        self._calls = 0

    def script(self, steps: Iterable[Step]) -> None:
        """What the next requests are answered with, in this order, after what is still to come."""
        self._steps.extend(steps)

    @property
    def left(self) -> int:
        """How many steps nobody has asked for yet."""
        return len(self._steps)

    @property
    def chats(self) -> list[Request]:
        """The requests for an answer, without those for the list of models."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> OpenAIDouble:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def __aenter__(self) -> OpenAIDouble:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        talking: set[asyncio.Task[None]] = set()

        def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._talk(reader, writer))
            talking.add(task)
            task.add_done_callback(talking.discard)

        server = await asyncio.start_server(met, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tuple(talking):
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request: what comes next makes a new one."""
        try:
            request = await _read(reader)
            if request is None:
                return
            self.requests.append(request)
            await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up += 1
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            await _fail(writer, Fail(status=401, message="Incorrect API key provided.", code="invalid_api_key"))
        elif request.path == "/v1/models" and request.method == "GET":
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "double"} for name in self.models]
            await _json(writer, 200, {"object": "list", "data": listed})
        elif request.path != "/v1/chat/completions" or request.method != "POST":
            await _fail(writer, Fail(status=404, message=f"Unknown request URL: {request.method} {request.path}"))
        elif self.strict and (wrong := what_is_wrong(request.body)):
            await _fail(writer, Fail(status=400, message=wrong, code="invalid_request_error"))
        elif not self._steps:
            await _fail(writer, Fail(status=500, message="the script of this double is over"))
        else:
            step = self._steps.pop(0)
            step = step(request) if callable(step) else step
            await self._play(Answer(text=step) if isinstance(step, str) else step, request, reader, writer)

    async def _play(
        self, step: Answer | Fail | Raw, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if isinstance(step, Fail):
            await _fail(writer, step)
        elif isinstance(step, Raw):
            _head(writer, step.status, step.content_type)
            for block in [step.body] if isinstance(step.body, bytes) else step.body:
                await asyncio.sleep(step.delay)
                writer.write(block)
                await writer.drain()
        elif (request.body or {}).get("stream"):
            await self._stream(step, request, reader, writer)
        else:
            await asyncio.sleep(step.delay)
            await _json(writer, 200, self._whole(step, request))

    async def _stream(
        self, step: Answer, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        _head(writer, 200, "text/event-stream; charset=utf-8")
        await writer.drain()
        gone = self._loop.create_task(reader.read(1))  # ends when the caller hangs up
        try:
            sent = 0
            async for line in _lines(self._chunks(step, request), step):
                if sent == step.cut_after:
                    return
                if sent == step.hang_after:
                    await gone
                if gone.done():
                    self.hung_up += 1
                    return
                await asyncio.sleep(step.delay)
                await _write(writer, line, step.bytes_at_once)
                sent += 1
        finally:
            gone.cancel()

    def _chunks(self, step: Answer, request: Request) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if step.calls else ""}]
        deltas += [{"reasoning_content": part} for part in _pieces(step.reasoning, step.piece)]
        deltas += [{"content": part} for part in _pieces(step.text, step.piece)]
        for index, call in enumerate(self._named(step.calls)):
            head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            for part in _pieces(call.text(), step.piece):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        common = self._common(request, "chat.completion.chunk")
        chunks = [{**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(step)}]})
        if step.usage and ((request.body or {}).get("stream_options") or {}).get("include_usage"):
            chunks.append({**common, "choices": [], "usage": _usage(step)})
        return chunks

    def _whole(self, step: Answer, request: Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
        if step.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text()}}
                for call in self._named(step.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _finish(step)}
        return {**self._common(request, "chat.completion"), "choices": [choice], "usage": _usage(step)}

    def _named(self, calls: Sequence[Call]) -> list[Call]:
        named = []
        for call in calls:
            self._calls += 1
            named.append(Call(call.name, call.arguments, call.id or f"call_{self._calls:04d}"))
        return named

    def _common(self, request: Request, kind: str) -> dict[str, Any]:
        model = str((request.body or {}).get("model", _MODEL))
        return {"id": f"chatcmpl-{len(self.requests)}", "object": kind, "created": int(time.time()), "model": model}


def what_is_wrong(body: dict[str, Any] | None) -> str:
    """What the real server would refuse a request for; empty when it would take it."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "'messages' must be a list that is not empty"
    for tool in body.get("tools", []):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not _TOOL_NAME.fullmatch(str(function.get("name", ""))):
            return f"a tool without a proper name: {tool!r}"
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            return f"the parameters of {function['name']} are not an object"
    if "tools" in body and not body["tools"]:
        return "[] is too short - 'tools'"
    waiting: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"an assistant message with 'tool_calls' must be followed by tool messages: {', '.join(waiting)}"
        if role not in ("system", "developer", "user", "assistant"):
            return f"a role that is none: {role!r}"
        calls = message.get("tool_calls")
        if calls is not None and (role != "assistant" or not calls):
            return "tool_calls only go with an assistant message, and not empty"
        for call in calls or []:
            if not isinstance(call.get("function", {}).get("arguments"), str):
                return "a call's arguments are a string"
            waiting.append(call["id"])
        if message.get("content") is None and not calls:
            return f"a message of {role} without content"
    return f"tool calls without an answer: {', '.join(waiting)}" if waiting else ""


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), max(1, size))]


def _finish(step: Answer) -> str:
    return step.finish or ("tool_calls" if step.calls else "stop")


def _usage(step: Answer) -> dict[str, int]:
    tokens = max(1, (len(step.text) + sum(len(call.text()) for call in step.calls)) // 4)
    return {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": 20 + tokens}


async def _lines(chunks: list[dict[str, Any]], step: Answer) -> AsyncIterator[bytes]:
    for chunk in chunks:
        comment = ": keep-alive\n\n" if step.comments else ""
        yield f"{comment}data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
    yield b"data: [DONE]\n\n"


async def _write(writer: asyncio.StreamWriter, line: bytes, at_once: int) -> None:
    for at in range(0, len(line), at_once or len(line)):
        writer.write(line[at : at + (at_once or len(line))])
        await writer.drain()
        if at_once:
            await asyncio.sleep(0.001)  # or the system would join the parts again


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        parsed = json.loads(body) if body else None
    except ValueError:
        parsed = None
    return Request(method, target.partition("?")[0], headers, parsed)


def _head(writer: asyncio.StreamWriter, status: int, kind: str, extra: str = "") -> None:
    reason = _REASONS.get(status, "Error")
    writer.write(f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{extra}Connection: close\r\n\r\n".encode())


async def _json(writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any], extra: str = "") -> None:
    text = json.dumps(body).encode()
    _head(writer, status, "application/json", f"{extra}Content-Length: {len(text)}\r\n")
    writer.write(text)
    await writer.drain()


async def _fail(writer: asyncio.StreamWriter, step: Fail) -> None:
    extra = "" if step.retry_after is None else f"Retry-After: {step.retry_after}\r\n"
    kind = "invalid_request_error" if step.status < 500 else "server_error"
    error = {"message": step.message, "type": kind, "param": None, "code": step.code}
    await _json(writer, step.status, {"error": error}, extra)
