"""Opens the window: first its frame, then what it shows. Ends when it is closed and everything has stopped.

What is imported here is what the first frame needs. The widgets come next, then asyncio and the services, all in a
thread while the window already takes keys.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEventLoop, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication

from ui.shell import Shell

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event

    from app.home import Home
    from app.services import Services
    from ui.desk import Desk
    from ui.theme import Choice
    from ui.window import Window

log = logging.getLogger(__name__)
PATIENCE_MS = 400  # a window that is not painted by then (minimised, covered) gets its content all the same
_CONTENT = ("ui.window", "ui.theme", "ui.marks")
_THEN = (
    "asyncio",
    "qasync",
    "ui.loop",
    "app.services",
    "app.tasks",
    "app.guard.modes",
    "ui.transcript.view",
    "ui.palette",
)


class _Imports(QObject):
    """Imports in a thread what comes after the first frame.

    Signals:
        content: the widgets can be made.
        done: the rest is there too. If an import failed, the same import on the window's thread says so.
    """

    content = Signal()
    done = Signal()

    def begin(self) -> None:
        threading.Thread(target=self._run, name="imports", daemon=True).start()

    def _run(self) -> None:
        import importlib

        for names, ended in ((_CONTENT, self.content), (_THEN, self.done)):
            try:
                for name in names:
                    importlib.import_module(name)
            except Exception:
                log.exception("an import failed")
            ended.emit()


class Opened:
    """The shell, and once it has been built the window in it. ``folder`` is what Conch was started with."""

    def __init__(self, home: Home, *, folder: Path | None = None, families: tuple[str, str] | None = None) -> None:
        self._families = families
        self._before = _glance(home.preferences)
        size, theme, place = (self._before.get(name) for name in ("text.size", "theme", "window.geometry"))
        self._scale = size / 100 if isinstance(size, int) else 1.0
        self._theme: Choice = theme if theme in ("light", "dark") else "system"
        # With a folder named there is a message to write at once, on a home that was never used too.
        self._first = folder is None and not home.chats.exists() and not self._before.get("folder.last")
        self.shell = Shell(
            theme=self._theme, scale=self._scale, first=self._first, geometry=place if isinstance(place, str) else ""
        )
        self._window: Window | None = None

    @property
    def window(self) -> Window:
        """Made on first use, on the window's thread."""
        if self._window is None:
            from ui.desk import Desk
            from ui.marks import app_icon
            from ui.motion import Motion
            from ui.theme import Themes
            from ui.window import Window

            motion = Motion()
            motion.watch_system()
            themes = Themes(choice=self._theme, scale=self._scale, motion=motion, families=self._families)
            themes.dress()
            self._window = Window(themes, Desk(), self.shell, first_start=self._first)
            self.shell.setWindowIcon(app_icon())
        return self._window


def main(home: Home, arguments: list[str]) -> int:
    """Opens the window on this home and gives the exit code. ``arguments`` may name one folder for a new chat."""
    sys.setswitchinterval(0.001)  # as ``ui.loop`` has it: the imports must not keep the window waiting either
    app = QApplication([sys.argv[0] if sys.argv else "conch"])
    app.setApplicationName("Conch")
    app.setDesktopFileName("conch")
    app.setQuitOnLastWindowClosed(False)
    folder = Path(arguments[0]) if arguments else None
    opened = Opened(home, folder=folder)
    opened.shell.show()
    _paint_first(opened)
    _catch_all(opened.window.desk)
    from ui.garbage import Sweeper
    from ui.loop import run

    window = opened.window
    sweeper = Sweeper(lambda: not window.desk.working)
    window.desk.ready.connect(sweeper.settle)
    window.desk.loaded.connect(sweeper.settle)
    return run(app, _live(home, window, folder), sweeper)


def _glance(path: Path) -> dict[str, Any]:
    """What decides the first frame, from the preferences' file; the preferences themselves check it all soon after."""
    try:
        found = json.loads(path.read_bytes()[: 1 << 20])
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _paint_first(opened: Opened) -> None:
    """Lets Qt run alone until the window is whole and the rest is imported. Nothing of asyncio runs yet."""
    waiting = QEventLoop()
    imports = _Imports()
    begun = False

    def begin() -> None:
        nonlocal begun
        if not begun:
            begun = True
            imports.begin()

    imports.content.connect(lambda: opened.window)
    imports.done.connect(waiting.quit)
    opened.shell.painted.connect(begin)
    QTimer.singleShot(PATIENCE_MS, begin)
    waiting.exec()


async def _live(home: Home, window: Window, folder: Path | None) -> int:
    import asyncio

    from app.services import Services

    desk, shell = window.desk, window.shell
    closing = asyncio.Event()
    shell.close_asked.connect(closing.set)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, what: _unexpected(desk, what))
    _on_signals(loop, closing)
    services = Services(home)
    try:
        await _open(desk, window, services, folder)
        await closing.wait()
        if desk.open:
            await _keep_geometry(services, shell)
        if desk.working:
            desk.say("Stopping what still runs, then Conch closes.", stays=True)
    finally:
        window.standing.end()
        await desk.end()
        await services.close()
        shell.finish()
    return 0


async def _open(desk: Desk, window: Window, services: Services, folder: Path | None) -> None:
    try:
        await desk.begin(services, folder)
    except Exception as error:  # said in the window, which stays: closing it is the person's to do
        log.exception("Conch could not open its things")
        desk.say_sorry(getattr(error, "words", ""), stays=True)
        return
    window.page.prepare()
    motion = window.themes.motion
    if not motion.qt_knows:
        from ui.motion import Portal

        portal = Portal(motion, window)
        window.shell.activated.connect(portal.ask)
        portal.ask()


async def _keep_geometry(services: Services, shell: Shell) -> None:
    try:
        await services.preferences.set("window.geometry", shell.where())
    except Exception:  # a full disk must not keep the window open
        log.exception("the window's place was not kept")


def _on_signals(loop: AbstractEventLoop, closing: Event) -> None:
    import signal

    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, closing.set)
        except (NotImplementedError, RuntimeError, ValueError):  # not on Windows
            return


def _catch_all(desk: Desk) -> None:
    """Whatever nobody caught is logged, and the person reads one sentence."""
    before = sys.excepthook

    def caught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        before(kind, error, trace)
        if not issubclass(kind, KeyboardInterrupt):
            desk.say_sorry()

    sys.excepthook = caught


def _unexpected(desk: Desk, what: dict[str, Any]) -> None:
    log.error("unexpected on the loop: %s", what.get("message", ""), exc_info=what.get("exception"))
    desk.say_sorry()
