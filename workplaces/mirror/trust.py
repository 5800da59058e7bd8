"""What would run by itself here the next time that someone uses git: it does not come back on its own.

A command there may have written anything into ``.git``. Its objects and branches come back; a hook does not, and a
settings file only when it holds nothing that names a program, or nothing of that kind that was not here before.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from workplaces.mirror.scope import folded

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_LINE = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")

# Keys that only say how or where, for sections in which others name programs.
_HARMLESS: Final = {
    "core": {
        *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode"),
        *("symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "sparsecheckout", "sparsecheckoutcone", "abbrev"),
        *("compression", "bigfilethreshold", "commentchar", "longpaths", "protecthfs", "protectntfs", "untrackedcache"),
    },
    "remote": {"url", "pushurl", "fetch", "push", "tagopt", "prune", "mirror", "promisor", "partialclonefilter"},
    "branch": {"remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base", "gh-merge-base"},
    "user": {"name", "email", "useconfigonly"},
    "submodule": {"url", "active", "branch", "path", "fetchrecursesubmodules", "ignore"},
    "extensions": {"objectformat", "worktreeconfig", "partialclone", "refstorage", "noop", "preciousobjects"},
    "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote", "followtags"},
    "merge": {"conflictstyle", "ff", "renames"},
    "rebase": {"autosquash", "autostash", "updaterefs"},
    "fetch": {"prune", "prunetags"},
    "init": {"defaultbranch"},
    "lfs": {"repositoryformatversion", "locksverify"},
    "gc": {"auto"},
    "rerere": {"enabled"},
    "color": {"ui"},
    "commit": {"gpgsign"},
    "tag": {"gpgsign", "sort"},
    "maintenance": {"auto", "strategy"},
}
LARGEST: Final = 256 * 1024


def is_hook(path: str) -> bool:
    """Whether git would run this file here by itself. Its samples it does not run."""
    names = _names(path)
    return _in_git(names) and "hooks" in names[_git_at(names) + 1 : -1] and not names[-1].endswith(".sample")


def is_settings(path: str) -> bool:
    """Whether this is a file that git reads settings from, beside a repository."""
    names = _names(path)
    return _in_git(names) and names[-1] in ("config", "config.worktree", "config~1")


def adds_programs(theirs: bytes, ours: bytes | None) -> bool:
    """Whether settings from there hold something that could name a program and that ours do not hold."""
    risky = _risky(theirs)
    if risky is None:
        return True
    return bool(risky - ((_risky(ours) if ours is not None else None) or set()))


def _risky(text: bytes) -> set[tuple[str, str, str]] | None:
    """What is not known to be harmless, None when the text is not plain enough to tell."""
    try:
        lines = text[: LARGEST + 1].decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    if len(text) > LARGEST:
        return None
    risky: set[tuple[str, str, str]] = set()
    section = below = ""
    for raw in lines:
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if head := _SECTION.fullmatch(line):
            section, below = head[1].lower(), head[2] or ""
            continue
        entry = _LINE.fullmatch(line)
        if entry is None or not section or line.endswith("\\"):
            return None
        key, value = entry[1].lower(), (entry[2] or "").strip()
        plain = key in _HARMLESS.get(section, set()) and "::" not in value and value[:1] not in ("!", "-")
        if not plain:
            risky.add((f"{section}.{below}", key, value))
    return risky


def _names(path: str) -> list[str]:
    visible = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    names = (folded(one).rstrip(" .") for one in visible.split("/"))
    return [".git" if name in (".git", "git~1") else name for name in names]


def _git_at(names: list[str]) -> int:
    return names.index(".git")


def _in_git(names: list[str]) -> bool:
    return ".git" in names[:-1]
