"""``conch`` opens the window; ``conch run``, ``conch places``… do the same things without one.

Imported at every start: what it needs is imported where it is needed.
"""

from __future__ import annotations

import os
import sys

# What is not a folder even where a folder is called so.
COMMANDS = frozenset({"run", "places", "default", "get", "set", "help"})


def main(arguments: list[str] | None = None) -> int:
    """Does what the arguments ask and gives the exit code. Whatever happens, no traceback reaches the screen."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and not _is_folder(given):
        from app.cli.main import main as without_window

        return without_window(given)
    return _window(given)


def _is_folder(given: list[str]) -> bool:
    """``conch FOLDER`` opens the window with a new chat on it."""
    return len(given) == 1 and given[0] not in COMMANDS and os.path.isdir(given[0])  # noqa: PTH112 - pathlib is slow


def _window(folder: list[str]) -> int:
    import importlib

    from app.cli.screen import complain, unexpected
    from app.home import Home, HomeTrouble
    from app.log import start_log

    try:
        home = Home()
        home.prepare()
        start_log(home.logs)
    except HomeTrouble as error:
        complain(error.words)
        return 1
    try:
        # The one place where app names ui: this is the program's door, and only here is it known that a window is
        # wanted. By name, so that nothing of app depends on ui and the command line never loads Qt.
        window = importlib.import_module("ui.start")
        return int(window.main(home, folder))
    except Exception as error:  # noqa: BLE001 - the last stop before the person's screen
        return unexpected(error, home)


if __name__ == "__main__":
    sys.exit(main())
