"""Waking an engine that is here and does not run: opened or started once, for everyone who waits for it.

What may be woken without asking is what the person's own rights are enough for and what they would click: Docker
Desktop, OrbStack, Rancher Desktop and Colima, Podman's machine (made if there is none), and the services that they run
for themselves. Docker as a service of the system is theirs to start.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workplaces.container.asking import try_engine
from workplaces.container.contexts import Endpoint, known
from workplaces.container.engine import NEED, Engine
from workplaces.container.machine import found_machines
from workplaces.container.programs import Ran, program, run
from workplaces.container.refusals import Unusable, wake_step
from workplaces.place import OnProgress, PlaceUnavailable, Progress
from workplaces.threads import in_thread
from workplaces.words import PLACE_WORDS

OPEN_LIMIT = 60.0  # seconds for a program that opens an app or starts a service and returns
START_LIMIT = 300.0  # for one that returns when its virtual machine runs
MAKE_LIMIT = 1800.0  # for Podman's machine, whose system is fetched once
ANSWER_LIMIT = 180.0  # until what was opened answers
_LOOK_EVERY = 0.5
_MACHINE = "Podman's machine"


@dataclass(frozen=True, slots=True)
class Sleeper:
    """An engine that could be woken: what ``source`` it is found under, and the program and its words that wake it."""

    source: str
    argv: tuple[str, ...]
    limit: float = OPEN_LIMIT
    make: tuple[str, ...] = ()  # what makes it first, where there is nothing to start yet

    @property
    def word(self) -> str:
        """The key of the words for what is being done."""
        return "wake.starting" if self.limit > OPEN_LIMIT or "systemctl" in self.argv[0] else "wake.opening"


def sleepers(
    env: Mapping[str, str], home: Path, *, platform: str = sys.platform, applications: Sequence[Path] = ()
) -> list[Sleeper]:
    """The engines that are installed and could be woken, in the order in which engines are looked for.

    ``applications`` are the folders where this system keeps apps, unless given. Asks nobody but Podman.
    """
    folders = list(applications) or _applications(env, home, platform)
    found = [*_apps(env, home, platform, folders), *_services(env, home, platform)]
    if colima := program("colima", env, platform):
        found.append(Sleeper("Colima", (colima, "start"), START_LIMIT))
    if (podman := program("podman", env, platform)) and platform != "linux":
        made = found_machines(env, home, platform)
        name = (made[0].name,) if made and made[0].name else ()
        make = () if made else (podman, "machine", "init")
        found.append(Sleeper(_MACHINE, (podman, "machine", "start", *name), START_LIMIT, make))
    return found


def _applications(env: Mapping[str, str], home: Path, platform: str) -> list[Path]:
    if platform == "darwin":
        return [Path("/Applications"), home / "Applications"]
    return [Path(env[name]) for name in ("ProgramFiles", "LOCALAPPDATA") if env.get(name)]


def _apps(env: Mapping[str, str], home: Path, platform: str, folders: Sequence[Path]) -> list[Sleeper]:
    """Docker Desktop, OrbStack and Rancher Desktop as apps that are opened, without coming to the front."""
    found = []
    if platform == "darwin" and (opener := program("open", env, platform)):
        for source, app in (
            ("Docker Desktop", "Docker"),
            ("OrbStack", "OrbStack"),
            ("Rancher Desktop", "Rancher Desktop"),
        ):
            if any((folder / f"{app}.app").exists() for folder in folders):
                found.append(Sleeper(source, (opener, "-g", "-a", app)))
    if platform == "win32":
        desktop = next((path for folder in folders if (path := folder / _DESKTOP).exists()), None)
        if desktop is not None:
            found.append(Sleeper("Docker Desktop", (str(desktop),)))
    if platform != "darwin" and (rdctl := program("rdctl", env, platform)):
        found.append(Sleeper("Rancher Desktop", (rdctl, "start"), START_LIMIT))
    return found


_DESKTOP = Path("Docker", "Docker", "Docker Desktop.exe")


def _services(env: Mapping[str, str], home: Path, platform: str) -> list[Sleeper]:
    """On Linux: what runs as a service of the person's own, which needs no administrator."""
    systemctl = program("systemctl", env, platform) if platform == "linux" else ""
    if not systemctl:
        return []
    own = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    system = (Path("/usr/lib/systemd/user"), Path("/lib/systemd/user"), Path("/etc/systemd/user"))
    found = []
    for source, unit, places in (
        ("Docker Desktop", "docker-desktop.service", (own, *system)),
        ("rootless Docker", "docker.service", (own,)),
    ):
        if any((place / unit).exists() for place in places):
            found.append(Sleeper(source, (systemctl, "--user", "start", unit.removesuffix(".service"))))
    return found


def fitting(
    found: Sequence[Sleeper], failures: Sequence[Unusable], env: Mapping[str, str], home: Path
) -> list[Sleeper]:
    """Which of them may be woken for what was tried: none while an engine is there that only refuses.

    One that the person named is never passed over: only that very engine is woken then.
    """
    named = next((failure for failure in failures if failure.endpoint.explicit), None)
    if named is None:
        return list(found) if all(failure.asleep for failure in failures) else []
    if not named.asleep:
        return []
    address = named.endpoint.address
    source = next((place.source for place in known(env, home) if place.address == address), "")
    return [sleeper for sleeper in found if sleeper.source == source]


class Waking:
    """Wakes one engine at a time. ``on_fixed`` is called on the loop with (what was done, why)."""

    def __init__(
        self,
        on_fixed: Callable[[str, str], None],
        *,
        env: Mapping[str, str],
        home: Path,
        platform: str = sys.platform,
        applications: Sequence[Path] = (),
        answer_limit: float = ANSWER_LIMIT,
    ) -> None:
        self._on_fixed = on_fixed
        self._env = env
        self._home = home
        self._platform = platform
        self._applications = applications
        self._answer_limit = answer_limit
        self.count = 0  # how many were woken
        self._going: asyncio.Future[Engine] | None = None
        self._told: dict[object, OnProgress] = {}
        self._words = ""

    def possible(self, failures: Sequence[Unusable]) -> list[Sleeper]:
        """What could be woken after these failures. Blocks for a moment."""
        found = sleepers(self._env, self._home, platform=self._platform, applications=self._applications)
        return fitting(found, failures, self._env, self._home)

    async def wake(self, failures: Sequence[Unusable], on_progress: OnProgress | None = None) -> Engine | None:
        """Wakes the first that can be, once for everyone who waits. None when there is none to wake.

        Raises PlaceUnavailable when it was woken and does not answer. Who is cancelled lets go; the waking goes on.
        """
        loop = asyncio.get_running_loop()
        if self._going is None or self._going.done() or self._going.get_loop() is not loop:
            self._words = ""
            self._going = loop.create_future()
            self._going.add_done_callback(_seen)
            self._begin(self._going, in_thread(lambda: self.possible(failures), "conch-sleepers"))
        mark = object()
        if on_progress is not None:
            self._told[mark] = on_progress
            if self._words:
                on_progress(Progress(self._words))
        try:
            return await asyncio.shield(self._going)
        except NothingToWake:
            return None
        finally:
            self._told.pop(mark, None)

    def _begin(self, going: asyncio.Future[Engine], looking: asyncio.Future[list[Sleeper]]) -> None:
        loop = going.get_loop()

        def looked(done: asyncio.Future[list[Sleeper]]) -> None:
            found = [] if done.cancelled() or done.exception() is not None else done.result()
            if not found:
                going.set_exception(NothingToWake())
                return
            sleeper = found[0]
            waking = in_thread(lambda: self._wake(sleeper, loop), "conch-wake")
            waking.add_done_callback(lambda woken: self._end(going, sleeper, woken))

        looking.add_done_callback(looked)

    def _end(self, going: asyncio.Future[Engine], sleeper: Sleeper, woken: asyncio.Future[Engine]) -> None:
        if going.done():
            return
        error = woken.exception()
        if error is not None:
            going.set_exception(error)
            return
        self.count += 1
        what = "wake.fixed.made" if sleeper.make else f"{sleeper.word}.fixed"
        self._on_fixed(PLACE_WORDS[what].format(engine=sleeper.source), PLACE_WORDS["wake.fixed.why"])
        going.set_result(woken.result())

    def _wake(self, sleeper: Sleeper, loop: asyncio.AbstractEventLoop) -> Engine:
        """In a thread: makes it if it has to be made, starts it, and waits until it answers."""
        if sleeper.make:
            self._say(loop, PLACE_WORDS["wake.making"].format(engine=sleeper.source))
            self._check(sleeper, run(sleeper.make, self._env, MAKE_LIMIT))
        self._say(loop, PLACE_WORDS[sleeper.word].format(engine=sleeper.source))
        if sleeper.argv[0].endswith(".exe"):
            self._check(sleeper, _open(sleeper.argv))
        else:
            self._check(sleeper, run(sleeper.argv, self._env, sleeper.limit))
        self._say(loop, PLACE_WORDS["wake.waiting"].format(engine=sleeper.source))
        end = time.monotonic() + self._answer_limit
        last = ""
        while True:
            for endpoint in self._where(sleeper):
                try:
                    return try_engine(endpoint)
                except Unusable as failure:
                    last = str(failure)
            if time.monotonic() > end:
                words = PLACE_WORDS["wake.silent"].format(engine=sleeper.source)
                raise PlaceUnavailable(words, next_step=wake_step(sleeper.source), need=NEED, details=last)
            time.sleep(_LOOK_EVERY)

    def _where(self, sleeper: Sleeper) -> list[Endpoint]:
        if sleeper.source == _MACHINE:
            told = [one.endpoint for one in found_machines(self._env, self._home, self._platform)]
            return [endpoint for endpoint in told if endpoint is not None]
        return [place for place in known(self._env, self._home) if place.source == sleeper.source]

    def _check(self, sleeper: Sleeper, ran: Ran) -> None:
        if ran.code != 0:
            words = PLACE_WORDS["wake.failed"].format(engine=sleeper.source, reason=ran.line).strip()
            details = f"{' '.join(sleeper.argv)}: {ran.code} {ran.out} {ran.said}"
            raise PlaceUnavailable(words, next_step=wake_step(sleeper.source), need=NEED, details=details)

    def _say(self, loop: asyncio.AbstractEventLoop, words: str) -> None:
        def tell() -> None:
            self._words = words
            for on_progress in list(self._told.values()):
                on_progress(Progress(words))

        loop.call_soon_threadsafe(tell)


class NothingToWake(Exception):
    """There is no engine that could be woken."""


def _seen(future: asyncio.Future[Engine]) -> None:
    """Whoever let go of it is not told about its failure again."""
    if not future.cancelled():
        future.exception()


def _open(argv: Sequence[str]) -> Ran:
    """Starts an app that stays. It is not waited for."""
    try:
        subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        return Ran(None, said=str(error))
    return Ran(0)
