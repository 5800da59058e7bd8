"""General: how Conch looks and moves, and what new chats begin with."""

from __future__ import annotations

from typing import Any

from ui.desk import Desk
from ui.settings.base import Pane, Segments, SettingRow
from ui.standing import Standing
from ui.theme import Themes

SIZES = (90, 100, 115, 130, 150, 175, 200)


class General(Pane):
    crumbs = ("General",)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing) -> None:
        super().__init__(themes)
        from app.guard.modes import MODE_WORDS, OFFERED

        self._desk, self._standing = desk, standing
        self._controls: dict[str, Segments] = {}
        self.heading("How Conch looks")
        self.card(
            [
                self._row("theme", "Theme", "", (("system", "As the system"), ("light", "Light"), ("dark", "Dark"))),
                self._row(
                    "text.size",
                    "Text size",
                    "In percent.",
                    tuple((str(size), f"{size}") for size in SIZES),
                    number=True,
                ),
                self._row(
                    "motion",
                    "Motion",
                    "Off: nothing glides, things change at once.",
                    (("system", "As the system"), ("on", "On"), ("off", "Off")),
                ),
            ]
        )
        self.heading("New chats", "What a new chat begins with. Each chat can choose its own.", first=False)
        modes = tuple((mode, MODE_WORDS[mode][0]) for mode in OFFERED)
        said = " ".join(f"{MODE_WORDS[mode][0]}: {MODE_WORDS[mode][1]}" for mode in OFFERED)
        self._engine_row = self._row("engine", "What answers", "", self._engines())
        self.card([self._row("mode", "Without asking", said, modes), self._engine_row])
        standing.preferred.connect(self._on_preference)
        standing.engines_changed.connect(self.entered)
        self.entered()

    def _engines(self) -> tuple[tuple[str, str], ...]:
        return tuple((engine.id, engine.name) for engine in self._standing.engines()) or (("commands", "Commands"),)

    def _row(
        self, name: str, title: str, line: str, choices: tuple[tuple[str, str], ...], *, number: bool = False
    ) -> SettingRow:
        control = Segments(self.themes, choices, name=title)
        control.chosen.connect(lambda key: self._standing.prefer(name, int(key) if number else key))
        self._controls[name] = control
        return SettingRow(self.themes, title, line, control=control, name=name)

    def entered(self) -> None:
        if self._desk.open:
            for name in self._controls:
                self._on_preference(name, self._desk.services.preferences.get(name))

    def _on_preference(self, name: str, value: Any) -> None:
        if (control := self._controls.get(name)) is not None:
            control.show_choice(str(value))
