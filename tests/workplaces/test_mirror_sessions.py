"""Sessions: one at a time, stopped at any moment, limits, two chats, two spellings, what is removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.workplaces.mirror_far import Pair, far_in, tree
from workplaces.mirror.far import FarLost, ProgramFar, Running
from workplaces.mirror.mirror import Mirror
from workplaces.mirror.work import Limits
from workplaces.place import PlaceUnavailable


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def test_commands_for_one_copy_wait_for_each_other(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    order: list[str] = []

    async def one(name: str, mirror: Mirror) -> None:
        async with mirror.session("chat-1", pair.here, pair.far) as session:
            order.append(f"{name} begins")
            await session.before()
            await asyncio.sleep(0.05)
            await session.after()
            order.append(f"{name} ends")

    # another Mirror is what another process has
    await asyncio.gather(one("one", pair.mirror), one("two", Mirror(pair.conch)), one("three", pair.mirror))
    assert len(order) == 6
    assert all(order[at].split()[0] == order[at + 1].split()[0] for at in (0, 2, 4))


async def test_two_chats_on_one_folder_by_two_spellings(pair: Pair) -> None:
    (pair.here / "both").write_text("first")
    (pair.base / "spelled").symlink_to(pair.here)

    async def chat(name: str, folder: Path, text: str) -> None:
        async with pair.mirror.session(name, folder, pair.far) as session:
            await session.before()
            there = pair.home / session.copy
            (there / "both").write_text(text)
            (there / f"only {name}").write_text(text)
            await asyncio.sleep(0.1)
            await session.after()

    await asyncio.gather(chat("one", pair.here, "1"), chat("two", pair.base / "spelled", "2"))
    found = {path.name: path.read_text() for path in pair.here.iterdir()}
    assert {found["only one"], found["only two"]} == {"1", "2"}
    assert {found["both"], found["both.from-build-box"]} == {"1", "2"}


async def test_one_chat_by_two_spellings_has_one_copy(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    (pair.base / "spelled").symlink_to(pair.here)
    await pair.round()
    async with pair.mirror.session("chat-1", pair.base / "spelled", pair.far) as session:
        sent = await session.before()
        assert session.copy == ".conch-work/chat-1"
    assert sent.files == 0


async def test_a_chat_that_moves_to_another_folder_gets_another_copy(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    await pair.round()
    other = pair.base / "other"
    other.mkdir()
    (other / "b").write_text("y")
    async with pair.mirror.session("chat-1", other, pair.far) as session:
        await session.before()
        await session.after()
        assert session.copy.startswith(".conch-work/chat-1-")
        assert sorted(path.name for path in (pair.home / session.copy).iterdir()) == ["b"]
    assert sorted(path.name for path in other.iterdir()) == ["b"]
    assert sorted(path.name for path in pair.here.iterdir()) == ["a"]


@pytest.mark.parametrize("chat", ["../x", "", ".", "a/b", "-rf", "ü", "x" * 300, "$(id)"])
async def test_a_chats_name_cannot_lead_elsewhere(pair: Pair, chat: str) -> None:
    (pair.here / "a").write_text("x")
    pair.chat = chat
    async with pair.session() as session:
        await session.before()
        assert (pair.home / session.copy / "a").read_text() == "x"
        assert (pair.home / session.copy).parent == pair.home / ".conch-work"
    assert sorted(path.name for path in pair.home.iterdir()) == [".conch-work"]


async def test_too_many_files_are_refused_before_anything_is_sent(pair: Pair) -> None:
    pair.limits = Limits(files=3)
    for name in "abcd":
        (pair.here / name).write_text("x")
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.words == (
        "The folder has more than 3 files, which is too many to keep a copy of on build-box. "
        "A container works on the folder itself."
    )
    assert not pair.there.exists()


async def test_too_much_is_refused_before_anything_is_sent(pair: Pair) -> None:
    pair.limits = Limits(size=1_000_000)
    with (pair.here / "large").open("wb") as file:
        file.truncate(1_000_001)
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.words.startswith("The folder holds more than 0.001 GB")
    assert not pair.there.exists()


async def test_too_much_back_lands_nothing_and_the_next_command_runs(pair: Pair) -> None:
    pair.limits = Limits(back=1_000_000)
    (pair.here / "a").write_text("x")

    def command(there: Path) -> None:
        (there / "small").write_text("x")
        (there / "large").write_bytes(bytes(1_000_001))

    _, back = await pair.round(command)
    assert back.trouble == "More than 1 MB changed on build-box, so none of it came back. It is still there."
    assert sorted(path.name for path in pair.here.iterdir()) == ["a"]
    _, back = await pair.round(lambda there: (there / "large").unlink())
    assert back.changes.added == ("small",)


async def test_a_folder_that_is_gone(pair: Pair) -> None:
    pair.here.rmdir()
    with pytest.raises(PlaceUnavailable):
        await pair.round()


async def test_a_machine_that_cannot_be_reached(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    pair.far = ProgramFar("build-box", lambda command: ["/nowhere/ssh", command])
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.words == "The connection to build-box broke."
    pair.far = ProgramFar(
        "build-box",
        lambda command: ["sh", "-c", "echo refused >&2; exit 255"],
        trouble=lambda code, said: FarLost("build-box refused.", details=said.decode()) if code == 255 else None,
    )
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.words == "build-box refused."
    assert "refused" in raised.value.details


async def test_a_line_that_breaks_after_the_command(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    far = pair.far
    async with pair.session() as session:
        await session.before()
        (pair.there / "made").write_text("made")
        (pair.there / "a").unlink()
        session._far = ProgramFar("build-box", lambda command: ["false"])
        back = await session.after()
    assert back.trouble == "build-box answered in a way that Conch does not understand."
    assert sorted(path.name for path in pair.here.iterdir()) == ["a"]
    pair.far = far
    pair.restart()
    sent, _ = await pair.round()
    assert sent.recovered.added == ("made",)
    assert sent.recovered.deleted == ("a",)


class Slow:
    """A far side that stops for ever after some bytes of its output, until it is ended."""

    def __init__(self, far: ProgramFar, run: int, after: int) -> None:
        self._far = far
        self._run = run
        self._after = after
        self.stuck = threading.Event()
        self.runs = 0

    @property
    def name(self) -> str:
        return self._far.name

    def run(self, command: str, given: Iterable[bytes]) -> Running:
        self.runs += 1
        running = self._far.run(command, given)
        return _Stuck(running, self._after, self.stuck) if self.runs == self._run else running


class _Stuck:
    def __init__(self, running: Running, after: int, stuck: threading.Event) -> None:
        self._running = running
        self._after = after
        self._stuck = stuck
        self._stopped = threading.Event()

    def read(self) -> bytes:
        if self._after <= 0:
            self._stuck.set()
            assert self._stopped.wait(30)
            return b""
        data = self._running.read()[: self._after]
        self._after -= len(data)
        return data

    def end(self) -> tuple[int | None, bytes]:
        return self._running.end()

    def stop(self) -> None:
        self._stopped.set()
        self._running.stop()


@pytest.mark.parametrize("run", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [0, 30, 300])
async def test_stopped_at_any_moment(pair: Pair, run: int, after: int) -> None:
    (pair.here / "a").write_text("old")
    (pair.here / "b").write_text("old")
    await pair.round()
    (pair.here / "a").write_text("new")
    slow = Slow(pair.far, run, after)
    pair.far = slow  # type: ignore[assignment]
    round_ = asyncio.get_running_loop().create_task(pair.round(lambda there: (there / "b").write_text("new")))
    while not slow.stuck.is_set() and not round_.done():
        await asyncio.sleep(0.01)
    round_.cancel()
    if slow.stuck.is_set():
        with pytest.raises(asyncio.CancelledError):
            await round_
    for thread in threading.enumerate():
        if thread.name.startswith("conch-mirror"):
            thread.join(1)
            assert not thread.is_alive()
    for folder in (pair.here, pair.there):
        assert {path.read_text() for path in folder.iterdir()} <= {"old", "new"}
    pair.far = far_in(pair.home)
    pair.restart()
    await pair.round(lambda there: (there / "b").write_text("newest"))
    assert tree(pair.here) == tree(pair.there)
    assert {path.name: path.read_text() for path in pair.here.iterdir()} == {"a": "new", "b": "newest"}


async def test_stopped_while_it_waits_for_its_turn(pair: Pair) -> None:
    (pair.here / "a").write_text("x")
    async with pair.session():
        waiting = asyncio.get_running_loop().create_task(pair.round())
        await asyncio.sleep(0.2)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await pair.round()


async def test_edited_while_it_is_sent(pair: Pair) -> None:
    """What is edited during the upload counts: it goes there whole, and the edit is not lost."""
    (pair.here / "large").write_bytes(b"1" * 3_000_000)

    class Editing(ProgramFar):
        edited = False

        def run(self, command: str, given: Iterable[bytes]) -> Running:
            def with_edit() -> Iterable[bytes]:
                sent = 0
                for data in given:
                    sent += len(data)
                    if sent > 1_000_000 and not Editing.edited:
                        Editing.edited = True
                        (pair.here / "large").write_bytes(b"2" * 2_000_000)
                    yield data

            return super().run(command, with_edit())

    far = pair.far
    pair.far = Editing(far.name, far._argv)
    _, back = await pair.round()
    assert Editing.edited
    assert (pair.here / "large").read_bytes() == b"2" * 2_000_000
    assert (pair.there / "large").read_bytes() == b"2" * 2_000_000
    assert (back.changes.all, back.kept_twice) == ((), ())


async def test_sizes_and_removing(pair: Pair) -> None:
    assert await pair.mirror.sizes(pair.far) == {}
    (pair.here / "a").write_bytes(b"x" * 200_000)
    (pair.here / "closed").mkdir()
    (pair.here / "closed/b").write_text("x")
    (pair.here / "closed").chmod(0o555)
    await pair.round()
    sizes = await pair.mirror.sizes(pair.far)
    assert list(sizes) == ["chat-1"]
    assert 200_000 <= sizes["chat-1"] < 400_000
    assert await pair.mirror.remove(pair.far, "chat-1")
    assert list((pair.home / ".conch-work").iterdir()) == []
    sent, _ = await pair.round()
    assert sent.files == 2
    for name in ("..", ".chat-1", "a/b", ""):
        with pytest.raises(ValueError, match="not the name"):
            await pair.mirror.remove(pair.far, name)


async def test_a_link_in_the_place_of_the_copies_is_not_gone_through(pair: Pair) -> None:
    outside = pair.base / "outside"
    outside.mkdir()
    (pair.here / "a").write_text("x")
    pair.home.mkdir(exist_ok=True)
    (pair.home / ".conch-work").symlink_to(outside)
    with pytest.raises(PlaceUnavailable) as raised:
        await pair.round()
    assert raised.value.next_step is not None
    assert list(outside.iterdir()) == []
    (pair.home / ".conch-work").unlink()
    (pair.home / ".conch-work").mkdir()
    pair.there.symlink_to(outside)
    with pytest.raises(PlaceUnavailable):
        await pair.round()
    assert list(outside.iterdir()) == []


async def test_git_works_on_both_sides_and_hooks_stay_there(pair: Pair) -> None:
    def git(folder: Path, *words: str) -> str:
        identity = ["-c", "user.name=Me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
        env = {"PATH": os.environ["PATH"], "HOME": str(pair.base)}
        return subprocess.run(
            ["git", *identity, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
        ).stdout

    git(pair.here, "init")
    (pair.here / "a").write_text("x")
    git(pair.here, "add", "a")
    git(pair.here, "commit", "-m", "one")

    def command(there: Path) -> None:
        assert git(there, "status", "--porcelain") == ""
        (there / "b").write_text("y")
        git(there, "add", "b")
        git(there, "commit", "-m", "two")
        git(there, "remote", "add", "origin", "https://example.org/x.git")
        (there / ".git/hooks/pre-commit").write_text("#!/bin/sh\necho planted\n")
        (there / ".git/hooks/pre-commit").chmod(0o755)

    _, back = await pair.round(command)
    assert git(pair.here, "log", "--format=%s").split() == ["two", "one"]
    assert git(pair.here, "status", "--porcelain") == ""
    assert git(pair.here, "remote").split() == ["origin"]
    assert [(left.path, left.key) for left in back.left] == [(".git/hooks/pre-commit", "runs")]
    assert not (pair.here / ".git/hooks/pre-commit").exists()
    _, back = await pair.round(lambda there: git(there, "config", "core.fsmonitor", "/tmp/x"))
    assert [(left.path, left.key) for left in back.left] == [(".git/config", "runs")]
    assert git(pair.here, "config", "--list").count("fsmonitor") == 0
    shutil.rmtree(pair.here / ".git")
    await pair.round()
