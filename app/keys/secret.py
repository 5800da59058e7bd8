"""A key in memory, kept from being shown by accident."""

from __future__ import annotations

import weakref
from typing import NoReturn

_SHORTEST = 6
"""Shorter ones are not looked for in the log: hiding "a" everywhere would hide the log."""

_known: weakref.WeakSet[Secret] = weakref.WeakSet()


class Secret:
    """A text that never shows in a repr, an f-string, a log or a pickle. ``reveal`` gives it, where it is sent.

    Two are never equal: whoever compares keys says so with ``reveal``.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        _known.add(self)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return repr(self)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


def known_secrets() -> list[str]:
    """The values of every secret this process holds, longest first, for the log to hide."""
    return sorted({s.reveal() for s in list(_known) if len(s.reveal()) >= _SHORTEST}, key=len, reverse=True)
