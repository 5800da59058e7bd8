"""A story's card: what was done, in words, where, and for how long; unfolded, the exact command and what it printed."""

from __future__ import annotations

import time
from functools import partial

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor

from ui.paint import elided, round_box
from ui.transcript import strokes, words
from ui.transcript.folds import Folds, card_name
from ui.transcript.look import Look
from ui.transcript.markdown import BREAK
from ui.transcript.rows import Step, StoryRow
from ui.transcript.sheet import Control, ControlKind, Sheet, Text

_TAIL = 14  # lines of an output that are shown at first; of what the person ran, more
_TAIL_PERSON = 30
_BOX = 24  # lines that a long output's own box shows at once
_COMMAND = 60  # lines of a command
_STEPS = 12  # steps of a long story


class Story:
    """Lays a story's card out."""

    def __init__(self, row: StoryRow, look: Look, sheet: Sheet, width: int, folds: Folds) -> None:
        self.row, self.look, self.sheet, self.width, self.folds = row, look, sheet, width, folds
        self.steps = row.shown
        self._y = float(sheet.lead)
        self._under: list[tuple[QRectF, QColor]] = []  # bands of another colour inside the card
        self._lines: list[float] = []

    def build(self) -> None:
        look = self.look
        one = len(self.steps) == 1
        chip = words.chip_of(self.steps) if words.same_place(self.steps) else ("", "")
        self.sheet.ticks = any(not step.over for step in self.steps)
        if one:
            step = self.steps[0]
            opened = self.folds.step_open(step)
            self._head(self.steps, chip, opened, step.id if _has_body(step) else "", words.story_spoken(self.steps))
            self._step(step, opened)
        else:
            opened = self.folds.card_open(self.row)
            self._head(self.steps, chip, opened, card_name(self.row), words.story_spoken(self.steps))
            if opened:
                for step in self._in_sight():
                    self._lines.append(self._y)
                    own = ("", "") if words.same_place(self.steps) else words.chip_of([step])
                    shown = self.folds.step_open(step)
                    self._head(
                        [step], own, shown, step.id if _has_body(step) else "", words.step_spoken(step), sub=True
                    )
                    self._step(step, shown)
            else:
                for step in self.steps:
                    self._progress(step)
                self._changed(self.steps)
        top = float(self.sheet.lead)
        card = QRectF(0, top, self.width, self._y - top)
        self.sheet.paints.insert(0, partial(strokes.card, card=card, bands=self._under, lines=self._lines, look=look))
        self.sheet.height = round(self._y)

    def _head(
        self, steps: list[Step], chip: tuple[str, str], opened: bool, fold: str, says: str, *, sub: bool = False
    ) -> None:
        look, sheet, px = self.look, self.sheet, self.look.px
        high = px(36) if sub else px(42)
        top, middle = self._y, self._y + high / 2
        right = float(self.width - px(14))
        if fold:
            sheet.paints.append(partial(strokes.arrow, at=QPointF(right - px(3), middle), opened=opened, look=look))
            right -= px(17)
        start = len(sheet.texts)
        text = self._time(steps)
        if text:
            wide = look.width(text, look.small)
            right -= wide
            self._label(text, right, middle, look.tokens.muted)
            right -= px(10)
        if chip[1]:
            right = self._chip(chip, right, middle) - px(10)
        color = _dot_color(steps, look)
        hollow = all(not step.ran for step in steps)
        left = px(31)
        sheet.paints.append(
            partial(
                strokes.dot, at=QPointF(px(17), middle), radius=px(3) if sub else px(3.6), color=color, hollow=hollow
            )
        )
        headline, after = words.headline(steps)
        headline = " ".join(headline.split())
        after = f" · {after}" if after else ""
        room = right - left - look.width(after, look.small) - px(4)
        font = look.code if _says_command(steps) else look.body
        shown = elided(headline, font, room)
        if shown != headline:
            sheet.tips.append((QRectF(0, top, right, high), headline))
        line = look.line
        labels = sheet.texts[start:][::-1]  # they are read after the words: the place, then the time
        del sheet.texts[start:]
        made = sheet.write(
            look, shown, font, (left, middle - line / 2), room + px(8), line, look.tokens.text, wrap=False
        )
        if after:
            made.after = ""
            self._label(after, left + made.laid.natural, middle, look.tokens.muted)
        else:
            made.after = " "
        sheet.texts += labels
        sheet.texts[-1].after = "\n"
        if fold:
            verb = "Hide" if opened else "Show"
            sheet.controls.append(
                Control(
                    f"fold:{fold}",
                    QRectF(px(2), top + px(2), self.width - px(4), high - px(4)),
                    "",
                    "fold",
                    ("fold", fold),
                    says,
                    hint=f"{verb} the command and what it printed" if len(steps) == 1 else f"{verb} the steps",
                    tip=headline if shown != headline else "",
                    on=opened,
                )
            )
        self._y += high

    def _in_sight(self) -> list[Step]:
        """The steps to show: of very many only the last, until all are asked for."""
        name = card_name(self.row)
        if len(self.steps) <= _STEPS + 3 or name in self.folds.whole:
            return self.steps
        look, px = self.look, self.look.px
        text = f"Show {len(self.steps) - _STEPS} earlier steps"
        wide = look.width(text, look.small_medium) + px(16)
        self._lines.append(self._y)
        rect = QRectF(px(23), self._y + px(4), wide, px(26))
        self.sheet.controls.append(Control(f"steps:{name}", rect, text, "link", ("steps.whole", name)))
        self._y += px(34)
        return self.steps[-_STEPS:]

    def _time(self, steps: list[Step]) -> str:
        if all(step.over for step in steps):
            return words.took(steps)
        began = min((step.began for step in steps if not step.over), default=0.0)
        for_now = time.time() - began
        done = sum(step.seconds for step in steps if step.over)
        return words.seconds(float(int(for_now + done))).replace(".0", "") if for_now >= 1 else ""

    def _label(self, text: str, x: float, middle: float, color: QColor, *, medium: bool = False) -> Text:
        look = self.look
        font = look.small_medium if medium else look.small
        at = (x, middle - look.small_line / 2)
        return self.sheet.write(
            look, text, font, at, look.width(text, font) + 4, look.small_line, color, wrap=False, after=" "
        )

    def _chip(self, chip: tuple[str, str], right: float, middle: float) -> float:
        """Draws the chip so that it ends at ``right``; gives its left edge."""
        look, px = self.look, self.look.px
        kind, where = chip
        where = elided(where, look.small_medium, self.width * 0.3)
        high, mark = px(20), px(12)
        wide = px(7) + mark + px(5) + look.width(where, look.small_medium) + px(9)
        box = QRectF(right - wide, middle - high / 2, wide, high)
        self.sheet.paints.append(partial(strokes.chip, box=box, kind=kind, look=look))
        self._label(where, box.x() + px(7) + mark + px(5), middle, look.tokens.place(kind), medium=True)
        self.sheet.tips.append((box, words.worked_at_spoken(kind, chip[1])))
        return box.x()

    # One step, unfolded

    def _step(self, step: Step, opened: bool) -> None:
        if opened:
            self._command(step)
            self._output(step)
        self._progress(step)
        if step.said or step.next_label:
            self._said(step)
        if opened:
            self._foot(step)
        self._changed([step])

    def _command(self, step: Step) -> None:
        if not step.command or _says_command([step]):
            return
        look, px = self.look, self.look.px
        self._lines.append(self._y)
        side = " · ".join(
            part
            for part in ("outside the box" if step.open else "", words.exit_code(step) if step.state != "ok" else "")
            if part
        )
        left, right = px(31), float(self.width - px(6))
        right = self._copy(right, self._y + px(6), "copy.command", step, f"Copy the command: {step.command}", "quiet")
        if side:
            right -= look.width(side, look.small) + px(4)
            self._label(side, right, self._y + px(10) + look.code_line / 2, look.tokens.muted)
        lines = step.command.split("\n")
        text = BREAK.join(lines[:_COMMAND]) + ("…" if len(lines) > _COMMAND else "")
        at, room = (left, self._y + px(10)), right - px(12) - left
        made = self.sheet.write(look, text, look.code, at, room, look.code_line, look.tokens.text, mono=True)
        self._y += made.laid.height + px(20)

    def _copy(self, right: float, y: float, does: str, step: Step, says: str, kind: ControlKind) -> float:
        """A button that copies, ending at ``right``; gives its left edge."""
        look, px = self.look, self.look.px
        wide = look.width("Copied", look.small_medium) + px(16)
        rect = QRectF(right - wide, y, wide, px(26))
        self.sheet.controls.append(Control(f"{does}:{step.id}", rect, "Copy", kind, (does, step.id), says))
        return rect.x()

    def _output(self, step: Step) -> None:
        if not step.text.strip():
            return
        look, px = self.look, self.look.px
        pad = px(14)
        self._lines.append(self._y)
        top = self._y
        copy = f"Copy what it printed: {step.words}"
        if self._whole(step):
            lines = words.count_lines(step.text)
            high = min(lines, _BOX) * look.code_line + 2 * px(8)
            rect = QRectF(1, top + 1, self.width - 2, high)
            says = f"What it printed: {step.words}"
            self.sheet.controls.append(Control(f"output:{step.id}", rect, step.text, "output", ("", step.id), says))
            self._y += high + 1
            return
        right = self._copy(self.width - px(6), top + px(5), "copy.output", step, copy, "code")
        shown, more = words.tail(step.text, self._most(step))
        if more:
            shown.insert(0, "…")
        y = top + px(9)
        made = self.sheet.write(
            look,
            BREAK.join(shown),
            look.code,
            (pad, y),
            right - pad - px(4),
            look.code_line,
            look.tokens.muted,
            mono=True,
            wrap="anywhere",
        )
        self._y = y + made.laid.height + px(9)
        self._under.append((QRectF(1, top, self.width - 2, self._y - top), look.tokens.code))

    def _whole(self, step: Step) -> bool:
        return step.id in self.folds.whole and step.over

    def _most(self, step: Step) -> int:
        return _TAIL_PERSON if step.by_person else _TAIL

    def _progress(self, step: Step) -> None:
        event = step.progress
        if event is None:
            return
        look, px = self.look, self.look.px
        self._lines.append(self._y)
        high = px(38)
        left, right = px(31), self.width - px(14)
        wide = look.width("Stop", look.small_medium) + px(16)
        stop = QRectF(right - wide + px(8), self._y + px(5), wide, px(26))
        goes_on = words.progress(event, step.place)
        self.sheet.controls.append(
            Control(f"stop:{step.id}", stop, "Stop", "link", ("stop", step.id), f"Stop: {goes_on}")
        )
        said = elided(goes_on, look.small, right - wide - left)
        self._label(said, left, self._y + px(18), look.tokens.muted)
        if event.total > 0 and not words.whole(event):
            track = QRectF(left, self._y + px(31), right - left, px(3))
            part = min(1.0, event.done / event.total)
            self.sheet.paints.append(partial(strokes.bar, track=track, part=part, look=look))
            high = px(44)
        self._y += high

    def _said(self, step: Step) -> None:
        """What went wrong, and the one next step."""
        look, px = self.look, self.look.px
        self._lines.append(self._y)
        left, room = px(31), self.width - px(31) - px(14)
        self._y += px(11)
        if step.said:
            said = step.said.replace("\n", BREAK)
            made = self.sheet.write(look, said, look.body, (left, self._y), room, look.line, look.tokens.text)
            self._y += made.laid.height
        if step.next_command:
            self._y += px(8)
            self._next_command(step, left, room)
        elif step.next_label:
            self._y += px(9)
            if step.next_action:
                wide = look.width(step.next_label, look.medium) + px(26)
                rect = QRectF(left, self._y, wide, px(32))
                does = ("next", step.id)
                self.sheet.controls.append(Control(f"next:{step.id}", rect, step.next_label, "plain", does))
                self._y += px(32)
            else:
                made = self.sheet.write(
                    look, step.next_label, look.body, (left, self._y), room, look.line, look.tokens.muted
                )
                self._y += made.laid.height
        self._y += px(12)

    def _next_command(self, step: Step, left: float, room: float) -> None:
        look, px = self.look, self.look.px
        if step.next_label:
            made = self.sheet.write(
                look, step.next_label, look.small, (left, self._y), room, look.small_line, look.tokens.muted
            )
            self._y += made.laid.height + px(4)
        wide = look.width("Copied", look.small_medium) + px(16)
        at = (left + px(12), self._y + px(9))
        made = self.sheet.write(
            look, step.next_command, look.code, at, room - wide - px(28), look.code_line, look.tokens.text, mono=True
        )
        box = QRectF(left, self._y, room, made.laid.height + px(18))
        self.sheet.paints.append(partial(round_box, rect=box, radius=px(8), fill=look.tokens.code))
        rect = QRectF(box.right() - wide - px(6), box.y() + (px(18) + look.code_line - px(24)) / 2, wide, px(24))
        does = ("copy.next", step.id)
        says = f"Copy the command: {step.next_command}"
        self.sheet.controls.append(Control(f"copy.next:{step.id}", rect, "Copy", "code", does, says))
        self._y = box.bottom()

    def _changed(self, steps: list[Step]) -> None:
        """Which files are different, in the card's last line; their names show when it is pointed at."""
        text, names = words.changed(steps)
        if not text:
            return
        look, px = self.look, self.look.px
        self._lines.append(self._y)
        high, left = px(34), px(31)
        room = self.width - left - px(14)
        shown = elided(text, look.small, room)
        self._label(shown, left, self._y + high / 2, look.tokens.muted)
        if names or shown != text:
            self.sheet.tips.append((QRectF(0, self._y, self.width, high), names or text))
        self._y += high

    def _foot(self, step: Step) -> None:
        look, px = self.look, self.look.px
        lines = words.count_lines(step.text)
        parts: list[tuple[str, str]] = []
        if step.over and lines > self._most(step):
            more = f"Show {lines:,} lines" if step.left_out else f"Show all {lines:,} lines"
            parts.append(("Show less" if self._whole(step) else more, "output.whole"))
        if step.left_out:
            parts.append((words.not_shown(step), ""))
            if step.file:
                parts.append(("Open the whole output", "open"))
        if not parts:
            return
        self._lines.append(self._y)
        high = px(34)
        x = float(px(14))
        for text, does in parts:
            if not does:
                self._label(text, x, self._y + high / 2, look.tokens.muted)
                x += look.width(text, look.small) + px(10)
                continue
            wide = look.width(text, look.small_medium) + px(16)
            rect = QRectF(x - px(8), self._y + px(4), wide, high - px(8))
            says = f"{text}: {step.words}"
            self.sheet.controls.append(Control(f"{does}:{step.id}", rect, text, "link", (does, step.id), says))
            x += wide - px(4)
        if self._whole(step):
            copy = f"Copy what it printed: {step.words}"
            self._copy(self.width - px(6), self._y + px(4), "copy.output", step, copy, "quiet")
        self._y += high


def _has_body(step: Step) -> bool:
    return bool(step.text.strip() or (step.command and not _says_command([step])))


def _says_command(steps: list[Step]) -> bool:
    """Whether the words are the command itself, so that it is not said twice."""
    return len(steps) == 1 and bool(steps[0].command) and steps[0].words.strip() == steps[0].command.strip()


def _dot_color(steps: list[Step], look: Look) -> QColor:
    states = [step.state for step in steps]
    tokens = look.tokens
    if "running" in states:
        return tokens.accent
    if "failed" in states:
        return tokens.bad if len(steps) == 1 or states[-1] == "failed" else tokens.warn
    if any(state in ("stopped", "timed_out", "cut_off", "not_run") for state in states):
        return tokens.warn
    return tokens.faint if all(state == "refused" for state in states) else tokens.good
