"""The list of hosts that an open box may reach: read, and asked about a name or an address. Touches no network."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from workplaces.words import PLACE_WORDS

PORT = 3128  # where the proxy listens, on the loopback of a box
NAMES_PORT = 53  # and what stands where a name server would
HTTPS = 443
MOST_NAMES = 100
_MOST_SHOWN = 20
MOST_TRIED = 20
LONGEST_TRIED = 253 + len(":65535")

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})+", re.ASCII)
_ODD = re.compile(r"[^A-Za-z0-9._:\[\]-]")
# What an IPv6 address may carry inside it: a translator on the way would make this IPv4 address of it.
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_NEVER = (
    ipaddress.ip_network("::/96"),  # IPv4-compatible
    ipaddress.ip_network("64:ff9b:1::/48"),  # a network's own translator
    ipaddress.ip_network("fec0::/10"),  # site-local
    ipaddress.ip_network("2001::/32"),  # Teredo
    ipaddress.ip_network("2002::/16"),  # 6to4
)


class BadHosts(ValueError):
    """A text that is no list of hosts. ``str(error)`` is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class HostList:
    """The names, small letters. ``*.name`` stands for every name below it, and not for the name itself."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> HostList | None:
        """Reads names with spaces or commas between them. None for an empty text: there is no list.

        Raises BadHosts, with words, for anything that is not a name.
        """
        names = dict.fromkeys(_read(word) for word in re.split(r"[\s,]+", text) if word)
        if len(names) > MOST_NAMES:
            raise BadHosts(PLACE_WORDS["hosts.bad.many"].format(count=MOST_NAMES))
        return cls(tuple(names)) if names else None

    def allows(self, name: str) -> bool:
        """Whether a name is on the list. It is compared as ``plain_name`` gives it."""
        return any(
            name.endswith(known[1:]) and len(name) >= len(known) if known.startswith("*") else name == known
            for known in self.names
        )

    def __str__(self) -> str:
        """For a sentence: as many as people read."""
        more = len(self.names) - _MOST_SHOWN
        shown = ", ".join(self.names[:_MOST_SHOWN])
        return f"{shown} {PLACE_WORDS['hosts.more'].format(count=more)}" if more > 0 else shown


def _read(word: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in word)[:100]
    star, name = ("*.", word[2:]) if word.startswith("*.") else ("", word)
    try:
        plain = plain_name(name if name.isascii() else name.encode("idna").decode("ascii"))
    except UnicodeError:
        plain = ""
    if not plain:
        wide = word == "*" or (star and re.fullmatch(_LABEL, name.lower(), re.ASCII))
        raise BadHosts(PLACE_WORDS["hosts.bad.wide" if wide else "hosts.bad.name"].format(name=shown))
    return star + plain


def plain_name(text: str) -> str:
    """A host's name in small letters, without a dot at its end; empty when it is none.

    An address is none, in whatever way it is written, and neither is a name without a dot.
    """
    name = text.lower().removesuffix(".")
    last = name.rpartition(".")[2]
    if len(name) > 253 or not _NAME.fullmatch(name) or last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        return ""
    return name


def is_public(address: str) -> bool:
    """Whether an address is one of the internet's, and not this computer's, a private network's or nobody's."""
    try:
        found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address)
    except ValueError:  # "fe80::1%eth0" is one, and no good one
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id:
            return False
        if found in _TRANSLATED:
            found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        elif found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif any(found in network for network in _NEVER):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def shown_target(host: str, port: str | int) -> str:
    """What was tried, as a row may show it: ``host:port``, bounded, nothing but letters of names and addresses.

    Without a ``port`` (a name that was only looked up) it is the name.
    """
    name = _ODD.sub("?", host)[:253] or "?"
    if not (number := str(port)):
        return name
    return f"{name}:{number if number.isascii() and number.isdecimal() and len(number) <= 5 else '?'}"


class Tried:
    """What a command tried to reach and was refused, each once, in the order it came, bounded."""

    def __init__(self) -> None:
        self._targets: dict[str, None] = {}
        self.left_out = 0

    def add(self, host: str, port: str | int) -> None:
        target = shown_target(host, port)
        if target in self._targets:
            return
        if len(self._targets) >= MOST_TRIED:
            self.left_out += 1
            return
        self._targets[target] = None

    def targets(self) -> tuple[str, ...]:
        return tuple(self._targets)


def environment() -> list[str]:
    """What tells the programs in a box where the proxy is. Both spellings: curl reads only the small ``http_proxy``."""
    proxy = f"http://127.0.0.1:{PORT}"
    told = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1,::1"}
    both = [f"{spelled}={value}" for name, value in told.items() for spelled in (name, name.lower())]
    return [*both, "NODE_USE_ENV_PROXY=1"]
