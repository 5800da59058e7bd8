"""About: which Conch this is, and where it keeps things."""

from __future__ import annotations

import platform

from PySide6.QtCore import qVersion

from app.version import VERSION
from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.theme import Themes


class About(Pane):
    crumbs = ("About",)

    def __init__(self, themes: Themes, desk: Desk) -> None:
        super().__init__(themes)
        self._desk = desk
        self.heading("Conch", "A chat with an assistant whose commands run in the place you pick.")
        self._card = self.card([])

    def entered(self) -> None:
        self._card.clear()
        rows = [("Version", VERSION), ("Licence", "Apache-2.0"), ("Made with", _made_with())]
        if self._desk.open:
            home = self._desk.services.home
            rows += [("Conch's folder", str(home.path)), ("Log", str(home.logs / "conch.log"))]
        for title, line in rows:
            self._card.add(SettingRow(self.themes, title, line))


def _made_with() -> str:
    return f"Python {platform.python_version()}, Qt {qVersion()}"
