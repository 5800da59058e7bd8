"""Spares: boxes made ahead, each waiting for the one command of the chat that it was made for.

A spare is what a command would get anyway, made by the same lines a little earlier. It serves one command and is taken
away; it is thrown away unused when anything is no longer as it was when it was made.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workplaces.container.box import BoxAsk, Expected, expected, seal
from workplaces.container.engine import Engine, EngineFacts
from workplaces.container.image import Image
from workplaces.container.life import Going, Life, OnLeft
from workplaces.folder import WorkFolder

_LOOK_EVERY = 15.0
_HURRY = 5.0  # seconds that a chat is taken to be in a hurry after a command of it came before its spare was there


def _no() -> bool:
    return False


def _four() -> int:
    return 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareRules:
    """How many spares there may be: ``each`` for one chat, ``most`` in all (asked each time; 0: none are made).

    ``more`` are made beside these, for a few seconds, when the chat's commands come faster than boxes are made. A chat
    has one for ``keep`` seconds after its last command. None are made, and those that wait go, while ``saving``
    says that the battery is to be saved; it is asked in any thread.
    """

    each: int = 1
    more: int = 1
    most: Callable[[], int] = _four
    keep: float = 600.0
    saving: Callable[[], bool] = _no


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A box that is wanted: what to make, where, and the key that says when another one is the same."""

    engine: Engine
    body: Mapping[str, Any]
    expected: Expected
    key: str
    open: bool


def want(engine: Engine, image: Image, ask: BoxAsk) -> Want:
    """The key holds all that a box is made from: every flag of the seal as the engine is told it, and what the names in
    it stood for: which engine, which image, which folder, which ``.git``, which empty file over the keys.

    Raises OSError when the empty file is gone.
    """
    folder = ask.folder
    laid_over = os.stat(ask.empty)  # noqa: PTH116 - read with the rest, as numbers
    body, told = _sealed(ask, engine.facts)
    key = {
        "engine": [engine.endpoint.address, repr(engine.facts)],
        "image": image.id,
        "folder": [str(folder.real), folder.device, folder.inode],
        "git": [folder.git, folder.git_identity],
        "over": [_which(folder.real / path) for path in _over(folder)],
        "empty": [laid_over.st_dev, laid_over.st_ino, laid_over.st_ctime_ns],
    }
    text = json.dumps(key, sort_keys=True) + told
    must_see = expected(folder, engine.facts, ask.top)
    return Want(engine=engine, body=body, expected=must_see, key=text, open=ask.open)


_told: deque[tuple[BoxAsk, EngineFacts, Mapping[str, Any], str]] = deque(maxlen=4)


def _sealed(ask: BoxAsk, facts: EngineFacts) -> tuple[Mapping[str, Any], str]:
    """The box's body and what of it is in the key. Kept for the next command, which most often asks for the same."""
    for asked, of, body, told in tuple(_told):
        if asked == ask and of == facts:
            return body, told
    body = seal(ask, facts)
    # the time in what it must see first is for that moment; which folder it is, is in the key anyway
    told = json.dumps({name: value for name, value in body.items() if name != "Cmd"}, sort_keys=True)
    _told.append((ask, facts, body, told))
    return body, told


def _over(folder: WorkFolder) -> tuple[Path, ...]:
    """What is laid over the folder, or over what: a file that was replaced since has lost its cover in the box."""
    inside = (*folder.repository.kept, *folder.repository.pinned, *((folder.outside.source,) if folder.outside else ()))
    return (*(cover.inside for cover in folder.covers), *folder.pins, *inside)


def _which(path: Path) -> tuple[int, ...]:
    try:
        seen = path.lstat()
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino


@dataclass(slots=True, eq=False)
class _Spare:
    """One box ahead. ``made``: its making has ended. ``thrown``: nobody wants it any more."""

    open: bool
    key: str
    life: Life
    made: bool = False
    thrown: bool = False


@dataclass(slots=True)
class _Chat:
    last: float = 0.0
    hurried: float = -_HURRY
    spares: list[_Spare] = field(default_factory=list)


class Spares:
    """Makes, keeps and gives out spares. Every method may be called from any thread and returns at once.

    ``on_left`` is told of a box that could not be taken away, as ``Life`` tells it.
    """

    def __init__(self, rules: SpareRules, going: Going, on_left: Callable[[Engine], OnLeft]) -> None:
        self._rules = rules
        self._going = going
        self._on_left = on_left
        self._chats: dict[str, _Chat] = {}
        self._changed = threading.Condition()
        self._keeping = False
        self._closed = False

    def waits_for(self, chat: str, *, open: bool) -> bool:
        """Whether there is something to ``take``, if it is still as it should be."""
        with self._changed:
            found = self._chats.get(chat)
            return found is not None and any(spare.open == open for spare in found.spares)

    def is_out(self, chat: str) -> bool:
        """Whether the chat ran something a short while ago and has no spare at all, made or being made."""
        with self._changed:
            found = self._chats.get(chat)
            return found is not None and not found.spares

    def take(self, chat: str, wanted: Want) -> tuple[Life | None, bool]:
        """The chat's spare, if there is one that is what is wanted, made or still being made. It is then the caller's.

        And whether the command came too early: before its spare was made, or when others had taken all.
        One of its kind that is no longer what is wanted, or that has ended by itself, is thrown away.
        """
        saving = self._rules.saving()
        with self._changed:
            found = self._chats.get(chat)
            out = found is not None and not found.spares
            mine = [spare for spare in found.spares if spare.open == wanted.open] if found else []
            good = [spare for spare in mine if not saving and _is_good(spare, wanted)]
            best = max(good, key=lambda spare: spare.made, default=None)
            gone = [spare for spare in mine if spare not in good]
            if found is not None:
                found.spares = [spare for spare in found.spares if spare not in gone and spare is not best]
            for spare in gone:
                self._throw(spare)
            return (best.life, not best.made) if best else (None, out)

    def refill(self, chat: str, wanted: Want, *, early: bool = False) -> None:
        """Sees to it that the chat has its spares again, of this kind, after (or while) a command of it runs.

        ``early``: that command came before there was a spare for it.
        """
        if not chat or self._rules.most() <= 0:
            return
        saving = self._rules.saving()
        with self._changed:
            if self._closed or saving:
                return
            found = self._chats.setdefault(chat, _Chat())
            found.last = time.monotonic()
            if early:
                found.hurried = found.last
            kept = [spare for spare in found.spares if spare.open == wanted.open]
            for spare in found.spares:
                if spare not in kept:
                    self._throw(spare)
            found.spares = kept
            count = max(0, self._may_have(found) - len(kept))
            for _ in range(count):
                self._make_room()
                on_left = self._on_left(wanted.engine)
                life = Life(wanted.engine, wanted.body, wanted.expected, on_left=on_left, ahead=True)
                spare = _Spare(wanted.open, wanted.key, life)
                found.spares.append(spare)
                threading.Thread(target=self._make, args=(chat, spare), name="conch-spare", daemon=True).start()
            if early:
                self._changed.notify_all()
            if count and not self._keeping:
                self._keeping = True
                threading.Thread(target=self._keep, name="conch-spares", daemon=True).start()

    def drop(self, chat: str | None = None) -> None:
        """Throws away what waits for a chat; for all chats when none is named."""
        with self._changed:
            for name in [chat] if chat is not None else list(self._chats):
                found = self._chats.pop(name, None)
                for spare in found.spares if found else ():
                    self._throw(spare)
            self._changed.notify_all()

    def close(self) -> None:
        """Throws all away, and makes no more."""
        with self._changed:
            self._closed = True
        self.drop()

    def count(self) -> int:
        """How many wait, or are being made to wait."""
        with self._changed:
            return sum(len(found.spares) for found in self._chats.values())

    @property
    def idle(self) -> bool:
        """Whether none is being made."""
        with self._changed:
            return all(spare.made for found in self._chats.values() for spare in found.spares)

    def _may_have(self, chat: _Chat) -> int:
        hurried = time.monotonic() - chat.hurried < _HURRY
        return min(self._rules.each + (self._rules.more if hurried else 0), self._rules.most())

    def _make_room(self) -> None:
        """Takes one from whoever ran something the longest ago, when there are as many as there may be."""
        while sum(len(found.spares) for found in self._chats.values()) >= max(1, self._rules.most()):
            oldest = min((found for found in self._chats.values() if found.spares), key=lambda found: found.last)
            self._throw(oldest.spares.pop(0))

    def _make(self, chat: str, spare: _Spare) -> None:
        """In a thread: makes one box. Whoever takes it meanwhile waits for it, and owns it then."""
        there = spare.life.make()
        with self._changed:
            spare.made = True
            found = self._chats.get(chat)
            if not there and found is not None and spare in found.spares:
                found.spares.remove(spare)
                spare.thrown = True
            thrown = spare.thrown
        if thrown:
            self._going.clear(spare.life)

    def _throw(self, spare: _Spare) -> None:
        """Under the lock. Its box goes at once, or when its making has ended."""
        spare.thrown = True
        spare.life.halt()
        self._going.add(spare.life)
        if spare.made:
            threading.Thread(target=self._going.clear, args=(spare.life,), name="conch-spare", daemon=True).start()

    def _keep(self) -> None:
        """In a thread, for as long as there are any: takes away those whose time is over."""
        while True:
            saving = self._rules.saving()
            with self._changed:
                now = time.monotonic()
                for chat, found in list(self._chats.items()):
                    over = saving or now - found.last >= self._rules.keep
                    while found.spares and (over or len(found.spares) > self._may_have(found)):
                        self._throw(found.spares.pop(0))
                    if over:
                        del self._chats[chat]
                if not self._chats:
                    self._keeping = False
                    return
                ends = [found.last + self._rules.keep for found in self._chats.values()]
                ends += [found.hurried + _HURRY for found in self._chats.values() if found.hurried + _HURRY > now]
                self._changed.wait(max(0.01, min(min(ends) - now, _LOOK_EVERY)))


def _is_good(spare: _Spare, wanted: Want) -> bool:
    return spare.key == wanted.key and (not spare.made or spare.life.waits)
