"""Which limits of a box hold on an engine, and the words for those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workplaces.container.box import PIDS, Options
from workplaces.container.engine import Engine, EngineFacts
from workplaces.container.podman import counts_processes
from workplaces.words import PLACE_WORDS

_WHAT = ("memory", "cpus", "pids")


def holds(facts: EngineFacts) -> tuple[str, ...]:
    """Of ``memory``, ``cpus`` and ``pids`` those that hold: by the engine, or for processes by the kernel."""
    return tuple(what for what in _WHAT if what in facts.limits or (what == "pids" and counts_processes(facts)))


def in_words(engine: Engine | None, options: Options | None = None) -> str:
    """What a command may use, for the model and for Settings. Without an engine: what is asked of one."""
    options = options or Options()
    kept = holds(engine.facts) if engine else _WHAT
    cpus = min(options.cpus, engine.facts.cpus) if engine else options.cpus
    amounts = {"memory": options.memory, "cpus": cpus, "pids": PIDS}
    said = []
    if kept:
        words = [PLACE_WORDS[f"limits.{what}"].format(amount=amounts[what]) for what in kept]
        said.append(PLACE_WORDS["limits.kept"].format(what=_listed(words)))
    if engine is not None and (missing := missing_words(engine.facts)):
        said.append(PLACE_WORDS["limits.none"].format(engine=engine.facts.name, what=missing))
    return " ".join(said)


def missing_words(facts: EngineFacts) -> str:
    """What is not limited there. Empty when all is."""
    missing = [PLACE_WORDS[f"limits.{what}.none"] for what in _WHAT if what not in holds(facts)]
    return _listed(missing, PLACE_WORDS["limits.or"])


def processes(host: Mapping[str, Any], facts: EngineFacts) -> str:
    """The limit of processes that a box had, by the engine's ``HostConfig`` of it, for the proof."""
    if host.get("PidsLimit"):
        return str(host["PidsLimit"])
    most = _hard(host, "nproc") if counts_processes(facts) else ""
    return f"{most}, counted by the kernel" if most else "no limit"


def open_files(host: Mapping[str, Any]) -> str:
    """The limit of open files that a box had, for the proof."""
    return _hard(host, "nofile") or "no limit"


def _hard(host: Mapping[str, Any], name: str) -> str:
    for limit in host.get("Ulimits") or ():
        if str(limit.get("Name")).lower().removeprefix("rlimit_") == name:
            return str(limit.get("Hard"))
    return ""


def _listed(words: list[str], last: str = "") -> str:
    last = last or PLACE_WORDS["limits.and"]
    return last.join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
