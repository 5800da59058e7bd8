"""A person's own machine as a place: commands run there, on a copy of the work folder that is kept in step."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from workplaces.folder import WorkFolder, check_folder, shown
from workplaces.mirror.changes import Changed, Sent
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.scope import DEPENDENCIES
from workplaces.place import (
    LONGEST_TIMEOUT,
    PlaceStatus,
    PlaceUnavailable,
    Progress,
    Proof,
    RunRequest,
    RunResult,
    Standing,
    Stopped,
    WorkPlaceId,
)
from workplaces.ssh import script
from workplaces.ssh.command import Command, Ended
from workplaces.ssh.connection import Connection
from workplaces.ssh.facts import Facts
from workplaces.ssh.far import living
from workplaces.threads import in_thread, is_done, to_the_end
from workplaces.words import PLACE_WORDS

_MOST_LEFT = 5


class Ssh:
    """The machine that the settings name ``host``.

    ``mirror`` keeps its copies in step. ``protected``, and ``leave`` (names of folders that are not
    carried), are asked for every command; ``person`` is the home folder here;
    ``installation`` tells this Conch's copies from those of another computer of the same person.
    """

    def __init__(
        self,
        connection: Connection,
        mirror: Mirror,
        *,
        installation: str,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        leave: Callable[[], frozenset[str]] = lambda: DEPENDENCIES,
        person: Path | None = None,
    ) -> None:
        self._connection = connection
        self._mirror = mirror
        self._far = living(connection)
        self._installation = installation
        self._protected = protected
        self._leave = leave
        self._person = person
        self._trouble: PlaceUnavailable | None = None

    @property
    def host(self) -> str:
        return self._connection.host

    @property
    def id(self) -> WorkPlaceId:
        return WorkPlaceId("ssh", self.host)

    @property
    def seals(self) -> bool:
        return False

    @property
    def where(self) -> str:
        return self.host

    def about(self, folder: Path) -> str:
        facts = self._connection.facts
        there = f"{facts.home}/{script.WORK}" if facts else PLACE_WORDS["ssh.about.folder"]
        return PLACE_WORDS["ssh.about"].format(host=self.host, folder=there)

    async def standing(self, *, look: bool = False) -> PlaceStatus:
        """How the machine stands: reached now when ``look``, or else what is known. Never raises PlaceUnavailable."""
        facts = self._connection.facts if self._connection.up else None
        if look:
            try:
                facts = await self._reach(self._connection.look)
            except PlaceUnavailable:
                facts = None  # it is kept as the trouble that this machine is in
        if facts is None and (error := self._trouble) is not None:
            return self._status(error.words, ready=False, error=error, details={"log": error.details, "reached": "no"})
        if facts is None:
            return self._status(PLACE_WORDS["ssh.first"], ready=True, details={"reached": "not yet"})
        answers = PLACE_WORDS["ssh.answers"].format(time=_span(facts.answer))
        return self._status(answers, ready=True, details={"reached": "yes", **_details(facts)})

    async def sizes(self) -> dict[str, int]:
        """The copies that lie there, by their names there, and how much room each takes (bytes). Raises
        PlaceUnavailable."""
        await self._reach(self._connection.ready)
        return await self._mirror.sizes(self._far)

    async def remove_copy(self, name: str) -> bool:
        """Removes a copy there. False when something of it is still there. Raises PlaceUnavailable."""
        await self._reach(self._connection.ready)
        return await self._mirror.remove(self._far, name)

    async def _reach(self, how: Callable[[], Facts]) -> Facts:
        """Reaches it, and keeps why it could not be until it can. Raises PlaceUnavailable."""
        try:
            facts = await in_thread(how, "conch-ssh")
        except PlaceUnavailable as error:
            self._trouble = error
            raise
        self._trouble = None
        return facts

    def _status(
        self, line: str, *, ready: bool, details: dict[str, str], error: PlaceUnavailable | None = None
    ) -> PlaceStatus:
        standing: Standing = "ready" if ready else "needs" if error is not None and error.need else "down"
        return PlaceStatus(
            id=self.id,
            name=self.host,
            line=line,
            standing=standing,
            seals=False,
            next_step=error.next_step if error else None,
            need=error.need if error else None,
            details=details,
        )

    async def run(self, request: RunRequest) -> RunResult:
        """Runs one command there. See ``WorkPlace.run``."""
        began = time.monotonic()
        try:
            return await self._run(request)
        except Stopped:
            raise
        except asyncio.CancelledError:
            raise Stopped(seconds=time.monotonic() - began) from None

    async def _run(self, request: RunRequest) -> RunResult:
        check_command(request.command)
        protected = tuple(dict.fromkeys((*request.protected, *self._protected())))
        folder = await in_thread(lambda: check_folder(request.folder, protected, self._person), "conch-folder")
        if request.on_progress is not None and not self._connection.up:
            request.on_progress(Progress(PLACE_WORDS["ssh.connecting"].format(host=self.host)))
        facts = await self._reach(self._connection.ready)
        name = copy_name(request.chat, folder, self._installation)
        async with self._mirror.session(
            name, folder.path, self._far, protected=protected, leave=self._leave(), ask=self._ask(request)
        ) as session:
            over = threading.Event()
            in_thread(lambda: self._connection.open_ahead(over.is_set), "conch-ssh-ahead")
            try:
                sent = await session.before()
                ended = await self._command(request, f"{facts.home}/{session.copy}", facts)
            finally:
                over.set()  # it was taken, or nothing ran
                in_thread(self._connection.forget_ahead, "conch-ssh-ahead")
            back = await session.after()
        return RunResult(
            code=ended.code,
            output=await in_thread(request.output.finish, "conch-output"),
            seconds=ended.seconds,
            where=self.id,
            proof=self._proof(facts, ended),
            timed_out=ended.timed_out,
            changed=None if back.trouble else back.changes,
            note=" ".join(dict.fromkeys(filter(None, (self._note(ended), *self._told(sent), *self._told(back))))),
            sure=ended.sure,
        )

    def _ask(self, request: RunRequest) -> Callable[[int, int], Awaitable[bool]] | None:
        ask = request.ask
        if ask is None:
            return None
        return lambda count, of: ask(PLACE_WORDS["mirror.ask"].format(count=count, of=of, where=self.host))

    async def _command(self, request: RunRequest, folder: str, facts: Facts) -> Ended:
        """Raises PlaceUnavailable when nothing ran, Stopped when cancelled."""
        limit = min(max(request.timeout, 0.0), LONGEST_TIMEOUT)
        command = Command(self._connection, request.command, folder, request.output, limit)
        done = in_thread(command.run, "conch-ssh-command")
        try:
            while not await is_done(done, LONGEST_TIMEOUT):
                pass
        except asyncio.CancelledError:
            command.stop()
            if not command.sent:
                raise
            ended, _ = await to_the_end(_ended(done))
            sure = ended is None or ended.sure
            words = "" if sure else PLACE_WORDS["ssh.unsure"].format(host=self.host)
            proof = self._proof(facts, ended) if ended is not None and ended.started else None
            raise Stopped(sure=sure, words=words, seconds=ended.seconds if ended else 0.0, proof=proof) from None
        return done.result()

    def _note(self, ended: Ended) -> str:
        if ended.lost:
            state = PLACE_WORDS["ssh.lost.ended" if ended.sure else "ssh.lost.unknown"].format(host=self.host)
            return PLACE_WORDS["ssh.lost"].format(host=self.host, state=state)
        if ended.silent:
            return PLACE_WORDS["ssh.silence"].format(host=self.host)
        if not ended.sure:
            return PLACE_WORDS["ssh.unsure"].format(host=self.host)
        return "" if ended.whole else PLACE_WORDS["ssh.cut"].format(host=self.host)

    def _told(self, round: Sent | Changed) -> Iterator[str]:
        """What there is to say of one round of the mirror."""
        if isinstance(round, Changed):
            yield round.trouble
        elif round.recovered.all:
            yield PLACE_WORDS["ssh.recovered"].format(count=len(round.recovered.all), host=self.host)
        for kept in round.kept_twice:
            yield PLACE_WORDS["ssh.kept-twice"].format(path=shown(Path(kept.path)), copy=shown(Path(kept.copy)))
        yield from (left.words for left in round.left[:_MOST_LEFT])
        if len(round.left) > _MOST_LEFT:
            yield PLACE_WORDS["ssh.left-more"].format(count=len(round.left) - _MOST_LEFT)
        yield from round.notes

    def _proof(self, facts: Facts, ended: Ended) -> Proof:
        return Proof(
            place=str(self.id),
            target=facts.meaning,
            folder=ended.folder,
            network=True,
            sealed=False,
            details=_details(facts),
        )


async def _ended(done: asyncio.Future[Ended]) -> Ended | None:
    """How it ended, None when nothing had run."""
    await asyncio.wait({done})
    return None if done.exception() is not None else done.result()


def _details(facts: Facts) -> dict[str, str]:
    found = {
        "machine": facts.name,
        "system": facts.system,
        "user": facts.user,
        "uid": facts.uid,
        "host key": facts.fingerprint,
        "connection": facts.kind,
        "answer": _span(facts.answer),
    }
    return {name: value for name, value in found.items() if value}


def copy_name(chat: str, folder: WorkFolder, installation: str) -> str:
    """What the copy is called there. Without a chat it is the folder's own, and one however the folder is spelled."""
    if chat:
        return chat
    text = f"{installation}\0{folder.real}".encode("utf-8", "surrogateescape")
    return f"run-{hashlib.sha256(text).hexdigest()[:12]}"


def check_command(command: str | tuple[str, ...]) -> None:
    """Refuses, with words, what no shell there can be given."""
    words = (command,) if isinstance(command, str) else command
    if not isinstance(command, str) and (not words or not words[0]):
        raise PlaceUnavailable(PLACE_WORDS["command.empty"])
    if any("\0" in word for word in words):
        raise PlaceUnavailable(PLACE_WORDS["command.zero"])
    try:
        size = len(script.text_of(command))
    except UnicodeEncodeError:
        raise PlaceUnavailable(PLACE_WORDS["command.not-text"]) from None
    if size > script.LONGEST_COMMAND:
        raise PlaceUnavailable(PLACE_WORDS["command.long"])


def _span(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))} ms" if seconds < 1 else f"{seconds:.1f} s"
