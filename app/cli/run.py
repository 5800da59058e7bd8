"""``conch run``: one command at a place, streamed, with its own exit code."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.cli.arguments import RunArguments, run_arguments
from app.cli.interrupts import Interrupts
from app.cli.progress import ProgressLine
from app.cli.screen import FAILED, NOT_RUN, answer, complain
from app.cli.streams import Outlet
from app.home import Home, protected_places
from app.preferences import Preferences
from app.services import PlaceServices
from workplaces.output import Kept, OutputKeeper, Stream
from workplaces.place import NextStep, PlaceUnavailable, Proof, RunRequest, RunResult, Stopped, WorkPlaceId
from workplaces.words import PLACE_WORDS

TIMED_OUT = 124
BROKEN_PIPE = 141
_GRACE = 2.0
"""Seconds past its time limit for which a command's last output still waits for a slow reader."""


def run(given: list[str], home: Home) -> int:
    """Runs it and gives the exit code: the command's, 124, 125, or 128 and the signal that ended it."""
    asked = run_arguments(given)
    interrupts = Interrupts()
    interrupts.listen()
    try:
        return asyncio.run(_Run(asked, home, interrupts).go())
    except asyncio.CancelledError:  # stopped when all was done and only the doors were being closed
        return 128 + (interrupts.caught or signal.SIGINT)
    finally:
        interrupts.end()


class _Run:
    def __init__(self, asked: RunArguments, home: Home, interrupts: Interrupts) -> None:
        self._asked = asked
        self._home = home
        self._interrupts = interrupts
        self._progress = ProgressLine()
        self._began = time.monotonic()
        self._printed: float | None = None  # when its first output came
        self._outlets: dict[Stream, Outlet] = {
            "out": Outlet(1, self._give_up, interrupts.stop),
            "err": Outlet(2, self._give_up, lambda: None),
        }
        self._keeper = OutputKeeper(spill_folder=home.output) if asked.json else OutputKeeper(on_bytes=self._print)
        self._place = asked.place

    async def go(self) -> int:
        self._interrupts.attend()
        services = PlaceServices(self._home)
        try:
            return await self._at_place(services)
        except PlaceUnavailable as error:
            return self._not_run(error.words, error.next_step, error.need)
        except asyncio.CancelledError as error:
            return self._stopped(error)
        finally:
            self._progress.clear()
            await services.close()

    async def _at_place(self, services: PlaceServices) -> int:
        if self._place is None:
            if (wrong := _place_unknown(services.preferences)) is not None:
                return self._not_run(wrong, NextStep("Choose the place for new chats", command="conch default PLACE"))
            self._place = WorkPlaceId.parse(services.preferences.get("place"))
        try:
            folder = (self._asked.folder or Path()).absolute()
        except OSError:
            step = NextStep("Go to one that is, or name one with --folder")
            return self._not_run("The folder you are in is not there any more.", step)
        protected = await asyncio.to_thread(protected_places, self._home)
        if (refusal := await asyncio.to_thread(_refusal, self._asked, folder, protected)) is not None:
            return self._not_run(refusal, NextStep("Leave it out of the command"))
        place = await services.places.for_turn(self._place)
        if place.id.kind != "computer":
            # Who never opens the window starts Conch here: what a killed one left there goes while this command runs.
            await services.places.start()
        result = await place.run(
            RunRequest(
                command=self._asked.command,
                folder=folder,
                open=self._asked.open,
                timeout=self._asked.timeout,
                protected=protected,
                output=self._keeper,
                on_progress=self._progress.show,
            )
        )
        return self._ended(result)

    # -- how it ended

    def _ended(self, result: RunResult) -> int:
        self._finish_output()
        if self._asked.json:
            answer(_object(result.where, result.output, result=result))
        if (trouble := self._outlets["out"].trouble) is not None and not self._outlets["out"].nobody_reads:
            complain(f"Its output could not be written: {(trouble.strerror or str(trouble)).lower()}.")
            return FAILED
        if result.timed_out:
            self._say(f"It was stopped after its time limit of {self._asked.timeout:g} seconds.")
        if result.tried:
            self._say(PLACE_WORDS["hosts.tried"].format(tried=", ".join(result.tried)))
        if not result.sure:
            self._say("Whether all of it ended there is not known.")
        if result.timed_out:
            return TIMED_OUT
        if result.code is None:
            self._say("How it ended is not known.")
            return FAILED
        return result.code

    def _not_run(self, words: str, next_step: NextStep | None, need: str | None = None) -> int:
        if self._asked.json:
            error = {
                "words": words,
                "next": next_step.label if next_step else "",
                "command": next_step.command if next_step else "",
                "need": need,
            }
            answer(_object(self._place, Kept(), note=words, error=error, ran=False))
        self._progress.clear()
        complain(words, next_step)
        return NOT_RUN

    def _stopped(self, error: asyncio.CancelledError) -> int:
        self._finish_output()
        stopped = error if isinstance(error, Stopped) else Stopped()
        words = stopped.words or "It was stopped."
        if self._asked.json:
            answer(
                _object(
                    self._place,
                    self._keeper.finish(),
                    note=words,
                    error={"words": words, "next": "", "command": "", "need": None},
                    ran=stopped.proof is not None,
                    proof=stopped.proof,
                    seconds=stopped.seconds or time.monotonic() - self._began,
                    tried=stopped.tried,
                )
            )
        if not stopped.sure or stopped.words:
            complain(words)
        out = self._outlets["out"]
        if self._interrupts.caught is not None:
            return 128 + self._interrupts.caught
        if out.trouble is not None and not out.nobody_reads:
            complain(f"Its output could not be written: {(out.trouble.strerror or str(out.trouble)).lower()}.")
            return FAILED
        return BROKEN_PIPE

    # -- output

    def _print(self, stream: Stream, data: bytes) -> None:
        if self._printed is None:
            self._printed = time.monotonic()
        self._progress.clear()
        self._outlets[stream].write(data)

    def _finish_output(self) -> None:
        self._progress.clear()
        if not self._asked.json:
            for outlet in self._outlets.values():
                outlet.finish()

    def _give_up(self) -> bool:
        # Counted from the first output: getting an image may take longer than the command itself is given.
        since = self._printed or time.monotonic()
        return self._interrupts.stopping or time.monotonic() > since + self._asked.timeout + _GRACE

    def _say(self, words: str) -> None:
        if not self._asked.json:
            complain(words)


def _place_unknown(preferences: Preferences) -> str | None:
    """Why it is not known what place was chosen: the default would be this computer, which it may not have been."""
    if (wrong := preferences.unusable("place")) is not None:
        return wrong
    return preferences.troubles[0] if preferences.troubles and not preferences.chosen("place") else None


def _refusal(asked: RunArguments, folder: Path, protected: tuple[Path, ...]) -> str | None:
    """Why the guard lets it run nowhere. Who typed it is not asked about anything else. Touches the disk."""
    from app.guard.judge import judge
    from app.guard.modes import Refuse, Step

    line = asked.command if isinstance(asked.command, str) else shlex.join(asked.command)
    step = Step(tool="run_command", arguments={}, command=line, folder=folder, open=asked.open, by_person=True)
    verdict = judge(step, "full", (), protected=protected)
    return verdict.words if isinstance(verdict, Refuse) else None


def _object(
    where: WorkPlaceId | None,
    output: Kept,
    *,
    result: RunResult | None = None,
    note: str = "",
    error: dict[str, Any] | None = None,
    ran: bool = True,
    proof: Proof | None = None,
    seconds: float = 0.0,
    tried: tuple[str, ...] = (),
) -> str:
    """The one object of ``--json``. Every name is always there."""
    from app.tools.command import plain

    proof = result.proof if result else proof
    return json.dumps(
        {
            "code": result.code if result else None,
            "timedOut": result.timed_out if result else False,
            "seconds": round(result.seconds if result else seconds, 3),
            "where": str(where) if where else "",
            "proof": plain(proof) if proof else None,
            "output": {
                "text": output.text,
                "bytes": output.size,
                "leftOut": output.left_out,
                "file": str(output.file) if output.file else None,
            },
            "changed": asdict(result.changed) if result and result.changed is not None else None,
            "note": result.note if result else note,
            "tried": list(result.tried if result else tried),
            "ran": ran,
            "sure": result.sure if result else True,
            "error": error,
        }
    )
