"""Any server that speaks OpenAI's chat completions: Ollama, LM Studio, llama.cpp, OpenRouter, OpenAI and others.

Wire format: platform.openai.com/docs/api-reference/chat. What servers do differently is read in ``deltas.py``.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import random
import ssl
import time
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from app.engines import messages as chat
from app.engines.address import BadAddress, Endpoint, endpoint
from app.engines.base import EngineTrouble, ToolAnswer, ToolCall, ToolSpec, TurnContext
from app.engines.deltas import Gathered, RawCall
from app.engines.failures import IN_SETTINGS, Asked, Failure, error_in_answer, not_reached, refused
from app.engines.sse import SseDecoder, TooLarge

if TYPE_CHECKING:
    import httpx

    from app.engines.catalog import KeyOf

log = logging.getLogger(__name__)

MOST_ROUNDS = 50
MOST_NONSENSE = 3
MOST_TRIES = 4
LARGEST_ANSWER = 4 * 1024 * 1024
LARGEST_JSON = 32 * 1024 * 1024
LOOK_EVERY = 0.03
"""Seconds between two looks at the stream that had to wait. A look costs the same for one token as for fifty."""
WAITED = 0.0003
SILENCE = 300.0
"""Seconds between two bytes. A model that is being loaded says nothing for minutes."""


class OpenAICompatible:
    id: ClassVar[str] = "openai"
    name: ClassVar[str] = "Model by address"

    def __init__(self, base_url: str, model: str, *, key: KeyOf, backoff: float = 0.5) -> None:
        self.model = model.strip()
        self._base_url = base_url.strip()
        self._key = key
        self._backoff = backoff

    async def answer(self, turn: TurnContext) -> None:
        try:
            place = endpoint(self._base_url)
        except BadAddress as error:
            raise EngineTrouble(f"{error} Correct it {IN_SETTINGS}.") from None
        secret = await self._key(self._base_url)
        key = secret.reveal().strip() if secret else ""
        if not key.isascii() or not key.isprintable():
            raise EngineTrouble(f"The key for {place.host} holds what no key can. Put it in again {IN_SETTINGS}.")
        if key and not place.secure and not place.nearby:
            raise EngineTrouble(
                f"The address of {place.host} begins with http://, so the key would travel unprotected. "
                f"Use https:// {IN_SETTINGS}."
            )
        asked = Asked(endpoint=place, model=self.model, key=key)
        async with await _client(place) as client:
            await _Conversation(turn, client, asked, self._backoff).hold()


class _Conversation:
    """One turn with one server: ask, run what it calls, tell it, until it only answers."""

    def __init__(self, turn: TurnContext, client: httpx.AsyncClient, asked: Asked, backoff: float) -> None:
        self.turn = turn
        self.client = client
        self.asked = asked
        self.backoff = backoff
        self.messages: list[chat.Message] = [chat.system("", "")]  # said anew for each request
        self.with_tools = True
        self.with_usage = True

    async def hold(self) -> None:
        self.messages += await asyncio.to_thread(chat.earlier, self.turn.history)
        chat.add(self.messages, {"role": "user", "content": self.turn.message})
        nonsense = 0
        for _ in range(MOST_ROUNDS):
            gathered = await self._ask()
            if not gathered.calls:
                self._check_end(gathered)
                return
            answers = await self._run(gathered)
            nonsense = 0 if any(answer.understood for answer in answers) else nonsense + 1
            if nonsense >= MOST_NONSENSE:
                raise EngineTrouble(
                    f"“{self.asked.model}” called tools in a way that makes no sense, {MOST_NONSENSE} times in a row. "
                    f"Try again, or choose another model {IN_SETTINGS}."
                )
        raise EngineTrouble(f"It stopped after {MOST_ROUNDS} rounds of work. Send “go on” to let it.", failed=False)

    def _check_end(self, gathered: Gathered) -> None:
        if gathered.finish == "length":
            words = "The answer is cut off: the model came to its length limit. Send “go on”."
            raise EngineTrouble(words, failed=False)
        if gathered.finish == "content_filter":
            words = f"{self.asked.host} held back the rest of the answer (its content filter)."
            raise EngineTrouble(words, failed=False)
        if not gathered.text.strip():
            raise EngineTrouble(f"“{self.asked.model}” gave an empty answer. Try again.")
        if not self.with_tools:
            raise EngineTrouble(
                f"“{self.asked.model}” cannot use tools, so it only talks here. Choose another model {IN_SETTINGS}.",
                failed=False,
            )

    # -- the tools

    async def _run(self, gathered: Gathered) -> list[ToolAnswer]:
        """Runs the calls one after another, in the order the model wrote them, and puts the answers behind them."""
        said, calls, answers = gathered.text.strip(), [], []
        for number, call in enumerate(gathered.calls):
            answer = await self._call(call, gathered.finish)
            answers.append(answer)
            # Servers parse what is sent back to them: what was not JSON goes back as no arguments.
            calls.append((call.id or f"call_{number}", call.name or "none", call.parsed() or {}, answer.text))
        ids = [id for id, *_ in calls]
        if len(set(ids)) < len(ids):
            calls = [(f"call_{number}", *rest) for number, (_, *rest) in enumerate(calls)]  # type: ignore[misc]
        self.messages += chat.called(said, calls)
        return answers

    async def _call(self, call: RawCall, finish: str) -> ToolAnswer:
        arguments = call.parsed()
        if arguments is None:
            why = "were cut off by the length limit" if finish == "length" else "are not a JSON object"
            text = f"The arguments of this call {why}, so nothing was done: {call.arguments[:200]!r}"
            return ToolAnswer(text=text, ok=False, understood=False)
        return await self.turn.call(ToolCall(name=call.name, arguments=arguments))

    # -- asking

    async def _ask(self) -> Gathered:
        """One answer. Asked again where that may help, as long as nothing of it was shown."""
        tries = 0
        while True:
            gathered = Gathered()
            failure = await self._try(gathered)
            if failure is None:
                self.turn.used(gathered.tokens_in, gathered.tokens_out)
                return gathered
            if gathered.text:
                raise EngineTrouble(f"The answer broke off. What came of it is kept. {failure.words}")
            if failure.kind == "tools" and self.with_tools:
                self.with_tools = False
            elif failure.kind == "options" and self.with_usage:
                self.with_usage = False
            else:
                tries += 1
                if not failure.again or tries >= MOST_TRIES:
                    raise EngineTrouble(failure.words)
                pause = self.backoff * 2 ** (tries - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads callers
                await asyncio.sleep(pause if failure.wait is None else failure.wait)

    async def _try(self, gathered: Gathered) -> Failure | None:
        import httpx

        body = json.dumps(await self._body()).encode()
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if self.asked.key:
            headers["authorization"] = f"Bearer {self.asked.key}"
        try:
            async with self.client.stream("POST", self.asked.endpoint.chat, content=body, headers=headers) as response:
                if response.status_code != 200:
                    return refused(self.asked, response.status_code, await _some(response), response.headers)
                return await self._read(response, gathered)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
            log.info("the model's server was not reached: %s", type(error).__name__)
            return not_reached(self.asked, error)

    async def _body(self) -> dict[str, Any]:
        tools = await self.turn.tools() if self.with_tools else []
        place = await self.turn.about_place() if self.with_tools else ""
        self.messages[0] = chat.system(str(self.turn.folder), place, tools=self.with_tools)
        messages = chat.within(self.messages)
        if not self.with_tools:
            messages = _without_calls(messages)
        body: dict[str, Any] = {"model": self.asked.model, "messages": messages, "stream": True}
        if tools:
            body["tools"] = [_function(tool) for tool in tools]
        if self.with_usage:
            body["stream_options"] = {"include_usage": True}
        return body

    async def _read(self, response: httpx.Response, gathered: Gathered) -> Failure | None:
        """Reads the answer, be it a stream of events or one JSON text; which it is its first letter says."""
        decoder = SseDecoder()
        whole = bytearray()
        kind = ""
        ended = False
        try:
            mark = time.monotonic()
            async for chunk in response.aiter_bytes():
                waited = time.monotonic() - mark > WAITED
                if kind != "events":
                    whole += chunk
                if not kind and (start := bytes(whole).removeprefix(b"\xef\xbb\xbf").lstrip()):
                    kind = {b"{": "json", b"[": "json", b"<": "page"}.get(start[:1], "events")
                    chunk = bytes(whole)
                if kind == "page" or (kind != "events" and len(whole) > LARGEST_JSON):
                    break
                if kind == "events" and (ended := self._take(decoder.feed(chunk), gathered)):
                    break
                if waited:
                    await asyncio.sleep(LOOK_EVERY)
                mark = time.monotonic()
            if kind == "events" and not ended:
                ended = self._take(decoder.finish(), gathered)
        except TooLarge:
            return self._nonsense()
        if kind == "json":
            self._take(_texts(bytes(whole)), gathered)
            ended = True
        if kind == "page":
            return Failure(
                words=f"{self.asked.endpoint.shown} answers with a web page, not as a model's server. "
                f"Correct the address {IN_SETTINGS}."
            )
        if gathered.error is not None:
            return error_in_answer(self.asked, gathered.error)
        if not gathered.understood:
            return self._nonsense()
        if not ended and not gathered.finish:
            return Failure(words=f"{self.asked.host} stopped in the middle of its answer. Try again.", again=True)
        return None

    def _take(self, events: list[str], gathered: Gathered) -> bool:
        """Feeds events to ``gathered`` and says what they say. True at the end of the answer."""
        for event in events:
            if event.strip() == "[DONE]":
                return True
            try:
                chunk = json.loads(event)
            except (ValueError, RecursionError):
                log.info("a piece of the model's answer was not JSON")
                continue
            if text := gathered.feed(chunk):
                self.turn.say(text)
                if len(gathered.text) > LARGEST_ANSWER:
                    raise EngineTrouble(f"“{self.asked.model}” would not stop, so its answer was ended.")
            if gathered.error is not None:
                return True
        return False

    def _nonsense(self) -> Failure:
        return Failure(
            words=f"{self.asked.endpoint.shown} answers, but not as a model's server does. "
            f"Correct the address {IN_SETTINGS}."
        )


def _texts(whole: bytes) -> list[str]:
    """The JSON texts of an answer that is no stream of events: one, or one a line."""
    text = whole.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return [line for line in text.split("\n") if line.strip()]
    return [text]


def _function(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _without_calls(messages: list[chat.Message]) -> list[chat.Message]:
    """The messages for a model that knows no tools: what they gave is told as text."""
    plain: list[chat.Message] = []
    for message in messages:
        if message["role"] == "tool":
            chat.add(plain, {"role": "user", "content": f"[A tool gave this]\n{message['content']}"})
        elif message.get("content"):
            chat.add(plain, {"role": message["role"], "content": message["content"]})
    return plain


async def _some(response: httpx.Response, most: int = 65536) -> bytes:
    """The beginning of an answer's body."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= most:
            break
    return bytes(body[:most])


async def _client(place: Endpoint) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """Made in a thread: the import and the certificates cost more than the window's thread may be held up."""

    def make() -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(
            # A redirect could carry the chat, and the key, to another server.
            follow_redirects=False,
            # A proxy of the system's does not lead to this computer itself.
            trust_env=not place.loopback,
            verify=_certificates() if place.secure else False,
            timeout=httpx.Timeout(connect=10, read=SILENCE, write=60, pool=10),
            headers={"user-agent": "Conch"},
        )

    try:
        return await asyncio.to_thread(make)
    except (ImportError, ValueError, OSError) as error:  # a proxy of the environment's that cannot be used
        raise EngineTrouble(
            f"{place.host} could not be asked: this computer's proxy or certificate settings cannot be used.",
            details=str(error),
        ) from error


@functools.cache
def _certificates() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()
