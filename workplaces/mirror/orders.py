"""What a push does there, as lines for the script's shell. A name is quoted whole: no letter in it means anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from workplaces.mirror import there
from workplaces.mirror.far import quoted
from workplaces.mirror.there import There

# How many names one program gets, and how many letters.
_NAMES = 200
# Up to how many files are looked at by their names after a push; beyond that everything is listed.
_SHOWN = 500
_LETTERS = 50_000


class Orders:
    """Collects the lines. ``paths`` says for each number of a group what it was about, for when it answers ``=Z``."""

    def __init__(self, over_there: There) -> None:
        self._there = over_there
        self._lines: list[str] = []
        self.paths: dict[int, list[str]] = {}
        self._whole = False

    @property
    def some(self) -> bool:
        """Whether it is enough to look at what was touched: few files, and no folder made or removed."""
        return not self._whole and sum(len(paths) for paths in self.paths.values()) <= _SHOWN

    def text(self) -> bytes:
        """What is done."""
        lines = (*self._lines, "some=yes" if self.some else "some=no", "whole=yes")
        return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")

    def show(self) -> bytes:
        """What is looked at afterwards."""
        if not self.some:
            return b""
        paths = (path for about in self.paths.values() for path in about)
        return "".join("p " + " ".join(quoted("./" + path) for path in some) + "\n" for some in _chunks(paths)).encode(
            "utf-8", "surrogateescape"
        )

    def make_copy(self) -> None:
        """The whole copy is new: what came is put in place in one step."""
        self._whole = True
        self._lines.append("made")
        self.paths[0] = []

    def remove(self, paths: Iterable[str]) -> None:
        for folder, some in _grouped(paths):
            names = _names(some)
            self._group(folder, some, f"{self._same(some)} {names} && rm -f -- {names}")

    def remove_folders(self, paths: Iterable[str]) -> None:
        """The deepest must come first. One that is not empty stays."""
        for folder, some in _grouped(paths):
            self._whole = True
            self._group(folder, some, f"rmdir -- {_names(some)} 2>/dev/null")

    def put_tops(self, tops: Iterable[str], inside: Callable[[str], list[str]]) -> None:
        """New folders, each with all that is in it. ``inside`` gives what that is, for the answer."""
        for folder, some in _grouped(tops):
            self._whole = True
            about = [path for top in some for path in inside(top)]
            self._group(folder, about, f"none {_names(some)} && mv -- {_staged(some)} .")

    def put(self, paths: Iterable[str], gone: Collection[str]) -> None:
        """Files into folders that are there. ``gone`` are paths that were removed just before."""
        for folder, some in _grouped(paths):
            self._group(folder, some, f"{self._same(some, gone)} {_names(some)} && mv -f -- {_staged(some)} .")

    def modes(self, modes: Sequence[tuple[str, int]]) -> None:
        """The deepest folders first: one that may not be entered any more would keep the rest from being done."""
        for path, mode in sorted(modes, key=lambda one: (-one[0].count("/"), one[0])):
            self._whole = True
            folder, _, name = path.rpartition("/")
            self._group(folder, [path], f"chmod {mode & 0o777:o} -- {quoted('./' + name)}")

    def _group(self, folder: str, about: list[str], line: str) -> None:
        number = len(self.paths) + 1
        self.paths[number] = about
        line = f"g {number} {quoted(folder or '.')} && {{ {line}; }}"
        raw = self._there.entries.get(folder) if folder else None
        if raw is not None and there.is_folder(raw) and (mode := there.fields(raw).mode) & 0o300 != 0o300:
            enter = f"g {number} {quoted(folder)}"
            line = f"{enter} && {{ chmod u+rwx . ; {line} ; {enter} && chmod {mode:o} . ; }}"
        self._lines.append(line)

    def _same(self, paths: list[str], gone: Collection[str] = ()) -> str:
        entries = self._there.entries
        seen = [entries[path] for path in paths if path in entries and path not in gone]
        return "same " + quoted(b"\n".join(seen).decode("utf-8", "surrogateescape"))


def tops_of(folders: Collection[str]) -> dict[str, str]:
    """For each new folder the outermost new one that it lies in."""
    tops: dict[str, str] = {}
    for path in sorted(folders):
        above = path.rpartition("/")[0]
        tops[path] = tops.get(above, path)
    return tops


def top_above(path: str, tops: Mapping[str, str]) -> str | None:
    """The outermost new folder that a path lies in, None when its folder is there already."""
    above = path.rpartition("/")[0]
    return tops.get(above) if above else None


def pull_list(paths: Iterable[str]) -> Iterator[bytes]:
    """The list that PULL reads: calls of ``t`` with the names."""
    for some in _chunks(paths):
        yield ("t " + " ".join(quoted("./" + path) for path in some) + "\n").encode("utf-8", "surrogateescape")
    yield b"whole=yes\n"


def _grouped(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Paths by their folder, in the order in which they come, never too many at once."""
    folder: str | None = None
    some: list[str] = []
    letters = 0
    for path in paths:
        above = path.rpartition("/")[0]
        if some and (above != folder or len(some) >= _NAMES or letters > _LETTERS):
            yield folder or "", some
            some, letters = [], 0
        folder = above
        some.append(path)
        letters += len(path) * 2 + 40
    if some:
        yield folder or "", some


def _chunks(paths: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    letters = 0
    for path in paths:
        some.append(path)
        letters += len(path) * 2 + 8
        if len(some) >= _NAMES * 4 or letters > _LETTERS:
            yield some
            some, letters = [], 0
    if some:
        yield some


def _names(paths: list[str]) -> str:
    return " ".join(quoted("./" + path.rpartition("/")[2]) for path in paths)


def _staged(paths: list[str]) -> str:
    return " ".join('"$in"/' + quoted("f/" + path) for path in paths)


__all__ = ["Orders", "pull_list", "top_above", "tops_of"]
