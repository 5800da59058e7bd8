"""What the window shows, held in one place: the chats, the open one, how the places stand, what is to be said.

It asks ``app`` for everything and decides nothing. The window is shown before the services are there, so everything
here has an empty state first; ``begin`` fills it. Nothing in this module waits for a disk, a socket or a program.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from ui.bin import Bin
from ui.notes import SORRY, Note
from ui.shown import Shown

if TYPE_CHECKING:
    from asyncio import Task

    from app.chats.events import ChatChanged, ChatEvent
    from app.chats.store import Chat, Hit
    from app.services import Services
    from app.tasks import Tasks

log = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds that closing waits for what was changed to be kept


class Desk(QObject):
    """Signals:
    ready: the services are open.
    chats_changed: the list of chats, or which of them work, is another.
    shown_changed: another chat is open.
    altered: the open chat's title, folder, place, mode or engine is another.
    loaded: what ``reader``, in a thread, made of the open chat's events; None for a new chat.
    happened: one more event of the open chat.
    said: a Note for the person.
    ending: the window closes; what is to be kept is kept now.
    """

    ready = Signal()
    chats_changed = Signal()
    shown_changed = Signal()
    altered = Signal()
    loaded = Signal(object)
    happened = Signal(object)
    said = Signal(object)
    ending = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._services: Services | None = None
        self._tasks: Tasks | None = None
        self.chats: list[Chat] = []
        self.shown = Shown()
        self.drafts: dict[str, str] = {}  # by the chat's id, for the composer
        self.working: set[str] = set()
        self.recent_folders: list[Path] = []
        self.bin = Bin(self)
        self._loading = ""
        self._meanwhile: list[ChatEvent] = []
        self._ends: list[Callable[[], None]] = []
        self._keeping: set[Task[Any]] = set()
        self.reader: Callable[[list[ChatEvent]], object] = list

    # Beginning and end

    @property
    def open(self) -> bool:
        return self._services is not None

    @property
    def services(self) -> Services:
        if self._services is None:
            raise RuntimeError("the services are not open yet")
        return self._services

    async def begin(self, services: Services, folder: Path | None = None) -> None:
        """Opens the services and fills the window: with a new chat on ``folder``, else with the newest chat.

        Called once, on the loop, after the window is there.
        """
        from app.tasks import Tasks

        self._tasks = Tasks()
        await services.start()
        self._services = services
        self._ends.append(services.turns.subscribe(self._on_event))
        self._ends.append(services.store.subscribe(lambda trouble: self.say(trouble.words, stays=True)))
        self.chats = await services.store.chats()
        self.drafts = await services.store.drafts()
        self.recent_folders = list(dict.fromkeys(chat.folder for chat in self.chats))[:8]
        for trouble in services.preferences.troubles:
            self.say(trouble, stays=True)
        if services.store.trouble is not None:
            self.say(services.store.trouble.words, stays=True)
        if folder is not None and await self._choose_folder(folder, fresh=True):
            pass
        elif self.chats:
            self.open_chat(self.chats[0].id)
        else:
            self.new_chat()
        self.chats_changed.emit()
        self.ready.emit()

    async def end(self) -> None:
        """Stops listening and waits for what the person changed to be kept; the rest of what was begun is cancelled.

        The services are closed by whoever made them.
        """
        import asyncio

        self.ending.emit()
        for end in self._ends:
            end()
        self._ends.clear()
        if self._keeping:
            await asyncio.wait(self._keeping, timeout=PATIENCE)
        if self._tasks is not None:
            await self._tasks.close()

    def start(self, work: Coroutine[Any, Any, object], name: str) -> Task[Any] | None:
        """Starts something on the loop; if it fails, the person reads one sentence and the log has the rest."""
        if self._tasks is None:
            work.close()
            return None
        return self._tasks.start(self._guarded(work, name), name)

    def keep(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """As ``start``, for what the person changed: closing the window waits until it is kept."""
        if (task := self.start(work, name)) is not None:
            self._keeping.add(task)
            task.add_done_callback(self._keeping.discard)

    async def _guarded(self, work: Coroutine[Any, Any, object], name: str) -> None:
        try:
            await work
        except Exception as error:  # the last net: said in words, logged whole
            log.error("%s failed", name, exc_info=error)
            self.say_sorry(getattr(error, "words", ""))

    def say(
        self, words: str, *, button: str = "", run: Callable[[], object] | None = None, stays: bool = False
    ) -> None:
        self.said.emit(Note(words, button, run, stays))

    def say_sorry(self, words: str = "", *, stays: bool = False) -> None:
        """Says that something went wrong: ``words`` when there are any for it, else one calm sentence."""
        self.say(words or SORRY, stays=stays)

    async def refresh(self) -> None:
        """Takes in what another Conch on the same home did meanwhile."""
        await self.services.preferences.refresh()
        chats = await self.services.store.chats()
        if chats != self.chats:
            self.chats = chats
            self.chats_changed.emit()

    # Chats

    def chat(self, id: str) -> Chat | None:
        return next((chat for chat in self.chats if chat.id == id), None)

    def listed(self) -> list[Chat]:
        """The chats to show, newest change first."""
        return [chat for chat in self.chats if chat.id not in self.bin.hidden]

    def open_chat(self, id: str) -> None:
        chat = self.chat(id)
        if chat is None or id == self.shown.id:
            return
        self.shown = Shown(chat.id, chat.title, chat.folder, chat.place, chat.mode, chat.engine)
        self._loading, self._meanwhile = id, []
        self.shown_changed.emit()
        self.start(self._load(id), "load chat")

    async def _load(self, id: str) -> None:
        import asyncio

        events = await self.services.store.events(id)
        last = events[-1].seq if events else 0
        made = await asyncio.to_thread(self.reader, events)  # thousands of rows take longer than the window may be held
        if self._loading != id:
            return  # another was opened meanwhile
        self._loading = ""
        self.loaded.emit(made)
        for event in self._meanwhile:
            if event.seq > last or event.seq == 0:
                self.happened.emit(event)
        self._meanwhile = []

    def new_chat(self, folder: Path | None = None) -> None:
        """Opens a new chat, on ``folder`` or the one of the chat before. Its first message makes it."""
        preferences = self._services.preferences if self._services else None
        last = preferences.get("folder.last") if preferences else ""
        if folder is None:
            folder = self.shown.folder or (Path(last) if last else None)
        self._loading = ""
        if preferences is None:
            self.shown = Shown(folder=folder)
        else:
            self.shown = Shown(
                folder=folder,
                place=preferences.get("place"),
                mode=preferences.get("mode"),  # type: ignore[arg-type]  # the table lets nothing else in
                engine=preferences.get("engine"),
            )
        self.shown_changed.emit()
        self.loaded.emit(None)

    def choose_folder(self, folder: Path) -> None:
        """Takes ``folder`` for a new chat, unless no command may work on it; then the words say why."""
        self.keep(self._choose_folder(folder), "choose folder")

    async def _choose_folder(self, folder: Path, *, fresh: bool = False) -> bool:
        """Takes the folder for the new chat that is shown, or for a ``fresh`` one. False when it was refused."""
        import asyncio

        from app.home import protected_places
        from workplaces.folder import check_folder
        from workplaces.place import PlaceUnavailable

        try:
            found = await asyncio.to_thread(check_folder, folder, protected_places(self.services.home))
        except PlaceUnavailable as refused:
            self.say(refused.words)
            return False
        self.recent_folders = [found.path, *(other for other in self.recent_folders if other != found.path)][:8]
        if self.shown.id or fresh:
            self.new_chat(found.path)
        else:
            self._alter(folder=found.path)
        self.keep(self.services.preferences.set("folder.last", str(found.path)), "keep the folder")
        return True

    def send(self, text: str, *, sealed: bool) -> None:
        self.keep(self._send(text, sealed), "send")

    async def _send(self, text: str, sealed: bool) -> None:
        from app.chats.turns import Busy

        shown = self.shown
        if shown.folder is None:
            return
        id = shown.id
        if not id:
            chat = await self.services.store.make(
                folder=shown.folder, place=shown.place, mode=shown.mode, engine=shown.engine
            )
            id = chat.id
            self.chats.insert(0, chat)
            if self.shown is shown:
                self.shown = replace(shown, id=id, title=chat.title)
                self.altered.emit()
            self.chats_changed.emit()
        try:
            self.services.turns.send(id, text, sealed=sealed)
        except Busy:
            self.say("This chat is still working. Send it when it has ended, or stop it.")
            return
        self._set_working(id, True)

    def stop(self) -> None:
        if self.shown.id in self.working:
            self.start(self.services.turns.stop(self.shown.id), "stop")

    def answer(self, step: str, answer: str) -> None:
        if self.shown.id:
            self.services.turns.answer(self.shown.id, step, answer)  # type: ignore[arg-type]  # from the ask card

    def rename(self, id: str, title: str) -> None:
        if title.strip():
            self.keep(self._change(id, title=title.strip()), "rename")

    def set_place(self, place: str) -> None:
        self._set(place=place)

    def set_mode(self, mode: str) -> None:
        self._set(mode=mode)

    def set_engine(self, engine: str) -> None:
        self._set(engine=engine)

    def _set(self, **changes: Any) -> None:
        if self.shown.id:
            self.keep(self._change(self.shown.id, **changes), "change chat")
        self._alter(**changes)

    async def _change(self, id: str, **changes: Any) -> None:
        from app.chats.events import ChatChanged

        kept = await self.services.store.append(id, ChatChanged(**changes))
        for event in kept:
            self._on_event(id, event)

    def _alter(self, **changes: Any) -> None:
        self.shown = replace(self.shown, **changes)
        self.altered.emit()

    def open_other(self) -> None:
        """Opens the newest chat that is listed, or a new one."""
        listed = self.listed()
        if listed:
            self.open_chat(listed[0].id)
        else:
            self.new_chat()

    async def search(self, text: str, most: int = 30) -> list[Hit]:
        hits = await self.services.store.search(text, most=most)
        return [hit for hit in hits if hit.chat.id not in self.bin.hidden]

    # What comes in

    def _on_event(self, id: str, event: ChatEvent) -> None:
        from app.chats.events import ChatChanged, TurnFinished, TurnStarted, UserMessage

        if isinstance(event, TurnStarted):
            self._set_working(id, True)
        elif isinstance(event, TurnFinished):
            self._set_working(id, False)
        if isinstance(event, ChatChanged):
            self._take_change(id, event)
        elif isinstance(event, UserMessage):
            self._touch(id, event.at)
        if id == self.shown.id:
            if self._loading == id:
                self._meanwhile.append(event)
            else:
                self.happened.emit(event)

    def _take_change(self, id: str, event: ChatChanged) -> None:
        named: dict[str, Any] = {
            "title": event.title,
            "folder": Path(event.folder) if event.folder is not None else None,
            "place": event.place,
            "mode": event.mode,
            "engine": event.engine,
        }
        changes = {name: value for name, value in named.items() if value is not None}
        self.chats = [replace(chat, **changes) if chat.id == id else chat for chat in self.chats]
        if id == self.shown.id and any(getattr(self.shown, name) != value for name, value in changes.items()):
            self._alter(**changes)
        self.chats_changed.emit()

    def _touch(self, id: str, at: float) -> None:
        """Moves a chat to the top, as something was sent in it."""
        chat = self.chat(id)
        if chat is None:
            return
        rest = [other for other in self.chats if other.id != id]
        self.chats = [replace(chat, changed=at or time.time()), *rest]
        self.chats_changed.emit()
        if not chat.title:
            self.start(self._reread(id), "read chat")

    async def _reread(self, id: str) -> None:
        """Takes the title that the store gave a chat after its first message."""
        fresh = await self.services.store.chat(id)
        self.chats = [fresh if chat.id == id else chat for chat in self.chats]
        if self.shown.id == id and fresh.title != self.shown.title:
            self._alter(title=fresh.title)
        self.chats_changed.emit()

    def _set_working(self, id: str, working: bool) -> None:
        if (id in self.working) == working:
            return
        if working:
            self.working.add(id)
        else:
            self.working.discard(id)
        self.chats_changed.emit()
