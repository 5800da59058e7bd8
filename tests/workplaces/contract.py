"""What every place must keep, whichever it is. Each place runs this suite with a small adapter of its own.

An adapter is a test class that inherits ``PlaceContract`` and gives the fixture ``place`` and what only that place
can show (``assert_there``, ``assert_proof``)::

    class TestComputer(PlaceContract):
        @pytest.fixture
        def place(self, tmp_path): ...

Before each test ``assert_there`` runs a command at the place and asserts something that a plain process of this
computer could not answer; after each command ``assert_proof`` holds the result's proof against it. Cases that differ
in their command alone are one test: a place is not made, looked at and cleared for each of them.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.workplaces.looking import heartbeat, held, listing, names, number, processes, until
from workplaces.output import Kept, OutputKeeper, Stream
from workplaces.place import PlaceUnavailable, RunRequest, RunResult, Stopped, WorkPlace

ODD_NAMES = (
    *("a b", "-rf", "--help", "@x", "it's", '"q"', "$(id)", "`id`", "${HOME}", "new\nline", "tab\there", "🤣", "é"),
    *("semi;colon", "back\\slash", "star*", "co:lon", "com,ma", "eq=ual", "#hash", "~", "%s"),
    *(" lead", "trail ", "n" * 255),
)
HEREDOC = 'it\'s "quoted" $x $(id) `id` \\n \\\\ ${y} !! # not a comment\n\ttab and trailing space \n'
EXITS: tuple[tuple[str | tuple[str, ...], int], ...] = (
    ("true", 0),
    ("exit 3", 3),
    ("exit 300", 44),
    ("exit 255", 255),
    ("exit 124", 124),
    ("exit 125", 125),
    ("false | true", 0),
    ("cd / && false", 1),
    ("kill -9 $$", 137),
    ("kill -TERM $$", 143),
    ("kill -SEGV $$", 139),
    ("no-such-program-anywhere", 127),
    ("/etc/passwd", 126),
    (("no-such-program-anywhere", "x"), 127),
    (("/etc/passwd",), 126),
    (("sh", "-c", "exit 9"), 9),
)
LINES = (
    (f"cat <<'EOF'\n{HEREDOC}EOF", HEREDOC, 0),
    (f"cat <<'EOF'\n{HEREDOC}EOF\n", HEREDOC, 0),
    (f"cat <<'EOF' && echo after\n{HEREDOC}EOF", HEREDOC + "after\n", 0),
    ("cat <<EOF\n$((1+1))\nEOF", "2\n", 0),
    ("echo hi # a comment", "hi\n", 0),
    ("# only a comment", "", 0),
    ("", "", 0),
    ("echo one\n\n\necho two\n", "one\ntwo\n", 0),
    ("echo 'oops", "", 2),
    ('echo "oops', "", 2),
    ("printf '%s' 'a\\b'", "a\\b", 0),
    ("printf 'no newline'", "no newline", 0),
    ("exec >&2; echo there", "", 0),
    ('set -- x y; echo $# "$@"', "2 x y\n", 0),
    ("echo $#", "0\n", 0),
)
DOUBLE_FORK = """( ( trap '' TERM HUP INT; setsid sh -c "trap '' TERM HUP INT; sleep {n}; sleep {n}" ) & )
sleep 0.2; echo started; trap '' TERM HUP INT; sleep {n} & wait"""

Run = Callable[..., Any]


class Heard:
    """An OutputKeeper's ears: what was said so far, and waiting for it."""

    def __init__(self, spill: Path | None = None) -> None:
        self.text = ""
        self.keeper = OutputKeeper(on_text=self._take, spill_folder=spill)

    def _take(self, stream: Stream, text: str) -> None:
        self.text += text

    async def wait_for(self, text: str, seconds: float = 20.0) -> None:
        await until(lambda: text in self.text, seconds, f"{text!r} in the output")


class PlaceContract:
    markers: ClassVar[tuple[str, ...]] = ()
    """Whatever this place's own machinery prints or looks for (marks, status lines): a command may print it too."""

    # ---- what an adapter gives ----

    @pytest.fixture
    def place(self) -> WorkPlace:
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A work folder: made, empty."""
        made = tmp_path / "work"
        made.mkdir()
        return made

    @pytest.fixture
    def spill(self, tmp_path: Path) -> Path:
        return tmp_path / "spill"

    async def assert_there(self, place: WorkPlace, folder: Path) -> None:
        """Runs a command, sealed and open, and asserts what only a command at this place can show."""
        raise NotImplementedError

    def assert_proof(self, result: RunResult, request: RunRequest) -> None:
        """Asserts that the result's proof names the very thing that ran it."""
        raise NotImplementedError

    def processes(self, mark: str) -> list[str]:
        """The live processes *in the place* whose command line holds the mark."""
        return processes(mark)

    def left_behind(self) -> list[str]:
        """What a command left in the place or here (boxes, sockets, files) that should be gone."""
        return []

    # ---- how the tests run a command ----

    @pytest.fixture(autouse=True)
    async def truly_there(self, place: WorkPlace, folder: Path) -> AsyncIterator[None]:
        before = listing(folder)
        await self.assert_there(place, folder)
        assert listing(folder) == before, "a command that does nothing left something in the work folder"
        yield
        assert self.left_behind() == []

    async def run(self, place: WorkPlace, folder: Path, command: str | tuple[str, ...], **how: Any) -> RunResult:
        request = RunRequest(command=command, folder=folder, **{"timeout": 60.0, **how})
        result = await place.run(request)
        assert result.where == place.id
        assert result.proof.place == str(place.id)
        assert result.proof.target
        assert result.proof.sealed is not request.open or not place.seals
        self.assert_proof(result, request)
        return result

    # ---- exit codes and signals ----

    async def test_the_exit_code_is_the_commands_own(self, place: WorkPlace, folder: Path) -> None:
        ended = [(command, await self.run(place, folder, command)) for command, _ in EXITS]
        assert [(command, result.code) for command, result in ended] == [*EXITS]
        assert [command for command, result in ended if result.timed_out or not result.sure] == []
        silent = [command for command, result in ended if result.code in (126, 127) and not result.output.err.strip()]
        assert silent == [], "it says why"

    # ---- fidelity ----

    async def test_stdin_is_at_its_end(self, place: WorkPlace, folder: Path) -> None:
        for command in ("cat", 'read x; echo "[$x] $?" >&2; cat', "exec 3<&0; cat <&3"):
            result = await self.run(place, folder, command, timeout=10.0)
            assert (result.code, result.timed_out, result.output.out) == (0, False, ""), command

    async def test_a_line_is_read_as_it_is_written(self, place: WorkPlace, folder: Path) -> None:
        ended = [(line, await self.run(place, folder, line)) for line, _, _ in LINES]
        assert [(line, result.output.out, result.code) for line, result in ended] == [*LINES]

    async def test_a_trailing_backslash_swallows_nothing_of_ours(self, place: WorkPlace, folder: Path) -> None:
        result = await self.run(place, folder, "echo one \\")
        assert result.output.text.rstrip("\\\n ") == "one"
        assert result.code == 0

    async def test_a_program_gets_its_arguments_literally(self, place: WorkPlace, folder: Path) -> None:
        arguments = ("", " ", "$HOME", "`id`", "a'b\"c", "new\nline", "-n", "--", "\\", "*", "🤣", "#x")
        result = await self.run(place, folder, ("printf", "[%s]\\n", *arguments))
        assert result.output.out == "".join(f"[{argument}]\n" for argument in arguments)

    async def test_a_command_may_print_our_own_marks(self, place: WorkPlace, folder: Path) -> None:
        for mark in self.markers:
            line = shlex.quote(mark)
            result = await self.run(place, folder, f"printf '%s\\n' {line} {line} >&2; printf '%s\\n' {line}; exit 5")
            assert result.code == 5
            assert result.output.out == mark + "\n"
            assert result.output.err == mark + "\n" + mark + "\n"

    async def test_it_holds_no_files_of_ours(self, place: WorkPlace, folder: Path) -> None:
        result = await self.run(place, folder, ("ls", "/proc/self/fd"))
        assert result.output.out.split() == ["0", "1", "2", "3"], "the fourth is ls's own"

    async def test_a_broken_pipe_ends_a_program_quietly(self, place: WorkPlace, folder: Path) -> None:
        result = await self.run(place, folder, "yes | head -n 1")
        assert (result.output.out, result.output.err) == ("y\n", "")

    async def test_nothing_of_our_environment_goes_along(
        self, place: WorkPlace, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONCH_CONTRACT_TOKEN", "hunter2")
        for opened in (False, True):
            result = await self.run(place, folder, "env; cat /proc/self/environ /proc/1/environ", open=opened)
            assert "hunter2" not in result.output.text

    # ---- the work folder ----

    async def test_it_works_in_the_work_folder_on_the_same_files(self, place: WorkPlace, folder: Path) -> None:
        (folder / "a.txt").write_text("from here\n")
        result = await self.run(place, folder, "cat a.txt; pwd -P; echo from there > b.txt; mkdir d; chmod 700 d")
        assert result.output.out.startswith("from here\n")
        assert result.output.out.splitlines()[1] == result.proof.folder
        assert (folder / "b.txt").read_text() == "from there\n"
        made = (folder / "b.txt").stat()
        assert (made.st_uid, made.st_gid) == (os.geteuid(), os.getegid())
        assert (folder / "d").stat().st_mode & 0o777 == 0o700

    async def test_the_folder_may_have_any_name(self, place: WorkPlace, folder: Path) -> None:
        for name in ODD_NAMES:
            work = folder / name
            work.mkdir()
            (work / "a").write_text("here\n")
            result = await self.run(place, work, "cat a; printf there > b")
            assert result.output.out == "here\n", name
            assert sorted(path.name for path in work.iterdir()) == ["a", "b"], name
            assert (work / "b").read_text() == "there", name

    async def test_files_may_have_any_name(self, place: WorkPlace, folder: Path) -> None:
        for name in ODD_NAMES:
            (folder / name).write_text(name)
        seen = await self.run(place, folder, "for f in *; do printf '%s/' \"$f\"; done; cat -- * >/dev/null")
        assert set(seen.output.out.split("/")[:-1]) == set(ODD_NAMES)
        assert seen.code == 0
        await self.run(place, folder, ("rm", "--", *ODD_NAMES))
        assert names(folder) == set()
        await self.run(place, folder, ("touch", "--", *ODD_NAMES))
        assert names(folder) == set(ODD_NAMES)

    async def test_a_link_to_the_folder_is_the_folder(self, place: WorkPlace, folder: Path, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(folder, target_is_directory=True)
        result = await self.run(place, link, "printf x > made; pwd -P")
        assert (folder / "made").read_text() == "x"
        assert result.code == 0

    async def test_a_folder_no_command_may_be_given_is_refused(
        self, place: WorkPlace, folder: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        for refused in (Path("/"), Path.home(), tmp_path / "gone", tmp_path / "file", Path("/tmp"), Path("/proc")):
            with pytest.raises(PlaceUnavailable) as raised:
                await place.run(RunRequest(command="touch PROOF", folder=refused))
            assert str(refused) in raised.value.words
            assert raised.value.next_step is not None
        (folder / "inner").mkdir()
        with pytest.raises(PlaceUnavailable):
            await place.run(RunRequest(command="touch PROOF", folder=folder / "inner", protected=(folder,)))
        assert names(folder / "inner") == set()
        assert not (tmp_path / "gone").exists()

    @pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
    async def test_a_protected_place_in_the_folder_is_covered(
        self, place: WorkPlace, folder: Path, opened: bool
    ) -> None:
        keys = folder / "deep" / "keys"
        keys.mkdir(parents=True)
        (keys / "id").write_text("SECRET")
        (folder / ".token").write_text("SECRET")
        (folder / "link").symlink_to(keys / "id")
        protected = (keys, folder / ".token", folder / "missing" / "key")
        before = listing(folder)
        command = (
            "cat deep/keys/id .token link; ls -A deep/keys; rm -rf deep/keys .token; echo x > .token;"
            "echo x > deep/keys/id; mv deep/keys k; mv .token t; ln .token hard; mv deep shallow;"
            "cat shallow/keys/id; true"
        )
        result = await self.run(place, folder, command, open=opened, protected=protected)
        assert "SECRET" not in result.output.text
        assert "id" not in result.output.out
        after = listing(folder)
        assert {path: after.get(path) for path in before} == before
        made = [folder / os.fsdecode(path) for path in after if path not in before]
        assert all(path.is_dir() or path.read_bytes() == b"" for path in made), "a copy of what covers it, at most"

    async def test_git_is_read_only_when_sealed(self, place: WorkPlace, folder: Path) -> None:
        repository(folder)
        before = listing(folder / ".git")
        attempts = (
            "echo x > .git/hooks/post-checkout; echo x >> .git/config; mv .git moved; rm -rf .git; touch .git/new;"
            "chmod 777 .git; git config core.fsmonitor evil; git -c user.name=a -c user.email=b commit -qam x; true"
        )
        await self.run(place, folder, attempts)
        assert listing(folder / ".git") == before
        status = await self.run(place, folder, "git -c safe.directory='*' status --porcelain && git log --format=%s")
        assert (status.output.out, status.code) == (" M a.txt\nfirst\n", 0)

    async def test_git_can_be_written_when_open(self, place: WorkPlace, folder: Path) -> None:
        repository(folder)
        command = (
            "git -c safe.directory='*' -c user.name=a -c user.email=b@c -c core.hooksPath=/dev/null commit -qam second"
        )
        result = await self.run(place, folder, command, open=True)
        assert result.code == 0, result.output.text
        assert git(folder, "log", "-1", "--format=%s") == "second\n"

    async def test_no_git_is_made_where_there_is_none(self, place: WorkPlace, folder: Path) -> None:
        result = await self.run(place, folder, "ls -A")
        assert result.output.out == ""
        assert names(folder) == set()

    async def test_a_sealed_command_has_no_network(self, place: WorkPlace, folder: Path) -> None:
        result = await self.run(place, folder, "cat /proc/net/dev; cat /proc/net/route")
        devices = [line.split(":")[0].strip() for line in result.output.out.splitlines() if ":" in line]
        assert set(devices) <= {"lo"}
        assert result.proof.network is False
        assert (await self.run(place, folder, "true", open=True)).proof.network is True

    # ---- processes ----

    @pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
    async def test_a_timeout_ends_the_whole_tree_and_keeps_what_was_said(
        self, place: WorkPlace, folder: Path, opened: bool
    ) -> None:
        mark = number()
        result = await self.run(place, folder, DOUBLE_FORK.format(n=mark), timeout=1.5, open=opened)
        assert (result.code, result.timed_out, result.sure) == (None, True, True)
        assert result.output.out == "started\n"
        assert result.seconds >= 1.5
        assert self.processes(mark) == []

    @pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
    async def test_stop_ends_the_whole_tree_and_keeps_what_was_said(
        self, place: WorkPlace, folder: Path, opened: bool
    ) -> None:
        mark, heard = number(), Heard()
        command = DOUBLE_FORK.format(n=mark)
        request = RunRequest(command=command, folder=folder, output=heard.keeper, timeout=60, open=opened)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stopped(place, request))
            await heard.wait_for("started")
            assert self.processes(mark), "nothing to stop"
            running.cancel()
        error = running.result()
        assert self.processes(mark) == []
        assert error.sure
        assert heard.keeper.finish().out == "started\n"

    async def test_what_was_stopped_does_not_go_on(self, place: WorkPlace, folder: Path) -> None:
        heard = Heard()
        command = "echo started; sleep 2 && touch PROOF"
        request = RunRequest(command=command, folder=folder, output=heard.keeper)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stopped(place, request))
            await heard.wait_for("started")
            began = time.monotonic()
            running.cancel()
        running.result()
        assert time.monotonic() - began < 2
        await asyncio.sleep(2.2 - (time.monotonic() - began))
        assert names(folder) == set()

    @pytest.mark.parametrize("delay", [0.0, 0.002, 0.01, 0.05, 0.3])
    async def test_stop_while_it_starts_leaves_nothing(self, place: WorkPlace, folder: Path, delay: float) -> None:
        mark = number()
        request = RunRequest(command=f"sleep {mark} && touch PROOF", folder=folder)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stopped(place, request))
            await asyncio.sleep(delay)
            began = time.monotonic()
            running.cancel()
        running.result()
        assert time.monotonic() - began < 5
        assert self.processes(mark) == []
        assert names(folder) == set()

    @pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
    @pytest.mark.parametrize("redirect", ["", ">/dev/null 2>&1 </dev/null"], ids=["holds-output", "detached"])
    async def test_a_commands_processes_end_with_it(
        self, place: WorkPlace, folder: Path, redirect: str, opened: bool
    ) -> None:
        mark = number()
        began = time.monotonic()
        result = await self.run(place, folder, f"setsid sleep {mark} {redirect} & echo ok", open=opened)
        assert (result.code, result.output.out) == (0, "ok\n")
        assert time.monotonic() - began < 10
        assert self.processes(mark) == []

    async def test_several_commands_at_once_keep_apart(self, place: WorkPlace, folder: Path) -> None:
        each = [f"n{index}" for index in range(4)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.run(place, folder, f"echo {name}; sleep 0.3; echo {name} >&2; touch {name}"))
                for name in each
            ]
        for name, task in zip(each, tasks, strict=True):
            assert (task.result().output.out, task.result().output.err) == (f"{name}\n", f"{name}\n")
        assert names(folder) == set(each)

    async def test_nothing_is_held_afterwards(self, place: WorkPlace, folder: Path) -> None:
        before = held()
        for turn in range(3):
            await self.run(place, folder, "echo x; sleep 1000 & exit 1")
            await self.run(place, folder, "sleep 1000", timeout=0.1)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(stopped(place, RunRequest(command="sleep 1000", folder=folder)))
                await asyncio.sleep(0.2)
                running.cancel()
            if turn == 0:  # connections that are kept, as many as were ever used at once: no more of them later
                await asyncio.sleep(0.5)
                before = held()
        await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)), 10, "as much as before")

    # ---- output ----

    async def test_output_comes_as_it_is_printed(self, place: WorkPlace, folder: Path) -> None:
        heard = Heard()
        line = "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo gone; echo late >&2"
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run(place, folder, line, output=heard.keeper, timeout=30))
            await heard.wait_for("ready")
            assert "gone" not in heard.text
            (folder / "go").touch()
        kept = running.result().output
        assert (kept.out, kept.err) == ("ready\ngone\n", "late\n")

    async def test_two_hundred_megabytes_stay_bounded(self, place: WorkPlace, folder: Path, spill: Path) -> None:
        size = 200 * 1024 * 1024
        heard = Heard(spill)
        tracemalloc.start()
        try:
            async with heartbeat() as longest:
                command = f"printf 'FIRST\\n'; yes | head -c {size}; printf 'LAST\\n'"
                result = await self.run(place, folder, command, output=heard.keeper, timeout=100)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        kept = result.output
        assert result.code == 0
        assert kept.size == size + 11
        assert kept.text.startswith("FIRST\ny\n")
        assert kept.text.endswith("y\nLAST\n")
        assert kept.left_out > size - 200 * 1024
        assert len(kept.text) < 140 * 1024
        assert kept.file is not None
        assert kept.file.stat().st_size == kept.size
        assert kept.file.stat().st_mode & 0o777 == 0o600
        assert peak < 32 * 1024 * 1024
        assert longest[0] < 0.25, "the loop was kept waiting"

    async def test_bytes_that_are_no_text_come_through(self, place: WorkPlace, folder: Path, spill: Path) -> None:
        def kept_of(command: str) -> Any:
            return self.run(place, folder, command, output=OutputKeeper(spill_folder=spill))

        lone = (await kept_of(r"printf 'a\200b\n'")).output
        assert lone.out == "a\ufffdb\n"
        assert lone.file is not None
        assert lone.file.read_bytes() == b"a\x80b\n"
        latin = (await kept_of(r"printf 'caf\351 \304\343\272\303\n'")).output
        assert latin.out.startswith("caf\ufffd")
        assert latin.file is not None
        assert latin.file.read_bytes() == b"caf\xe9 \xc4\xe3\xba\xc3\n"
        split = (await kept_of(r"printf '\360\237'; sleep 0.2; printf '\230\200\n'")).output
        assert split.out == "😀\n"
        assert split.file is None
        noise: Kept = (await kept_of("head -c 50000 /dev/urandom; head -c 50000 /dev/urandom >&2")).output
        assert noise.size == 100_000
        assert noise.file is not None
        assert noise.file.stat().st_size == 100_000

    async def test_control_sequences_do_nothing(self, place: WorkPlace, folder: Path) -> None:
        line = (
            r"printf '\033[1;31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033]8;;\033\\ \033[2J\033[10;10H"
            r"\033Pdcs\033\\\033(B\033c\007\010 10%%\r20%%\r\n\342\200\256evil\302\2335n\n'"
        )
        result = await self.run(place, folder, line)
        assert result.output.out == "red link  10%\r20%\r\nevil\n"


async def stopped(place: WorkPlace, request: RunRequest) -> Stopped:
    """Runs until it is stopped and gives how; fails when it ended by itself."""
    try:
        result = await place.run(request)
    except Stopped as error:
        return error
    raise AssertionError(f"it was not stopped: {result}")


def git(folder: Path, *arguments: str) -> str:
    """Git here, on this computer, with nobody's settings."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@b.c"}
    line = ["git", "-C", str(folder), "-c", "safe.directory=*", *arguments]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def repository(folder: Path) -> None:
    """A repository with one commit, and one file changed since."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "first")
    (folder / "a.txt").write_text("two\nthree\n")
