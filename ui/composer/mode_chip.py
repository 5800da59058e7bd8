"""How much goes ahead without asking, in this chat."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ui.buttons import Chip
from ui.choices import Choice, ChoicePopover
from ui.desk import Desk
from ui.theme import Themes


class ModeChip(Chip):
    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "Ask first")

    def show_mode(self, mode: str) -> None:
        from app.guard.modes import MODE_WORDS

        words = MODE_WORDS[mode][0]  # type: ignore[index]  # one of the five
        self.say(words, f"How much goes ahead without asking: {words}")


class ModePicker(ChoicePopover):
    def __init__(self, themes: Themes, window: QWidget, desk: Desk) -> None:
        super().__init__(themes, window, title="Without asking", width=320)
        self._desk = desk
        self.opened.connect(self.refresh)
        desk.altered.connect(self.refresh)

    def open_from(self, anchor: QWidget) -> None:
        self.refresh()
        super().open_from(anchor)

    def refresh(self) -> None:
        from app.guard.modes import MODE_WORDS, OFFERED

        choices = [Choice(key=mode, title=MODE_WORDS[mode][0], line=MODE_WORDS[mode][1]) for mode in OFFERED]
        self.show_choices(choices, self._desk.shown.mode)
