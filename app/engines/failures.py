"""What a model's server says when it says no, in words for the person: what happened, then the one next step."""

from __future__ import annotations

import email.utils
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.engines.address import Endpoint

IN_SETTINGS = "in Settings → Models"
LONGEST_QUOTE = 300
LONGEST_WAIT = 30.0

Kind = Literal["", "tools", "options"]

_TOO_LONG = re.compile(r"context_length|context (length|window|size)|too many tokens|n_ctx")
_NO_MODEL = re.compile(r"not found|does not exist|no such|unknown model|not a valid model|pulling it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``again``: it may work if asked again, after ``wait`` seconds when the server named them.

    ``kind`` names what can be left out instead: ``tools`` the model cannot call, ``options`` the server does not know.
    """

    words: str
    again: bool = False
    wait: float | None = None
    kind: Kind = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of whom, for the words."""

    endpoint: Endpoint
    model: str
    key: str = ""

    @property
    def host(self) -> str:
        return self.endpoint.host

    def quote(self, text: str) -> str:
        """What the server said, as a sentence can hold it. Never the key."""
        if self.key:
            text = text.replace(self.key, "…")
        text = re.sub(r"\bsk-[\w*.-]{6,}", "…", text)
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"


def refused(asked: Asked, status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an answer other than 200 means."""
    message, code = _said(body)
    return _meaning(asked, status, message, code, headers)


def error_in_answer(asked: Asked, error: object) -> Failure:
    """What an error that came inside an answer means."""
    message, code = _said(json.dumps({"error": error}, default=str).encode())
    status = error.get("code") if isinstance(error, dict) else None
    return _meaning(asked, status if isinstance(status, int) else 500, message, code, {})


def _meaning(asked: Asked, status: int, message: str, code: str, headers: Mapping[str, str]) -> Failure:
    host, said = asked.host, asked.quote(message)
    lower = f"{message} {code}".lower()
    if 300 <= status < 400:
        return Failure(words=f"{host} sends elsewhere, which Conch does not follow. Correct the address {IN_SETTINGS}.")
    if _quota(lower) and status in (400, 402, 403, 429):
        return Failure(words=f"The account at {host} has no credit left. Add some there, or choose another model.")
    if status == 401 or (status == 403 and not asked.key):
        if asked.key:
            return Failure(words=f"{host} did not take the key. Put in a new one {IN_SETTINGS}.")
        return Failure(words=f"{host} wants a key. Put one {IN_SETTINGS}.")
    if status == 403:
        return Failure(words=f"The key for {host} is not allowed to do this. Put in another {IN_SETTINGS}.")
    if status in (400, 404, 422) and _no_model(lower, asked.model):
        return Failure(words=f"{host} has no model “{asked.model}”. Choose another {IN_SETTINGS}.")
    if status in (404, 405):
        return Failure(words=f"No model's server is at {asked.endpoint.shown}. Correct the address {IN_SETTINGS}.")
    if status == 413 or _TOO_LONG.search(lower):
        return Failure(words="This chat is longer than the model can read. Start a new chat.")
    if status == 429:
        wait = retry_after(headers)
        if wait is not None and wait > LONGEST_WAIT:
            return Failure(words=f"{host} asks to wait {_minutes(wait)} before the next message.")
        return Failure(words=f"{host} is asked too often. Wait a little, then try again.", again=True, wait=wait)
    if status in (408, 425, 500, 502, 503, 504) or status >= 520:
        words = f"{host} has trouble of its own (error {status}). Try again in a while."
        if said and status < 520:
            words = f"{host} has trouble of its own: “{said}”. Try again in a while."
        return Failure(words=words, again=True, wait=retry_after(headers))
    if status in (400, 422) and "tool" in lower and re.search(r"not support|unsupported|does not|jinja", lower):
        return Failure(words=f"“{asked.model}” cannot use tools. Choose another model {IN_SETTINGS}.", kind="tools")
    kind: Kind = "options" if status in (400, 422) and "stream_options" in lower else ""
    what = f": “{said}”" if said else f" (error {status})"
    return Failure(words=f"{host} did not take the request{what}. Look at the model {IN_SETTINGS}.", kind=kind)


def not_reached(asked: Asked, error: Exception) -> Failure:
    """What a connection that did not come about means."""
    address = asked.endpoint.shown
    chain = list(_chain(error))
    name = type(error).__name__
    if any(isinstance(one, socket.gaierror) for one in chain):
        return Failure(words=f"No computer is named {asked.host}. Go online, or correct the address {IN_SETTINGS}.")
    if any(isinstance(one, ssl.SSLError) for one in chain) or "CERTIFICATE" in str(error).upper():
        return Failure(words=f"{asked.host} did not prove that it is {asked.host}. Correct the address {IN_SETTINGS}.")
    if name in ("ConnectError", "ConnectTimeout"):
        return Failure(words=f"Nothing answers at {address}. Start it, or change the address {IN_SETTINGS}.")
    if name in ("ReadTimeout", "WriteTimeout", "PoolTimeout"):
        return Failure(words=f"{asked.host} took the question and said no more. Look at that server, or try again.")
    if name == "ProxyError":
        return Failure(words=f"The proxy before {asked.host} did not let it through. Look at your proxy settings.")
    if name in ("ReadError", "WriteError", "RemoteProtocolError", "CloseError"):
        return Failure(words=f"The connection to {asked.host} broke. Try again.", again=True)
    return Failure(words=f"{asked.host} could not be asked ({name}). Look at the address {IN_SETTINGS}.")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of ``Retry-After`` (RFC 9110, 10.2.3: seconds or a date), None when it is not there or not clear."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError):
            return None
    return max(0.0, seconds) if seconds == seconds and seconds < 10**7 else None


def _said(body: bytes) -> tuple[str, str]:
    """The message and the code that servers put into an error, in the several ways they do."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        text = body[:2000].decode("utf-8", "replace").strip()
        return ("" if text.startswith("<") else text), ""
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or error.get("error") or ""
        code = error.get("code") or error.get("type") or ""
        return (message if isinstance(message, str) else json.dumps(message)), str(code)
    return (error if isinstance(error, str) else ""), ""


def _quota(lower: str) -> bool:
    return "insufficient_quota" in lower or "insufficient credit" in lower or "credit balance" in lower


def _no_model(lower: str, model: str) -> bool:
    if "model_not_found" in lower:
        return True
    named = "model" in lower or model.lower() in lower
    return named and bool(_NO_MODEL.search(lower))


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds)} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{round(seconds / 3600)} hours"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
