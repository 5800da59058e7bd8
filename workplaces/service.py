"""WorkPlaces: what places there are, how each stands, and the one a turn uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workplaces.place import OnProgress, PlaceStatus, WorkPlace, WorkPlaceId

DEFAULT_IMAGE = "docker.io/library/node:24-bookworm"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSettings:
    """What a person chose about places. Read anew for every command."""

    image: str = DEFAULT_IMAGE


OnFixed = Callable[[str, str], None]
"""Called with (what was done, why) each time a place put something right by itself."""


class WorkPlaces:
    """The places, built once.

    ``home`` is a folder of Conch's own (made 0700 when needed); ``settings`` is asked for every command;
    ``protected`` names what no command may touch, wherever it runs.
    """

    def __init__(
        self,
        home: Path,
        *,
        settings: Callable[[], PlaceSettings] = PlaceSettings,
        protected: Callable[[], tuple[Path, ...]] = tuple,
        on_fixed: OnFixed | None = None,
    ) -> None:
        raise NotImplementedError

    async def status(self, *, look: bool = False, on_progress: OnProgress | None = None) -> list[PlaceStatus]:
        """How each place stands. What was known a moment ago unless ``look``, which asks each again."""
        raise NotImplementedError

    async def for_turn(self, place: WorkPlaceId) -> WorkPlace:
        """The place, for one turn. Raises PlaceUnavailable. Never gives another place than the one asked for."""
        raise NotImplementedError

    async def start(self) -> None:
        """Housekeeping at start: old output and boxes left behind go. Quick, and never raises."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
