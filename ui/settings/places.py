"""Security › Advanced › Where work runs: each place, how it stands, and which one new chats use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.buttons import Button
from ui.desk import Desk
from ui.place_words import line_of, standing_words, step_of
from ui.settings.base import Pane, RowsCard, SettingRow
from ui.standing import Standing
from ui.theme import Themes, Tokens
from ui.widgets import Field, Label

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
        self.heading(
            "The container",
            "Each command gets a fresh box made from this image. It is got once, and shared by every chat.",
            first=False,
        )
        hint = "docker.io/library/node:24-bookworm"
        self.image = Field(themes, name="The container's image", placeholder=hint, wide=WIDE)
        self._reset = Button(themes, "Use the default", kind="quiet", size="small")
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._reset)
        row.addWidget(self.image)
        holder.setFocusProxy(self.image)
        self.card([SettingRow(themes, "Image", "", control=holder, name="container.image")])
        self._wrong = Label(themes, role="bad", size="small", wrap=True)
        self._wrong.hide()
        self.add(self._wrong)
        self.image.editingFinished.connect(self._change_image)
        self._reset.clicked.connect(self._reset_image)
        standing.changed.connect(self.refresh)
        standing.preferred.connect(self._on_preference)

    def entered(self) -> None:
        if self._desk.open:
            self._show_image(self._desk.services.preferences.get("container.image"))
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

    def _pressed(self, place: str) -> None:
        status = self._standing.place(place)
        if status is None or (place == self._standing.default_place and status.ready):
            return
        if status.ready:
            self._standing.make_default(place)
        else:
            self.followed.emit(step_of(status)[1] or f"place:{place}")

    # The image

    def _on_preference(self, name: str, value: Any) -> None:
        if name == "container.image":
            self._show_image(str(value))

    def _show_image(self, image: str) -> None:
        if not self.image.hasFocus() or self.image.text() == image:
            self.image.setText(image)
        from workplaces.service import DEFAULT_IMAGE

        self._reset.setVisible(image != DEFAULT_IMAGE)

    def _change_image(self) -> None:
        text = self.image.text().strip()
        if self._desk.open and text != self._desk.services.preferences.get("container.image"):
            self._desk.keep(self._changed(text), "set the image")

    def _reset_image(self) -> None:
        from workplaces.service import DEFAULT_IMAGE

        self.image.setText(DEFAULT_IMAGE)
        self._desk.keep(self._changed(DEFAULT_IMAGE), "set the image")

    async def _changed(self, text: str) -> None:
        from app.preferences import BadPreference

        try:
            await self._desk.services.preferences.set("container.image", text)
            words = ""
        except BadPreference as error:
            words = str(error)
        self._wrong.setText(words)
        self._wrong.setVisible(bool(words))


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
