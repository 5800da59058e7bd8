"""Bytes a command printed, made into text that can do nothing but be read.

Works on any cut: feeding a text in one piece or byte by byte gives the same. What is taken out: everything a terminal
would *obey* (CSI, OSC, DCS and their kin, C0 and C1 controls but newline, tab and carriage return; ECMA-48), and the
marks that turn the reading direction round (Unicode TR 9: embeddings, overrides, isolates), with which a line can be
made to read as another. Bytes that are not UTF-8 become U+FFFD, one for each.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum, auto

_SPECIAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")
_CSI_END = re.compile("[^ -?]")
_INTERMEDIATE_END = re.compile("[^ -/]")
# A newline ends an unfinished string too: no real one holds a line break, and noise must not swallow what follows.
_STRING_END = re.compile("[\x07\n\x18\x1a\x1b\x9c]")
_LOST = "\ufffd"


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()  # after ESC
    INTERMEDIATE = auto()  # ESC and at least one of space…/
    CSI = auto()
    STRING = auto()  # the body of OSC, DCS, SOS, PM, APC
    STRING_ESCAPE = auto()  # ESC within one: "\" ends it


_C1 = {"\x9b": _State.CSI, **dict.fromkeys("\x90\x98\x9d\x9e\x9f", _State.STRING)}
_AFTER_ESCAPE = {"[": _State.CSI, **dict.fromkeys("]PX^_", _State.STRING), "\x1b": _State.ESCAPE}


class Cleaner:
    """One stream's bytes to clean text, as they come. ``lossy`` turns True once a byte was no UTF-8."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._state = _State.TEXT
        self.lossy = False

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Gives the clean text of what is complete; ``final`` gives half a character as U+FFFD too."""
        text = self._decoder.decode(data, final)
        if self._state is _State.TEXT and not _SPECIAL.search(text):
            return text
        return self._clean(text)

    def _clean(self, text: str) -> str:
        parts: list[str] = []
        at, size = 0, len(text)
        while at < size:
            if self._state is _State.TEXT:
                special = _SPECIAL.search(text, at)
                if special is None:
                    parts.append(text[at:])
                    break
                parts.append(text[at : special.start()])
                at = special.end()
                parts.append(self._meet(special[0]))
            else:
                at = self._skip(text, at)
        return "".join(parts)

    def _meet(self, letter: str) -> str:
        """Meets a character that is not plain text: goes where it leads and gives what is shown for it."""
        if letter >= "\udc80":
            self.lossy = True
            return _LOST
        if letter == "\x1b":
            self._state = _State.ESCAPE
        else:
            self._state = _C1.get(letter, _State.TEXT)
        return ""

    def _skip(self, text: str, at: int) -> int:
        """Goes on through a sequence from ``at``. Gives where to go on; a character that is no part of it stays."""
        if self._state in (_State.ESCAPE, _State.STRING_ESCAPE):
            return self._after_escape(text, at)
        ends = {_State.CSI: _CSI_END, _State.INTERMEDIATE: _INTERMEDIATE_END}.get(self._state, _STRING_END)
        found = ends.search(text, at)
        if found is None:
            return len(text)
        letter, at = found[0], found.start()
        if self._state is _State.STRING:
            if letter == "\x1b":
                self._state = _State.STRING_ESCAPE
                return at + 1
            self._state = _State.TEXT
            return at if letter == "\n" else at + 1
        final = "@" <= letter <= "~" if self._state is _State.CSI else "0" <= letter <= "~"
        self._state = _State.TEXT
        return at + 1 if final else at

    def _after_escape(self, text: str, at: int) -> int:
        letter = text[at]
        if self._state is _State.STRING_ESCAPE and letter == "\\":
            self._state = _State.TEXT
            return at + 1
        if letter in _AFTER_ESCAPE:
            self._state = _AFTER_ESCAPE[letter]
            return at + 1
        if " " <= letter <= "/":
            self._state = _State.INTERMEDIATE
            return at + 1
        self._state = _State.TEXT
        return at + 1 if "0" <= letter <= "~" else at


def fold(text: str) -> str:
    """The text as a terminal would leave it: a carriage return starts its line again.

    What is left of a line is what was last written on it. (A terminal would keep the rest of a longer one before it;
    programs erase that with a sequence that is not in the text any more.)
    """
    if "\r" not in text:
        return text
    return "\n".join(_last(line) if "\r" in line else line for line in text.split("\n"))


def _last(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")
