"""A setting that is typed: kept when it is right, and with what is wrong with it below when it is not."""

from __future__ import annotations

from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.widgets import Field, Label

WIDE = 340


class TextSetting(SettingRow):
    """The row of the preference ``name``. ``wrong`` is to be added below its card."""

    def __init__(self, pane: Pane, desk: Desk, name: str, title: str, line: str, *, hint: str = "") -> None:
        self.field = Field(pane.themes, name=title, placeholder=hint, wide=WIDE)
        super().__init__(pane.themes, title, line, control=self.field, name=name)
        self._desk = desk
        self.wrong = Label(pane.themes, role="bad", size="small", wrap=True)
        self.wrong.hide()
        self.field.editingFinished.connect(self._changed)

    def entered(self) -> None:
        """The page is shown: what was wrong when it was last shown is over."""
        self._say("")
        self.show_value(self._desk.services.preferences.get(self.name))

    def show_value(self, value: object) -> None:
        if not self.field.hasFocus():
            self.field.setText(str(value))

    def _changed(self) -> None:
        text = self.field.text().strip()
        if self._desk.open and (self.wrong.text() or text != self._desk.services.preferences.get(self.name)):
            self._desk.keep(self._set(text), f"set {self.name}")

    async def _set(self, text: str) -> None:
        from app.preferences import BadPreference

        try:
            await self._desk.services.preferences.set(self.name, text)
            self._say("")
        except BadPreference as error:
            self._say(str(error))

    def _say(self, words: str) -> None:
        self.wrong.setText(words)
        self.wrong.setVisible(bool(words))
