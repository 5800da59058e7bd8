"""The file tools. They always work on the work folder here, wherever the chat's commands run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from app.engines.base import ToolSpec
from app.tools.base import BadCall, Planned, ToolFailed, take_flag, take_number, take_text
from app.tools.folder import Folder, Parts, show
from app.tools.listing import list_files
from app.tools.search import Wanted, search
from app.tools.writing import Stamp, may_write, put

LARGEST_READ = 20 * 1024 * 1024
LARGEST_WRITE = 4 * 1024 * 1024
MOST_SHOWN = 48 * 1024
LONGEST_LINE = 2000
MOST_LINES = 2000

_PATH = {"type": "string", "description": "Path from the work folder."}


def _spec(name: str, description: str, properties: dict[str, Any], required: list[str]) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=parameters)


SPECS: Final[tuple[ToolSpec, ...]] = (
    _spec(
        "read_file",
        "Reads a text file of the work folder, with line numbers. Long files come in parts.",
        {
            "path": _PATH,
            "start_line": {"type": "integer", "minimum": 1, "description": "The first line to show. 1 unless given."},
            "max_lines": {"type": "integer", "minimum": 1, "maximum": MOST_LINES},
        },
        ["path"],
    ),
    _spec(
        "write_file",
        "Writes a whole text file of the work folder, new or in place of the old one. Missing folders are made.",
        {"path": _PATH, "content": {"type": "string", "description": "All of the file."}},
        ["path", "content"],
    ),
    _spec(
        "edit_file",
        "Replaces a piece of a text file. old_string must be there exactly, white space included, and only once, "
        "unless replace_all is true. It has no line numbers in it.",
        {
            "path": _PATH,
            "old_string": {"type": "string"},
            "new_string": {"type": "string"},
            "replace_all": {"type": "boolean", "description": "Replace each place. False unless given."},
        },
        ["path", "old_string", "new_string"],
    ),
    _spec(
        "list_files",
        "Lists what is in a folder of the work folder. Dependency folders and .git are named, not opened.",
        {
            "path": {"type": "string", "description": "The folder, from the work folder. All of it unless given."},
            "depth": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How deep. 2 unless given."},
        },
        [],
    ),
    _spec(
        "search_files",
        "Searches the text files of the work folder, line by line. .git, dependency folders and binary files are "
        "passed over.",
        {
            "pattern": {"type": "string", "description": "The text to find, or a regular expression."},
            "regex": {"type": "boolean", "description": "The pattern is a regular expression. False unless given."},
            "path": {"type": "string", "description": "The folder or file to search. All of it unless given."},
            "glob": {"type": "string", "description": "Only files whose name or path fits, such as *.py."},
            "ignore_case": {"type": "boolean"},
        },
        ["pattern"],
    ),
)
NAMES: Final = frozenset(spec.name for spec in SPECS)


class FileTools:
    """The file tools on one work folder."""

    def __init__(self, folder: Path, protected: Iterable[Path] = ()) -> None:
        self._path = folder
        self._protected = tuple(protected)

    def plan(self, name: str, arguments: dict[str, Any]) -> Planned:
        """Reads a call. Touches nothing. Raises BadCall."""
        match name:
            case "read_file":
                return self._read(arguments)
            case "write_file":
                return self._write(arguments)
            case "edit_file":
                return self._edit(arguments)
            case "list_files":
                return self._list(arguments)
            case "search_files":
                return self._search(arguments)
        raise BadCall(f"There is no tool “{name}”.")

    # -- the tools

    def _read(self, arguments: dict[str, Any]) -> Planned:
        path = take_text(arguments, "path")
        start = take_number(arguments, "start_line", default=1, least=1, most=10**9)
        lines = take_number(arguments, "max_lines", default=MOST_LINES, least=1, most=MOST_LINES)

        def work(folder: Folder) -> str:
            parts = folder.parts(path)
            return numbered(show(parts), _text(parts, _content(folder, parts)[0], strict=False), start, lines)

        return self._planned(f"Read {show(path)}", False, work)

    def _write(self, arguments: dict[str, Any]) -> Planned:
        path = take_text(arguments, "path")
        content = take_text(arguments, "content", empty=True)
        data = _encoded(content)

        def check(folder: Folder) -> str:
            parts = folder.parts(path)
            may_write(folder, parts)
            return ""

        def work(folder: Folder) -> str:
            parts = folder.parts(path)
            new = put(folder, parts, data)
            return f"{'Made' if new else 'Wrote'} {show(parts)}: {_lines(content)}."

        return self._planned(f"Wrote {show(path)}", True, work, check)

    def _edit(self, arguments: dict[str, Any]) -> Planned:
        path = take_text(arguments, "path")
        old = take_text(arguments, "old_string")
        new = take_text(arguments, "new_string", empty=True)
        every = take_flag(arguments, "replace_all")
        if old == new:
            raise BadCall("“old_string” and “new_string” are the same, so nothing would change.")
        _encoded(new)

        def prepare(folder: Folder) -> tuple[Parts, bytes, Stamp, int]:
            parts = folder.parts(path)
            may_write(folder, parts)
            raw, stamp = _content(folder, parts)
            data, count = edited(parts, raw, old, new, every)
            return parts, data, stamp, count

        def check(folder: Folder) -> str:
            prepare(folder)
            return ""

        def work(folder: Folder) -> str:
            parts, data, stamp, count = prepare(folder)
            put(folder, parts, data, expected=stamp)
            return f"Changed {show(parts)} in {count} {'place' if count == 1 else 'places'}."

        return self._planned(f"Edited {show(path)}", True, work, check)

    def _list(self, arguments: dict[str, Any]) -> Planned:
        path = take_text(arguments, "path", default="")
        depth = take_number(arguments, "depth", default=2, least=1, most=20)
        words = f"Listed the files in {show(path)}" if path.strip("./") else "Listed the files"
        return self._planned(words, False, lambda folder: list_files(folder, folder.parts(path), depth))

    def _search(self, arguments: dict[str, Any]) -> Planned:
        wanted = Wanted(
            pattern=take_text(arguments, "pattern"),
            regex=take_flag(arguments, "regex"),
            path=take_text(arguments, "path", default=""),
            glob=take_text(arguments, "glob", default=""),
            ignore_case=take_flag(arguments, "ignore_case"),
        )
        wanted.check()

        async def run() -> str:
            return await search(self._path, self._protected, wanted)

        return Planned(words=f"Searched for “{show(wanted.pattern)[:80]}”", changes=False, check=_nothing, run=run)

    def _planned(
        self, words: str, changes: bool, work: Callable[[Folder], str], check: Callable[[Folder], str] | None = None
    ) -> Planned:
        def with_folder(job: Callable[[Folder], str]) -> str:
            try:
                return job(Folder(self._path, self._protected))
            except (OSError, ValueError) as error:  # what the steps themselves did not put into words
                raise ToolFailed(f"It did not work: {error}.") from error

        async def run() -> str:
            return await asyncio.to_thread(with_folder, work)

        async def look() -> None:
            if check is not None:
                await asyncio.to_thread(with_folder, check)

        return Planned(words=words, changes=changes, check=look, run=run)


async def _nothing() -> None:
    pass


def _content(folder: Folder, parts: Parts) -> tuple[bytes, Stamp]:
    with folder.file(parts) as number:
        found = os.fstat(number)
        if found.st_size > LARGEST_READ:
            raise ToolFailed(f"{show(parts)} is {found.st_size // 2**20} MB: too large to read whole. Use a command.")
        data = bytearray()
        while chunk := os.read(number, 1024 * 1024):
            data += chunk
            if len(data) > LARGEST_READ:
                raise ToolFailed(f"{show(parts)} grows while it is read. Use a command.")
        return bytes(data), Stamp.of(found)


def _text(parts: Parts, raw: bytes, *, strict: bool) -> str:
    if b"\0" in raw[:8192] or (strict and b"\0" in raw):
        raise ToolFailed(f"{show(parts)} is a binary file, {len(raw):,} bytes.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        if strict:
            raise ToolFailed(f"{show(parts)} is not UTF-8 text, so it is not changed. Use a command.") from None
        return raw.decode("utf-8", "replace")


def _encoded(content: str) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise BadCall("The text holds half a character, so it cannot be written.") from None
    if len(data) > LARGEST_WRITE:
        raise BadCall(f"The text is {len(data):,} bytes. At most {LARGEST_WRITE:,} can be written at once.")
    return data


def numbered(name: str, text: str, start: int, count: int) -> str:
    """A part of a text with line numbers, bounded, with what is not shown said."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return f"{name} is empty."
    if start > len(lines):
        raise ToolFailed(f"{name} has {_count(len(lines))} only.")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[start - 1 : start - 1 + count], start):
        line = line.removesuffix("\r")
        if len(line) > LONGEST_LINE:
            line = f"{line[:LONGEST_LINE]}… ({len(line) - LONGEST_LINE} more characters)"
        size += len(line) + 8
        if size > MOST_SHOWN and shown:
            break
        shown.append(f"{number:>6}\t{line}")
    last = start + len(shown) - 1
    more = "" if last == len(lines) else f" Go on with start_line {last + 1}."
    return "\n".join([f"{name}, lines {start} to {last} of {len(lines)}.{more}", *shown])


def edited(parts: Parts, raw: bytes, old: str, new: str, every: bool) -> tuple[bytes, int]:
    """The file with the piece replaced, and in how many places. Raises ToolFailed when it is not there exactly once."""
    text = _text(parts, raw, strict=True)
    # A model sees no "\r" at a line's end, so a file that has one at each gets what it writes the same way.
    newlines = raw.count(b"\n")
    if newlines and newlines == raw.count(b"\r\n"):
        old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (old, new))
    count = text.count(old)
    if count == 0:
        raise ToolFailed(f"old_string is not in {show(parts)}. Read the file, and give it exactly as it is there.")
    if count > 1 and not every:
        raise ToolFailed(f"old_string is in {show(parts)} {count} times. Give more of it, or set replace_all.")
    data = text.replace(old, new).encode("utf-8")
    if len(data) > LARGEST_READ:
        raise ToolFailed(f"{show(parts)} would grow to {len(data):,} bytes. Use a command.")
    return data, count


def _lines(content: str) -> str:
    return _count(content.count("\n") + (1 if content and not content.endswith("\n") else 0))


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"
