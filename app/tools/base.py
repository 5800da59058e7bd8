"""What the tools share: how a call is read, and how it can fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


class BadCall(Exception):
    """The call made no sense: a tool that is not there, arguments that do not fit. ``str(error)`` is for the model."""


class ToolFailed(Exception):
    """It was tried and did not work. ``str(error)`` is one or two sentences, for the model and the person alike."""


class ToolRefused(ToolFailed):
    """It may not be done: outside the work folder, through a link, a protected place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A call that was understood, not done yet.

    ``words`` says it on its row. ``changes`` is False for what only reads. ``check`` looks whether it can work at all,
    so that nobody is asked about what cannot; ``run`` does it and gives the text for the model. Both raise ToolFailed.
    """

    words: str
    changes: bool
    check: Callable[[], Awaitable[None]]
    run: Callable[[], Awaitable[str]]


def take_text(arguments: dict[str, Any], name: str, *, default: str | None = None, empty: bool = False) -> str:
    """A text of the call. Raises BadCall when it is missing (no default), not text, or empty where it may not be."""
    value = arguments.get(name, default)
    if value is None:
        if default is None:
            raise BadCall(f"“{name}” is missing. It takes text.")
        return default
    if not isinstance(value, str):
        raise BadCall(f"“{name}” takes text, not {_kind(value)}.")
    if not value and not empty and default is None:
        raise BadCall(f"“{name}” is empty.")
    return value


def take_number(arguments: dict[str, Any], name: str, *, default: int, least: int, most: int) -> int:
    """A whole number of the call, brought within its bounds. A number written as text is read. Raises BadCall."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise BadCall(f"“{name}” takes a whole number, not text.") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise BadCall(f"“{name}” takes a whole number, not {_kind(value)}.")
    return int(max(least, min(most, value)))


def take_flag(arguments: dict[str, Any], name: str, *, default: bool = False) -> bool:
    """A yes or no of the call. Raises BadCall."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise BadCall(f"“{name}” takes true or false, not {_kind(value)}.")
    return value


def _kind(value: object) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "that")


def bounded(arguments: dict[str, Any], most: int = 64 * 1024) -> dict[str, Any]:
    """The arguments as they are kept: long texts are cut, and say so. What is nested deeply is left out."""
    return {str(name): _bounded(value, most, 0) for name, value in list(arguments.items())[:50]}


def _bounded(value: Any, most: int, depth: int) -> Any:
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode() if not value.isascii() else value
        return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= 4:
        return "…"
    if isinstance(value, list):
        return [_bounded(one, most, depth + 1) for one in value[:100]]
    if isinstance(value, dict):
        return {str(name): _bounded(one, most, depth + 1) for name, one in list(value.items())[:50]}
    return str(value)[:200]
