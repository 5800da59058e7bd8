"""Telling what a script there says to us from what its command says to the person."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """A line of ours: what follows the mark."""

    words: str


_LONGEST_LINE = 8 * 1024


class Marks:
    """Cuts one stream at our marks. Gives bytes of the command's and lines of ours, in the order they came.

    Everything before the first mark is dropped: it is what a login printed. Everything after a line that begins with
    ``end`` is dropped too. The start of a mark at the end of a piece is held back until it is known what it is.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode() + b" "
        self._held = b""
        self.begun = False
        self.ended = False
        self.noise = b""  # the end of what was dropped before the first mark

    def feed(self, data: bytes) -> list[bytes | Said]:
        given: list[bytes | Said] = []
        data = self._held + data
        self._held = b""
        while data and not self.ended:
            at = data.find(self._mark)
            if at < 0:
                keep = self._partial(data)
                self._give(given, data[: len(data) - keep])
                self._held = data[len(data) - keep :]
                return given
            self._give(given, data[:at])
            end = data.find(b"\n", at)
            if end < 0 and len(data) - at < _LONGEST_LINE:
                self._held = data[at:]
                return given
            end = end if end >= 0 else len(data)
            said = Said(data[at + len(self._mark) : end].decode(errors="replace"))
            self.begun = True
            self.ended = said.words.split(" ", 1)[0] == "end"
            given.append(said)
            data = data[end + 1 :]
        return given

    def rest(self) -> bytes:
        """What was held back, once nothing more comes."""
        held, self._held = self._held, b""
        return held if self.begun and not self.ended else b""

    def _give(self, given: list[bytes | Said], data: bytes) -> None:
        if not data:
            return
        if self.begun:
            given.append(data)
        else:
            self.noise = (self.noise + data)[-_LONGEST_LINE:]

    def _partial(self, data: bytes) -> int:
        """How many bytes at the end could be a mark's beginning."""
        for size in range(min(len(self._mark) - 1, len(data)), 0, -1):
            if data.endswith(self._mark[:size]):
                return size
        return 0
