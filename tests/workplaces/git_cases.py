"""Ways to leave something that the person's next git command runs, each with the repository that it needs.

``plant`` is the command that a place is given; run outside of any box it works, and a test shows that it does. It uses
no git, only what every image has.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.workplaces.contract import git, repository

# Written into a config, or as a hook: whichever git comes to. {ran} is the file that then appears.
_EVIL = """\
evil() {{
  printf '[core]\\n\\tfsmonitor = touch {ran}; false\\n' >> "$1/config"
  mkdir -p "$1/hooks"
  printf '#!/bin/sh\\ntouch {ran}\\n' > "$1/hooks/reference-transaction"
  chmod +x "$1/hooks/reference-transaction"
}}
new() {{ mkdir -p "$1/objects" "$1/refs/heads"; echo ref: refs/heads/x > "$1/HEAD"; : > "$1/config"; evil "$1"; }}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """``make`` fills a base folder and gives the work folder in it."""

    name: str
    make: Callable[[Path], Path]
    plant: str

    def command(self, ran: Path) -> str:
        return _EVIL.format(ran=ran) + self.plant + "; true"


def person(folder: Path) -> None:
    """What a person does next in the folder, and the prompt of their shell for them."""
    for line in ("status", "submodule status", "diff --stat", "tag made-by-the-person"):
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "-C", str(folder), "-c", "safe.directory=*", *line.split()]
        subprocess.run(command, env=env, capture_output=True, check=False, timeout=30)


def _apart(work: Path, where: str) -> Path:
    work.mkdir()
    (work / where).parent.mkdir(parents=True, exist_ok=True)
    git(work, "init", "-q", "-b", "main", "--separate-git-dir", str(work / where))
    (work / "a.txt").write_text("one\n")
    git(work, "add", "a.txt")
    git(work, "commit", "-qm", "first")
    return work


def _file(base: Path) -> Path:
    work = _apart(base / "work", "deep/apart")
    (work / ".git").write_text("gitdir: deep/apart\n")
    return work


def _link(base: Path) -> Path:
    work = _apart(base / "work", "deep/apart")
    (work / ".git").unlink()
    (work / ".git").symlink_to("deep/apart")
    return work


def _link_to_a_file(base: Path) -> Path:
    work = _apart(base / "work", "apart")
    (work / ".git").write_text("gitdir: apart\n")
    (work / ".git").rename(work / "named")
    (work / ".git").symlink_to("named")
    return work


def _way_over_a_link(base: Path) -> Path:
    work = _apart(base / "work", "deep/apart")
    (work / "way").symlink_to("deep")
    (work / ".git").write_text("gitdir: way/apart\n")
    return work


def _names_nothing(base: Path) -> Path:
    work = base / "work"
    work.mkdir()
    (work / ".git").write_text("gitdir: later/git\n")
    return work


def _link_to_nothing(base: Path) -> Path:
    work = base / "work"
    work.mkdir()
    (work / ".git").symlink_to("later")
    return work


def _with_submodules(base: Path) -> Path:
    """A repository with a submodule ``libs/mid`` that has one, ``sub``, all checked out."""
    inner, mid, work = base / "inner", base / "mid", base / "work"
    for folder in (inner, mid, work):
        folder.mkdir()
        repository(folder)
    for outer, part, where in ((mid, inner, "sub"), (work, mid, "libs/mid")):
        git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), where)
        git(outer, "commit", "-qam", "with a submodule")
    git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
    return work


def _cloned(base: Path) -> Path:
    """As after a plain clone: submodules are empty folders."""
    (base / "made").mkdir()
    git(base, "clone", "-q", str(_with_submodules(base / "made")), "work")
    return base / "work"


def _cloned_without_the_folder(base: Path) -> Path:
    work = _cloned(base)
    (work / "libs" / "mid").rmdir()
    (work / "libs").rmdir()
    return work


def _cloned_and_filled(base: Path) -> Path:
    work = _cloned(base)
    (work / "libs" / "mid" / "copied").write_text("by hand")
    return work


def _half_checked_out(base: Path) -> Path:
    work = _cloned(base)
    git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    return work


def _embedded(base: Path) -> Path:
    """A repository listed without a word in .gitmodules (git warns of it, and lists it)."""
    work = base / "work"
    (work / "deep" / "emb").mkdir(parents=True)
    repository(work)
    repository(work / "deep" / "emb")
    git(work, "-c", "advice.addEmbeddedRepo=false", "add", "deep/emb")
    git(work, "commit", "-qm", "embedded")
    return work


def _bare(base: Path) -> Path:
    git(base, "clone", "-q", "--bare", str(_with_submodules(base)), "bare.git")
    return base / "bare.git"


def _none(base: Path) -> Path:
    (base / "work").mkdir()
    (base / "work" / "a.txt").write_text("one\n")
    return base / "work"


def _part(base: Path) -> Path:
    work = base / "whole" / "part"
    work.mkdir(parents=True)
    repository(base / "whole")
    return work


def _part_with_a_submodule(base: Path) -> Path:
    work = _cloned(base)
    return work / "libs"


_COPY = "cp -R .git {to} && evil {to}"
CASES = (
    Case("file", _file, "mv deep other; mkdir -p deep; cp -R other/apart deep/apart; evil deep/apart"),
    Case("link", _link, "mv deep other; mkdir -p deep; cp -R other/apart deep/apart; evil deep/apart"),
    Case("link changed", _link, "cp -R deep/apart mine; evil mine; rm .git; ln -s mine .git"),
    Case("link to a file", _link_to_a_file, "evil apart"),
    Case("link to a file that changed", _link_to_a_file, "cp -R apart mine; evil mine; echo gitdir: mine > named"),
    Case("way over a link", _way_over_a_link, "rm way; mkdir way; cp -R deep/apart way/apart; evil way/apart"),
    Case("names nothing", _names_nothing, "new later/git"),
    Case("names nothing, over a link", _names_nothing, "new mine/git; ln -s mine later"),
    Case("link to nothing", _link_to_nothing, "new later"),
    Case("not checked out", _cloned, _COPY.format(to="libs/mid/.git")),
    Case("not checked out, as a file", _cloned, "cp -R .git mine; evil mine; echo gitdir: ../../mine > libs/mid/.git"),
    Case("folder moved", _cloned, "mv libs/mid x; mv libs y; mkdir -p libs/mid; " + _COPY.format(to="libs/mid/.git")),
    Case("folder gone", _cloned_without_the_folder, "mkdir -p libs/mid; " + _COPY.format(to="libs/mid/.git")),
    Case("filled", _cloned_and_filled, _COPY.format(to="libs/mid/.git")),
    Case("checked out", _with_submodules, "cp -R .git mine; evil mine; echo gitdir: ../../mine > libs/mid/.git"),
    Case(
        "in a submodule",
        _with_submodules,
        "rm -f libs/mid/sub/.git; mv libs/mid/sub libs/mid/x; mkdir -p libs/mid/sub; "
        + _COPY.format(to="libs/mid/sub/.git"),
    ),
    Case("in a submodule, not checked out", _half_checked_out, _COPY.format(to="libs/mid/sub/.git")),
    Case("embedded", _embedded, "evil deep/emb/.git"),
    Case("embedded, moved", _embedded, "mv deep other; cp -R other deep; evil deep/emb/.git"),
    Case("bare", _bare, "evil ."),
    Case("none", _none, "new .git"),
    Case(
        "none, itself made one", _none, "new .; printf '\\trepositoryformatversion = 0\\n\\tworktree = .\\n' >> config"
    ),
    Case("part", _part, "new .git"),
    Case("part with a submodule", _part_with_a_submodule, "new mine; echo gitdir: ../mine > mid/.git; new mid/.git"),
)


def copies(case: Case, base: Path) -> Iterator[Path]:
    """The work folder made twice: one for a place, one to show what the command does outside of any box."""
    for name in ("boxed", "bare"):
        (base / name).mkdir()
        yield case.make(base / name)


def control(case: Case, work: Path, ran: Path) -> bool:
    """Whether the case works where nothing keeps it from working."""
    ran.unlink(missing_ok=True)
    subprocess.run(["/bin/sh", "-c", case.command(ran)], cwd=work, capture_output=True, check=False, timeout=30)
    person(work)
    seen = ran.exists()
    ran.unlink(missing_ok=True)
    return seen
