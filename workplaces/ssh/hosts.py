"""The machines in the person's SSH settings: their names, and nothing else.

What a name *means* (address, user, keys, jumps) is for ``ssh`` itself to say (``meaning.py``). Read here is only which
names there are, as ssh_config(5) has it: ``Host`` lines and the files that ``Include`` brings.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workplaces.place import BadPlace, WorkPlaceId

# ssh(1) gives up at sixteen files within files.
_DEEPEST = 16
_LARGEST_FILE = 4 * 1024 * 1024
_MOST_READS = 512
_KEYWORD = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+|$)(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")

_Seen = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostList:
    """``names`` in the order of the file, each once. ``unreadable`` are files that are there and cannot be read."""

    names: tuple[str, ...] = ()
    unreadable: tuple[Path, ...] = ()


@dataclass(slots=True)
class _Reading:
    """What one reading came by: the names, and what must stay as it is for the answer to hold."""

    names: dict[str, None] = field(default_factory=dict)
    unreadable: list[Path] = field(default_factory=list)
    files: dict[Path, _Seen] = field(default_factory=dict)
    globs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reads: int = 0
    open: list[Path] = field(default_factory=list)


class Hosts:
    """The machines of one settings file. ``read`` and ``changed`` touch the disk, so they belong in a thread."""

    def __init__(self, settings: Path | None = None) -> None:
        self.settings = settings or Path.home() / ".ssh" / "config"
        self._last: _Reading | None = None

    def read(self) -> HostList:
        """The machines as the file says now. A file that is not there holds none; this never raises."""
        if self._last is None or self.changed():
            reading = _Reading()
            _read(self.settings, reading, self.settings.parent, ())
            self._last = reading
        return HostList(names=tuple(self._last.names), unreadable=tuple(self._last.unreadable))

    def changed(self) -> bool:
        """Whether a file that was read, or what an Include finds, is another since. Cheap: it opens no file."""
        last = self._last
        if last is None:
            return True
        if any(_seen(path) != seen for path, seen in last.files.items()):
            return True
        return any(_found(pattern) != found for pattern, found in last.globs.items())


def _read(path: Path, reading: _Reading, base: Path, within: tuple[str, ...]) -> None:
    """Takes in one file. ``within`` are the patterns of the Host block that includes it, none when it always holds."""
    if len(reading.open) > _DEEPEST or reading.reads >= _MOST_READS or path in reading.open:
        return
    reading.reads += 1
    reading.open.append(path)
    try:
        _take_in(path, reading, base, within)
    finally:
        reading.open.pop()


def _take_in(path: Path, reading: _Reading, base: Path, within: tuple[str, ...]) -> None:
    reading.files[path] = _seen(path)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE)
    except FileNotFoundError:
        return
    except OSError:
        if path not in reading.unreadable:
            reading.unreadable.append(path)
        return
    block = within
    for keyword, words in _lines(data):
        if keyword == "host":
            block = tuple(words)
            for name in words:
                if _is_machine(name) and _matches(name, within):
                    reading.names.setdefault(name)
        elif keyword == "match":
            block = within  # what it asks only ssh can tell: it hides nothing
        elif keyword == "include":
            for word in words:
                pattern = _place(word, base)
                found = reading.globs[pattern] = _found(pattern)
                for file_name in found:
                    _read(Path(file_name), reading, base, block)


def _lines(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """Each line's keyword, in small letters, and its words."""
    text = data.decode("utf-8-sig", "replace")
    for line in re.split(r"\r?\n|\r", text):
        found = _KEYWORD.match(line)
        if found is not None:
            yield found[1].lower(), _words(found[2])


def _words(text: str) -> list[str]:
    """A line's words, as OpenSSH splits them: quotes of either kind, ``\\`` before a quote, a space or itself, and a
    comment at the end."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "\\" and at < len(text) and (text[at] in "\\\"'" or (text[at] == " " and not quote)):
            word = [*(word or ()), text[at]]
            at += 1
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = [*(word or ()), letter]
        elif letter in "\"'":
            quote = letter
            word = word or []
        elif letter in " \t\f\v":
            if word is not None:
                words.append("".join(word))
            word = None
        elif letter == "#" and word is None:
            break
        else:
            word = [*(word or ()), letter]
    if word is not None:
        words.append("".join(word))
    return words


def _is_machine(name: str) -> bool:
    """Whether a Host word names one machine: no pattern, no negation, nothing that could read as an option."""
    if not name or any(letter in name for letter in "*?!"):
        return False
    try:
        return WorkPlaceId.parse(f"ssh:{name}").host == name
    except BadPlace:
        return False


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a block of these patterns holds for the name (ssh_config(5), PATTERNS). No patterns: always."""
    if not patterns:
        return True
    held = [pattern for pattern in patterns if _fits(name, pattern.removeprefix("!"))]
    return bool(held) and not any(pattern.startswith("!") for pattern in held)


def _fits(name: str, pattern: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _place(word: str, base: Path) -> str:
    """Where an Include looks: absolute, from the home folder, or beside the settings file."""
    word = _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), word)
    return str(base / os.path.expanduser(word))  # noqa: PTH111 - Path.expanduser raises where nobody has that name


def _found(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(glob.glob(pattern))[:_MOST_READS])  # noqa: PTH207 - Path.glob takes no absolute pattern
    except (OSError, ValueError):
        return ()


def _seen(path: Path) -> _Seen:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
