"""The mirror's parts: the recorder of what changed, what is carried, names, tars, and what git would run."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workplaces.mirror_far import Pair
from workplaces.mirror import listing, plan, scope, trust
from workplaces.mirror.carry import ENDING, Broken, Incoming, TarReader, header, padding
from workplaces.mirror.land import Ground, Outcome
from workplaces.mirror.listing import diff, snapshot

# The recorder


def test_what_changed_in_a_folder(tmp_path: Path) -> None:
    for name in ("same", "grows", "same size", "goes", "mode", "sub/deep", "node_modules/x", "becomes folder"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = snapshot(tmp_path)
    assert diff(before, snapshot(tmp_path)).all == ()
    (tmp_path / "grows").write_text("22")
    seen = (tmp_path / "same size").stat()
    (tmp_path / "same size").write_text("2")
    os.utime(tmp_path / "same size", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    (tmp_path / "goes").unlink()
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/file").write_text("x")
    (tmp_path / "link").symlink_to("/nowhere")
    (tmp_path / "node_modules/y").write_text("x")
    (tmp_path / "becomes folder").unlink()
    (tmp_path / "becomes folder").mkdir()
    changes = diff(before, snapshot(tmp_path))
    assert changes.added == ("link", "new/file")
    assert changes.changed == ("grows", "mode", "same size")
    assert changes.deleted == ("becomes folder", "goes")
    assert changes
    assert changes.all == tuple(sorted((*changes.added, *changes.changed, *changes.deleted)))


def test_a_folder_that_cannot_be_read_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/file").write_text("x")
    before = snapshot(tmp_path)
    scandir = os.scandir

    def closed(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "closed", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    after = snapshot(tmp_path)
    assert after.unknown == ("closed",)
    assert diff(before, after).all == ()
    assert diff(after, before).all == ()


def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        snapshot(tmp_path / "gone")


def test_a_fresh_entry_is_not_trusted_by_its_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found = (tmp_path / "file").stat()
    sig = listing.pack(found)
    assert listing.fresh(sig, found.st_ctime_ns + 1_000_000)
    assert not listing.fresh(sig, found.st_ctime_ns + 100_000_000)
    os.utime(tmp_path / "file", ns=(0, 0))
    assert listing.unpack(listing.pack((tmp_path / "file").stat())).mtime == 0


# What is carried


def test_protected_places_count_by_every_name(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "keys").mkdir(parents=True)
    (tmp_path / "spelled").symlink_to(folder)
    (tmp_path / "by-link").symlink_to(folder / "keys")
    made = scope.scope_of(
        folder, tmp_path / "spelled", [tmp_path / "by-link", tmp_path / "spelled/later", tmp_path / "else"], parts="p-"
    )
    assert made.refuses("keys/key", folder=False) == "protected"
    assert made.refuses("KEYS/key", folder=False) == "protected"
    assert made.refuses("later", folder=True) == "protected"
    assert made.refuses("keys-too/key", folder=False) is None
    assert made.refuses("p-1", folder=False) == "protected"


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "a//b", "a/", "a\0b"])
def test_what_leads_elsewhere_is_outside(path: str) -> None:
    made = scope.Scope(scope.DEPENDENCIES, frozenset(), "p-")
    assert made.refuses(path, folder=False) == "outside"


def test_a_dependency_folder_is_one_only_as_a_folder() -> None:
    made = scope.Scope(scope.DEPENDENCIES, frozenset(), "p-")
    assert made.refuses("target", folder=True) == "dependency"
    assert made.refuses("target", folder=False) is None
    assert made.refuses("a/node_modules/b/c", folder=False) == "dependency"
    assert made.refuses("Node_Modules/x", folder=False) is None
    folds = scope.Scope(scope.DEPENDENCIES, frozenset(), "p-", folds=True)
    assert folds.refuses("Node_Modules/x", folder=False) == "dependency"


@pytest.mark.parametrize(
    ("name", "linux", "mac", "windows"),
    [
        ("plain.txt", False, False, False),
        ("ünï🤣", False, False, False),
        ("a:b", False, False, True),
        ("a\\b", False, False, True),
        ("nul", False, False, True),
        ("NUL.txt", False, False, True),
        ("com1", False, False, True),
        ("com0x", False, False, False),
        ("dot.", False, False, True),
        ("space ", False, False, True),
        ("tab\t", False, False, True),
        ("\udcff", False, True, True),
        ("x" * 255, False, False, False),
        ("x" * 256, True, True, True),
        ("ü" * 128, True, True, False),
    ],
)
def test_names_that_a_system_cannot_hold(name: str, linux: bool, mac: bool, windows: bool) -> None:
    held = [scope.cannot_hold(name, system) for system in ("linux", "darwin", "win32")]
    assert held == [linux, mac, windows]


def test_names_that_fold_into_one() -> None:
    assert scope.folded("A/ß") == scope.folded("a/SS")
    assert scope.folded("é") == scope.folded("é") == scope.folded("É")
    assert scope.folded("a") != scope.folded("b")


@pytest.mark.parametrize(
    ("path", "copy"),
    [
        ("report.md", "report.from-build-box.md"),
        ("d/report", "d/report.from-build-box"),
        (".env", ".env.from-build-box"),
        ("a.tar.gz", "a.tar.from-build-box.gz"),
        ("x" * 250 + ".txt", "x" * 236 + ".from-build-box.txt"),
        ("ü" * 127, "ü" * 120 + ".from-build-box"),
    ],
)
def test_what_theirs_is_called(path: str, copy: str) -> None:
    assert plan.copy_name(path, "build-box", 1) == copy
    assert len(copy.rpartition("/")[2].encode()) <= 255


def test_a_place_in_a_name() -> None:
    assert plan.safe_place("me@[::1]/x") == "me----1--x"
    assert plan.safe_place("..") == "there"


# Tars


def reader(data: bytes, chunk: int = 1000, most: int = 10_000_000) -> TarReader:
    pieces = iter([data[at : at + chunk] for at in range(0, len(data), chunk)])
    return TarReader(Incoming(lambda: next(pieces, b""), most), b"=E ")


def everything(data: bytes, chunk: int = 1000) -> list[tuple[bytes, str, bytes]]:
    tar = reader(data, chunk)
    found = []
    while (part := tar.next()) is not None:
        found.append((part.name, part.kind, b"".join(tar.content())))
    return found


NAMES = st.binary(min_size=1, max_size=400).filter(lambda name: b"\0" not in name and not name.endswith(b"/"))


@settings(max_examples=60, deadline=None)
@given(files=st.lists(st.tuples(NAMES, st.binary(max_size=2000)), max_size=5), chunk=st.integers(1, 3000))
def test_what_we_write_every_tar_reads(files: list[tuple[bytes, bytes]], chunk: int) -> None:
    ours = b"".join(
        header(name, mode=0o640, size=len(content), mtime=17) + content + padding(len(content))
        for name, content in files
    )
    with tarfile.open(fileobj=io.BytesIO(ours + ENDING), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        found = [(os.fsencode(one.name), tar.extractfile(one).read()) for one in tar]  # type: ignore[union-attr]
    assert found == files
    assert everything(ours + b"=E ".ljust(512), chunk) == [(name, "0", content) for name, content in files]


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(
        st.tuples(NAMES.filter(lambda name: not name.startswith(b"/")), st.binary(max_size=2000)), max_size=4
    ),
    form=st.sampled_from((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)),
)
def test_what_others_write_we_read(files: list[tuple[bytes, bytes]], form: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for name, content in files:
            info = tarfile.TarInfo(os.fsdecode(name))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    found = everything(out.getvalue() + b"=E ".ljust(512))
    assert [(name, content) for name, _, content in found] == files


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=3000), good=st.booleans())
def test_noise_is_no_tar(data: bytes, good: bool) -> None:
    start = header(b"a", mode=0o644, size=3) + b"abc" + padding(3) if good else b""
    with pytest.raises(Broken):
        everything(start + (data or b"x"))


def test_a_stream_is_held_to_its_limit() -> None:
    from workplaces.mirror.carry import TooMuch

    def endless() -> Iterator[bytes]:
        yield header(b"a", mode=0o644, size=10**9)
        while True:
            yield bytes(100_000)

    pieces = endless()
    tar = TarReader(Incoming(lambda: next(pieces), 5_000_000), b"=E ")
    assert tar.next() is not None
    with pytest.raises(TooMuch):
        for _ in tar.content():
            pass


# What git would run


@pytest.mark.parametrize(
    ("path", "hook"),
    [
        (".git/hooks/pre-commit", True),
        (".git/hooks/pre-commit.sample", False),
        ("sub/.git/hooks/x", True),
        (".git/modules/lib/hooks/x", True),
        (".GIT/Hooks/x", True),
        (".g\u200cit/hooks/x", True),
        ("git~1/hooks/x", True),
        ("hooks/x", False),
        (".git/objects/ab", False),
        ("src/hooks/use.ts", False),
        (".git/refs/heads/hooks", False),
    ],
)
def test_hooks(path: str, hook: bool) -> None:
    assert trust.is_hook(path) is hook


PLAIN = b"""[core]
\trepositoryformatversion = 0
\tbare = false
[remote "origin"]
\turl = git@example.org:me/it.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
"""


@pytest.mark.parametrize(
    "added",
    [
        b"[core]\n fsmonitor = /tmp/x\n",
        b"[core]\n hooksPath = .husky\n",
        b"[core]\n pager = sh -c x\n",
        b'[alias]\n st = "!x"\n',
        b'[filter "lfs"]\n smudge = x\n',
        b'[remote "o"]\n url = ext::sh -c x\n',
        b'[remote "o"]\n url = -oProxyCommand=x\n',
        b'[remote "o"]\n uploadpack = x\n',
        b'[branch "x"]\n remote = ext::sh -c x\n',
        b"[include]\n path = x\n",
        b'[submodule "x"]\n update = !x\n',
        b"[core] fsmonitor = x\n",
        b"[core]\n abbrev = 7 \\\n fsmonitor = x\n",
        b"[core]\n\xff = x\n",
        b"x = y\n",
    ],
)
def test_settings_that_name_a_program_stay_there(added: bytes) -> None:
    assert trust.adds_programs(PLAIN + added, PLAIN)
    assert trust.adds_programs(PLAIN + added, None)


def test_plain_settings_come_back() -> None:
    assert not trust.adds_programs(PLAIN, None)
    ours = PLAIN + b"[core]\n\thooksPath = .husky\n"
    assert not trust.adds_programs(ours + b'[remote "new"]\n\turl = https://example.org/x\n', ours)


@pytest.mark.parametrize("count", [3, 70])
async def test_what_comes_is_on_the_disk_before_it_lands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A power cut cannot be had here. What can be seen is the order: no landing before its content was synced."""
    pair = Pair(tmp_path)
    (pair.here / "0").write_text("old")
    await pair.round()
    synced: set[int] = set()
    landed: list[tuple[int, bool]] = []
    everything = False
    fsync, sync, swap = os.fsync, os.sync, Ground._swap

    def see_fsync(number: int) -> None:
        synced.add(os.fstat(number).st_ino)
        fsync(number)

    def see_sync() -> None:
        nonlocal everything
        everything = True
        sync()

    def see_swap(self: Ground, at: int, part: str, parent: int, name: str, expected: bytes | None) -> Outcome:
        inode = os.stat(part, dir_fd=at).st_ino
        landed.append((inode, everything or inode in synced))
        return swap(self, at, part, parent, name, expected)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr(os, "sync", see_sync)
    monkeypatch.setattr(Ground, "_swap", see_swap)

    def command(there: Path) -> None:
        for number in range(count):
            (there / str(number)).write_text("new")

    _, back = await pair.round(command)
    assert len(back.changes.all) == len(landed) == count
    assert all(was for _, was in landed)
    assert everything == (count > 64)
