"""How an event is written down and read again, and what of it is found by searching."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from app.chats.events import AnswerText, ChatEvent, Event, StepFinished, StepStarted, UserMessage

log = logging.getLogger(__name__)

MOST_WORDS = 32 * 1024
"""Of a long text, so many characters are searched: half from its beginning, half from its end."""

LONGEST_TITLE = 60

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[ChatEvent] = msgspec.json.Decoder(cast(Any, ChatEvent))


def numbered(event: ChatEvent, seq: int, at: float) -> ChatEvent:
    return msgspec.structs.replace(event, seq=seq, at=at)


def kind_of(event: Event) -> str:
    return str(event.__struct_config__.tag)


def packed(event: ChatEvent) -> tuple[ChatEvent, bytes]:
    """The event as JSON, and as it will be read again: a text that is not Unicode is kept as far as it is."""
    try:
        return event, _encoder.encode(event)
    except UnicodeEncodeError:
        whole = type(event)(**_readable(msgspec.structs.asdict(event)))
        return whole, _encoder.encode(whole)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value


def unpacked(bodies: Iterable[bytes]) -> list[ChatEvent]:
    """The events. What a newer version wrote, or what cannot be read, is left out and counted in the log."""
    events, left = [], 0
    for body in bodies:
        try:
            events.append(_decoder.decode(body))
        except msgspec.DecodeError:  # an unknown kind is one too
            left += 1
    if left:
        log.warning("%d events were not understood and left out", left)
    return events


def title_of(text: str) -> str:
    """A chat's title: the first line of its first message that says anything."""
    for line in text.splitlines():
        plain = "".join(letter if letter.isprintable() else " " for letter in line)
        if title := " ".join(plain.split()):
            return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"
    return ""


def words_of(event: ChatEvent) -> str:
    """What of the event is searched for. Pieces of an answer are not: they are searched as one, see ``answers``."""
    match event:
        case UserMessage():
            return bounded(event.text)
        case StepStarted():
            return bounded(event.command)
        case StepFinished():
            return bounded(event.text)
        case _:
            return ""


def answers(events: Sequence[ChatEvent]) -> list[tuple[int, str]]:
    """Each answer of a turn, whole, with the number of its first piece."""
    whole: dict[str, tuple[int, list[str]]] = {}
    for event in events:
        if isinstance(event, AnswerText):
            whole.setdefault(event.answer, (event.seq, []))[1].append(event.text)
    return [(seq, bounded("".join(pieces))) for seq, pieces in whole.values()]


def bounded(text: str) -> str:
    text = text.replace("\0", " ")
    half = MOST_WORDS // 2
    return text if len(text) <= MOST_WORDS else f"{text[:half]}\n…\n{text[-half:]}"
