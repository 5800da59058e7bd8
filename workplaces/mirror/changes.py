"""What a round of the mirror did, for a row and for the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from workplaces.place import Changes


@dataclass(frozen=True, slots=True)
class KeptTwice:
    """A file that changed on both sides. ``path`` is ours and stays; ``copy`` is theirs, beside it."""

    path: str
    copy: str


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was not carried. ``key`` names the reason (``mirror.left.…`` in PLACE_WORDS), ``words`` is it in a
    sentence. Each is told once for a copy, not at every command."""

    path: str
    key: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What went there before a command. ``files`` and ``size`` (bytes) are what travelled, ``removed`` what went there
    as a deletion; ``notes`` are sentences for the row. ``recovered`` is what an earlier command changed there and only
    now came back, because Conch ended or the line broke.
    """

    files: int = 0
    size: int = 0
    removed: int = 0
    recovered: Changes = field(default_factory=Changes)
    kept_twice: tuple[KeptTwice, ...] = ()
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What came back after a command. ``changes`` is what became different in the folder here.

    ``trouble`` is a sentence when what changed there did not come back; nothing is lost then, and the next command
    tries again. ``held_back`` is how many deletions were not followed here: the person said no (or nobody
    could be asked), or nothing at all was left there. The files are sent again before the next command.
    """

    changes: Changes = field(default_factory=Changes)
    kept_twice: tuple[KeptTwice, ...] = ()
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: str = ""
    held_back: int = 0
