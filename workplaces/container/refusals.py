"""Why an engine cannot be used, and the words and the one next step for it."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from workplaces.container.contexts import Endpoint
from workplaces.container.engine import NEED
from workplaces.container.programs import program
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

# Why an engine cannot be used, the most telling first: of several dead ones that one is told.
Why = Literal[
    "denied", "silent", "broken", "old", "windows", "userns", "whose", "elsewhere", "unstarted", "down", "gone"
]
_TELLING: tuple[Why, ...] = get_args(Why)
_PIPE_GONE, _PIPE_DENIED, _PIPE_SILENT = 2, 5, (121, 231)  # not there; denied; time is over, all of it is busy
_OLDEST = {"Docker": "19.03", "Podman": "4.0"}


class Unusable(Exception):
    """One engine that cannot be used, and why. ``engine`` is what it is, as far as that is known."""

    def __init__(self, why: Why, endpoint: Endpoint, details: str = "", engine: str = "") -> None:
        super().__init__(f"{endpoint.address} ({endpoint.source}): {why} {details}".strip())
        self.why = why
        self.endpoint = endpoint
        self.details = details
        self.engine = engine or ("Podman" if endpoint.podman else "Docker")

    @property
    def rank(self) -> int:
        """The lower, the more it tells. The system's own Podman is closed to everyone, and that is no news."""
        no_news = self.why == "denied" and self.endpoint.podman and not self.endpoint.explicit
        return _TELLING.index("gone" if no_news else self.why)

    @property
    def asleep(self) -> bool:
        """Whether there is just nothing that runs, so that another engine may be woken."""
        return self.rank >= _TELLING.index("unstarted")


class NoEngine(PlaceUnavailable):
    """No engine could be used. ``failures`` are all that were tried, in order."""

    failures: tuple[Unusable, ...] = ()


def reason_of(error: Exception) -> Why:
    """Why nothing could be connected to, by a socket's error or Windows' number for a named pipe's."""
    number = getattr(error, "winerror", None)
    if isinstance(error, TimeoutError) or number in _PIPE_SILENT:
        return "silent"
    if isinstance(error, PermissionError) or number == _PIPE_DENIED:
        return "denied"
    if isinstance(error, FileNotFoundError) or number == _PIPE_GONE or getattr(error, "errno", 0) == errno.ENOTDIR:
        return "gone"
    return "down" if isinstance(error, ConnectionError) else "broken"


def in_words(failures: Sequence[Unusable], env: Mapping[str, str]) -> NoEngine:
    """What the person reads when no engine could be used: the most telling reason and the one next step."""
    worst = min(failures, key=lambda failure: failure.rank, default=None)
    words, step = _words(worst, env)
    error = NoEngine(words, next_step=step, need=NEED, details="; ".join(map(str, failures)))
    error.failures = tuple(failures)
    return error


def passed_over(failures: Sequence[Unusable]) -> str:
    """What was tried before the engine that is used, and why not it. Nothing of where there is just none."""
    told = [failure for failure in failures if not failure.asleep]
    return " ".join(f"{failure.endpoint.source}: {_sentence(failure, failure.engine)}" for failure in told)


def _words(worst: Unusable | None, env: Mapping[str, str]) -> tuple[str, NextStep]:
    if worst is not None and worst.endpoint.explicit:
        return _named_in_words(worst)
    if worst is None or worst.rank >= _TELLING.index("gone"):
        if program("dockerd", env) or program("docker", env):
            return PLACE_WORDS["engine.down"].format(name="Docker"), wake_step("Docker")
        return PLACE_WORDS["engine.none"], _install(env)
    return _sentence(worst, worst.endpoint.source), _step(worst)


def _named_in_words(failure: Unusable) -> tuple[str, NextStep]:
    """An engine that the person named is never passed over: it is told by name, with the reason."""
    words = PLACE_WORDS["engine.named"].format(
        source=failure.endpoint.source,
        address=failure.endpoint.address,
        engine=failure.engine,
        reason=_sentence(failure, failure.engine),
    )
    return words, _fix_context() if failure.why in ("gone", "elsewhere") else _step(failure)


def _sentence(failure: Unusable, name: str) -> str:
    address = failure.endpoint.path or failure.endpoint.address
    return PLACE_WORDS[f"engine.{failure.why}"].format(
        name=name,
        engine=failure.engine,
        address=address,
        oldest=_OLDEST.get(failure.engine, ""),
        reason=failure.details.strip(),
    )


def _step(failure: Unusable) -> NextStep:
    engine = failure.engine
    if failure.why == "denied" and engine == "Docker":
        return NextStep(PLACE_WORDS["engine.next.group"], command='sudo usermod -aG docker "$USER"')
    if failure.why == "down":
        return wake_step(failure.endpoint.source)
    if failure.why in ("silent", "broken"):
        linux = {"Docker": "sudo systemctl restart docker", "Podman": "systemctl --user restart podman.socket"}
        restart = linux.get(engine, "") if sys.platform == "linux" else ""
        return NextStep(PLACE_WORDS["engine.next.restart"].format(engine=engine), command=restart)
    if failure.why == "unstarted":
        return NextStep(PLACE_WORDS["engine.next.ask"].format(engine=engine), command="podman info")
    if failure.why == "old":
        return NextStep(PLACE_WORDS["engine.next.update"].format(engine=engine))
    if failure.why == "windows":
        return NextStep(PLACE_WORDS["engine.next.linux"])
    return NextStep(PLACE_WORDS["engine.next.other"])


def wake_step(source: str) -> NextStep:
    """How the person starts an engine that Conch may not, or could not."""
    name = "Docker" if source.startswith("Docker") else source
    label = PLACE_WORDS["engine.next.start"].format(engine=name)
    linux = {
        "Docker Desktop": "systemctl --user start docker-desktop",
        "rootless Docker": "systemctl --user start docker",
        "Colima": "colima start",
        "Podman": "systemctl --user start podman.socket",
    }.get(source, "sudo systemctl start docker")
    darwin = {"Colima": "colima start", "Podman": "podman machine start"}.get(source, f'open -a "{name}"')
    return NextStep(label, command={"linux": linux, "darwin": darwin}.get(sys.platform, ""))


def _install(env: Mapping[str, str]) -> NextStep:
    """Podman: it needs no administrator to run, and on a Mac or Windows none to be installed either."""
    ways = {
        "linux": {
            "apt-get": "sudo apt install podman",
            "dnf": "sudo dnf install podman",
            "pacman": "sudo pacman -S podman",
            "zypper": "sudo zypper install podman",
        },
        "darwin": {"brew": "brew install podman"},
        "win32": {"winget": "winget install -e --id RedHat.Podman"},
    }.get(sys.platform, {})
    found = next((line for name, line in ways.items() if program(name, env)), "")
    return NextStep(PLACE_WORDS["engine.next.install"], command=found)


def _fix_context() -> NextStep:
    return NextStep(PLACE_WORDS["engine.next.context"])
