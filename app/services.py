"""The one place where everything is built and joined. The window and the command line both start here.

Everything public is async or quick: nothing here touches a file, a socket, a program or the keychain on the caller's
thread for longer than a few hundred microseconds.
"""

from __future__ import annotations

from app.chats.store import ChatStore
from app.chats.turns import Turns
from app.engines.catalog import Catalog
from app.health.fixed import FixedLog
from app.home import Home
from app.keys.keychain import Keychain
from app.preferences import Preferences
from workplaces.service import WorkPlaces


class Services:
    home: Home
    preferences: Preferences
    places: WorkPlaces
    store: ChatStore
    turns: Turns
    engines: Catalog
    fixed: FixedLog
    keychain: Keychain

    def __init__(self, home: Home) -> None:
        """Builds and joins; opens nothing yet."""
        raise NotImplementedError

    async def start(self) -> None:
        """Opens the store, marks turns a crash cut off, and starts the places' housekeeping in the background."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stops every turn (waiting until its command is dead), closes the places and the store."""
        raise NotImplementedError
