"""What answers this chat."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ui.buttons import Chip
from ui.choices import Choice, ChoicePopover
from ui.desk import Desk
from ui.standing import Standing
from ui.theme import Themes


class EngineChip(Chip):
    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "Commands")

    def show_engine(self, name: str, *, ready: bool) -> None:
        self.dot = None if ready else self.themes.tokens.warn
        self.say(name, f"What answers: {name}" + ("" if ready else ", not set up yet"))


class EnginePicker(ChoicePopover):
    """Signals:
    followed: the engine's next step, by its action's name.
    """

    def __init__(self, themes: Themes, window: QWidget, desk: Desk, standing: Standing) -> None:
        super().__init__(themes, window, title="What answers", width=340)
        self._desk, self._standing = desk, standing
        desk.altered.connect(self.refresh)
        standing.engines_changed.connect(self.refresh)

    def open_from(self, anchor: QWidget) -> None:
        self.refresh()
        super().open_from(anchor)

    def refresh(self) -> None:
        current = self._desk.shown.engine
        choices = []
        for engine in self._standing.engines():
            step = engine.next_step
            choices.append(
                Choice(
                    key=engine.id,
                    title=engine.model or engine.name,
                    line=engine.line,
                    dot="" if engine.ready else "warn",
                    state="" if engine.ready else "not set up yet",
                    link=step.label if step is not None else "",
                    link_key=step.action if step is not None else "",
                    can_pick=engine.ready or engine.id == current,
                )
            )
        if choices:
            self.show_choices(choices, current)
