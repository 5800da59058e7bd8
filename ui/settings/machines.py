"""Security › Advanced › Where work runs, the part on the person's machines: which are offered, and the copies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from ui.buttons import Button
from ui.composer.folder_chip import short_path
from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.settings.texts import TextSetting
from ui.shown import NEW_CHAT
from ui.standing import Standing
from ui.theme import Themes
from ui.transcript.blocks import safe
from ui.transcript.words import size

if TYPE_CHECKING:
    from workplaces.ssh.machines import Copy

_NONE = "None lie on your machines."


class MachineSettings(QObject):
    """Fills its part of ``pane`` and keeps it up to date."""

    def __init__(self, pane: Pane, desk: Desk, standing: Standing) -> None:
        super().__init__(pane)
        from workplaces.mirror.scope import DEPENDENCIES

        self._pane, self._themes, self._desk, self._standing = pane, pane.themes, desk, standing
        self._sizes: dict[tuple[str, str], int] = {}
        self._said: dict[str, str] = {}
        self._hosts: list[str] = []
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
        self._look = Button(self._themes, "See how big they are", size="small")
        self._look.clicked.connect(lambda *_: desk.start(self._measure(), "look at the copies"))
        self._head = SettingRow(self._themes, "Copies there", _NONE, control=self._look, name="copies")
        self._copies = pane.card([self._head])
        self._rows: list[_CopyRow] = []
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
        """Those that this Conch knows of, and what else was seen there when they were measured."""
        from workplaces.ssh.machines import Copy

        known = await self._desk.services.places.copies()
        names = {(copy.host, copy.name) for copy in known}
        others = [Copy(host=host, name=name, folder=None) for host, name in self._sizes if (host, name) not in names]
        self._hosts = list(dict.fromkeys([*(copy.host for copy in known), *self._reached()]))
        self._show([*known, *others])

    def _reached(self) -> list[str]:
        return [status.id.host for status in self._standing.places if status.details.get("reached") == "yes"]

    async def _measure(self) -> None:
        """Asks each machine that holds one or was reached before. One that does not answer says so in its rows."""
        from workplaces.place import PlaceUnavailable

        self._look.setEnabled(False)
        try:
            for host in self._hosts:
                try:
                    sizes = await self._desk.services.places.copy_sizes(host)
                except PlaceUnavailable as error:
                    self._said[host] = error.words
                    continue
                self._said.pop(host, None)
                self._sizes = {key: taken for key, taken in self._sizes.items() if key[0] != host}
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
        for row in self._rows:
            self._copies.remove(row)
        self._rows = []
        for copy in copies:
            row = _CopyRow(self._themes, self._title(copy), self._line(copy), copy.host)
            row.sure.connect(lambda copy=copy, row=row: self._desk.start(self._remove(copy, row), "remove a copy"))
            self._copies.add(row)
            self._rows.append(row)
        self._head.say("" if copies else _NONE)
        self._look.setVisible(bool(self._hosts))

    def _title(self, copy: Copy) -> str:
        chat = next(
            (chat for chat in self._desk.chats if copy.name == chat.id or copy.name.startswith(f"{chat.id}-")), None
        )
        if chat is not None:
            return chat.title or NEW_CHAT
        return safe(copy.name if copy.folder is None else copy.folder.name or str(copy.folder))

    def _line(self, copy: Copy) -> str:
        of = "which this Conch does not know" if copy.folder is None else f"of {short_path(copy.folder)}"
        taken = self._sizes.get((copy.host, copy.name))
        parts = [f"On {copy.host}, {of}", size(taken) if taken is not None else "", self._said.get(copy.host, "")]
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
