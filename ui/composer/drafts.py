"""What is written in each chat and not sent. It is there again after a restart; the switch that opens the box is not.

A person who comes back a day later does not remember that the switch of some chat was off, so it is on again.
"""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject

from ui.desk import Desk

log = logging.getLogger(__name__)


class Drafts(QObject):
    """By a chat's id; the chat that its first message will make has an empty one."""

    def __init__(self, desk: Desk, parent: QObject) -> None:
        super().__init__(parent)
        self._desk = desk
        self._open: set[str] = set()
        self._said = False

    def text(self, chat: str) -> str:
        return self._desk.drafts.get(chat, "")

    def keep(self, chat: str, text: str) -> None:
        """Keeps a chat's text, an empty one too. It is written in the store's thread."""
        if not self._desk.open or text == self.text(chat):
            return
        self._desk.drafts[chat] = text
        self._desk.keep(self._write(chat, text), "keep a draft")

    async def _write(self, chat: str, text: str) -> None:
        from app.chats.store import StoreTrouble

        try:
            await self._desk.services.store.keep_draft(chat, text)
        except StoreTrouble as trouble:
            log.warning("a draft was not kept: %s", trouble)
            if not self._said:  # once: while the person types it would be said again and again
                self._said = True
                self._desk.say(trouble.words)

    def sealed(self, chat: str) -> bool:
        """Whether what the person types in the chat runs sealed."""
        return chat not in self._open

    def seal(self, chat: str, sealed: bool) -> None:
        (self._open.discard if sealed else self._open.add)(chat)

    def made(self, chat: str) -> None:
        """The new chat was made by its first message: what was its is that chat's now."""
        self.seal(chat, self.sealed(""))
        self.seal("", True)
        self.keep("", "")
