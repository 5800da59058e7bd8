"""A chat is gone, and a copy of its folder still lies on a machine: offers to take that away as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.desk import Desk
    from workplaces.ssh.machines import Copy


async def offer(desk: Desk, chat: str) -> None:
    """Says where copies of the chat lie, with one button. Asks no machine."""
    copies = await desk.services.places.copies(chat)
    if not copies:
        return
    hosts = ", ".join(dict.fromkeys(copy.host for copy in copies))
    what = "Its copy is still" if len(copies) == 1 else "Its copies are still"
    desk.say(
        f"{what} on {hosts}. Your folder here stays as it is either way.",
        button="Remove it there" if len(copies) == 1 else "Remove them there",
        run=lambda: desk.keep(_remove(desk, copies), "remove a chat's copies"),
    )


async def _remove(desk: Desk, copies: list[Copy]) -> None:
    from workplaces.place import PlaceUnavailable

    for copy in copies:
        try:
            await desk.services.places.remove_copy(copy.host, copy.name)
        except PlaceUnavailable as error:
            desk.say(f"{error.words} The copy on {copy.host} is listed in Settings, to be removed later.")
            return
    hosts = ", ".join(dict.fromkeys(copy.host for copy in copies))
    desk.say(f"Removed on {hosts}.")
