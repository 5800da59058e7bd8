"""What the person chose: one JSON file, read once, written whole.

``get`` answers from memory. ``set`` changes memory at once and gives the write to a thread; it merges with what another
Conch wrote meanwhile. Names that a newer version put there are kept. A file that cannot be read is copied aside, what
can be read of it stays, and ``troubles`` says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, overload

from app import files
from app.locks import FileLock
from app.preferred import TABLE, BadPreference, Value, preference

__all__ = ["BadPreference", "OnChange", "PreferenceTrouble", "Preferences", "Value"]

log = logging.getLogger(__name__)

OnChange = Callable[[str, Value], None]
TextName = Literal[
    "place", "container.image", "container.runtime", "container.hosts", "ssh.hosts", "mirror.leave", "mirror.carry",
    "mode", "engine", "model.base_url", "model.name", "theme", "motion", "folder.last", "window.geometry",
]  # fmt: skip
NumberName = Literal["text.size", "container.memory", "container.cpus", "container.spares"]
SwitchName = Literal["container.gpus"]
Stamp = tuple[int, int, int]
Read = tuple[dict[str, Any], Stamp | None]
LARGEST = 1024 * 1024


class PreferenceTrouble(Exception):
    """The change could not be kept, and the old value stands. ``words`` is for the person."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class Preferences:
    """``troubles`` are sentences about what could not be used of the file, newest last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.troubles: list[str] = []
        self._raw: dict[str, Any] | None = None  # as in the file, unknown names included
        self._stamp: Stamp | None = None
        self._writing: dict[str, int] = {}
        self._listeners: list[OnChange] = []
        # One thread: two changes are kept in the order they were made.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="preferences")

    @overload
    def get(self, name: TextName) -> str: ...
    @overload
    def get(self, name: NumberName) -> int: ...
    @overload
    def get(self, name: SwitchName) -> bool: ...
    @overload
    def get(self, name: str) -> Value: ...
    def get(self, name: str) -> Value:
        """The value, or its default. Raises BadPreference for a name that is not in the table."""
        known = preference(name)
        try:
            return known.check(self._loaded().get(name, known.default))
        except BadPreference:
            return known.default

    def unusable(self, name: str) -> str | None:
        """What is wrong with what the file holds for it, when ``get`` gives the default because of that."""
        known = preference(name)
        if (raw := self._loaded().get(name)) is not None:
            try:
                known.check(raw)
            except BadPreference as error:
                return str(error)
        return None

    def written(self, name: str) -> str:
        """What the file holds for it, as text and whether it can be used or not; else the default."""
        return str(self._loaded().get(name, preference(name).default))

    def chosen(self, name: str) -> bool:
        """Whether the person chose it, rather than it being the default."""
        preference(name)
        return name in self._loaded()

    async def set(self, name: str, value: Value | str) -> Value:
        """Checks, changes and keeps it, and gives it as kept. Raises BadPreference, or PreferenceTrouble when it could
        not be written; nothing is changed then."""
        checked = preference(name).check(value)
        await self._change(name, checked)
        return checked

    async def reset(self, name: str) -> None:
        """Back to the default."""
        preference(name)
        await self._change(name, None)

    async def refresh(self) -> None:
        """Takes in what another Conch wrote. Costs a look at the file's time when nothing did."""
        self._loaded()
        loop = asyncio.get_running_loop()
        if (found := await loop.run_in_executor(self._writer, self._read_changed)) is not None:
            self._adopt(found)

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        """Calls ``on_change(name, value)`` on the caller's loop for each change. Gives back how to end that."""
        self._listeners.append(on_change)

        def end() -> None:
            if on_change in self._listeners:
                self._listeners.remove(on_change)

        return end

    # -- within

    def _loaded(self) -> dict[str, Any]:
        if self._raw is None:
            try:
                self._raw, self._stamp = self._read()
            except OSError as error:
                self._raw = {}
                self._say_unreadable(error)
            for name in TABLE:
                if (wrong := self.unusable(name)) is not None:
                    self.troubles.append(f"A setting cannot be used, so its default is. {wrong}")
        return self._raw

    def _say_unreadable(self, error: OSError) -> None:
        self.troubles.append(f"Your settings in {self.path} cannot be read, so the defaults are used.")
        log.warning("preferences were not read", exc_info=error)

    def _values(self) -> dict[str, Value]:
        return {name: self.get(name) for name in TABLE}

    async def _change(self, name: str, value: Value | None) -> None:
        old = self._loaded().get(name)
        self._hold(name, value)
        self._writing[name] = self._writing.get(name, 0) + 1
        loop = asyncio.get_running_loop()
        try:
            # A caller that is stopped does not stop the write: it would leave memory and file apart.
            found = await asyncio.shield(loop.run_in_executor(self._writer, self._write, name, value))
        except OSError as error:
            log.warning("preferences were not written", exc_info=error)
            self._hold(name, old)
            raise PreferenceTrouble(
                f"“{name}” could not be kept: {(error.strerror or str(error)).lower()}. It is as it was."
            ) from None
        finally:
            self._writing[name] -= 1
        self._adopt(found)

    def _hold(self, name: str, value: object) -> None:
        before = self._values()
        _put(self._loaded(), name, value)
        self._tell(before)

    def _adopt(self, found: Read) -> None:
        before = self._values()
        raw, self._stamp = found
        for name, count in self._writing.items():
            if count:  # a later change of ours is still on its way to the file
                _put(raw, name, self._loaded().get(name))
        self._raw = raw
        self._tell(before)

    def _tell(self, before: dict[str, Value]) -> None:
        for name, value in self._values().items():
            if value != before[name]:
                for listener in list(self._listeners):
                    listener(name, value)

    # -- in the thread

    def _read_changed(self) -> Read | None:
        try:
            return None if _stamp(self.path) == self._stamp else self._read()
        except OSError as error:
            self._say_unreadable(error)
            return None

    def _read(self) -> Read:
        stamp = _stamp(self.path)
        try:
            with self.path.open("rb") as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return {}, stamp
        try:
            raw = json.loads(data) if len(data) <= LARGEST else None
        except (ValueError, RecursionError):
            raw = None
        if isinstance(raw, dict):
            return raw, stamp
        return self._keep_aside(data)

    def _keep_aside(self, data: bytes) -> Read:
        good = _good_lines(data)
        aside = self.path.with_name(f"{self.path.name}.kept-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")
        try:
            # The copy first: whatever happens next, what was there is still somewhere.
            files.write_new(aside, data)
            files.replace(self.path, _packed(good))
        except OSError as error:
            log.warning("damaged preferences were not kept aside", exc_info=error)
        self.troubles.append(
            f"Your settings could not be read. What could be of them is used; the file as it was is kept in {aside}."
        )
        return good, _stamp(self.path)

    def _write(self, name: str, value: Value | None) -> Read:
        with FileLock(self.path.with_name(self.path.name + ".lock")):
            raw, _ = self._read()
            _put(raw, name, value)
            files.replace(self.path, _packed(raw))
            return raw, _stamp(self.path)


def _put(raw: dict[str, Any], name: str, value: object) -> None:
    if value is None:
        raw.pop(name, None)
    else:
        raw[name] = value


def _packed(raw: dict[str, Any]) -> bytes:
    # A folder's name need not be UTF-8; json.loads reads such bytes back the same way.
    return (json.dumps(raw, indent=2, ensure_ascii=False, sort_keys=True) + "\n").encode("utf-8", "surrogatepass")


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _good_lines(data: bytes) -> dict[str, Any]:
    """What still reads of a file cut short or edited wrong: it was written with one name on a line."""
    good: dict[str, Any] = {}
    for line in data[:LARGEST].decode("utf-8", "replace").splitlines():
        pair = line.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
        try:
            found = json.loads("{" + pair + "}")
        except (ValueError, RecursionError):
            continue
        good.update(found)
    return good
