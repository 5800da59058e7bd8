"""What the command line says, and how: sentences on stderr, answers on stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from app.home import Home
    from workplaces.place import NextStep

FAILED = 1
BAD_USE = 2
NOT_RUN = 125


class BadUse(Exception):
    """What was typed cannot be done. ``str(error)`` is one sentence."""


def answer(text: str) -> None:
    """Prints an answer. A reader that went away early is no trouble."""
    _print(sys.stdout, text)


def complain(words: str, next_step: NextStep | None = None) -> None:
    """Says what happened, and on a second line the one next step."""
    lines = [f"conch: {words}"]
    if next_step is not None:
        lines.append(": ".join(part for part in (f"Next: {next_step.label}", next_step.command) if part))
    _print(sys.stderr, "\n".join(lines))


def unexpected(error: Exception, home: Home | None) -> int:
    """Logs what nobody foresaw, says so, and gives the exit code."""
    import logging

    if home is None:
        complain("Something happened that Conch did not expect. Try again; if it stays so, please report it.")
        return FAILED
    logging.getLogger("app").critical("unexpected", exc_info=error)
    complain(f"Something happened that Conch did not expect. The details are in {home.logs / 'conch.log'}.")
    return FAILED


def _print(file: TextIO | None, text: str) -> None:
    if file is None:  # started without a screen
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            file.buffer.write((text + "\n").encode("utf-8", "backslashreplace"))
            file.buffer.flush()
        except BrokenPipeError:
            nobody_reads(file.fileno())


def nobody_reads(number: int) -> None:
    """Lets what is written to that descriptor go nowhere, or Python would complain of it when it ends."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
