"""No path that a model can write, on no tree of folders and links, gets a file tool out of the work folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.tools.base import ToolFailed
from app.tools.folder import Folder
from app.tools.listing import walk
from app.tools.writing import put

NAMES = ["a", "b", "link", "up", "keys", ".git", "..", ".", "", "out", "A", "secret"]
TARGETS = [
    "..",
    ".",
    "../out",
    "../out/secret",
    "a",
    "{top}",
    "{out}",
    "{out}/secret",
    "link",
    "../work/a",
    "keys",
    "keys/id",
]

places = st.lists(st.sampled_from(["a", "b", "link", "up"]), min_size=1, max_size=3)
links = st.lists(st.tuples(places, st.sampled_from(TARGETS)), max_size=6)
paths = st.one_of(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6).map("/".join),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda parts: "{work}/" + "/".join(parts)),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(lambda parts: "{out}/" + "/".join(parts)),
    st.text(max_size=12),
)


@settings(max_examples=300, deadline=None)
@given(links=links, path=paths)
def test_no_way_out(links: list[tuple[list[str], str]], path: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        work, out = top / "work", top / "out"
        for folder in (work / "a", work / "keys", work / ".git", out):
            folder.mkdir(parents=True)
        for file in (out / "secret", work / "keys/id", work / ".git/config", top / "secret"):
            file.write_text("the secret")
        (work / "a/b").write_text("mine")
        for parts, target in links:
            place = work.joinpath(*parts)
            if any(parent.is_symlink() or parent.is_file() for parent in place.parents) or os.path.lexists(place):
                continue  # the tree itself is only ever made inside the work folder
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target.format(out=out, top=top))
        asked = path.replace("{work}", str(work)).replace("{out}", str(out))
        before = _outside(top, work)
        folder = Folder(work, [work / "keys"])
        assert "the secret" not in _read(folder, asked) or ".git" in asked  # .git may be read
        with contextlib.suppress(ToolFailed):
            put(folder, folder.parts(asked), b"written")
        assert _outside(top, work) == before
        for found in walk(folder, (), 20):
            assert found.parts[0].casefold() != "keys"


def _read(folder: Folder, asked: str) -> str:
    try:
        with folder.file(folder.parts(asked)) as number:
            return os.read(number, 4096).decode()
    except ToolFailed:
        return ""


def _outside(top: Path, work: Path) -> dict[str, str]:
    """Every file that no tool may change, with what it holds."""
    kept = {}
    for base in (top, work / "keys", work / ".git"):
        for place, folders, files in os.walk(base):
            if Path(place) == top:
                folders.remove("work")
            kept |= {f"{place}/{file}": Path(place, file).read_text() for file in files}
    return kept
