"""Once a sealed command is dead: what it may have put in git's way is taken out of it, and said.

Nothing is removed: what git would run something of is given another name beside its old one.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
from pathlib import Path

from workplaces.folder import shown
from workplaces.plain import read_plain
from workplaces.repository.index import HASH, extensions, parse
from workplaces.repository.look import Repository, is_git_folder, named_in
from workplaces.words import PLACE_WORDS

_LARGEST = 256 * 1024
_LARGEST_INDEX = 1 << 30
_MOST_ASIDE = 10_000
_SECTION = re.compile(r'\[\s*([A-Za-z]+)(?:\s+"[^"\\]*")?\s*\]')
_SETTING = re.compile(r'([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(?:[^\\]|\\["\\nt])*)?')
# What git writes into a new repository itself, and a name to commit under. No program is named by any of these.
_PLAIN = {
    "branch": {"remote", "merge", "rebase"},
    "core": {
        *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode"),
        *("symlinks", "autocrlf", "eol"),
    },
    "init": {"defaultbranch"},
    "remote": {"url", "fetch"},
    "user": {"name", "email"},
}

# What there is at the top of a new repository's own folder, and in its index.
_KNOWN = {
    *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "branches", "config", "description", "gc.log"),
    *("hooks", "index", "info", "logs", "objects", "packed-refs", "refs", "shallow"),
}
_EXTENSIONS = {b"TREE", b"REUC", b"EOIE", b"IEOT"}


def restore(was: Repository) -> str:
    """Makes links that were changed those links again, and moves what appeared aside unless nothing of it can run.

    Gives what was done, in sentences for the person and the model; empty when there was nothing to do. Call it when no
    process of the command lives any more. Never raises.
    """
    said: list[str] = []
    for link, target in was.links:
        with _Stuck(said, was, link):
            said += _put_back(was, link, target)
    for path in was.missing:
        with _Stuck(said, was, path):
            if (found := _in_the_way(path, was)) is not None:
                said.append(PLACE_WORDS["git.moved"].format(place=_named(was, found), name=shown(Path(_aside(found)))))
    return " ".join(said)


def harmless(git: Path) -> bool:
    """Whether a repository's own folder is one in which git finds nothing to run: a plain, new one (git-init(1)).

    A list of what is known to be plain, so that what is not known is not.
    """
    config, hooks = git / "config", git / "hooks"
    if git.is_symlink() or any(entry.name not in _KNOWN for entry in os.scandir(git)):
        return False
    if os.path.lexists(git / "info" / "attributes"):
        return False
    if os.path.lexists(hooks) and (hooks.is_symlink() or not hooks.is_dir() or not _samples(hooks)):
        return False
    if not _lists_none(git / "index"):
        return False
    try:
        if not stat.S_ISREG(config.lstat().st_mode) or config.stat().st_nlink > 1:
            return False
        text = read_plain(config, _LARGEST).decode()
    except FileNotFoundError:
        return True
    except ValueError:
        return False
    return _plain(text)


def _plain(config: str) -> bool:
    allowed: set[str] = set()
    for line in config.split("\n"):
        words = line.strip(" \t\r")
        if not words or words[0] in "#;":
            continue
        if section := _SECTION.fullmatch(words):
            allowed = _PLAIN.get(section[1].lower(), set())
        elif not (setting := _SETTING.fullmatch(words)) or setting[1].lower() not in allowed:
            return False
    return True


def _samples(hooks: Path) -> bool:
    return all(entry.name.endswith(".sample") for entry in os.scandir(hooks))


def _lists_none(index: Path) -> bool:
    """Whether an index lists files alone: git would enter the repositories that it lists too."""
    if not os.path.lexists(index):
        return True
    try:
        data = read_plain(index, _LARGEST_INDEX)
        links, end = parse(data, HASH)
        return not links and not index.is_symlink() and set(extensions(data, end, HASH)) <= _EXTENSIONS
    except (OSError, ValueError, IndexError, struct.error):
        return False


def _in_the_way(path: Path, was: Repository) -> Path | None:
    """What has to be moved so that git does not come to what is at ``path``; None when nothing has to."""
    if not os.path.lexists(path):
        return None
    for parent in (*path.parents, path):
        if parent.is_symlink():  # none was on this way before
            return parent if path.name == ".git" or is_git_folder(path) else None
    if path.is_dir():
        if not is_git_folder(path) or harmless(path):
            return None
        return path if path.name == ".git" else path / "HEAD"
    if path.name != ".git" or not path.is_file() or _is_known(path, was):
        return None
    return path


def _is_known(file: Path, was: Repository) -> bool:
    """Whether a ``.git`` file leads into what no sealed command could write. Git itself may have made it meanwhile."""
    text = named_in(file)
    try:
        named = (file.parent / text).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return not text
    return any(kept == named or kept in named.parents for kept in was.kept)


def _put_back(was: Repository, link: Path, target: str) -> list[str]:
    """Makes a link that link again. Gives what there is to say of it."""
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:  # noqa: PTH115 - the text of it
            return []
    aside = _aside(link) if os.path.lexists(link) else ""
    link.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(target, link)  # noqa: PTH211 - the text of it, as it was
    words = PLACE_WORDS["git.link-moved" if aside else "git.link"]
    return [words.format(place=_named(was, link), name=shown(Path(aside)))]


def _named(was: Repository, path: Path) -> str:
    """A path as a sentence says it: from the work folder, where it lies in there."""
    return shown(path.relative_to(was.top) if was.top in path.parents else path)


class _Stuck:
    """Says what could not be put right, instead of raising it."""

    def __init__(self, said: list[str], was: Repository, path: Path) -> None:
        self._said, self._place = said, _named(was, path)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, OSError):
            self._said.append(PLACE_WORDS["git.stuck"].format(place=self._place))
        return isinstance(error, OSError)


def _aside(path: Path) -> str:
    for number in range(1, _MOST_ASIDE):
        beside = path.with_name(f"{path.name}.moved-{number}")
        if not os.path.lexists(beside):
            path.rename(beside)
            return beside.name
    raise FileExistsError(f"{path} could not be moved aside")
