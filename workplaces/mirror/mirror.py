"""The mirror: one copy of one folder on one other machine, kept in step round each command.

    mirror = Mirror(home.places / "mirror")
    async with mirror.session(chat, folder, far, protected=places) as session:
        sent = await session.before()
        …the command runs in session.copy there…
        changed = await session.after()

A session waits for its turn: commands for one copy run one at a time, in this process and in others. Cancelling it at
any moment leaves each file whole, old or new, on both sides, and the next session repairs the rest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from workplaces.mirror import scripts
from workplaces.mirror.carry import Broken, Incoming, TooMuch
from workplaces.mirror.copies import Copies
from workplaces.mirror.far import BOOTSTRAP, Far, FarLost, script
from workplaces.mirror.locks import CopyLock
from workplaces.mirror.scope import DEPENDENCIES
from workplaces.mirror.session import Ask, Session, available
from workplaces.mirror.stop import Halt, in_thread
from workplaces.mirror.talk import Trouble
from workplaces.mirror.work import Limits


class Mirror:
    """All copies. ``home`` is a folder in Conch's home (made when needed, 0700): what was agreed lies there."""

    def __init__(self, home: Path) -> None:
        self._copies = Copies(home)

    def session(
        self,
        copy_id: str,
        folder: Path,
        far: Far,
        *,
        protected: Iterable[Path] = (),
        leave: Collection[str] = DEPENDENCIES,
        ask: Ask | None = None,
        limits: Limits | None = None,
    ) -> Session:
        """A session for one command. ``copy_id`` (a chat's id) names the copy there.

        ``protected`` places are never carried, either way. ``leave`` are the folders that each side makes for itself.
        ``ask`` is asked, on the caller's loop, before a command's deletions empty the folder here: (how many files, of
        how many); without it the answer is no.
        """
        return Session(self._copies, copy_id, folder, far, tuple(protected), frozenset(leave), ask, limits or Limits())

    async def close(self) -> None:
        """Lets go of the folders here that are looked after. No session may be open."""
        await in_thread(self._copies.close, Halt())

    async def held(self, name: str) -> dict[str, Path]:
        """The copies on the machine ``name`` that this Conch knows of, and the folder here that each is a copy of. Asks
        nobody."""
        return await in_thread(lambda: self._copies.held(name), Halt())

    async def sizes(self, far: Far) -> dict[str, int]:
        """The copies on a machine and how much room each takes there (bytes). Raises PlaceUnavailable."""
        halt = Halt()

        def work() -> dict[str, int]:
            found: dict[str, int] = {}
            for record in _plain(far, scripts.SIZES, [], halt):
                kilobytes, _, name = record.partition(b" ")
                copy = name.decode("utf-8", "replace")
                if kilobytes.isdigit() and len(kilobytes) < 15 and _is_name(copy):
                    found[copy] = int(kilobytes) * 1024
            return found

        return await available(in_thread(work, halt))

    async def remove(self, far: Far, copy: str) -> bool:
        """Removes a copy there, and what was agreed about it here; False when something of it is still there.

        ``copy`` is its name there, as ``sizes`` gives it. The folder here is not touched. Raises PlaceUnavailable.
        """
        if not _is_name(copy):
            raise ValueError("not the name of a copy")
        halt = Halt()

        def work() -> bool:
            state = self._copies.state(copy, far)
            with contextlib.ExitStack() as stack:
                if state.is_dir():
                    lock = CopyLock(state / "lock")
                    lock.take(halt)
                    stack.callback(lock.release)
                gone = b"=X" not in _plain(far, scripts.REMOVE, [copy], halt)
                for name in ("agreed.sqlite3", "agreed.sqlite3-journal"):
                    (state / name).unlink(missing_ok=True)
                self._copies.forget(state / "agreed.sqlite3")
                return gone

        return await available(in_thread(work, halt))


def _is_name(copy: str) -> bool:
    return bool(copy) and not copy.startswith(".") and "/" not in copy and copy.isprintable()


def _plain(far: Far, text: str, words: list[str], halt: Halt) -> list[bytes]:
    """Runs a small script there and gives its records. Raises Trouble."""
    mark = os.urandom(12).hex()
    try:
        running = far.run(BOOTSTRAP, script(text, [mark, *words]))
        halt.follow(running)
        try:
            stream = Incoming(running.read, 4 * 1024 * 1024)
            stream.until_mark(mark.encode(), 1024 * 1024)
            records = list(stream.records(64 * 1024))
        except BaseException:
            running.stop()
            running.end()
            raise
        finally:
            halt.unfollow(running)
        running.end()
    except FarLost as lost:
        raise Trouble("lost", words=lost.words, details=lost.details) from lost
    except (Broken, TooMuch) as error:
        raise Trouble("broken", where=far.name, details=repr(error)) from error
    if not records or records[-1] != b"=E":
        raise Trouble("broken", where=far.name)
    return records[:-1]
