"""The search worker: reads one job from stdin, prints a line of JSON for each match and one for the end.

Standard library only, and nothing of Conch but the work folder's own files: it starts once for each search.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.tools.base import ToolFailed, ToolRefused
from app.tools.folder import Folder, Parts, show
from app.tools.listing import walk

LARGEST_FILE = 4 * 1024 * 1024
MOST_MATCHES = 200
LONGEST_TEXT = 300
DEEPEST = 100


def main() -> None:
    if hasattr(signal, "alarm"):
        # Should whoever asked be gone: this process ends by itself, also from within a pattern that never does.
        signal.alarm(60)
        os.nice(5)
    job = json.loads(sys.stdin.buffer.read())
    end: dict[str, Any] = {"end": True, "files": 0, "large": 0}
    try:
        for count, match in enumerate(matches(job, end)):
            if count >= MOST_MATCHES:
                end["more"] = True
                break
            _print(match)
    except ToolFailed as trouble:
        end |= {"trouble": str(trouble), "refused": isinstance(trouble, ToolRefused)}
    _print(end)


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def matches(job: dict[str, Any], end: dict[str, Any]) -> Iterator[dict[str, Any]]:
    wanted = job["wanted"]
    folder = Folder(Path(job["folder"]), [Path(place) for place in job["protected"]])
    top = folder.parts(wanted["path"])
    finds = finder(wanted["pattern"], wanted["regex"], wanted["ignore_case"])
    for parts, number in _files(folder, top, wanted["glob"]):
        try:
            if os.fstat(number).st_size > LARGEST_FILE:
                end["large"] += 1
                continue
            with os.fdopen(os.dup(number), "rb") as file:
                raw = file.read(LARGEST_FILE)
        finally:
            os.close(number)
        if b"\0" in raw[:8192]:
            continue
        end["files"] += 1
        for line, text in enumerate(raw.decode("utf-8", "replace").split("\n"), 1):
            if (at := finds(text)) >= 0:
                yield {"path": show(parts), "line": line, "text": _cut(text.strip("\r"), at)}


def _files(folder: Folder, top: Parts, glob: str) -> Iterator[tuple[Parts, int]]:
    """Descriptors of the plain files to search; whoever takes one closes it."""
    try:
        found = walk(folder, top, DEEPEST)
        first = next(found, None)
    except ToolRefused:
        raise
    except ToolFailed:
        # Not a folder: a file that was named is searched whatever the glob says.
        with folder.directory(top[:-1]) as parent:
            yield top, folder.open_file(parent, top)
        return
    while first is not None:
        if first.kind == "file" and _fits(first.parts, top, glob):
            with contextlib.suppress(ToolFailed):  # it went, or may not be read: what is left is searched
                yield first.parts, folder.open_file(first.parent, first.parts)
        first = next(found, None)


def _fits(parts: Parts, top: Parts, glob: str) -> bool:
    if not glob:
        return True
    path = "/".join(parts)
    pattern = glob.removeprefix("./").replace("**/", "*")
    return any(fnmatch.fnmatchcase(name, pattern) for name in (parts[-1], path, "/".join(parts[len(top) :])))


def finder(pattern: str, regex: bool, ignore_case: bool) -> Callable[[str], int]:
    """A function that gives where in a line the pattern is, or -1."""
    if not regex and not ignore_case:
        return lambda line: line.find(pattern)
    compiled = re.compile(pattern if regex else re.escape(pattern), re.IGNORECASE if ignore_case else 0)

    def find(line: str) -> int:
        found = compiled.search(line)
        return found.start() if found else -1

    return find


def _cut(text: str, at: int) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    start = max(0, at - LONGEST_TEXT // 3)
    return f"{'…' if start else ''}{text[start : start + LONGEST_TEXT]}…"
