"""A machine that lies. Whatever it answers, nothing outside the folder is touched, and nothing in it is lost.

The other side is a double that answers each script with bytes of its own; the real scripts never run. It lies in the
three places where it is believed at all: what is there, what a file holds, and what became of what it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workplaces.mirror_far import scratch, tree
from workplaces.mirror.carry import ENDING, header, padding
from workplaces.mirror.changes import Changed
from workplaces.mirror.far import Running
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.work import Limits
from workplaces.place import PlaceUnavailable

LIMITS = Limits(back=300_000)


class Liar:
    """Answers with what it is told to. ``listing`` and ``files`` may be endless."""

    name = "build-box"

    def __init__(self) -> None:
        self.listing: Callable[[], Iterable[bytes]] = lambda: [b"=W \0=C \0=T find\0=M\0=E 0\0"]
        self.files: Callable[[list[bytes]], Iterable[bytes]] = lambda asked: []
        self.pushed: Callable[[], Iterable[bytes]] = lambda: [b"=L\0", *self.listing()]
        self.noise = b""
        self.asked: list[bytes] = []

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        data = b"".join(given)
        script, _, rest = data.partition(b"\n")
        mark = script.split(b"'")[1]
        if b"tar -cf" in script:
            self.asked = [word for word in rest.split(b"'")[1::2]]
            return _Says(self._start(mark, [b"=T go\0"]), self.files(self.asked))
        if b"tar -xpof" in script:
            return _Says(self._start(mark, []), self.pushed())
        return _Says(self._start(mark, []), self.listing())

    def _start(self, mark: bytes, more: list[bytes]) -> list[bytes]:
        return [self.noise + b"\n" + mark + b"\n", *more]


class _Says:
    def __init__(self, first: list[bytes], then: Iterable[bytes]) -> None:
        def all_of_it() -> Iterator[bytes]:
            yield from first
            yield from then

        self._pieces = all_of_it()

    def read(self) -> bytes:
        for piece in self._pieces:
            if piece:
                return piece
        return b""

    def end(self) -> tuple[int | None, bytes]:
        return 0, b"\x1b]0;title\x07\x1b[31mred"

    def stop(self) -> None:
        pass


class Scene:
    """A folder between two others that must stay as they are, and links that lead to one of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.outside = base / "outside"
        self.here = base / "here"
        for folder in (self.outside, self.here, self.here / "sub", self.here / "secrets", self.here / "node_modules"):
            folder.mkdir()
        (self.outside / "precious").write_text("precious")
        (self.outside / "sub").mkdir()
        (self.here / "file").write_text("file")
        (self.here / "sub/file").write_text("sub file")
        (self.here / "secrets/key").write_text("key")
        (self.here / "node_modules/code.js").write_text("code")
        (self.here / "link").symlink_to(self.outside)
        (self.here / "sub/link").symlink_to(self.outside / "precious")
        (self.here / "abs").symlink_to("/etc")
        self.kept = tree(base / "outside")
        self.inside = {
            path: what for path, what in tree(self.here).items() if path.split("/")[0] in ("secrets", "node_modules")
        }
        self.liar = Liar()
        self.mirror = Mirror(base / "conch")

    async def round(self) -> Changed | str:
        session = self.mirror.session(
            "chat", self.here, self.liar, protected=(self.here / "secrets", self.base / "conch"), limits=LIMITS
        )
        async with session:
            try:
                await session.before()
            except PlaceUnavailable as error:
                return error.words
            return await session.after()

    async def after_only(self) -> Changed:
        session = self.mirror.session("chat", self.here, self.liar, protected=(self.here / "secrets",), limits=LIMITS)
        async with session:
            return await session.after()

    def check(self) -> None:
        assert tree(self.outside) == self.kept
        now = tree(self.here)
        assert {
            path: what for path, what in now.items() if path.split("/")[0] in ("secrets", "node_modules")
        } == self.inside
        assert sorted(path.name for path in self.base.iterdir()) == ["conch", "here", "outside"]
        assert (self.here / "link").readlink() == self.outside
        for path, (kind, mode, _) in now.items():
            assert kind != "other" or path in ("link", "sub/link", "abs")
            assert mode & 0o7000 == 0
        # it never had these: whatever it says, they are here still
        contents = {content for _, _, content in now.values()}
        assert {b"file", b"sub file"} <= contents
        assert not [path for path in now if ".conch-part-" in path]


def entry(name: bytes, *, kind: bytes = b"f", mode: bytes = b"644", size: bytes = b"4", inode: bytes = b"7") -> bytes:
    return b" ".join((kind, mode, size, b"1700000000.1234567890", b"1700000000.1234567890", inode, name)) + b"\0"


def listing(*entries: bytes, end: bytes = b"=E 0\0") -> bytes:
    return (
        b"=W \0=C f 644 0 1796000000.5 1796000000.5 1\0=T find\0" + b"d 755 0 1.0 1.0 1 .\0" + b"".join(entries) + end
    )


def part(
    name: bytes, content: bytes, *, kind: bytes = b"0", size: int | None = None, link: bytes = b"", mode: int = 0o644
) -> bytes:
    block = bytearray(header(name[:100], mode=mode, size=len(content) if size is None else size))[:512]
    block[156:157] = kind
    block[157 : 157 + len(link)] = link[:100]
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + content + padding(len(content))


def ending(whole: bytes = b"yes") -> bytes:
    return (b"=E " + whole + b" 0").ljust(512)


NAMES = st.sampled_from(
    (
        b"./file", b"./new", b"./sub/file", b"./sub/new", b"./link/planted", b"./link", b"./sub/link", b"./link/sub/x",
        b"./abs/passwd", b"../outside/planted", b"./../outside/planted", b"/etc/planted", b"./sub/../../outside/x",
        b"..", b"./..", b"./sub/..", b"./", b".", b"", b"./a//b", b"./secrets/key", b"./secrets/new", b"./secrets",
        b"./SECRETS/key", b"./node_modules/code.js", b"./sub/node_modules/x", b"./new/x", b"./new/y/z", b"./\xff\xfe",
        b"./" + b"x" * 255, b"./" + b"x" * 300, b"./" + b"d/" * 300 + b"x", b"./.conch-part-1-x", b"./file/below",
        b"./sub", b"./.git/hooks/x",
        b"file", b"./new\n", b"./=E 0", b"./.", b"./sub/.",
    )
)  # fmt: skip
KINDS = st.sampled_from((b"f", b"f", b"f", b"d", b"l", b"p", b"s", b"b", b"c", b"D", b"?", b"-", b""))
SIZES = st.sampled_from((b"4", b"0", b"5", b"1000000000000", b"-1", b"x", b"299000", b"99999999999999999999999"))
MODES = st.sampled_from((b"644", b"755", b"4755", b"7777", b"0", b"9", b"x", b"777"))
ENTRIES = st.lists(
    st.builds(lambda name, kind, size, mode: entry(name, kind=kind, size=size, mode=mode), NAMES, KINDS, SIZES, MODES),
    max_size=5,
)
ENDS = st.sampled_from(
    (
        b"=S\0=E 0\0",
        b"=E 0\0",
        b"=E 0\0",
        b"=E 0\0",
        b"=E 1\0",
        b"",
        b"=E 0",
        b"=E 0\0x\0",
        b"=U ./sub\0=E 1\0",
        b"=U .\0=E 1\0",
        b"=! space\0",
        b"=! ../x\0",
        b"=M\0=E 0\0",
    )
)
PARTS = st.lists(
    st.builds(
        lambda name, content, kind, size, link, mode: part(name, content, kind=kind, size=size, link=link, mode=mode),
        NAMES,
        st.binary(max_size=700),
        st.sampled_from(
            (b"0", b"0", b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"L", b"K", b"x", b"g", b"S", b"\0", b"Z")
        ),
        st.sampled_from((None, None, None, 0, 4, 10**12, 511, 2**33 - 1)),
        st.sampled_from((b"", b"./file", b"/etc/passwd", b"../outside/precious", b"./new")),
        st.sampled_from((0o644, 0o777, 0, 0o444)),
    ),
    max_size=5,
)
TAILS = st.sampled_from((b"yes", b"yes", b"yes", b"no", b""))
CUTS = st.none() | st.integers(0, 4000)


ANSWERS = given(
    before=st.none() | ENTRIES,
    entries=ENTRIES,
    end=ENDS,
    honest=st.booleans(),
    parts=PARTS,
    tail=TAILS,
    cut=CUTS,
    noise=st.sampled_from((b"", b"motd\n\0", b"\x1b[2J")),
    chunk=st.sampled_from((1 << 20, 700, 513)),
)


def lie(
    before: list[bytes] | None,
    entries: list[bytes],
    end: bytes,
    honest: bool,
    parts: list[bytes],
    tail: bytes,
    cut: int | None,
    noise: bytes,
    chunk: int,
) -> None:
    with scratch() as base:
        scene = Scene(base)
        liar = scene.liar
        liar.noise = noise

        def pieces(data: bytes) -> list[bytes]:
            data = data if cut is None else data[:cut]
            return [data[at : at + chunk] for at in range(0, len(data), chunk)]

        def files(asked: list[bytes]) -> list[bytes]:
            answer = b"".join(part(name, b"lies") for name in asked) if honest else b""
            return pieces(answer + b"".join(parts) + ENDING + (ending(tail) if tail else b""))

        liar.files = files
        if before is not None:
            liar.listing = lambda: [listing(*before)]
            asyncio.run(scene.round())
        liar.listing = lambda: pieces(listing(*entries, end=end))
        liar.pushed = lambda: pieces(b"=Z 1\0=L\0" + listing(*entries, end=end))
        asyncio.run(scene.round())
        asyncio.run(scene.after_only())
        scene.check()


def lies(cases: int) -> None:
    """That many machines that lie."""
    settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))(ANSWERS(lie))()


def test_whatever_it_answers_nothing_outside_is_touched() -> None:
    """More of them are tried with the real engines: tests/real/test_mirror_lies.py."""
    lies(150)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "base") if (tmp_path / "base").mkdir() is None else Scene(tmp_path)


async def test_an_honest_answer_lands(scene: Scene) -> None:
    """The double is understood: otherwise none of its lies would have been tried."""
    scene.liar.listing = lambda: [listing(entry(b"./new"), entry(b"./sub", kind=b"d"), entry(b"./sub/deep"))]
    scene.liar.files = lambda asked: [*(part(name, b"true") for name in asked), ENDING, ending()]
    back = await scene.after_only()
    assert back.changes.added == ("new", "sub/deep")
    assert (scene.here / "sub/deep").read_text() == "true"
    scene.check()


@pytest.mark.parametrize(
    "bad",
    [
        entry(b"./../outside/planted"),
        entry(b"/etc/planted"),
        entry(b"./sub/../../outside/x"),
        entry(b"./a") + entry(b"./a"),
        entry(b"./a", size=b"-1"),
        b"no sense\0",
        b"=B 3\0one\n\0./a\0",
    ],
)
async def test_a_listing_that_makes_no_sense_is_not_used(scene: Scene, bad: bytes) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./new"), bad)]
    scene.liar.files = lambda asked: [*(part(name, b"true") for name in asked), ENDING, ending()]
    back = await scene.after_only()
    assert back.trouble == "build-box answered in a way that Conch does not understand."
    assert not (scene.here / "new").exists()


async def test_a_machine_that_says_that_nothing_changed_before_it_said_what_there_is(scene: Scene) -> None:
    scene.liar.listing = lambda: [b"=W \0=C \0=S\0=E 0\0"]
    back = await scene.after_only()
    assert back.trouble == "build-box answered in a way that Conch does not understand."


async def test_a_listing_that_never_ends(scene: Scene) -> None:
    def endless() -> Iterator[bytes]:
        yield listing(end=b"")
        number = 0
        while True:
            number += 1
            yield b"".join(entry(b"./%d-%d" % (number, one)) for one in range(500))

    scene.liar.listing = endless
    back = await scene.after_only()
    assert back.trouble == "build-box listed more files than a copy can have, so nothing came back."


async def test_a_record_that_never_ends(scene: Scene) -> None:
    def endless() -> Iterator[bytes]:
        yield listing(end=b"")
        while True:
            yield b"x" * 65536

    scene.liar.listing = endless
    back = await scene.after_only()
    assert back.trouble == "build-box answered in a way that Conch does not understand."


async def test_noise_that_never_ends(scene: Scene) -> None:
    scene.liar._start = lambda mark, more: (b"y\n" * 30000 for _ in iter(int, 1))  # type: ignore[method-assign,assignment,return-value]
    back = await scene.after_only()
    assert back.trouble == "build-box answered in a way that Conch does not understand."


@pytest.mark.parametrize("claimed", [10**12, 301_000])
async def test_more_than_may_come_back(scene: Scene, claimed: int) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./bomb", size=b"%d" % claimed), entry(b"./new"))]
    back = await scene.after_only()
    assert back.trouble == "More than 0 MB changed on build-box, so none of it came back. It is still there."
    assert not (scene.here / "new").exists()


@pytest.mark.parametrize("size", [10**9, 2**33 - 1])
async def test_a_bomb_that_claims_to_be_small(scene: Scene, size: int) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./bomb"), entry(b"./new"))]

    def bomb(asked: list[bytes]) -> Iterator[bytes]:
        yield part(b"./new", b"true")
        yield part(b"./bomb", b"", size=size)
        while True:
            yield bytes(65536)

    scene.liar.files = bomb
    back = await scene.after_only()
    assert back.trouble == "More than 0 MB changed on build-box, so none of it came back. It is still there."
    assert not (scene.here / "new").exists()
    assert not (scene.here / "bomb").exists()


async def test_a_stream_that_is_cut_off_lands_nothing(scene: Scene) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./new"), entry(b"./other"))]
    for tail in (b"", ENDING, ENDING + ending(b"no"), part(b"./other", b"x" * 600)[:700]):
        scene.liar.files = lambda asked, tail=tail: [part(b"./new", b"true"), tail]  # type: ignore[misc]
        back = await scene.after_only()
        assert back.trouble == "build-box answered in a way that Conch does not understand."
        assert not (scene.here / "new").exists()


async def test_a_link_that_is_swapped_in_while_files_come(scene: Scene) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./sub", kind=b"d"), entry(b"./sub/new"))]

    def files(asked: list[bytes]) -> list[bytes]:
        (scene.here / "sub").rename(scene.here / "moved")
        (scene.here / "sub").symlink_to(scene.outside)
        return [part(b"./sub/new", b"planted"), ENDING, ending()]

    scene.liar.files = files
    back = await scene.after_only()
    assert tree(scene.outside) == scene.kept
    assert [(left.path, left.key) for left in back.left] == [("sub", "in-the-way"), ("sub/new", "in-the-way")]


async def test_deletions_that_it_claims_remove_only_what_was_sent(scene: Scene) -> None:
    await scene.round()
    scene.liar.listing = lambda: [listing(entry(b"./sub", kind=b"d"))]
    await scene.after_only()
    scene.check()
    assert (scene.here / "file").read_text() == "file"


async def test_words_of_the_machine_do_not_reach_the_screen(scene: Scene) -> None:
    scene.liar.listing = lambda: [listing(entry(b"./\x1b]0;owned\x07\x1b[2J", kind=b"l"))]
    back = await scene.after_only()
    assert [left.words for left in back.left] == ["\\x1b]0;owned\\x07\\x1b[2J is a link. Links are not carried."]
