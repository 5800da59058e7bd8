"""Searching the work folder, in a process of its own.

A model writes the pattern. Python's ``re`` can be made to run for ever by a short one, and it holds the interpreter's
lock while it does, which would freeze the window; a process can be ended.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from app.tools.base import BadCall, ToolFailed, ToolRefused
from app.tools.folder import Folder
from app.tools.searcher import MOST_MATCHES

SECONDS = 10.0
LONGEST_PATTERN = 2000
Ended = Literal["whole", "late", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    pattern: str
    regex: bool = False
    path: str = ""
    glob: str = ""
    ignore_case: bool = False

    def check(self) -> None:
        """Raises BadCall for a pattern that is none."""
        import re
        import warnings

        if len(self.pattern) > LONGEST_PATTERN:
            raise BadCall(f"“pattern” is longer than {LONGEST_PATTERN} characters.")
        if "\n" in self.pattern and not self.regex:
            raise BadCall("“pattern” is searched for line by line, so it cannot hold a line break.")
        if self.regex:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    re.compile(self.pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise BadCall(f"“pattern” is not a regular expression: {error}.") from None


async def search(path: Path, protected: Iterable[Path], wanted: Wanted) -> str:
    """What was found, for the model. Raises ToolFailed or ToolRefused. Cancelling it ends the process."""
    job = {"folder": str(path), "protected": [str(place) for place in protected], "wanted": asdict(wanted)}
    # Looked at here first, so that a path that may not be touched is refused in the same words as elsewhere.
    await asyncio.to_thread(_look, path, tuple(protected), wanted.path)
    found, end_of_it = await _worker(job)
    matches = [one for one in found if "line" in one]
    end = next((one for one in found if "end" in one), {})
    if (trouble := end.get("trouble")) and not matches:
        raise (ToolRefused if end.get("refused") else ToolFailed)(trouble)
    return _told(matches, end, end_of_it)


def _look(path: Path, protected: tuple[Path, ...], inner: str) -> None:
    Folder(path, protected).parts(inner)


async def _worker(job: dict[str, Any]) -> tuple[list[dict[str, Any]], Ended]:
    def start() -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[2])
        code = "import sys; sys.path.insert(0, sys.argv[1]); from app.tools.searcher import main; main()"
        # -I: nothing of the work folder or of the environment is imported, whatever lies there.
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code, root]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=root, env={})

    loop = asyncio.get_running_loop()
    process = await asyncio.to_thread(start)
    talk = loop.run_in_executor(None, _talk, process, json.dumps(job).encode())
    try:
        out, ended = await asyncio.shield(talk)
    except asyncio.CancelledError:
        process.kill()
        await asyncio.wait([talk])
        raise
    lines = [json.loads(line) for line in out.split(b"\n")[:-1]]
    if ended == "late" and not lines:
        raise ToolFailed(f"The search took over {SECONDS:g} seconds. Search for something simpler, or in a folder.")
    if ended == "died" and not lines:
        raise ToolFailed("The search ended before it found anything. Use a command.")
    return lines, ended


def _talk(process: subprocess.Popen[bytes], data: bytes) -> tuple[bytes, Ended]:
    """The worker's output, and how it ended."""
    with process:
        try:
            out, _ = process.communicate(data, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            return out, "late"
        return out, "whole" if process.returncode == 0 else "died"


def _told(matches: list[dict[str, Any]], end: dict[str, Any], ended: Ended) -> str:
    lines = [f"{one['path']}:{one['line']}: {one['text']}" for one in matches]
    if not lines:
        lines = [f"Nothing found in {end.get('files', 0):,} files."]
    if end.get("more"):
        lines.append(f"… there are more than {MOST_MATCHES}. Search for less, or in a folder.")
    if ended != "whole":
        lines.append("… the search did not come to its end, so there may be more.")
    if end.get("large"):
        lines.append(f"({end['large']:,} files were too large to search.)")
    return "\n".join(lines)
