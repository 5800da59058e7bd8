"""The folder that a new chat will work on."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QWidget

from ui.buttons import Chip
from ui.choices import Choice, ChoicePopover
from ui.desk import Desk
from ui.theme import Themes

OTHER = "\0other"


def short_path(folder: Path) -> str:
    """A folder as people write it: under their home with ``~``."""
    home = str(Path.home())
    text = str(folder)
    return f"~{text[len(home) :]}" if text == home or text.startswith(home.rstrip("/") + "/") else text


class FolderChip(Chip):
    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "Choose a folder…", mark="folder")

    def show_folder(self, folder: Path | None) -> None:
        name = folder.name or str(folder) if folder is not None else "Choose a folder…"
        self.say(name, f"Work folder: {short_path(folder)}" if folder is not None else name)


class FolderPicker(ChoicePopover):
    """Signals:
    picked: a folder's path, or ``OTHER`` for one that is not in the list.
    """

    def __init__(self, themes: Themes, window: QWidget, desk: Desk) -> None:
        super().__init__(themes, window, title="Work folder", width=340)
        self._desk = desk

    def open_from(self, anchor: QWidget) -> None:
        self.refresh()
        super().open_from(anchor)

    def refresh(self) -> None:
        now = self._desk.shown.folder
        folders = list(self._desk.recent_folders)
        if now is not None and now not in folders:
            folders.insert(0, now)
        choices = [
            Choice(key=str(folder), title=folder.name or str(folder), line=short_path(folder)) for folder in folders
        ]
        choices.append(Choice(key=OTHER, title="Choose another folder…"))
        self.show_choices(choices, str(now) if now is not None else "")
