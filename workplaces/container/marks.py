"""The end of a command within its box's output: told apart by a mark that no command knows, and never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workplaces.container.wire import BadAnswer
from workplaces.output import Stream

_SAID = re.compile(rb" (\d{1,3}) (there|missing) (\d+)\n")
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class Said:
    """What the box's shell said behind its mark: the code, whether the program is there, and kills for memory."""

    code: int
    program: bool
    kills: int


class Marks:
    """Takes both streams apart at the mark. They come by separate ways, so only both marks together are the end.

    Without a mark everything is the command's, and the end of the output is its end.
    """

    def __init__(self, mark: str) -> None:
        self._streams = {"out": _Tail(mark.encode()), "err": _Tail(mark.encode())}

    def take(self, stream: Stream, data: bytes) -> bytes:
        """Gives what of ``data``, and of what was held before, is the command's. Raises BadAnswer."""
        return self._streams[stream].take(data)

    def rest(self, stream: Stream) -> bytes:
        """What was held because it could have been the beginning of the mark. For an end without one."""
        return self._streams[stream].rest()

    @property
    def said(self) -> Said | None:
        """What was said at the end, None before it. Raises BadAnswer when the two are not one."""
        out, err = (tail.said for tail in self._streams.values())
        if out is None or err is None:
            return None
        if out != err:
            raise BadAnswer(f"a box said two things at its end: {out} {err}")
        return out


class _Tail:
    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held = b""
        self._found = False
        self.said: Said | None = None

    def take(self, data: bytes) -> bytes:
        if not self._mark:
            return data
        if self._found:
            self._read(self._held + data)
            return b""
        if self._held:
            data, self._held = self._held + data, b""
        at = data.find(self._mark)
        if at >= 0:
            self._found = True
            self._read(data[at + len(self._mark) :])
            return data[:at]
        if keep := self._beginning(data):
            self._held = data[-keep:]
            return data[:-keep]
        return data

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held if not self._found else b""

    def _read(self, data: bytes) -> None:
        if self.said is not None:  # its shell may have said it twice, when it was not sure of the first time
            return
        self._held = data
        if b"\n" not in data and len(data) < _LONGEST:
            return
        found = _SAID.match(data)
        if found is None:
            raise BadAnswer(f"a box did not end as it should: {data[:_LONGEST]!r}")
        self.said = Said(int(found[1]), found[2] == b"there", int(found[3]))

    def _beginning(self, data: bytes) -> int:
        """How many of the last bytes may be the beginning of a mark that goes on in the next piece."""
        end = data[-len(self._mark) + 1 :]
        at = end.find(self._mark[:1])
        while at >= 0:
            if self._mark.startswith(end[at:]):
                return len(end) - at
            at = end.find(self._mark[:1], at + 1)
        return 0
