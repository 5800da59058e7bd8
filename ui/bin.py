"""Deleting a chat: Undo is offered, and so is the removal of what lies of it on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ui.shown import NEW_CHAT

if TYPE_CHECKING:
    from ui.desk import Desk
    from workplaces.ssh.machines import Copy


class Bin:
    """``hidden`` are the chats that are on their way into it."""

    def __init__(self, desk: Desk) -> None:
        self.hidden: set[str] = set()
        self._desk = desk

    def delete(self, id: str) -> None:
        """Takes the chat from the list, and offers Undo: it is in the bin for 30 days."""
        if self._desk.chat(id) is not None and id not in self.hidden:
            self.hidden.add(id)
            self._desk.keep(self._remove(id), "delete chat")

    async def _remove(self, id: str) -> None:
        desk = self._desk
        chat = desk.chat(id)
        if chat is None:
            return
        if desk.shown.id == id:
            desk.open_other()
        desk.chats_changed.emit()
        try:
            await desk.services.turns.stop(id)
            await desk.services.store.remove(id)
        finally:
            self.hidden.discard(id)
        desk.chats = [other for other in desk.chats if other.id != id]
        desk.chats_changed.emit()
        undo = lambda: desk.keep(self._restore(id), "restore chat")  # noqa: E731
        desk.say(f"Deleted “{chat.title or NEW_CHAT}”.", button="Undo", run=undo)
        await self._offer(id)

    async def _restore(self, id: str) -> None:
        desk = self._desk
        await desk.services.store.restore(id)
        desk.chats = await desk.services.store.chats()
        desk.chats_changed.emit()
        desk.open_chat(id)

    async def _offer(self, chat: str) -> None:
        """Says where copies of the chat's folder still lie, with one button. Asks no machine."""
        copies = await self._desk.services.places.copies(chat)
        if not copies:
            return
        hosts = ", ".join(dict.fromkeys(copy.host for copy in copies))
        what = "Its copy is still" if len(copies) == 1 else "Its copies are still"
        self._desk.say(
            f"{what} on {hosts}. Your folder here stays as it is either way.",
            button="Remove it there" if len(copies) == 1 else "Remove them there",
            run=lambda: self._desk.keep(self._remove_there(copies), "remove a chat's copies"),
        )

    async def _remove_there(self, copies: list[Copy]) -> None:
        from workplaces.place import PlaceUnavailable

        for copy in copies:
            try:
                await self._desk.services.places.remove_copy(copy.host, copy.name)
            except PlaceUnavailable as error:
                words = f"{error.words} The copy on {copy.host} is listed in Settings, to be removed later."
                self._desk.say(words)
                return
        hosts = ", ".join(dict.fromkeys(copy.host for copy in copies))
        self._desk.say(f"Removed on {hosts}.")
