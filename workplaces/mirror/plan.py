"""What is to be done, from three listings: what was agreed, what is here, what is there. No disk is touched here.

The one rule above all: no version of a file that someone wrote is lost. What changed on one side goes to the other;
what changed on both is kept twice; what is only believed to be gone is not deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workplaces.mirror import listing, there, trust
from workplaces.mirror.agreed import FRESH_THERE, Entry
from workplaces.mirror.carry import Broken
from workplaces.mirror.scope import Scope
from workplaces.mirror.there import There

MANY: Final = 20


@dataclass(slots=True)
class Push:
    """What a round before a command does. Paths are relative; folders come before what is in them.

    ``compare`` changed on both sides (or may have): theirs is fetched first. ``agree`` are equal without a look.
    """

    send: list[str] = field(default_factory=list)
    make: list[str] = field(default_factory=list)
    modes: list[tuple[str, int]] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    remove_folders: list[str] = field(default_factory=list)
    compare: list[str] = field(default_factory=list)
    agree: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    resent: int = 0

    @property
    def anything(self) -> bool:
        return bool(self.send or self.make or self.modes or self.remove or self.remove_folders)

    @property
    def nothing(self) -> bool:
        """Whether there is not even anything to look at, to note, or to say anew."""
        return not (self.anything or self.compare or self.agree or self.drop or self.resent)


@dataclass(slots=True)
class Pull:
    """What a round after a command does here: ``fetch`` are files that are new or changed there."""

    fetch: list[str] = field(default_factory=list)
    make: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    remove_folders: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    of: int = 0

    @property
    def empties(self) -> bool:
        """Whether over half of more than 20 files would go."""
        return self.of > MANY and len(self.remove) * 2 > self.of


def push(agreed: Mapping[str, Entry], here: listing.Snapshot, over_there: There, scope: Scope, *, doubt: bool) -> Push:
    """Plans what goes there. ``doubt``: the copy is not the one that was left (restored, made anew): then nothing that
    differs there is taken for newer."""
    plan = Push()
    theirs = over_there.entries
    blank = here.files == 0 and any(entry.here and listing.is_file(entry.here) for entry in agreed.values())
    for path, now in here.entries.items():
        entry = agreed.get(path)
        raw = theirs.get(path)
        if entry is not None and raw is not None and entry.here == now and entry.there == raw and not entry.fresh:
            continue
        _push_present(plan, path, now, raw, entry, over_there, scope, doubt)
    for path, entry in agreed.items():
        if path in here.entries:
            continue
        raw = theirs.get(path)
        if listing.under(path, here.unknown):
            continue
        if scope.refuses(path, folder=listing.is_folder(entry.here or entry.there or b"")):
            plan.drop.append(path)
        elif raw is None:
            if _known(path, over_there):
                plan.drop.append(path)
        elif blank or raw != entry.there:
            pass  # what changed there comes back after the command
        elif entry.fresh & FRESH_THERE:
            plan.compare.append(path)
        elif there.is_folder(raw):
            plan.remove_folders.append(path)
        else:
            plan.remove.append(path)
    for name in here.unknown:
        plan.left.append((name, "closed-here"))
    blocked = {path for path, reason in plan.left if reason == "in-the-way"}
    if blocked:  # what would go through a link there, or into a file, cannot
        plan.send = [path for path in plan.send if not listing.under(path, blocked)]
        plan.make = [path for path in plan.make if not listing.under(path, blocked)]
    plan.send.sort(key=by_folder)
    plan.remove.sort(key=by_folder)
    plan.make.sort()
    plan.remove_folders.sort(reverse=True)
    return plan


def _push_present(
    plan: Push,
    path: str,
    now: bytes,
    raw: bytes | None,
    entry: Entry | None,
    over_there: There,
    scope: Scope,
    doubt: bool,
) -> None:
    folder = listing.is_folder(now)
    if (reason := scope.refuses(path, folder=folder)) is not None:
        plan.left.append((path, reason))
        return
    if not folder and not listing.is_file(now):
        plan.left.append((path, "link" if now[:1] == b"l" else "special"))
        return
    if raw is None:
        if not _known(path, over_there):
            plan.left.append((path, "closed-there"))
            return
        if entry is not None and entry.here == now and entry.there is not None:
            plan.resent += 1
        (plan.make if folder else plan.send).append(path)
        return
    here_changed = entry is None or entry.here != now
    there_changed = entry is None or entry.there != raw
    if there.is_folder(raw) != folder or (not folder and not there.is_file(raw)):
        _push_other_kind(plan, path, raw, entry, folder, there_changed)
    elif folder:
        plan.agree.append(path)
        if (mode := _folder_mode(now, raw, entry)) is not None:
            plan.modes.append((path, mode))
    elif there_changed or (here_changed and entry is not None and entry.fresh & FRESH_THERE):
        if here_changed or doubt or _older(raw, entry):
            plan.compare.append(path)
    elif here_changed:
        plan.send.append(path)


def _push_other_kind(plan: Push, path: str, raw: bytes, entry: Entry | None, folder: bool, there_changed: bool) -> None:
    """A file here and a folder there, or the other way round."""
    if there_changed or entry is None:
        plan.left.append((path, "in-the-way"))
        return
    if there.is_folder(raw):
        plan.remove_folders.append(path)
    else:
        plan.remove.append(path)
    (plan.make if folder else plan.send).append(path)


def _folder_mode(now: bytes, raw: bytes, entry: Entry | None) -> int | None:
    """The mode that a folder there is to get, None when it keeps its own."""
    ours = listing.unpack(now).mode & 0o777
    if there.fields(raw).mode == ours:
        return None
    if entry is not None and entry.here is not None and listing.unpack(entry.here).mode & 0o777 == ours:
        return None  # it did not change here, so what it is there stands
    return ours


def _older(raw: bytes, entry: Entry | None) -> bool:
    """Whether a file went back in time there: a backup was put back, rather than something written."""
    if entry is None or entry.there is None:
        return False
    try:
        return there.fields(raw).mtime <= there.fields(entry.there).mtime
    except Broken:
        return True


def pull(agreed: Mapping[str, Entry], over_there: There, scope: Scope) -> Pull:
    """Plans what comes back. Deletions are planned only for what is surely gone there."""
    plan = Pull()
    theirs = over_there.entries
    for path, raw in theirs.items():
        entry = agreed.get(path)
        if entry is not None and entry.there == raw and not entry.fresh & FRESH_THERE:
            continue
        _pull_present(plan, path, raw, entry, scope)
    for path, entry in agreed.items():
        if entry.there is None:
            continue
        file = not there.is_folder(entry.there)
        plan.of += file
        if path in theirs or not _known(path, over_there):
            continue
        if scope.refuses(path, folder=not file) or entry.here is None:
            plan.drop.append(path)
        elif file:
            plan.remove.append(path)
        else:
            plan.remove_folders.append(path)
    for name in over_there.unknown:
        plan.left.append((name, "closed-there"))
    plan.make.sort()
    plan.remove_folders.sort(reverse=True)
    return plan


def by_folder(path: str) -> tuple[str, str]:
    """Sorts paths so that those of one folder stand together."""
    folder, _, name = path.rpartition("/")
    return folder, name


def _pull_present(plan: Pull, path: str, raw: bytes, entry: Entry | None, scope: Scope) -> None:
    folder = there.is_folder(raw)
    reason = scope.refuses(path, folder=folder)
    if reason is None and scope.cannot_hold(path):
        reason = "name"
    if reason is not None:
        plan.left.append((path, reason))
    elif folder:
        if entry is not None and entry.there is not None and there.is_folder(entry.there):
            plan.modes.append(path)
            return
        plan.make.append(path)
        if entry is not None and entry.there is not None and entry.here is not None:  # a file was there before
            plan.remove.append(path)
    elif there.is_file(raw):
        if trust.is_hook(path):
            plan.left.append((path, "runs"))
            return
        plan.fetch.append(path)
        if entry is not None and entry.there is not None and there.is_folder(entry.there):
            plan.remove_folders.append(path)
    else:
        plan.left.append((path, "link" if raw[:1] == b"l" else "special"))


def _known(path: str, over_there: There) -> bool:
    """Whether a path that is not in the listing is surely not there."""
    return over_there.sure and not listing.under(path, over_there.unknown)


def copy_name(path: str, place: str, number: int) -> str:
    """What theirs is called beside ours: ``report.from-build-box.md``."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > 16:
        stem, dot, ending = name, "", ""
    added = f".from-{place}" + (f"-{number}" if number > 1 else "")
    most = 255 - len((added + dot + ending).encode("utf-8", "surrogateescape"))
    while len(stem.encode("utf-8", "surrogateescape")) > most:
        stem = stem[:-1]
    name = f"{stem}{added}{dot}{ending}"
    return f"{folder}/{name}" if folder else name


def safe_place(name: str) -> str:
    """A place's name as a part of a file's name, on any system."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip(".")[:60] or "there"


__all__ = ["MANY", "Entry", "Pull", "Push", "Scope", "by_folder", "copy_name", "pull", "push", "safe_place"]
