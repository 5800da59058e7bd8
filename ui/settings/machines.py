"""Security › Advanced › Where work runs, the part on the person's machines: which are offered, and the copies there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from ui.buttons import Button
from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.settings.texts import TextSetting
from ui.shown import NEW_CHAT
from ui.theme import Themes
from ui.transcript.words import size

if TYPE_CHECKING:
    from workplaces.ssh.machines import Copy


class MachineSettings(QObject):
    """Fills its part of ``pane`` and keeps it up to date."""

    def __init__(self, pane: Pane, desk: Desk) -> None:
        super().__init__(pane)
        from workplaces.mirror.scope import DEPENDENCIES

        self._pane, self._themes, self._desk = pane, pane.themes, desk
        self._sizes: dict[tuple[str, str], int] = {}
        self._said: dict[str, str] = {}
        pane.heading(
            "Your machines",
            "The machines of your SSH settings. Commands run there on a copy of the chat's folder, kept in step.",
            first=False,
        )
        left = ", ".join(sorted(DEPENDENCIES, key=lambda name: name.lstrip(".").lower()))
        self._texts = [
            TextSetting(
                pane, desk, "ssh.hosts", "Machines that are offered", "By name. Empty: all of them.",
                hint="build-box, gpu-desk",
            ),
            TextSetting(
                pane, desk, "mirror.leave", "Folders that stay here",
                f"Copies are without what each side makes for itself: {left}. Name more here.", hint="data, out",
            ),
            TextSetting(
                pane, desk, "mirror.carry", "Copied all the same", "Which of these a copy gets nevertheless.",
                hint="target",
            ),
        ]  # fmt: skip
        pane.card(self._texts)
        for text in self._texts:
            pane.add(text.wrong)
        self._copies = pane.card([])
        self._look = Button(self._themes, "See how big they are", size="small")
        self._look.clicked.connect(lambda *_: desk.start(self._measure(), "look at the copies"))
        pane.add(self._look)
        self._show([])

    def entered(self) -> None:
        if self._desk.open:
            for text in self._texts:
                text.entered()
            self._desk.start(self._list(), "list the copies")

    def show_preference(self, name: str, value: Any) -> None:
        for text in self._texts:
            if text.name == name:
                text.show_value(value)

    # The copies

    async def _list(self) -> None:
        self._show(await self._desk.services.places.copies())

    async def _measure(self) -> None:
        """Asks each machine that holds one. One that does not answer says so in its rows."""
        from workplaces.place import PlaceUnavailable

        self._look.setEnabled(False)
        try:
            known = await self._desk.services.places.copies()
            for host in dict.fromkeys(copy.host for copy in known):
                try:
                    sizes = await self._desk.services.places.copy_sizes(host)
                except PlaceUnavailable as error:
                    self._said[host] = error.words
                    continue
                self._said.pop(host, None)
                self._sizes.update({(host, name): taken for name, taken in sizes.items()})
        finally:
            self._look.setEnabled(True)
        await self._list()

    async def _remove(self, copy: Copy, row: _CopyRow) -> None:
        from workplaces.place import PlaceUnavailable

        row.button.setEnabled(False)
        try:
            await self._desk.services.places.remove_copy(copy.host, copy.name)
        except PlaceUnavailable as error:
            row.say(error.words)
            row.button.setEnabled(True)
            return
        self._sizes.pop((copy.host, copy.name), None)
        await self._list()

    def _show(self, copies: list[Copy]) -> None:
        self._copies.clear()
        for copy in copies:
            row = _CopyRow(self._themes, self._title(copy), self._line(copy), copy.host)
            row.sure.connect(lambda copy=copy, row=row: self._desk.start(self._remove(copy, row), "remove a copy"))
            self._copies.add(row)
        if not copies:
            self._copies.add(SettingRow(self._themes, "No copies lie on your machines", ""))
        self._look.setVisible(bool(copies))
        self._pane.rows["copies"] = SettingRow(self._themes, "")

    def _title(self, copy: Copy) -> str:
        chat = next(
            (chat for chat in self._desk.chats if copy.name == chat.id or copy.name.startswith(f"{chat.id}-")), None
        )
        return (chat.title or NEW_CHAT) if chat is not None else copy.folder.name or str(copy.folder)

    def _line(self, copy: Copy) -> str:
        folder = str(copy.folder)
        home = str(Path.home())
        shown = f"~{folder[len(home) :]}" if folder.startswith(f"{home}/") else folder
        taken = self._sizes.get((copy.host, copy.name))
        parts = [f"On {copy.host}, of {shown}", size(taken) if taken is not None else "", self._said.get(copy.host, "")]
        return " · ".join(filter(None, parts))


class _CopyRow(SettingRow):
    """Signals:
    sure: it is to be removed; the button was pressed twice.
    """

    sure = Signal()

    def __init__(self, themes: Themes, title: str, line: str, host: str) -> None:
        self.button = Button(themes, "Remove", size="small", name=f"Remove the copy on {host}: {title}")
        super().__init__(themes, title, line, control=self.button)
        self._asked = False
        self._host = host
        self.button.clicked.connect(self._pressed)

    def _pressed(self) -> None:
        if self._asked:
            self.sure.emit()
            return
        self._asked = True
        self.say(f"Your folder here stays as it is. What only lies on {self._host} is lost.")
        self.button.say("Remove it there", f"Remove it there, on {self._host}")
