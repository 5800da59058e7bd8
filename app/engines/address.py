"""The address of a model's server: what a person may type, and what it becomes."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_VERSION = re.compile(r"v\d+[a-z0-9]*")


class BadAddress(ValueError):
    """``str(error)`` is a sentence for the person. It never repeats what was typed: that could hold a password."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``chat`` is where chat completions are asked for; ``shown`` is the address as words may name it."""

    chat: str
    shown: str
    host: str
    secure: bool
    nearby: bool
    """The host is this computer or one on its own network, so a key may go there over plain http."""
    loopback: bool


def endpoint(base_url: str) -> Endpoint:
    """Reads a base URL, with or without ``/v1``. Raises BadAddress."""
    text = base_url.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadAddress("The address of the model's server is not an address.") from None
    if parts.scheme not in ("http", "https") or not host or port == 0 or re.search(r"[\s\x00-\x1f\\]", text):
        raise BadAddress(
            "The address of a model's server begins with http:// or https:// and a host, as "
            "http://localhost:11434 does."
        )
    if "@" in parts.netloc:
        raise BadAddress("The address of a model's server may not hold a name or a password.")
    if parts.query or parts.fragment:
        raise BadAddress("The address of a model's server has nothing after a “?” or a “#”.")
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    if not any(_VERSION.fullmatch(part) for part in path.split("/")):
        path += "/v1"
    loopback, nearby = _near(host)
    return Endpoint(
        chat=urlunsplit((parts.scheme, parts.netloc, f"{path}/chat/completions", "", "")),
        shown=urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", "")),
        host=host,
        secure=parts.scheme == "https",
        nearby=nearby,
        loopback=loopback,
    )


def _near(host: str) -> tuple[bool, bool]:
    if host == "localhost" or host.endswith(".localhost"):
        return True, True
    try:
        number = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False, "." not in host or host.endswith((".local", ".lan", ".home.arpa", ".internal"))
    return number.is_loopback, number.is_private or number.is_link_local or number.is_loopback
