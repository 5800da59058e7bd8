"""Does a command name a protected place?

A filter against mistakes and plain attempts, beside the box and the covers, which hide those places whatever a command
line says. It reads the line and follows links; it does not run anything, and a line that builds a name in pieces gets
past it. What it refuses it refuses wherever the command would run.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.guard.shell import UNKNOWN, read, substitutions

MOST_WORDS = 5000
MOST_FOLDERS = 32
DEEPEST = 5

# Programs whose arguments can be code: in a text given to one of them, paths count.
_RUNS_CODE = {
    "sh", "bash", "zsh", "dash", "ksh", "fish", "eval", "python", "node", "perl", "ruby", "php", "deno", "bun", "xargs",
    "parallel", "ssh", "su", "runuser", "watch", "script", "awk", "gawk", "osascript", "pwsh", "tclsh", "lua",
}  # fmt: skip
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)[^}]*\}|([A-Za-z_]\w*)|[@*#?$!0-9-])")
_FOLDER_OPTION = re.compile(r"(?:--directory|--cwd|--chdir|--prefix|--git-dir|--work-tree)=(.+)", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_FOLDS = sys.platform in ("darwin", "win32")


def names_protected(command: str | tuple[str, ...], protected: Iterable[Path], folder: Path) -> Path | None:
    """The protected place that the command names, None when it names none. Touches the disk: use it in a thread."""
    finder = _Finder(protected, folder)
    if isinstance(command, str):
        return finder.in_line(command, 0)
    finder.enter([list(command)])
    return finder.in_words(list(command), _runs_code(command), 0)


def path_protected(path: Path, protected: Iterable[Path]) -> Path | None:
    """The protected place that a path is or lies in, links followed."""
    return _Finder(protected, path.parent).at(str(path))


class _Finder:
    def __init__(self, protected: Iterable[Path], folder: Path) -> None:
        self.home = os.environ.get("HOME") or str(Path.home())
        self.variables = {**os.environ, "HOME": self.home, "PWD": str(folder)}
        self.folders = [str(folder)]
        # Both spellings: what the line says is compared as it stands and with its links followed.
        self.places: list[tuple[str, Path]] = []
        for place in protected:
            spellings = dict.fromkeys((os.path.normpath(place), os.path.realpath(place)))
            self.places += [(_fold(spelling), place) for spelling in spellings]
        self.left = MOST_WORDS

    def in_line(self, text: str, depth: int) -> Path | None:
        if depth > DEEPEST:
            return None
        line = read(text)
        self.enter(line.commands)
        runs_code = any(_runs_code(command) for command in line.commands)
        if found := self.in_words(line.words, runs_code, depth):
            return found
        codes = [*line.code, *(code for body in line.texts for code in substitutions(body))]
        if runs_code:
            codes += line.texts
        return next((found for code in codes if (found := self.in_line(code, depth + 1))), None)

    def in_words(self, words: list[str], runs_code: bool, depth: int) -> Path | None:
        for word in words:
            if self.left <= 0:
                return None
            self.left -= 1
            for path in self._paths(word):
                if found := self.at(path):
                    return found
            if runs_code and re.search(r"[\s;&|<>()'\"`,]", word) and (found := self._in_code(word, depth)):
                return found
        return None

    def enter(self, commands: list[list[str]]) -> None:
        """Notes the folders that the line goes to, so that what it then names is looked for there too."""
        for command in commands:
            for place, word in enumerate(command):
                after = command[place + 1] if place + 1 < len(command) else None
                target = None
                if word in ("cd", "pushd") and place == 0:
                    target = next((one for one in command[1:] if not one.startswith("-")), "~")
                elif word in ("-C", "--directory", "--cwd", "--chdir", "--prefix"):
                    target = after
                elif found := _FOLDER_OPTION.fullmatch(word):
                    target = found.group(1)
                if target is not None:
                    new = [path for one in self._paths(target) for path in self._absolute(one)]
                    self.folders = list(dict.fromkeys([*self.folders, *new]))[:MOST_FOLDERS]

    def at(self, path: str) -> Path | None:
        """The protected place that a path names, from any folder that the line is in."""
        for absolute in self._absolute(path):
            if _GLOB.search(absolute) and (found := self._globbed(absolute)):
                return found
            spellings = [absolute]
            with contextlib.suppress(OSError, ValueError):
                spellings.append(os.path.realpath(absolute))
            for spelling in map(_fold, spellings):
                for place, original in self.places:
                    if spelling == place or spelling.startswith(place.rstrip(os.sep) + os.sep):
                        return original
        return None

    # -- within

    def _in_code(self, word: str, depth: int) -> Path | None:
        if found := self.in_line(word, depth + 1):
            return found
        # Other languages quote as a shell does not: every piece that looks like a path counts.
        pieces = re.findall(r"[~$/.\w][^\s'\"`;,()\[\]{}<>|&]*", word)
        return next((found for piece in pieces[:200] for path in self._paths(piece) if (found := self.at(path))), None)

    def _paths(self, word: str) -> Iterator[str]:
        """The paths that a word may mean: whole, and behind what options and lists put before one."""
        if not word or len(word) > 16384:
            return
        for one in _braces(word):
            pieces = [one, *re.split(r"[=:,@]", one)] if re.search(r"[=:,@]", one) else [one]
            if re.match(r"-[A-Za-z].", one):  # an option with its value glued on
                pieces.append(one[2:])
            for piece in dict.fromkeys(pieces):
                if piece and (expanded := self._expand(piece.removeprefix("file://"))):
                    yield expanded

    def _expand(self, text: str) -> str:
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        elif text.startswith("~"):
            text = os.path.expanduser(text)  # noqa: PTH111 - of someone by name; unchanged when there is none
        text = _VARIABLE.sub(lambda found: self.variables.get(found[1] or found[2] or "", UNKNOWN), text)
        head, unknown, tail = text.rpartition(UNKNOWN)
        if not unknown:
            return text
        # What was in front cannot be known. Behind it, a name below the home folder is taken to be below it.
        return f"{self.home}{tail}" if tail.startswith("/") else head.replace(UNKNOWN, "") + tail

    def _absolute(self, path: str) -> Iterator[str]:
        if "\0" in path:
            return
        if os.path.isabs(path):  # noqa: PTH117
            yield os.path.normpath("/" + path.lstrip("/") if os.sep == "/" else path)
        else:
            for folder in self.folders:
                yield os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - texts, and many of them

    def _globbed(self, pattern: str) -> Path | None:
        parts = Path(_fold(pattern)).parts
        for place, original in self.places:
            names = Path(place).parts
            if len(parts) >= len(names) and all(map(_fits, names, parts)):
                return original
        return None


def _fits(name: str, pattern: str) -> bool:
    # As a shell does it: a leading dot is only matched by a dot.
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatch.fnmatchcase(name, pattern)


def _braces(word: str, most: int = 64) -> list[str]:
    done: list[str] = []
    words = [word]
    while words and len(done) + len(words) < most:
        one = words.pop()
        if (found := _BRACES.search(one)) is None:
            done.append(one)
        else:
            words += [one[: found.start()] + choice + one[found.end() :] for choice in found.group(1).split(",")]
    return done + words


def _runs_code(command: Iterable[str]) -> bool:
    return any(re.sub(r"[\d.]+$", "", word.rpartition("/")[2]) in _RUNS_CODE for word in command)


def _fold(path: str) -> str:
    return path.casefold() if _FOLDS else path
