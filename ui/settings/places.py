"""Security › Advanced › Where work runs: each place, how it stands, and which one new chats use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor

from ui.buttons import Button
from ui.desk import Desk
from ui.place_words import line_of, standing_words, step_of
from ui.settings.base import Pane, RowsCard, SettingRow
from ui.settings.container import ContainerSettings
from ui.settings.machines import MachineSettings
from ui.standing import Standing
from ui.theme import Themes, Tokens

if TYPE_CHECKING:
    from workplaces.place import PlaceStatus

WIDE = 340


class Places(Pane):
    """Signals:
    followed: a next step was pressed, by its key.
    """

    crumbs = ("Security", "Advanced", "Where work runs")
    followed = Signal(str)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing) -> None:
        super().__init__(themes)
        self._desk, self._standing = desk, standing
        self._shown: list[str] = []
        self.heading("Where work runs", "Where new chats run their commands. A chat can always choose its own place.")
        self._card: RowsCard = self.card([])
        self._place_rows: dict[str, _PlaceRow] = {}
        self.container = ContainerSettings(self, desk, standing)
        self.machines = MachineSettings(self, desk, standing)
        standing.changed.connect(self.refresh)
        standing.preferred.connect(self._on_preference)

    def entered(self) -> None:
        self.container.entered()
        self.machines.entered()
        self.refresh()
        self._standing.look()

    def refresh(self) -> None:
        places = [status for status in self._standing.places if status.standing != "later"]
        names = [str(status.id) for status in places]
        if names != self._shown:
            self._shown = names
            self._card.clear()
            self._place_rows = {}
            for status in places:
                row = _PlaceRow(self.themes, status)
                row.button.clicked.connect(lambda *_, place=str(status.id): self._pressed(place))
                self._place_rows[str(status.id)] = row
                self._card.add(row)
            if names:
                self.rows["place"] = self._place_rows[names[0]]
        for status in places:
            place = str(status.id)
            self._place_rows[place].show_status(status, default=place == self._standing.default_place)
        self.container.refresh()

    def _pressed(self, place: str) -> None:
        status = self._standing.place(place)
        if status is None or (place == self._standing.default_place and status.ready):
            return
        if status.ready:
            self._standing.make_default(place)
        else:
            self.followed.emit(step_of(status)[1] or f"place:{place}")

    def _on_preference(self, name: str, value: Any) -> None:
        if name.startswith("container."):
            self.container.show_preference(name, value)
        self.machines.show_preference(name, value)


class _DefaultButton(Button):
    """*Make default*, or *✓ Default* in the accent when it is."""

    chosen = False

    def _colors(self, tokens: Tokens) -> tuple[QColor | None, QColor | None, QColor]:
        if self.chosen:
            return tokens.surface, tokens.accent, tokens.accent
        return super()._colors(tokens)


class _PlaceRow(SettingRow):
    def __init__(self, themes: Themes, status: PlaceStatus) -> None:
        self.button = _DefaultButton(themes, "Make default")
        super().__init__(themes, status.name, mark=str(status.id), control=self.button)

    def show_status(self, status: PlaceStatus, *, default: bool) -> None:
        self.title.setText(status.name)
        self.say(line_of(status))
        self.state.setText(standing_words(status))
        self.state.ink("bad" if status.standing == "down" else "warn" if status.standing == "needs" else "muted")
        self.state.show()
        words = step_of(status)[0] or "Make default"
        if default and status.ready:
            words = "Default"
        self.button.chosen = default and status.ready
        self.button.set_mark("check" if self.button.chosen else "")
        self.button.say(words, f"{status.name}: {words}")
        self.button.setEnabled(status.standing not in ("checking", "later"))
