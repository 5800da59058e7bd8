"""A chat's rows, made from its events as they happen. No Qt.

Rows are only ever added at the end or changed where they stand, never moved or removed, so a row's ``index`` names it
for good.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Final

from app.chats.events import (
    Answer,
    AnswerText,
    ChatEvent,
    StepAnswered,
    StepAsked,
    StepChanged,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from ui.transcript.blocks import chop, safe, split
from ui.transcript.rows import AskRow, NoteRow, ProseRow, Row, Step, StoryRow, UserRow

LIVE_KEPT = 64 * 1024  # characters of a running command's output kept at each end
_LIVE_MOST = 3 * LIVE_KEPT


class Rows:
    """A chat's rows, in order. ``changed`` collects the indexes that changed since it was last taken."""

    def __init__(self) -> None:
        self.all: list[Row] = []
        self.changed: set[int] = set()
        self.turn = ""  # the turn that is going on
        self._seqs: list[int] = []
        self._newest = 0
        self._going: dict[str, tuple[Step, StoryRow]] = {}  # steps that are not over
        self._asks: dict[str, AskRow] = {}
        self._story: StoryRow | None = None
        self._prose: ProseRow | None = None  # the block that is still open
        self._raw = ""  # its text as it came
        self._last = ""  # the whole of the answer that was loaded last
        self._loading = False
        self._held: list[AnswerText] = []  # while loading: the pieces of one answer

    # What is asked of it

    @property
    def busy(self) -> bool:
        return bool(self.turn)

    @property
    def waiting(self) -> bool:
        """Whether a turn goes on and nothing on the screen moves: the assistant is thinking."""
        if not self.turn or self.open_ask() is not None:
            return False
        if self._prose is not None and self._prose.live:
            return False
        return self._story is None or self._story.running is None

    def open_ask(self) -> AskRow | None:
        """The oldest question that is not answered yet."""
        return next((ask for ask in self._asks.values() if not ask.hidden), None)

    def at_seq(self, seq: int) -> int | None:
        """The index of the first row that shows the event, or that came before it."""
        place = bisect_right(self._seqs, seq) - 1
        if place >= 0:
            place = bisect_left(self._seqs, self._seqs[place])
        while place >= 0 and self.all[place].hidden:
            place -= 1
        return place if place >= 0 else None

    def group_of(self, index: int) -> tuple[int, int]:
        """The first and last row of the message that row ``index`` belongs to."""
        group = self.all[index].group
        first = last = index
        while first > 0 and self.all[first - 1].group == group:
            first -= 1
        while last + 1 < len(self.all) and self.all[last + 1].group == group:
            last += 1
        return first, last

    # What happens

    def load(self, events: Iterable[ChatEvent]) -> None:
        """Reads a chat's events in one go."""
        self._loading = True
        for event in events:
            if self._held and not (isinstance(event, AnswerText) and self._held[-1].answer == event.answer):
                self._pour()
            if isinstance(event, AnswerText):
                self._held.append(event)
            else:
                self.add(event)
        if self._held:
            self._pour()
            self._reopen()
        self._loading = False

    def add(self, event: ChatEvent) -> None:
        """Takes one event as it happens."""
        if (take := _TAKES.get(type(event))) is not None:
            take(self, event)

    def _user(self, event: UserMessage) -> None:
        self._close()
        self._append(UserRow(**self._head(event), text=safe(event.text), sealed=event.sealed))

    def _begin(self, event: TurnStarted) -> None:
        self._close()
        self.turn = event.turn or "?"

    def _head(self, event: ChatEvent) -> dict[str, Any]:
        return {"index": len(self.all), "turn": event.turn, "seq": event.seq}

    def _append(self, row: Row) -> None:
        # An event without a seq (it was never kept) counts as the newest.
        self._newest = seq = row.seq if row.seq > self._newest else self._newest
        self.all.append(row)
        self._seqs.append(seq)
        self.changed.add(row.index)

    def _touch(self, row: Row) -> None:
        row.rev += 1
        self.changed.add(row.index)

    def _close(self) -> None:
        """Whatever is open at the end gets no more."""
        if self._prose is not None and self._prose.live:
            self._prose.live = False
            self._touch(self._prose)
        self._prose, self._raw, self._story = None, "", None

    # An answer's text

    def _stream(self, event: AnswerText) -> None:
        row = self._prose
        if row is None or row.answer != event.answer or row.turn != event.turn:
            if not event.text.strip():
                return
            self._close()
            row = ProseRow(**self._head(event), answer=event.answer, text="", live=True, first=self._opens(event))
            self._append(row)
        self._raw += event.text
        parts = split(self._raw, whole=False) if "\n" in self._raw else [self._raw]
        if parts:
            parts[-1:] = chop(parts[-1])
        for part in parts[:-1]:
            row.text, row.live = safe(part), False
            self._touch(row)
            row = ProseRow(**self._head(event), answer=event.answer, text="", live=True)
            self._append(row)
        self._prose = row
        self._raw = parts[-1] if parts else ""
        row.text = safe(self._raw)
        self._touch(row)

    def _opens(self, event: AnswerText) -> bool:
        """Whether this is where the turn's answer begins."""
        return not self.all or self.all[-1].turn != event.turn or isinstance(self.all[-1], UserRow)

    def _pour(self) -> None:
        """Makes the rows of an answer whose pieces were held while loading."""
        held, self._held = self._held, []
        first = held[0]
        text = safe(first.text if len(held) == 1 else "".join(event.text for event in held))
        parts = [part for block in split(text) for part in chop(block)]
        if not parts:
            return
        self._story = None
        opens = self._opens(first)
        # A search hit names the piece it is in: each block takes the seq of the piece that it begins in.
        seq, ends, pieces, at = first.seq, len(first.text), iter(held[1:]), 0
        for part in parts:
            if len(held) > 1:
                at = max(at, text.find(part, at))
                while ends <= at and (piece := next(pieces, None)) is not None:
                    seq, ends = piece.seq, ends + len(piece.text)
                at += len(part)
            index = len(self.all)
            row = ProseRow(index=index, turn=first.turn, seq=seq, answer=first.answer, text=part, first=opens)
            opens = False
            self._append(row)
        self._last = text

    def _reopen(self) -> None:
        """The answer that was loaded last is still coming: what comes next goes on where it ends."""
        row = self.all[-1] if self.all else None
        if self.turn and isinstance(row, ProseRow) and row.turn == self.turn:
            row.live, self._prose = True, row
            self._raw = self._last[self._last.rfind(row.text) :]

    # Steps

    def _start(self, event: StepStarted) -> None:
        if self._story is None:
            self._close()
            self._story = StoryRow(**self._head(event))
            self._append(self._story)
        step = Step(
            id=event.step,
            tool=event.tool,
            words=safe(event.words) or safe(event.command),
            command=safe(event.command),
            place=event.place,
            open=event.open,
            by_person=event.by_person,
            began=event.at or time.time(),
        )
        self._story.steps.append(step)
        self._going[event.step] = (step, self._story)
        self._touch(self._story)

    def _ask(self, event: StepAsked) -> None:
        if (known := self._going.get(event.step)) is None:
            return
        step, story = known
        step.state = "asked"
        self._touch(story)
        ask = AskRow(
            **self._head(event),
            step=step,
            title=safe(event.title),
            why=safe(event.why),
            can_always=event.can_always,
        )
        self._asks[event.step] = ask
        self._append(ask)

    def _answered(self, event: StepAnswered) -> None:
        self._settle(event.step, event.answer)

    def _settle(self, step_id: str, answer: Answer | None) -> None:
        """The question about a step is over, answered or not."""
        if (ask := self._asks.pop(step_id, None)) is None:
            return
        ask.answer, ask.over = answer, True
        self._touch(ask)
        step, story = self._going[step_id]
        if step.state == "asked":
            step.state = "running"
            step.began = step.began if self._loading else time.time()
        self._touch(story)

    def _progress(self, event: StepProgress) -> None:
        if (known := self._going.get(event.step)) is not None:
            known[0].progress = event
            self._touch(known[1])

    def _output(self, event: StepOutput) -> None:
        if (known := self._going.get(event.step)) is None:
            return
        step, story = known
        step.progress = None
        text = step.text + event.text
        if len(text) > _LIVE_MOST:
            text = text[:LIVE_KEPT] + "\n…\n" + text[-LIVE_KEPT:]
        step.text = text
        self._touch(story)

    def _finish(self, event: StepFinished) -> None:
        if (known := self._going.get(event.step)) is None:
            return
        self._settle(event.step, None)
        del self._going[event.step]
        known[0].take(event)
        self._touch(known[1])

    def _changes(self, event: StepChanged) -> None:
        """It comes after the step's end, at times after the turn's: it is looked for from the end."""
        for row in reversed(self.all):
            if isinstance(row, StoryRow):
                for step in row.steps:
                    if step.id == event.step:
                        step.changed = event
                        self._touch(row)
                        return

    def _end(self, event: TurnFinished) -> None:
        self._close()
        self.turn = ""
        for step_id, (step, story) in list(self._going.items()):
            if story.turn == event.turn:
                self._settle(step_id, None)
                del self._going[step_id]
                step.state = "stopped" if event.outcome == "stopped" else "cut_off"
                step.progress = None
                self._touch(story)
        if event.outcome != "done":
            self._append(NoteRow(**self._head(event), outcome=event.outcome, words=safe(event.words)))


# Functions, not the methods of one chat's rows: those would hold their rows, and a long chat would wait for the
# collector instead of going at once. ChatMade and ChatChanged are the window's.
_TAKES: Final[dict[type, Callable[[Rows, Any], None]]] = {
    AnswerText: Rows._stream,
    StepOutput: Rows._output,
    UserMessage: Rows._user,
    TurnStarted: Rows._begin,
    StepStarted: Rows._start,
    StepAsked: Rows._ask,
    StepAnswered: Rows._answered,
    StepProgress: Rows._progress,
    StepFinished: Rows._finish,
    StepChanged: Rows._changes,
    TurnFinished: Rows._end,
}
