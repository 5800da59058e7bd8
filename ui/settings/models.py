"""Models: the address, the name and the key of a model's server. The key is never shown again."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.buttons import Button
from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.standing import Standing
from ui.theme import Themes
from ui.widgets import Field, Label

WIDE = 360
WIDE_KEY = 262
_PASTE = "Paste a key, if the server wants one"
_SENT = "sent only to this address, and never shown again."
_UNKNOWN = f"The key is {_SENT}"  # until the keychain has answered
_KEPT = f"The key is kept in this computer's keychain, {_SENT}"
_HELD = f"The key is written nowhere, {_SENT}"


class Models(Pane):
    crumbs = ("Models",)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing) -> None:
        super().__init__(themes)
        self._desk, self._standing = desk, standing
        self.address = Field(themes, name="The model's address", placeholder="http://localhost:11434/v1", wide=WIDE)
        hint = "Its name, as its server gives it"
        self.model = Field(themes, name="The model's name", placeholder=hint, wide=WIDE)
        self.key = Field(themes, name="The model's key", placeholder=_PASTE, secret=True, wide=WIDE_KEY)
        self._save = Button(themes, "Save key", kind="primary")
        self._forget = Button(themes, "Forget key", kind="quiet")
        self._wrong = Label(themes, role="bad", size="small", wrap=True)
        self._wrong.hide()
        self.heading(
            "A model by its address",
            "Any server that speaks as OpenAI's does: Ollama, LM Studio, llama.cpp, OpenRouter, OpenAI.",
        )
        self._key_row = SettingRow(themes, "Key", "", control=self._key_controls(), name="key")
        self.card(
            [
                SettingRow(themes, "Address", "Up to and with /v1.", control=self.address, name="model.base_url"),
                SettingRow(themes, "Model", "", control=self.model, name="model.name"),
                self._key_row,
            ]
        )
        self.add(self._wrong)
        self._where = Label(themes, _UNKNOWN, role="muted", size="small", wrap=True)
        self.add(self._where)
        self.address.editingFinished.connect(lambda: self._change("model.base_url", self.address))
        self.model.editingFinished.connect(lambda: self._change("model.name", self.model))
        self.key.textChanged.connect(lambda text: self._save.setEnabled(bool(text)))
        self.key.returnPressed.connect(self._keep)
        self._save.clicked.connect(self._keep)
        self._forget.clicked.connect(self._drop)
        self._save.setEnabled(False)
        self._forget.hide()
        standing.preferred.connect(self._on_preference)

    def _key_controls(self) -> QWidget:
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        for part in (self.key, self._save, self._forget):
            row.addWidget(part)
        holder.setFocusProxy(self.key)
        return holder

    def entered(self) -> None:
        if self._desk.open:
            preferences = self._desk.services.preferences
            self.address.setText(preferences.get("model.base_url"))
            self.model.setText(preferences.get("model.name"))
            self._desk.start(self._look_for_key(), "look for the key")

    def _on_preference(self, name: str, value: Any) -> None:
        field = {"model.base_url": self.address, "model.name": self.model}.get(name)
        if field is not None and not field.hasFocus():
            field.setText(str(value))
        if name == "model.base_url" and self.isVisible():
            self._desk.start(self._look_for_key(), "look for the key")

    def _change(self, name: str, field: Field) -> None:
        if self._desk.open and field.text().strip() != self._desk.services.preferences.get(name):
            self._desk.keep(self._changed(name, field.text()), f"set {name}")

    async def _changed(self, name: str, text: str) -> None:
        from app.preferences import BadPreference

        try:
            await self._desk.services.preferences.set(name, text)
        except BadPreference as error:
            self._say_wrong(str(error))
        else:
            self._say_wrong("")

    def _say_wrong(self, words: str) -> None:
        self._wrong.setText(words)
        self._wrong.setVisible(bool(words))

    # The key

    async def _look_for_key(self) -> None:
        from app.keys.keychain import model_key

        services = self._desk.services
        address = services.preferences.get("model.base_url")
        there = bool(address) and await services.keychain.get(model_key(address)) is not None
        await self._show_key(there)

    async def _show_key(self, there: bool) -> None:
        """Says whether there is a key, and what becomes of it here."""
        from app.keys.keychain import model_key

        services = self._desk.services
        held = there and services.keychain.only_held(model_key(services.preferences.get("model.base_url")))
        words = await services.keychain.look()
        self._forget.setVisible(there)
        self.key.setPlaceholderText("Paste another key" if there else _PASTE)
        kept = "A key is held for this address." if held else "A key is kept for this address." if there else ""
        if held and not words:
            words = "It goes when Conch closes: save it again to keep it."
        self._key_row.say(" ".join(part for part in (kept, words) if part))
        self._where.setText(_HELD if words else _KEPT)

    def _keep(self) -> None:
        text = self.key.text().strip()
        if text and self._desk.open:
            self.key.clear()
            self._desk.keep(self._kept(text), "keep the key")

    async def _kept(self, text: str) -> None:
        from app.keys.keychain import model_key
        from app.keys.secret import Secret

        services = self._desk.services
        address = services.preferences.get("model.base_url")
        if not address:
            self._say_wrong("Give the model's address first: a key is sent to that address alone.")
            return
        await services.keychain.set(model_key(address), Secret(text))
        await self._show_key(True)
        self._say_wrong("")

    def _drop(self) -> None:
        self._desk.keep(self._dropped(), "forget the key")

    async def _dropped(self) -> None:
        from app.keys.keychain import model_key

        services = self._desk.services
        gone = await services.keychain.delete(model_key(services.preferences.get("model.base_url")))
        await self._show_key(not gone)
