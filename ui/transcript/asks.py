"""The rows that are not an answer: what the person wrote, what Conch asks, and how a turn ended."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, QRectF

from ui.marks import paint_dot, paint_mark
from ui.paint import round_box
from ui.theme import RADIUS
from ui.transcript import words
from ui.transcript.folds import Folds
from ui.transcript.look import Look
from ui.transcript.markdown import BREAK
from ui.transcript.rows import AskRow, NoteRow, UserRow
from ui.transcript.sheet import Control, Sheet, Text, lay, right_to_left
from workplaces.words import PLACE_WORDS

_LINES, _LETTERS = 24, 4000  # of a message of the person's, before it is folded
_CHUNK = 24


def user(row: UserRow, look: Look, sheet: Sheet, width: int, folds: Folds) -> None:
    """The bubble at the right."""
    px = look.px
    name = f"user:{row.index}"
    text = row.text.strip("\n").expandtabs(4)
    lines = text.split("\n")
    long = len(lines) > _LINES or len(text) > _LETTERS
    if long and name not in folds.whole:
        lines = text[:_LETTERS].split("\n")[:_LINES]
    pad = px(14)
    room = round(width * 0.84) - 2 * pad
    y = float(sheet.lead) + px(11)
    made: list[Text] = []
    for at in range(0, len(lines), _CHUNK):
        part = BREAK.join(lines[at : at + _CHUNK])
        laid = lay(part, look.body, room, look.line)
        made.append(Text(laid, 0, y, room, part, look.tokens.text, "\n"))
        y += laid.height
    natural = max(min(text.laid.natural, room) for text in made)
    words_all = "Show less" if name in folds.whole else f"Show all of it ({len(row.text):,} letters)"
    if long:
        natural = max(natural, look.width(words_all, look.small_medium))
    left = width - natural - 2 * pad
    for part_text in made:
        part_text.x = width - pad - room if right_to_left(part_text.text) else left + pad
    made[-1].after = "\n\n"
    sheet.texts += made
    if long:
        wide = look.width(words_all, look.small_medium) + px(16)
        rect = QRectF(left + pad - px(8), y + px(2), wide, px(26))
        sheet.controls.append(Control(f"{name}.all", rect, words_all, "link", ("user.whole", name)))
        y += px(26)
    y += px(11)
    box = QRectF(left, sheet.lead, natural + 2 * pad, y - sheet.lead)
    sheet.paints.append(partial(round_box, rect=box, radius=float(RADIUS["card"]), fill=look.tokens.sunken))
    sheet.height = round(y)


def ask(row: AskRow, look: Look, sheet: Sheet, width: int) -> None:
    """The question about one step, with its three answers."""
    px, tokens = look.px, look.tokens
    pad = px(15)
    room = width - 2 * pad
    y = float(sheet.lead) + px(13)
    place, _, host = row.step.place.partition(":")
    where = host or (PLACE_WORDS.get(f"{place}.where", "") if place in ("container", "cloud") else "")
    title_room = float(room)
    if where:
        chip = px(24) + look.width(where, look.small_medium) + px(9)
        title_room -= chip + px(12)
        _place(sheet, look, place, where, QRectF(width - pad - chip, y + (look.line - px(20)) / 2, chip, px(20)))
    title = sheet.write(look, row.title, look.strong, (pad, y), title_room, look.line, tokens.text)
    y += title.laid.height
    if row.why:
        y += px(2)
        why = row.why.replace("\n", BREAK)
        made = sheet.write(look, why, look.small, (pad, y), room, look.small_line, tokens.muted)
        y += made.laid.height
    if row.step.command:
        y += px(9)
        inner = row.step.command.replace("\n", BREAK)
        at = (pad + px(13), y + px(9))
        made = sheet.write(look, inner, look.code, at, room - px(26), look.code_line, tokens.text, mono=True)
        box = QRectF(pad, y, room, made.laid.height + px(18))
        sheet.paints.append(partial(round_box, rect=box, radius=px(8), fill=tokens.code))
        y = box.bottom()
    y += px(11)
    step = row.step.id
    high = px(35)
    x = float(pad)
    about = row.step.command or row.title
    answers = [("Allow once", "primary", "once")]
    if row.can_always:
        answers.append(("Always in this chat", "plain", "chat"))
    for text, kind, answer in answers:
        wide = look.width(text, look.medium) + px(26)
        sheet.controls.append(
            Control(
                f"{answer}:{step}",
                QRectF(x, y, wide, high),
                text,
                "primary" if kind == "primary" else "plain",
                (f"answer.{answer}", step),
                f"{text}: {about}",
            )
        )
        x += wide + px(6)
    key = look.width("Esc", look.small) + px(12)
    wide = look.width("Don't allow", look.medium) + px(26) + px(7) + key
    if x + wide > width - pad + px(10):  # a narrow window: on a line of its own
        y += high + px(6)
    sheet.controls.append(
        Control(
            f"no:{step}",
            QRectF(width - pad - wide + px(10), y, wide, high),
            "Don't allow",
            "quiet",
            ("answer.no", step),
            f"Don't allow: {about}",
            key="Esc",
        )
    )
    y += high + px(13)
    card = QRectF(0, sheet.lead, width, y - sheet.lead)
    edge = tokens.tint(tokens.warn, 0.62, tokens.canvas)
    sheet.paints.insert(
        0, partial(round_box, rect=card, radius=float(RADIUS["card"]), fill=tokens.surface, border=edge)
    )
    sheet.height = round(y)


def _place(sheet: Sheet, look: Look, kind: str, where: str, box: QRectF) -> None:
    px = look.px
    color = look.tokens.place(kind)
    mark = QRectF(box.x() + px(7), box.center().y() - px(6), px(12), px(12))
    sheet.paints.append(partial(round_box, rect=box, radius=box.height() / 2, fill=look.tokens.place_soft(kind)))
    sheet.paints.append(partial(paint_mark, rect=mark, kind=kind, color=color))
    at = (box.x() + px(24), box.center().y() - look.small_line / 2)
    sheet.write(look, where, look.small_medium, at, box.width(), look.small_line, color, wrap=False)
    sheet.tips.append((box, f"It would run {'in a container' if kind == 'container' else 'on ' + where}."))


def note(row: NoteRow, look: Look, sheet: Sheet, width: int) -> None:
    """How a turn ended, when not well."""
    px, tokens = look.px, look.tokens
    left = px(16)
    text = words.note(row).replace("\n", BREAK)
    color = tokens.text if row.outcome == "failed" else tokens.muted
    made = sheet.write(look, text, look.body, (left, sheet.lead), width - left, look.line, color, after="\n\n")
    dot = tokens.bad if row.outcome == "failed" else tokens.warn
    at = QPointF(px(4), sheet.lead + look.line / 2)
    sheet.paints.append(partial(paint_dot, center=at, color=dot, radius=px(3.6)))
    sheet.height = round(sheet.lead + made.laid.height)
