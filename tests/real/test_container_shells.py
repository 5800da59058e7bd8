"""The lines of shell round a command, in the shells that an image may have, each in a bubblewrap box of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workplaces.looking import listing
from workplaces.container.box import FIRST_LINES, GET_READY, Expected, expected, line_for, new_mark
from workplaces.container.engine import EngineFacts
from workplaces.container.ground import top_level
from workplaces.container.life import FirstLine
from workplaces.container.marks import Marks, Said
from workplaces.folder import check_folder
from workplaces.place import PlaceUnavailable

SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
FACTS = EngineFacts(version="1")


@dataclass
class Ran:
    line: FirstLine | None
    out: bytes
    err: bytes
    said: Said | None
    code: int


class Shell:
    """One of them as ``/bin/sh``, with a process 1 beside it, nothing of ours in its environment, and no capability."""

    def __init__(self, name: str, work: Path, *hidden: str) -> None:
        self.name = name
        self.work = work
        self._hidden = hidden

    def start(self, want: Expected) -> subprocess.Popen[bytes]:
        shell = shutil.which(self.name)
        assert shell is not None
        box = ["bwrap", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
        box += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        box += ["--ro-bind", shell, os.path.realpath("/bin/sh"), "--bind", str(self.work), str(self.work)]
        for program in self._hidden:
            box += ["--ro-bind", "/dev/null", program]
        box += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "r", "kept", "--chdir", str(self.work)]
        line = [*box, "/bin/sh", "-c", FIRST_LINES, "sh", *want.words()]
        return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, command: str | tuple[str, ...], want: Expected | None = None) -> Ran:
        with self.start(want or self.want()) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            killer = threading.Timer(20, process.kill)
            killer.start()
            try:
                process.stdin.write(GET_READY.encode())
                process.stdin.flush()
                line = FirstLine.read(process.stdout.readline().removesuffix(b"\n"))
                marks = Marks(new_mark() if line and line.shut else "")
                if line and not line.other:
                    process.stdin.write(line_for(command, marks._streams["out"]._mark.decode()))
                    process.stdin.flush()
                out, err = process.stdout.read(), process.stderr.read()
                code = process.wait()
            finally:
                killer.cancel()
            return Ran(line, marks.take("out", out), marks.take("err", err), marks.said, code)

    def want(self) -> Expected:
        return expected(check_folder(self.work), FACTS)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / ".git").mkdir(parents=True)
    return made


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, need: Callable[..., None], work: Path) -> Shell:
    need("bwrap", root=True)
    return Shell(request.param, work)


def test_no_shell_was_left_out() -> None:
    assert "dash" in SHELLS
    assert "bash" in SHELLS


@pytest.mark.parametrize(
    ("command", "out", "err", "code"),
    [
        ("echo out; echo err >&2; exit 7", b"out\n", b"err\n", 7),
        ("kill -9 $$", b"", b"", 137),
        ("kill -TERM $$", b"", b"", 143),
        ("printf x; printf y >&2", b"x", b"y", 0),
        ("cat; echo $?", b"0\n", b"", 0),
        ("exec >&-; exit 4", b"", b"", 4),
        ("exec 2>&-; exit 4", b"", b"", 4),
        (("printf", "[%s]", "", "$x", "it's", 'a "b"', "new\nline", "-n", "\\", "}", "#"), None, b"", 0),
        (("sh", "-c", 'echo "$r"'), b"kept\n", b"", 0),
        ("trap 'echo told' TERM; kill -TERM $$; echo on", b"told\non\n", b"", 0),
        ("exec 3>&1; echo three >&3", b"three\n", b"", 0),
    ],
)
def test_a_command_is_as_it_is_alone(
    shell: Shell, command: str | tuple[str, ...], out: bytes | None, err: bytes, code: int
) -> None:
    ran = shell.run(command)
    if out is None:
        out = "".join(f"[{word}]" for word in command[2:]).encode()
    assert (ran.out, ran.err) == (out, err)
    assert ran.said == Said(code, program=True, kills=0) or (ran.said and ran.said.kills > 0 and ran.said.code == code)
    assert ran.code == code, "the box ends as its command did"


def test_every_letter_comes_through(shell: Shell) -> None:
    """Each byte that UTF-8 has, and each that a shell could take for its own."""
    text = "".join(map(chr, (*range(1, 0x300), *range(0x2000, 0x2100), 0xFFFD, *range(0x1F600, 0x1F680))))
    assert shell.run(("printf", "%s", text)).out == text.encode()
    assert shell.run("printf %s '" + text.replace("'", "'\\''") + "'").out == text.encode()


def test_a_megabyte_of_command_comes_through(shell: Shell) -> None:
    words = tuple(chr(97 + number) * 100_000 for number in range(10))
    ran = shell.run(("printf", "%.3s", *words))
    assert ran.out == b"".join(word[:3].encode() for word in words)


def test_all_that_a_command_left_is_dead_before_the_mark(shell: Shell) -> None:
    line = "(trap '' TERM HUP; setsid sh -c 'while :; do echo x >> wrote; done' >/dev/null 2>&1 &) ; sleep 0.3; echo on"
    ran = shell.run(line)
    assert (ran.out, ran.said and ran.said.code) == (b"on\n", 0)
    before = listing(shell.work)
    assert (shell.work / "wrote").exists()
    assert listing(shell.work) == before


def test_no_other_process_can_look_into_the_shell(shell: Shell) -> None:
    look = (
        "for f in environ mem fd/0 fd/1 maps; do cat /proc/$PPID/$f >/dev/null && echo read $f; done;"
        "tr '\\0' ' ' </proc/$PPID/cmdline; ls -A ~ /tmp/home"
    )
    ran = shell.run(look)
    assert ran.line is not None
    assert ran.line.shut
    assert b"read" not in ran.out
    assert ran.err.count(b"ermission denied") >= 4
    assert b"printf" not in ran.out, "its command line holds what everybody may know"


def test_what_a_command_writes_into_the_shells_stdin_is_never_read(shell: Shell) -> None:
    ran = shell.run("echo 'touch INJECTED; echo evil' > /proc/1/fd/0; echo $?")
    assert ran.said is not None
    assert b"evil" not in ran.out
    assert not (shell.work / "INJECTED").exists()


def test_an_output_left_non_blocking_loses_no_mark(shell: Shell) -> None:
    flood = (
        "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)\n"
        "try:\n  while True: os.write(1, b'x' * 4096)\nexcept BlockingIOError: pass\n"
    )
    ran = shell.run(("python3", "-c", flood))
    assert ran.said is not None
    assert (ran.said.code, set(ran.out)) == (0, {ord("x")})


def test_a_command_that_ends_the_shell_ends_the_box_without_a_mark(shell: Shell) -> None:
    ran = shell.run("echo before; kill -9 $PPID; sleep 5")
    assert (ran.out, ran.said, ran.code) == (b"before\n", None, 137)


def test_without_a_copy_of_the_shell_there_is_no_mark(work: Path, need: Callable[..., None]) -> None:
    need("bwrap", root=True)
    shell = Shell("dash", work, os.path.realpath("/bin/cp"))
    ran = shell.run("echo out; exit 3")
    assert ran.line is not None
    assert (ran.line.shut, ran.out, ran.said, ran.code) == (False, b"out\n", None, 3)


def test_another_folder_runs_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    ran = shell.run("touch PROOF", expected(check_folder(tmp_path / "other"), FACTS))
    assert ran.line is not None
    assert (ran.line.other, ran.code) == (True, 125)
    assert not (shell.work / "PROOF").exists()


def test_another_git_runs_nothing_nor_one_that_went_away(shell: Shell) -> None:
    want = shell.want()
    (shell.work / ".git").rename(shell.work / "was")
    for change in (lambda: None, (shell.work / ".git").mkdir):
        change()
        ran = shell.run("touch PROOF", want)
        assert ran.line is not None
        assert ran.line.same_folder(want)
        assert not ran.line.fits(want)
        assert ran.code == 125
        assert not (shell.work / "PROOF").exists()


def test_without_a_git_none_is_looked_for(shell: Shell) -> None:
    (shell.work / ".git").rmdir()
    want = shell.want()
    ran = shell.run("echo ran", want)
    assert ran.line is not None
    assert (ran.line.fits(want), ran.line.git, ran.out) == (True, "", b"ran\n")


@pytest.mark.parametrize(
    ("program", "code"), [("no-such-program", 127), ("./gone", 127), ("/etc/passwd", 126), ("./.git", 126)]
)
def test_a_program_that_is_not_there_is_told(shell: Shell, program: str, code: int) -> None:
    ran = shell.run((program,))
    assert ran.said is not None
    assert (ran.said.program, ran.said.code) == (False, code)
    assert ran.err.strip()


def through_a_machine(folder: Path, *protected: Path) -> Expected:
    found = check_folder(folder, protected)
    return expected(found, EngineFacts(native=False), top_level(found))


def fill(folder: Path) -> None:
    """With what is odd: names that a pattern or a line could take for something else, kinds, a covered one."""
    for name in (
        "a b",
        "-rf",
        "*",
        "[x]",
        "line\nf 1 2 x",
        "ünï",
        ".hidden",
        "..two",
        "'quoted\"",
        "d 0 1 x",
        "regular 1 2",
    ):
        (folder / name).write_text(name)
    (folder / "empty").touch()
    (folder / "folder" / "deep").mkdir(parents=True)
    (folder / "link").symlink_to("a b")
    (folder / "gone").symlink_to("nowhere")
    (folder / "token").write_text("SECRET")
    os.mkfifo(folder / "pipe")


def test_through_a_virtual_machine_what_lies_in_the_folder_is_compared(shell: Shell) -> None:
    fill(shell.work)
    want = through_a_machine(shell.work, shell.work / "token")
    (shell.work / "token").write_text("as the cover looks")
    ran = shell.run("echo ran", want)
    assert ran.line is not None
    assert (ran.line.fits(want), ran.out) == (True, b"ran\n")


@pytest.mark.parametrize(
    "change",
    [
        *("echo more >> 'a b'", "touch -d @1 empty", "rm gone", "touch new", "mv link link2", "ln -sfn empty link"),
        *("rm -r folder; echo x > folder", "rm -r ./* .hidden ..two", "mv .git .got"),
    ],
)
def test_through_a_virtual_machine_another_folder_runs_nothing(shell: Shell, change: str) -> None:
    fill(shell.work)
    want = through_a_machine(shell.work)
    subprocess.run(["/bin/sh", "-c", change], cwd=shell.work, check=True)
    ran = shell.run("touch PROOF", want)
    assert ran.line is not None
    assert not ran.line.fits(want)
    assert not (shell.work / "PROOF").exists()


def test_through_a_virtual_machine_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with pytest.raises(PlaceUnavailable, match="is empty"):
        through_a_machine(tmp_path / "work")
    (tmp_path / "work" / "token").touch()
    with pytest.raises(PlaceUnavailable, match="is empty"):
        through_a_machine(tmp_path / "work", tmp_path / "work" / "token")
