"""The engines there are: one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.engines.base import Engine, EngineChoice, EngineTrouble
from app.engines.commands import Commands
from app.keys.secret import Secret
from workplaces.place import NextStep

EVERYWHERE = ("computer", "container", "ssh", "cloud")
DEFAULT_ENGINE = "commands"
OPEN_MODELS = NextStep("Open Settings → Models", action="settings.models")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What the person chose about the model's server. Read anew for every turn."""

    base_url: str = ""
    model: str = ""


KeyOf = Callable[[str], Awaitable[Secret | None]]
"""Gives the key to send to the base URL it is asked for, None when there is none. It may take its time."""


async def no_key(base_url: str) -> Secret | None:
    return None


class Catalog:
    """``settings`` is asked for every turn, ``key`` only when a request is about to be made."""

    def __init__(self, settings: Callable[[], ModelSettings] = ModelSettings, *, key: KeyOf = no_key) -> None:
        self._settings = settings
        self._key = key

    def offered(self) -> list[EngineChoice]:
        """Every engine, ready or not, in the order they are shown. Quick: it asks nobody."""
        return [
            EngineChoice(
                id=Commands.id,
                name=Commands.name,
                line="No model: each message is a command for the chat's place.",
                ready=True,
                places=EVERYWHERE,
            ),
            self._openai(),
        ]

    def engine(self, id: str) -> Engine:
        """The engine, ready to answer. Raises EngineTrouble, with words, when it is unknown or not set up."""
        choice = next((one for one in self.offered() if one.id == id), None)
        if choice is None:
            raise EngineTrouble(f"“{id}” is not an engine of this version of Conch. Choose another for this chat.")
        if not choice.ready:
            raise EngineTrouble(f"{choice.line} {choice.next_step.label}." if choice.next_step else choice.line)
        if id == Commands.id:
            return Commands()
        from app.engines.openai_compatible import OpenAICompatible

        settings = self._settings()
        return OpenAICompatible(settings.base_url, settings.model, key=self._key)

    def _openai(self) -> EngineChoice:
        from app.engines.address import BadAddress, endpoint

        settings = self._settings()
        line, next_step = f"{settings.model}, over its API.", None
        if not settings.base_url.strip():
            line, next_step = "The address of a model's server is missing.", OPEN_MODELS
        elif not settings.model.strip():
            line, next_step = "The model's name is missing.", OPEN_MODELS
        else:
            try:
                endpoint(settings.base_url)
            except BadAddress as error:
                line, next_step = str(error), OPEN_MODELS
        return EngineChoice(
            id="openai",
            name="Model by address",
            line=line,
            ready=next_step is None,
            places=EVERYWHERE,
            model=settings.model,
            next_step=next_step,
        )
