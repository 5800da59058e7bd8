"""A machine that lies, over a real SSH transport: nothing outside the folder is touched, time and memory are bounded.

``test_mirror_hostile`` gives the mirror its answers directly. Here they come as a machine would send them, through the
product's own connection, so what is said on the error stream, how a command ends and a line that goes are lies as well.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.ssh_liar import Answer, SshLiar
from tests.workplaces.mirror_far import scratch
from tests.workplaces.test_mirror_hostile import (
    CUTS,
    ENDING,
    ENDS,
    ENTRIES,
    LIMITS,
    PARTS,
    TAILS,
    Scene,
    ending,
    entry,
    listing,
    part,
)
from workplaces.mirror.changes import Changed
from workplaces.place import PlaceUnavailable
from workplaces.ssh.talk import Talk

PLAUSIBLE = st.sampled_from((b"./file", b"./new", b"./sub/new", b"./new\n", b"./sub/file", b"./\xff\xfe"))
ERRORS = st.sampled_from((b"", b"tar: no\n", b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\r", b"\x9b2J\xff\x00", b"e" * 90_000))
CODES = st.sampled_from((0, 0, 0, 1, 2, 126, 127, 255, 2**32 - 1, None))
MOST_SECONDS = 10.0  # of one case: it takes milliseconds, and Conch's own patience with an ending is five seconds


def watched(*folders: Path) -> dict[str, tuple[int, ...] | bytes]:
    """All that is in these folders, to the byte, the inode and the time of its last change of any kind."""
    found: dict[str, tuple[int, ...] | bytes] = {}
    for folder in folders:
        for path in (folder, *sorted(folder.rglob("*"))):
            seen = path.lstat()
            found[str(path)] = (
                seen.st_ino,
                seen.st_mode,
                seen.st_nlink,
                seen.st_size,
                seen.st_mtime_ns,
                seen.st_ctime_ns,
            )
            if path.is_file() and not path.is_symlink():
                found[f"{path} holds"] = path.read_bytes()
    return found


def clean(words: str) -> bool:
    """Whether a sentence can be shown: nothing in it that a terminal or a label would obey."""
    return not [letter for letter in words if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


class Lies:
    """What the machine says from now on, over one connection that many cases share."""

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.err: bytes = b""
        self.code: int | None = 0
        self.drop = False
        self.machine = SshLiar(self._answer)

    def _answer(self, command: str, given: bytes) -> Answer:
        assert self.scene is not None
        running = self.scene.liar.run(command, [given])
        return Answer(iter(running.read, b""), [self.err] if self.err else [], self.code, self.drop)


async def rounds(scene: Scene, far: Any, *, before: bool = True) -> list[str]:
    """One command's two halves. Gives all the words that a person would read."""
    protected = (scene.here / "secrets", scene.base / "conch")
    async with scene.mirror.session("chat", scene.here, far, protected=protected, limits=LIMITS) as session:
        try:
            if before:
                sent = await session.before()
                return [*(left.words for left in sent.left), *_said(await session.after())]
            return _said(await session.after())
        except PlaceUnavailable as error:
            return [error.words]


def _said(back: Changed) -> list[str]:
    return [back.trouble, *(left.words for left in back.left)]


def lies(cases: int) -> None:
    """That many machines that lie, over one connection (a new one after each that broke it)."""
    shared = Lies()
    reached = 0  # how often it was asked for files: where it never is, no lie about them was tried

    @settings(max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        agreed=st.none() | ENTRIES,
        entries=ENTRIES,
        wanted=st.none() | st.lists(PLAUSIBLE, max_size=3, unique=True),
        end=ENDS,
        honest=st.booleans(),
        parts=PARTS,
        tail=TAILS,
        cut=CUTS,
        err=ERRORS,
        code=CODES,
        drop=st.integers(0, 19).map(lambda number: number == 7),
        half=st.booleans(),
    )
    def tried(
        agreed: list[bytes] | None, entries: list[bytes], wanted: list[bytes] | None, end: bytes, honest: bool,
        parts: list[bytes], tail: bytes, cut: int | None, err: bytes, code: int | None, drop: bool, half: bool,
    ) -> None:  # fmt: skip
        nonlocal reached
        with scratch() as base:
            scene = Scene(base)
            shared.scene, shared.err, shared.code, shared.drop = scene, b"", 0, False
            kept = watched(scene.outside, scene.here / "secrets", scene.here / "node_modules")
            began = time.monotonic()
            far = shared.machine.far(silence=MOST_SECONDS / 2)
            if agreed is not None:
                scene.liar.listing = lambda: [listing(*agreed)]
                asyncio.run(rounds(scene, scene.liar, before=False))
            if wanted is None:
                said = listing(*entries, end=end)[:cut]
            else:  # the listing makes sense: the lies are in what comes
                said = listing(entry(b"./sub", kind=b"d"), *(entry(name) for name in wanted))
            scene.liar.listing = lambda: [said]
            scene.liar.pushed = lambda: [(b"=Z 1\0=L\0" + said)[:cut]]

            def files(asked: list[bytes]) -> list[bytes]:
                nonlocal reached
                reached += 1
                shared.err, shared.code, shared.drop = err, code, drop
                answer = b"".join(part(name, b"lies") for name in asked) if honest else b""
                return [(answer + b"".join(parts) + ENDING + (ending(tail) if tail else b""))[:cut]]

            scene.liar.files = files
            if wanted is None:  # else only the files come with a lie about how it ended
                shared.err, shared.code, shared.drop = err, code, drop
            words = asyncio.run(rounds(scene, far, before=half))
            assert time.monotonic() - began < MOST_SECONDS
            assert watched(scene.outside, scene.here / "secrets", scene.here / "node_modules") == kept
            scene.check()
            assert all(clean(one) for one in words), words

    try:
        tried()
    finally:
        shared.machine.close()
    assert reached > cases // 10


def test_whatever_comes_over_the_line_nothing_outside_is_touched() -> None:
    """2,000 of them are tried with the real engines: tests/real/test_mirror_lies.py."""
    lies(100)


@pytest.fixture
def shared() -> Iterator[Lies]:
    made = Lies()
    yield made
    made.machine.close()


@pytest.fixture
def scene(tmp_path: Path, shared: Lies) -> Scene:
    shared.scene = made = Scene(tmp_path)
    return made


@contextmanager
def bounded(megabytes: int) -> Iterator[None]:
    """This process never needed that much more than before."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < megabytes
    assert time.monotonic() - began < 30


async def test_an_honest_answer_lands(shared: Lies, scene: Scene) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./new"))]
    scene.liar.files = lambda asked: [*(part(name, b"true") for name in asked), ENDING, ending()]
    assert await rounds(scene, shared.machine.far(), before=False) == [""]
    assert (scene.here / "new").read_text() == "true"


async def test_files_that_never_end(shared: Lies, scene: Scene) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./new"))]

    def endless(asked: list[bytes]) -> Iterator[bytes]:
        yield part(b"./new", b"", size=2**33 - 1)
        while True:
            yield bytes(1 << 16)

    scene.liar.files = endless
    with bounded(40):
        said = await rounds(scene, shared.machine.far(), before=False)
    assert said == ["More than 0 MB changed on build-box, so none of it came back. It is still there."]
    assert not (scene.here / "new").exists()


async def test_errors_that_never_end(shared: Lies, scene: Scene) -> None:
    def answer(command: str, given: bytes) -> Answer:
        return Answer(err=iter(lambda: b"\x1b[31mno\n" * 4000, b""))

    shared.machine.answer = answer
    with bounded(40):
        said = await rounds(scene, shared.machine.far(silence=1.0), before=False)
    assert [clean(one) for one in said if one] == [True]


async def test_a_command_that_says_no_more_and_does_not_end(shared: Lies, scene: Scene) -> None:
    shared.machine.answer = lambda command, given: Answer([b"\x1b[2J"], stall=True)
    with bounded(40):
        said = await rounds(scene, shared.machine.far(silence=0.5), before=False)
    assert [clean(one) for one in said if "build-box" in one] == [True]
    assert {b"file", b"sub file"} <= {path.read_bytes() for path in scene.here.rglob("file")}


@pytest.mark.parametrize("begun", [False, True])
def test_output_that_never_ends(shared: Lies, begun: bool) -> None:
    """Whoever runs a command there can leave it, and little of what it said is kept on the way."""
    mark = os.urandom(12).hex()

    def endless() -> Iterator[bytes]:
        if begun:
            yield f"{mark} begin\n".encode()
        while True:
            yield b"y\n" * 32768

    shared.machine.answer = lambda command, given: Answer(endless())
    seen = 0

    def take(stream: str, data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    with bounded(40):
        talk = Talk(shared.machine.program("anything"), mark, take)
        talk.end_input()
        talk.wait(lambda: talk.over or seen > 50_000_000, timeout=1.0)
        assert talk.begun is begun
        talk.close()
        assert talk.over
    assert (seen > 1_000_000) is begun
    assert len(talk.noise()) <= 8 * 1024
