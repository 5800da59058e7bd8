"""Server-sent events, as the HTML standard reads them (html.spec.whatwg.org, 9.2.6), from bytes cut anywhere.

Our own because two things must hold that httpx-sse does not: what a server sends is bounded in memory, and a stream is
read also where its Content-Type says something else, as some servers' does.
"""

from __future__ import annotations

LARGEST = 8 * 1024 * 1024


class TooLarge(Exception):
    """One event is larger than anyone means it to be."""


class SseDecoder:
    """Gives the ``data`` of each event once it is whole. Comments, names and ids are passed over."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._line = bytearray()
        self._data: list[bytes] = []
        self._held = 0
        self._skip_newline = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[str]:
        """The events that this chunk completed. Raises TooLarge."""
        found: list[str] = []
        start = 0
        if self._skip_newline and chunk:
            self._skip_newline = False
            start = 1 if chunk[:1] == b"\n" else 0
        while (end := _line_end(chunk, start)) >= 0:
            self._line += chunk[start:end]
            self._end_line(found)
            start = end + 1
            if chunk[end] == 13:  # "\r": a "\n" right behind it belongs to it
                if start == len(chunk):
                    self._skip_newline = True
                elif chunk[start] == 10:
                    start += 1
        self._line += chunk[start:]
        self._check()
        return found

    def finish(self) -> list[str]:
        """What the end of the stream completes. The standard drops a last event without its empty line; servers do not
        always send it, and what it holds is whole or is seen not to be by whoever parses it."""
        found: list[str] = []
        if self._line:
            self._end_line(found)
        self._end_event(found)
        return found

    def _end_line(self, found: list[str]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._end_event(found)
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._held += len(value)
            self._check()

    def _end_event(self, found: list[str]) -> None:
        if self._data:
            found.append(b"\n".join(self._data).decode("utf-8", "replace"))
            self._data.clear()
            self._held = 0

    def _check(self) -> None:
        if self._held + len(self._line) > self._largest:
            raise TooLarge


def _line_end(chunk: bytes, start: int) -> int:
    newline = chunk.find(b"\n", start)
    returned = chunk.find(b"\r", start, newline if newline >= 0 else len(chunk))
    return returned if returned >= 0 else newline
