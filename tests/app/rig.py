"""A turn runner with a real store, for tests of its logic.

``PlaceDouble`` stands in for a place only where the test is about the turn: what it asks, records and tells. What
really runs is tested in tests/real.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from app.chats.events import ChatEvent, StepAsked, TurnFinished
from app.chats.store import ChatStore
from app.chats.turns import Turns
from app.engines.catalog import Catalog, KeyOf, ModelSettings, no_key
from workplaces.place import PlaceUnavailable, Proof, RunRequest, RunResult, WorkPlace, WorkPlaceId

Work = Callable[[RunRequest], Awaitable[int | None]]


async def says_hello(request: RunRequest) -> int:
    request.output.feed("out", b"hello\n")
    return 0


@dataclass
class PlaceDouble:
    """A place that runs nothing: ``work`` says what a command would do."""

    id: WorkPlaceId
    seals: bool = True
    work: Work = says_hello
    requests: list[RunRequest] = field(default_factory=list)
    tried: tuple[str, ...] = ()
    note: str = ""

    @property
    def where(self) -> str:
        return "" if self.id.kind == "computer" else str(self.id)

    def about(self, folder: Path) -> str:
        return f"The double of {self.id} sees {folder} as /there."

    async def run(self, request: RunRequest) -> RunResult:
        self.requests.append(request)
        code = await self.work(request)
        return RunResult(
            code=code,
            output=request.output.finish(),
            seconds=0.5,
            where=self.id,
            proof=self.proof(request),
            timed_out=code is None,
            tried=self.tried,
            note=self.note,
        )

    def proof(self, request: RunRequest) -> Proof:
        return Proof(
            place=str(self.id), target="box-1", folder="/there", network=request.open, sealed=not request.open,
            details={"engine": "double"},
        )  # fmt: skip


class PlacesDouble:
    """The places of a test. One that is an error is not there."""

    def __init__(self, *places: PlaceDouble) -> None:
        self.named: dict[str, PlaceDouble | PlaceUnavailable] = {str(place.id): place for place in places}

    async def for_turn(self, place: WorkPlaceId) -> WorkPlace:
        found = self.named.get(str(place))
        if found is None:
            raise PlaceUnavailable(f"{place} is not there.")
        if isinstance(found, PlaceUnavailable):
            raise found
        return found


class Rig:
    """``seen`` holds what a subscriber was shown."""

    def __init__(
        self, store: ChatStore, folder: Path, *, base_url: str, model: str, key: KeyOf, protected: tuple[Path, ...]
    ) -> None:
        self.store = store
        self.folder = folder
        self.computer = PlaceDouble(WorkPlaceId("computer"))
        self.container = PlaceDouble(WorkPlaceId("container"))
        self.places = PlacesDouble(self.computer, self.container)
        self.settings = ModelSettings(base_url=base_url, model=model)
        self.catalog = Catalog(lambda: self.settings, key=key)
        self.turns = Turns(store, self.places, self.catalog, protected=lambda: protected)  # type: ignore[arg-type]
        self.seen: list[tuple[str, ChatEvent]] = []
        self._news = asyncio.Event()
        self.turns.subscribe(self._take)

    def _take(self, chat: str, event: ChatEvent) -> None:
        self.seen.append((chat, event))
        self._news.set()

    async def chat(self, *, engine: str = "openai", mode: str = "full", place: str = "container") -> str:
        made = await self.store.make(folder=self.folder, place=place, mode=mode, engine=engine)  # type: ignore[arg-type]
        return made.id

    async def until(self, fits: Callable[[str, ChatEvent], bool], *, seconds: float = 10) -> ChatEvent:
        """The first event shown that fits, waited for."""
        async with asyncio.timeout(seconds):
            at = 0
            while True:
                for chat, event in self.seen[at:]:
                    at += 1
                    if fits(chat, event):
                        return event
                self._news.clear()
                await self._news.wait()

    async def ended(self, chat: str, *, turns: int = 1) -> TurnFinished:
        """The end of the chat's turn of that number."""
        left = turns

        def fits(where: str, event: ChatEvent) -> bool:
            nonlocal left
            if where == chat and isinstance(event, TurnFinished):
                left -= 1
            return left == 0

        event = await self.until(fits)
        assert isinstance(event, TurnFinished)
        return event

    async def asked(self, chat: str) -> StepAsked:
        event = await self.until(lambda where, event: where == chat and isinstance(event, StepAsked))
        assert isinstance(event, StepAsked)
        return event

    def shown(self, chat: str, kind: type) -> list:  # type: ignore[type-arg]
        return [event for where, event in self.seen if where == chat and isinstance(event, kind)]

    def answer_text(self, chat: str) -> str:
        from app.chats.events import AnswerText

        return "".join(event.text for event in self.shown(chat, AnswerText))


@contextlib.asynccontextmanager
async def rig(
    tmp_path: Path,
    *,
    base_url: str = "",
    model: str = "double-1",
    key: KeyOf = no_key,
    protected: tuple[Path, ...] = (),
) -> AsyncIterator[Rig]:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    store = ChatStore(tmp_path / "chats.sqlite3")
    await store.open()
    made = Rig(store, folder, base_url=base_url, model=model, key=key, protected=protected)
    try:
        yield made
    finally:
        await made.turns.close()
        await store.close()
