"""A script there and us: what is sent, what comes back on each stream, and what the script tells us between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from workplaces.output import Stream
from workplaces.ssh.channel import Channel
from workplaces.ssh.marks import Marks, Said

_STREAMS: tuple[Stream, ...] = ("out", "err")
_JOIN = 5.0

Take = Callable[[Stream, bytes], None]


class Talk:
    """Runs over a channel, in threads of its own: one for each stream, one that writes.

    ``take`` gets what the script's command prints, from one thread at a time. It is over when both streams have told
    their end, or are at it.
    """

    def __init__(self, channel: Channel, mark: str, take: Take) -> None:
        self._channel = channel
        self._take = take
        self._marks: dict[Stream, Marks] = {stream: Marks(mark) for stream in _STREAMS}
        self._taking = threading.Lock()
        self._changed = threading.Condition()
        self._open = set(_STREAMS)
        self._to_send: SimpleQueue[bytes | None] = SimpleQueue()
        self._sending = True
        self.said: list[str] = []
        self.begun_at = 0.0
        readers = [threading.Thread(target=self._read, args=(stream,)) for stream in _STREAMS]
        self._threads = [*readers, threading.Thread(target=self._write)]
        for thread in self._threads:
            thread.name, thread.daemon = "conch-ssh", True
            thread.start()

    def send(self, data: bytes) -> None:
        """Gives it to the script's standard input, after what was sent before. For any thread."""
        self._to_send.put(data)

    def end_input(self) -> None:
        self._to_send.put(None)

    @property
    def begun(self) -> bool:
        """Whether the script was reached."""
        return self.begun_at > 0

    @property
    def over(self) -> bool:
        return not self._open

    @property
    def whole(self) -> bool:
        """Whether both streams told their end, so that nothing of them is missing."""
        return all(marks.ended for marks in self._marks.values())

    @property
    def end(self) -> list[str] | None:
        """The words with which it told its end, None when it did not."""
        last = self.said[-1].split(" ") if self.said else []
        return last[1:] if last and last[0] == "end" else None

    def noise(self) -> str:
        """What was printed where errors go before the script began: ssh's own words, or an rc file's."""
        return self._marks["err"].noise.decode(errors="replace")

    def wait(self, until: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until that is so. It is asked after each thing that happens; False when the time is over."""
        with self._changed:
            return self._changed.wait_for(until, timeout)

    def wait_over(self, timeout: float | None) -> bool:
        return self.wait(lambda: self.over, timeout)

    def wait_begun(self, stopping: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until the script was reached or cannot be any more, or nobody wants to wait."""
        return self.wait(lambda: self.begun or self.over or stopping(), timeout)

    def stir(self) -> None:
        """Makes ``wait`` ask again. For any thread."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Lets go of the channel and waits until no thread uses it."""
        self._to_send.put(None)
        self._channel.close()
        end = time.monotonic() + _JOIN
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self._channel.let_go()

    def status(self) -> int | None:
        """How the program ended that carried it, once both streams are at their end."""
        return self._channel.status()

    # ---- in threads ----

    def _read(self, stream: Stream) -> None:
        marks = self._marks[stream]
        try:
            while not marks.ended and (data := self._channel.read(stream)):
                for piece in marks.feed(data):
                    self._meet(stream, piece)
            if rest := marks.rest():
                self._meet(stream, rest)
        finally:
            with self._changed:
                self._open.discard(stream)
                self._changed.notify_all()

    def _meet(self, stream: Stream, piece: bytes | Said) -> None:
        if isinstance(piece, bytes):
            with self._taking:
                self._take(stream, piece)
        elif stream == "out":
            with self._changed:
                self.begun_at = self.begun_at or time.monotonic()
                self.said.append(piece.words)
                self._changed.notify_all()

    def _write(self) -> None:
        while (data := self._to_send.get()) is not None:
            if not self._channel.write(data):
                return
        self._channel.end_input()
