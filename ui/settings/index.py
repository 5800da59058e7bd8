"""What can be found in Settings: each page, and each setting by any of its words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

PAGES: Final[dict[str, str]] = {
    "general": "General",
    "models": "Models",
    "security": "Security",
    "health": "Health",
    "shortcuts": "Shortcuts",
    "about": "About",
}

# Where each preference of the table is, and what its row is called.
PLACED: Final[dict[str, tuple[str, str]]] = {
    "theme": ("general", "Theme"),
    "text.size": ("general", "Text size"),
    "motion": ("general", "Motion"),
    "mode": ("general", "Without asking, in new chats"),
    "engine": ("general", "What answers new chats"),
    "model.base_url": ("models", "The model's address"),
    "model.name": ("models", "The model's name"),
    "place": ("security", "Where work runs"),
    "container.image": ("security", "The container's image"),
    "container.memory": ("security", "A box's memory"),
    "container.cpus": ("security", "A box's processors"),
    "container.spares": ("security", "Boxes made ahead"),
    "container.hosts": ("security", "Allowed hosts"),
    "ssh.hosts": ("security", "Machines that are offered"),
    "mirror.leave": ("security", "Folders that stay here"),
    "mirror.carry": ("security", "Copied all the same"),
    "container.gpus": ("security", "Graphics processors in a box"),
    "container.runtime": ("security", "What isolates a box"),
}
_MORE: Final = (
    ("models", "key", "The model's key", "api key secret token password keychain"),
    ("security", "copies", "Copies on your machines", "there ssh machine copy size remove room disk"),
    ("health", "fixed", "Fixed on its own", "repair health what conch did"),
    ("shortcuts", "", "Shortcuts", "keyboard keys"),
    ("about", "", "About Conch", "version licence license log folder"),
)


@dataclass(frozen=True, slots=True)
class Found:
    page: str
    name: str
    title: str
    words: str

    @property
    def group(self) -> str:
        return PAGES[self.page]


@lru_cache(maxsize=1)
def settings_index() -> tuple[Found, ...]:
    """Every setting, from the preferences' own table, and what else the pages hold."""
    from app.preferred import TABLE

    found = [
        Found(page, name, title, f"{name} {TABLE[name].words} {' '.join(TABLE[name].choices)}")
        for name, (page, title) in PLACED.items()
        if name in TABLE
    ]
    found += [Found(page, name, title, words) for page, name, title, words in _MORE]
    return tuple(found)
