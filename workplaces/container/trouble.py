"""The words for a box that could not be made, or that ended before its command began. Nothing ran then."""

from __future__ import annotations

import re

from workplaces.container.engine import NEED, Engine
from workplaces.container.image import Image
from workplaces.container.life import Ended
from workplaces.folder import WorkFolder, shown
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.words import PLACE_WORDS

_REASONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (key, re.compile(pattern, re.IGNORECASE))
    for key, pattern in (
        (
            "elsewhere",
            r"bind source path does not exist|mounts denied|not shared from|error while creating mount source"
            r"|statfs .*: no such file or directory",
        ),
        (
            "shell",
            r"""exec:? "?/bin/sh"?.*(no such file|not found)|(/bin/sh failed|failed to exec pid1): no such file""",
        ),
        ("arch", r"exec format error"),
        ("too-long", r"argument list too long"),
        ("space", r"no space left on device|disk quota exceeded"),
    )
)

# Podman, of a box that ended so fast that what its init said is lost; then only the init's code is left to tell.
_LOST = re.compile(r"(?m)^Error: (read|write) unixpacket .*$")
_NO_SHELL = (1, 126, 127)  # of an init that cannot start /bin/sh (catatonit's is 1); the first lines end otherwise


def not_made(engine: Engine, image: Image, folder: WorkFolder, problem: Exception) -> PlaceUnavailable:
    """The engine refused to make or start the box."""
    text = str(getattr(problem, "explanation", None) or problem)
    return _in_words(engine, image, folder, text)


def not_begun(engine: Engine, image: Image, folder: WorkFolder, ended: Ended) -> PlaceUnavailable:
    """The box was started and ended without its first line."""
    text = _LOST.sub("", ended.held.decode("utf-8", "replace")).strip()
    if not text and ended.code in _NO_SHELL:
        text = "exec: /bin/sh: not found"
    return _in_words(engine, image, folder, text or f"It ended with {ended.code}. {ended.problem or ''}".strip())


def elsewhere(engine: Engine, folder: WorkFolder, details: str = "") -> PlaceUnavailable:
    """The engine's folder of that name is not this computer's."""
    step = NextStep(PLACE_WORDS["container.elsewhere.next"].format(engine=engine.facts.name))
    words = PLACE_WORDS["container.elsewhere"].format(engine=engine.name, folder=shown(folder.path))
    return PlaceUnavailable(words, next_step=step, details=details)


def no_tools(image: Image, details: str, key: str = "image.no-shell") -> PlaceUnavailable:
    """The image has not what the first lines of a box need, or is for another processor."""
    step = NextStep(PLACE_WORDS["image.next.name"], action="settings:container.image")
    return PlaceUnavailable(PLACE_WORDS[key].format(image=image.reference), next_step=step, details=details)


def silent(engine: Engine, details: str = "") -> PlaceUnavailable:
    """The engine was there a moment ago and is not now."""
    words = PLACE_WORDS["engine.silent"].format(name=engine.name, address=engine.endpoint.address)
    label = PLACE_WORDS["engine.next.restart"].format(engine=engine.facts.name)
    step = NextStep(label, command="sudo systemctl restart docker" if engine.facts.kind == "docker" else "")
    return PlaceUnavailable(words, next_step=step, need=NEED, details=details)


def _in_words(engine: Engine, image: Image, folder: WorkFolder, text: str) -> PlaceUnavailable:
    why = next((key for key, pattern in _REASONS if pattern.search(text)), "")
    if why == "elsewhere":
        return elsewhere(engine, folder, text)
    if why in ("shell", "arch"):
        return no_tools(image, text, "image.no-shell" if why == "shell" else "image.arch")
    if why == "too-long":
        return PlaceUnavailable(PLACE_WORDS["container.too-long"], details=text)
    if why == "space":
        step = NextStep(PLACE_WORDS["image.next.space"], command=f"{engine.facts.kind} system prune")
        words = PLACE_WORDS["container.space"].format(engine=engine.name)
        return PlaceUnavailable(words, next_step=step, details=text)
    first_line = text.strip().splitlines()[0][:300] if text.strip() else ""
    words = PLACE_WORDS["container.refused"].format(engine=engine.name, reason=first_line).strip()
    return PlaceUnavailable(words, details=text)
