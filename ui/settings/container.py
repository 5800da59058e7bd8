"""Security › Advanced › Where work runs, the part on the container: what boxes are made from, and what they may use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.buttons import Button
from ui.desk import Desk
from ui.settings.base import Pane, Segments, SettingRow
from ui.settings.texts import WIDE, TextSetting
from ui.standing import Standing
from ui.widgets import Field, Label

if TYPE_CHECKING:
    from workplaces.container.devcontainer import Offer

# What engines come with: no stronger than the box is anyway.
_ORDINARY = ("runc", "crun", "io.containerd.runc.v2")
_KNOWN = {"runsc": "gVisor", "kata": "Kata", "kata-runtime": "Kata", "sysbox-runc": "Sysbox"}
_NUMBERS = ("container.memory", "container.cpus", "container.spares")


class ContainerSettings(QObject):
    """Fills its part of ``pane`` and keeps it up to date."""

    def __init__(self, pane: Pane, desk: Desk, standing: Standing) -> None:
        super().__init__(pane)
        self._pane, self._themes, self._desk, self._standing = pane, pane.themes, desk, standing
        self._segments: dict[str, Segments] = {}
        self._offers: list[SettingRow] = []
        self._runtimes: tuple[str, ...] = ()
        pane.heading(
            "The container",
            "Each command gets a fresh box made from this image. It is got once, and shared by every chat.",
            first=False,
        )
        self._engine = SettingRow(self._themes, "Engine", "")
        self._images = pane.card([self._engine, self._image_row()])
        self._wrong = Label(self._themes, role="bad", size="small", wrap=True)
        self._wrong.hide()
        pane.add(self._wrong)
        self._limits = pane.card(
            [
                self._row("container.memory", "Memory", "Of each box, in GB.", ("2", "4", "8", "16", "32")),
                self._row("container.cpus", "Processors", "Of each box, at most.", ("1", "2", "4", "8")),
                self._row(
                    "container.spares",
                    "Made ahead",
                    "So many boxes may wait, ready, so that a command starts at once. Each takes a few MB. None wait "
                    "while the battery is saved.",
                    ("0", "2", "4", "8"),
                    {"0": "None"},
                ),
                self._row(
                    "container.gpus",
                    "Graphics processors",
                    "Whether boxes may use this computer's.",
                    ("off", "on"),
                    {"off": "Off", "on": "On"},
                ),
            ]
        )
        self._runtime_row: SettingRow | None = None
        line = (
            "The only hosts that an open command in a container reaches, by https. Empty: all. What else it tries is "
            "refused, and its row says so."
        )
        self._hosts = TextSetting(pane, desk, "container.hosts", "Allowed hosts", line, hint="pypi.org, *.github.com")
        pane.card([self._hosts])
        pane.add(self._hosts.wrong)

    def _image_row(self) -> SettingRow:
        hint = "docker.io/library/node:24-bookworm"
        self.image = Field(self._themes, name="The container's image", placeholder=hint, wide=WIDE)
        self._reset = Button(self._themes, "Use the default", kind="quiet", size="small")
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._reset)
        row.addWidget(self.image)
        holder.setFocusProxy(self.image)
        self.image.editingFinished.connect(self._change_image)
        self._reset.clicked.connect(self._reset_image)
        return SettingRow(self._themes, "Image", "", control=holder, name="container.image")

    def _row(
        self, name: str, title: str, line: str, choices: tuple[str, ...], words: dict[str, str] | None = None
    ) -> SettingRow:
        control = Segments(self._themes, [(key, (words or {}).get(key, key)) for key in choices], name=title)
        control.chosen.connect(lambda key: self._prefer(name, key))
        self._segments[name] = control
        return SettingRow(self._themes, title, line, control=control, name=name)

    def _prefer(self, name: str, key: str) -> None:
        value = int(key) if name in _NUMBERS else key == "on" if name == "container.gpus" else key
        self._standing.prefer(name, value)

    # Keeping up

    def entered(self) -> None:
        if not self._desk.open:
            return
        preferences = self._desk.services.preferences
        self._wrong.hide()
        self._hosts.entered()
        for name in ("container.image", *self._segments):
            self.show_preference(name, preferences.get(name))

    def refresh(self) -> None:
        """What the engine says of itself is known, or another one is used."""
        status = self._standing.place("container")
        details = status.details if status is not None else {}
        engine = details.get("engine", "")
        self._engine.setVisible(bool(engine))
        if engine:
            where = f"{details.get('endpoint', '')} ({details.get('found', '')})" if details.get("endpoint") else ""
            said = [f"{engine} {where}".strip() + ".", details.get("limits", ""), details.get("passed over", "")]
            self._engine.say(" ".join(filter(None, said)))
        gpus = self._pane.rows["container.gpus"]
        gpus.setVisible(details.get("gpus") == "yes" or self._chosen("container.gpus") is True)
        names = [name for name in details.get("runtimes", "").split(", ") if name and name not in _ORDINARY]
        chosen = str(self._chosen("container.runtime") or "")
        self._show_runtimes(tuple(dict.fromkeys([*names, *([chosen] if chosen else [])])))

    def _chosen(self, name: str) -> Any:
        return self._desk.services.preferences.get(name) if self._desk.open else None

    def _show_runtimes(self, names: tuple[str, ...]) -> None:
        """The stronger ones alone are offered: a row for them where there are any."""
        if names == self._runtimes:
            return
        self._runtimes = names
        if self._runtime_row is not None:
            self._limits.remove(self._runtime_row)
            self._runtime_row = None
        if not names:
            return
        words = {"": "As the engine", **{name: _KNOWN.get(name, name) for name in names}}
        line = "What keeps a box from the rest of the computer, where the engine has something stronger."
        self._runtime_row = self._row("container.runtime", "Isolation", line, tuple(words), words)
        self._limits.add(self._runtime_row)
        self._pane.rows["container.runtime"] = self._runtime_row
        self.show_preference("container.runtime", self._chosen("container.runtime"))

    def show_preference(self, name: str, value: Any) -> None:
        if name == "container.image":
            self._show_image(str(value))
            self._desk.keep(self._offer(), "look for a folder's own image")
        elif name == "container.hosts":
            self._hosts.show_value(value)
        elif (control := self._segments.get(name)) is not None:
            control.show_choice(
                {True: "on", False: "off"}.get(value, value) if name == "container.gpus" else str(value)
            )
        if name in ("container.gpus", "container.runtime"):
            self.refresh()

    # The image

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

        self._take(DEFAULT_IMAGE)

    def _take(self, image: str) -> None:
        self.image.setText(image)
        self._desk.keep(self._changed(image), "set the image")

    async def _changed(self, text: str) -> None:
        from app.preferences import BadPreference

        try:
            await self._desk.services.preferences.set("container.image", text)
            words = ""
        except BadPreference as error:
            words = str(error)
        self._wrong.setText(words)
        self._wrong.setVisible(bool(words))

    async def _offer(self) -> None:
        """What the chat's folder names in its devcontainer.json is offered, and taken only when it is pressed."""
        from workplaces.container.devcontainer import offered_images

        folder = self._desk.shown.folder
        found = await asyncio.to_thread(offered_images, folder) if folder is not None else ()
        if folder == self._desk.shown.folder:
            self._show_offers([offer for offer in found if offer.image != self._chosen("container.image")])

    def _show_offers(self, offers: list[Offer]) -> None:
        for row in self._offers:
            self._images.remove(row)
        self._offers = []
        for offer in offers:
            button = Button(self._themes, "Use it", size="small", name=f"Use the image {offer.image}")
            button.clicked.connect(lambda *_, image=offer.image: self._take(image))
            line = f"{offer.image}, from {offer.file} in the chat's folder. It is used only if you say so."
            row = SettingRow(self._themes, "The folder's own image", line, control=button)
            self._images.add(row)
            self._offers.append(row)
