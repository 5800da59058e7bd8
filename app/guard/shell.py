"""A shell line taken apart, roughly: words without their quotes, and the code inside them.

It is for a filter against mistakes, not for running anything: what it cannot read it passes on as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

UNKNOWN = "\0"
"""Stands in a word for what a substitution would give."""

_BREAKS = frozenset(";&|()<>\n")
_HEREDOC = re.compile(r"<<-?[ \t]*(\\?)(['\"]?)([A-Za-z_0-9.-]+)\2")
_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|.)", re.DOTALL)
LARGEST = 256 * 1024


@dataclass(slots=True)
class Line:
    """``words`` by simple command; ``code`` what substitutions would run; ``texts`` here-document bodies."""

    commands: list[list[str]] = field(default_factory=lambda: [[]])
    code: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [word for command in self.commands for word in command]


def read(text: str) -> Line:
    """Takes a shell line apart. Never raises."""
    line = Line()
    _Reader(_without_heredocs(text[:LARGEST].replace(UNKNOWN, ""), line), line).read()
    return line


def substitutions(text: str) -> list[str]:
    """The code that ``$(…)`` and backticks in a text would run."""
    line = Line()
    _Reader(text, line).quoted()
    return line.code


def _without_heredocs(text: str, line: Line) -> str:
    kept: list[str] = []
    rows = iter(text.split("\n"))
    for row in rows:
        kept.append(_HEREDOC.sub(" ", row))
        for found in _HEREDOC.finditer(row):
            body: list[str] = []
            for inner in rows:
                if inner.lstrip("\t") == found.group(3):
                    break
                body.append(inner)
            line.texts.append("\n".join(body))
    return "\n".join(kept)


class _Reader:
    def __init__(self, text: str, line: Line) -> None:
        self.text = text
        self.line = line
        self.at = 0
        self.word: list[str] | None = None

    def read(self) -> None:
        text = self.text
        while self.at < len(text):
            letter = text[self.at]
            self.at += 1
            if letter in " \t\r":
                self._end_word()
            elif letter in _BREAKS:
                self._end_word()
                if letter not in "<>" and self.line.commands[-1]:
                    self.line.commands.append([])
            elif letter == "#" and self.word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif letter == "\\":
                if text[self.at : self.at + 1] != "\n":
                    self._put(text[self.at : self.at + 1])
                self.at += 1
            elif letter == "'":
                self._put(self._until("'"))
            elif letter == '"':
                self._put("")
                self.quoted('"')
            elif letter == "$" and text[self.at : self.at + 1] == "'":
                self.at += 1
                self._put(_ANSI_C.sub(_escape, self._until_unescaped("'")))
            else:
                self._other(letter)
        self._end_word()

    def quoted(self, end: str = "") -> None:
        """Up to the closing quote (or the end): only substitutions and backslashes mean something."""
        while self.at < len(self.text):
            letter = self.text[self.at]
            self.at += 1
            if letter == end:
                return
            if letter == "\\":
                self._put(self.text[self.at : self.at + 1])
                self.at += 1
            else:
                self._other(letter)

    def _other(self, letter: str) -> None:
        if letter == "`":
            self.line.code.append(self._until("`"))
            self._put(UNKNOWN)
        elif letter == "$" and self.text[self.at : self.at + 1] == "(":
            self.at += 1
            self.line.code.append(self._until_closed())
            self._put(UNKNOWN)
        elif letter == "$" and self.text[self.at : self.at + 1] == "{":
            self._put("$" + self._until("}") + "}")
        else:
            self._put(letter)

    def _put(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def _end_word(self) -> None:
        if self.word is not None:
            self.line.commands[-1].append("".join(self.word))
            self.word = None

    def _until(self, end: str) -> str:
        found = self.text.find(end, self.at)
        found = len(self.text) if found < 0 else found
        inner = self.text[self.at : found]
        self.at = found + 1
        return inner

    def _until_unescaped(self, end: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] != end:
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1
        return self.text[start : self.at - 1]

    def _until_closed(self) -> str:
        start, depth = self.at, 1
        while self.at < len(self.text) and depth:
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
        return self.text[start : self.at - (0 if depth else 1)]


def _escape(found: re.Match[str]) -> str:
    what = found.group(1)
    if what[0] in "xu":
        return chr(int(what[1:], 16)) if len(what) > 1 else what
    if what[0] in "01234567":
        return chr(int(what, 8) & 0xFF)
    return {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b"}.get(what, what)
