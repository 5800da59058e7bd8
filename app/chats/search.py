"""Searching the chats: what was typed becomes a query, what was found a line to show."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AROUND = 48
"""Characters shown on each side of a match."""

_SHORTEST = 3
"""A trigram index cannot find fewer letters: those are looked for one text after the other."""


@dataclass(frozen=True, slots=True)
class Query:
    """All its ``terms`` must be there. ``match`` is for the index, ``likes`` are patterns for what it cannot find."""

    terms: tuple[str, ...]
    match: str
    likes: tuple[str, ...]


def query(text: str, *, trigram: bool) -> Query | None:
    """Reads what was typed. Nothing that a person types is an operator. None when it is empty."""
    terms = tuple(dict.fromkeys(text.replace("\0", " ").split()))[:16]
    if not terms:
        return None
    long = [term for term in terms if not trigram or len(term) >= _SHORTEST]
    short = [term for term in terms if term not in long]
    quoted = ['"' + term.replace('"', '""') + '"' for term in long]
    # Without trigrams the index holds whole words: the last may still be on its way.
    return Query(terms, " ".join(quoted if trigram else [f"{one} *" for one in quoted]), tuple(map(like, short)))


def like(term: str) -> str:
    """A LIKE pattern (with ESCAPE '\\') for a text that holds the term."""
    escaped = re.sub(r"([\\%_])", r"\\\1", term)
    return f"%{escaped}%"


def snippet(text: str, terms: tuple[str, ...]) -> str:
    """The text round the first term found, on one line, each term in it between ``[[ ]]``."""
    pattern = re.compile("|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True)), re.IGNORECASE)
    found = pattern.search(text)
    start, end = found.span() if found else (0, 0)
    left, right = max(0, start - _AROUND), min(len(text), end + _AROUND)
    line, at = [], left
    for match in pattern.finditer(text, left, right):
        line += [_plain(text[at : match.start()]), "[[", _plain(match.group()), "]]"]
        at = match.end()
    line.append(_plain(text[at:right]))
    shown = " ".join("".join(line).split())
    return ("…" if left else "") + shown + ("…" if right < len(text) else "")


def _plain(text: str) -> str:
    # A shell's own [[ ]] must not read as our marks; a word joiner between them is not seen.
    text = re.sub(r"(?<=[\[\]])(?=[\[\]])|^(?=[\[\]])|(?<=[\[\]])$", "\u2060", text)
    return "".join(letter if letter.isprintable() or letter == "\u2060" else " " for letter in text)
