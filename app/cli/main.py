"""The command line: what was asked for, and its sentence when it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.cli.screen import BAD_USE, FAILED, NOT_RUN, BadUse, answer, complain, unexpected
from app.version import VERSION

if TYPE_CHECKING:
    from app.home import Home

HELP: Final = """\
Conch: a chat with an assistant whose commands run in the place you pick.

  conch [FOLDER]              opens the window, with a new chat on the folder
  conch run -- COMMAND…       runs a command at a place
  conch places                what places there are, and how each stands
  conch default [PLACE]       where new chats run their commands
  conch get [NAME]            a preference, or all of them
  conch set NAME VALUE        changes a preference
  conch --version
  conch COMMAND --help        more about one of these

A PLACE is computer, container, ssh:HOST or cloud. CONCH_HOME names the folder where Conch keeps things (~/.conch)."""

HELPS: Final = {
    "run": """\
conch run [--place PLACE] [--folder FOLDER] [--open] [--timeout SECONDS] [--json] -- COMMAND…

Runs a command at a place, on a folder of this computer. One argument is a line for /bin/sh; several are a program
and its arguments, taken as they are. Its output and its exit code are the command's own.

  --place PLACE       where; else where new chats run (see conch default)
  --folder FOLDER     the work folder; else the one you are in
  --open              lets it leave the box: network, and .git can be written
  --timeout SECONDS   stops it then; 120 unless said, 3600 at most
  --json              prints one object when it has ended, and nothing else

Exit codes of Conch's own: 124 it took too long, 125 nothing ran (the place was not there, or may not be touched),
2 what you typed cannot be done, 128 and the number of the signal that stopped it.""",
    "places": """\
conch places [--look] [--json]

The places, and how each stands. --look asks each again.""",
    "default": """\
conch default [PLACE]

Says, or changes, where new chats run their commands. A chat can always choose its own place.""",
    "get": """\
conch get [NAME]

Prints a preference; without a name all of them, each with what it is.""",
    "set": """\
conch set NAME VALUE

Changes a preference. conch get lists the names.""",
}


def main(given: list[str]) -> int:
    """Does it and gives the exit code."""
    home: Home | None = None
    try:
        if given[0] in ("--help", "-h", "help"):
            answer(HELP)
            return 0
        if given[0] in ("--version", "-V"):
            answer(f"conch {VERSION}")
            return 0
        name, rest = given[0], given[1:]
        if name not in HELPS:
            raise BadUse(_unknown(name))
        if rest and rest[0] in ("--help", "-h"):
            answer(HELPS[name])
            return 0

        from app.home import Home, HomeTrouble
        from app.log import start_log

        try:
            home = Home()
            home.prepare()
        except HomeTrouble as error:
            complain(error.words)
            return NOT_RUN if name == "run" else FAILED
        start_log(home.logs)
        return _do(name, rest, home)
    except BadUse as error:
        complain(str(error))
        return BAD_USE
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last stop before the person's screen
        return unexpected(error, home)


def _do(name: str, rest: list[str], home: Home) -> int:
    if name == "run":
        from app.cli.run import run

        return run(rest, home)
    from app.cli import settings

    what = {"get": settings.get, "set": settings.set_, "default": settings.default, "places": settings.places}
    return what[name](rest, home)


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [*HELPS, "--help", "--version"], 1)
    if name.startswith("-"):
        return f"{name} is not an option of conch." + (f" Did you mean {near[0]}?" if near else " See conch --help.")
    return f"“{name}” is nothing that conch can do." + (f" Did you mean {near[0]}?" if near else " See conch --help.")
