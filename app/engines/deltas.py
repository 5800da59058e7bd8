"""A chat completion put together from its pieces, as real servers send them.

The wire format is OpenAI's (platform.openai.com/docs/api-reference/chat/streaming). What others leave out of it is read
all the same: an index, an id, a finish reason; a tool call in one piece or in fifty; arguments as an object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_CALLS = 64
LARGEST_ARGUMENTS = 4 * 1024 * 1024


@dataclass(slots=True)
class RawCall:
    """A tool call as the model wrote it. ``arguments`` is text that may or may not be JSON."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""

    def parsed(self) -> dict[str, Any] | None:
        """The arguments, None when they are not a JSON object. No text at all means no arguments."""
        if not self.arguments.strip():
            return {}
        try:
            value = json.loads(self.arguments)
            if isinstance(value, str):  # encoded twice, as some servers do
                value = json.loads(value)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class Gathered:
    """One answer of a model. Feed it each chunk; it gives the text to show and keeps the rest."""

    def __init__(self) -> None:
        self.calls: list[RawCall] = []
        self.text = ""
        self.finish = ""
        self.error: object = None
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.understood = False
        """At least one chunk was a chat completion."""

    def feed(self, chunk: object) -> str:
        """Takes one parsed chunk (of a stream, or the whole answer) and gives the text that is new."""
        if not isinstance(chunk, dict):
            return ""
        if chunk.get("error"):
            self.error = chunk["error"]
            return ""
        self._usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return ""
        self.understood = True
        text = ""
        for choice in choices[:1]:  # we ask for one
            if not isinstance(choice, dict):
                continue
            if isinstance(reason := choice.get("finish_reason"), str) and reason:
                self.finish = reason
            piece = choice.get("delta")
            if not isinstance(piece, dict):
                piece = choice.get("message")
            if isinstance(piece, dict):
                text += self._piece(piece)
        self.text += text
        return text

    def _piece(self, piece: dict[str, Any]) -> str:
        calls = piece.get("tool_calls")
        if isinstance(calls, dict):
            calls = [calls]
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    self._call(call)
        if isinstance(old := piece.get("function_call"), dict):
            self._call({"index": 0, "function": old})
        return _text(piece.get("content")) or _text(piece.get("refusal"))

    def _call(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        if not isinstance(function, dict):
            function = piece
        index = piece.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        id = piece.get("id")
        id = id if isinstance(id, str) else ""
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments)
        arguments = arguments if isinstance(arguments, str) else ""

        call = self._which(index, id, name)
        if call is None:
            if len(self.calls) >= MOST_CALLS:
                return
            call = RawCall(index, id, name)
            self.calls.append(call)
        call.id = call.id or id
        call.name = call.name or name
        if len(call.arguments) < LARGEST_ARGUMENTS:
            call.arguments += arguments

    def _which(self, index: int | None, id: str, name: str) -> RawCall | None:
        """The call that a piece goes on with; None when it begins one."""
        if id:
            if (call := self._last(lambda one: one.id == id)) is not None:
                return call
            # A new id with a name is a new call whatever the index: some servers number every call 0.
            return None if name or index is None else self._last(lambda one: one.index == index)
        if index is not None:
            call = self._last(lambda one: one.index == index)
        else:
            call = self.calls[-1] if self.calls else None
        # A name begins a call, unless it repeats the name of one whose arguments are not whole yet.
        begins = call is not None and name and call.name and (call.name != name or _whole(call.arguments))
        return None if begins else call

    def _last(self, fits: Callable[[RawCall], bool]) -> RawCall | None:
        return next((call for call in reversed(self.calls) if fits(call)), None)

    def _usage(self, usage: object) -> None:
        if isinstance(usage, dict):
            for name, attribute in (("prompt_tokens", "tokens_in"), ("completion_tokens", "tokens_out")):
                value = usage.get(name)
                if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                    setattr(self, attribute, value)


def _whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_texts(content))
    return ""


def _texts(parts: Iterable[object]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and isinstance(text := part.get("text"), str):
            yield text
