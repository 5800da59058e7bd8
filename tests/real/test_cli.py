"""``conch run`` at a real place: the real program, a real sealed box on this computer, a real container."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.real.engines.person import Person
from tests.workplaces.looking import number, processes

OBJECT = {"code", "timedOut", "seconds", "where", "proof", "output", "note", "ran", "sure", "error", "tried", "changed"}


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.01)


def running(line: str) -> list[str]:
    """Processes with exactly that command line: Conch's own holds the command too."""
    return [one for one in processes(line) if one.strip() == line]


class Conch:
    """Runs the program with a home of its own, on a work folder, at one place."""

    def __init__(self, folder: Path, place: str, **env: str) -> None:
        self.place = place
        self.person = folder / "person"
        self.work = self.person / "work"
        self.work.mkdir(parents=True)
        self.home = folder / "conch"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.person), "CONCH_HOME": str(self.home), **env}

    def argv(self, *given: str) -> list[str]:
        return [sys.executable, "-I", "-m", "app", *given]

    def __call__(self, *given: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Any command of the program."""
        return subprocess.run(
            self.argv(*given),
            **{"env": self.env, "cwd": self.work, "capture_output": True, "timeout": 100, "check": False, **how},
        )

    def run(self, *given: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        return self("run", "--place", self.place, *given, **how)

    def begin(self, *given: str, **how: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv("run", "--place", self.place, *given),
            **{"env": self.env, "cwd": self.work, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how},
        )


@pytest.fixture(params=["computer", "container"])
def conch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Conch]:
    if request.param == "container":
        engine: Dockerd = request.getfixturevalue("docker_host")
        made = Conch(tmp_path, "container", DOCKER_HOST=engine.host, DOCKER_CONFIG=str(engine.home))
        yield made
        assert engine.boxes() == []
    else:
        request.getfixturevalue("need")("bwrap")
        yield Conch(tmp_path, "computer")


@pytest.fixture
def box(docker_host: Dockerd, tmp_path: Path) -> Conch:
    return Conch(tmp_path, "container", DOCKER_HOST=docker_host.host, DOCKER_CONFIG=str(docker_host.home))


@pytest.fixture
def sealed(need: Callable[..., None], tmp_path: Path) -> Conch:
    need("bwrap")
    return Conch(tmp_path, "computer")


def piped(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_it_runs_there_and_the_files_are_here(conch: Conch) -> None:
    (conch.work / "a.txt").write_text("from here\n")
    done = conch.run("--", "sh", "-c", "id -u; cat a.txt; echo hi > b.txt; readlink /proc/self/ns/pid")
    uid, text, space = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert (uid, text) == (str(os.getuid()), "from here")
    assert space != str(Path("/proc/self/ns/pid").readlink())  # not a plain process of this computer
    made = conch.work / "b.txt"
    assert made.read_text() == "hi\n"
    assert made.stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("no-such-thing", 127),
    ],
)
def test_the_exit_code_is_the_commands_own(conch: Conch, command: str, code: int) -> None:
    assert conch.run("--", command).returncode == code


def test_one_argument_is_a_line_and_several_are_literal(conch: Conch) -> None:
    assert conch.run("--", "printf %s $((6*7)) | tr 4 7").stdout == b"72"
    words = ("$HOME; ls | wc", "it's", "a\nb", "*", "--json", "🤣", "")
    assert conch.run("--", "printf", "[%s]", *words).stdout.decode() == "".join(f"[{word}]" for word in words)


def test_every_byte_goes_where_it_belongs(conch: Conch, tmp_path: Path) -> None:
    noise = os.urandom(300_000) + bytes(range(256)) + b"\x1b[31m\r\n\xf0\x9f"
    (conch.work / "noise").write_bytes(noise)
    with (tmp_path / "y").open("wb") as file:
        done = conch.run(
            "--", "cat noise; printf '\\001err\\377' >&2", stdout=file, stderr=subprocess.PIPE, capture_output=False
        )
    assert (tmp_path / "y").read_bytes() == noise
    assert done.stderr == b"\x01err\xff"
    assert conch.run("--", "cat", "noise").stdout == noise


def test_output_comes_as_it_is_printed(conch: Conch) -> None:
    mark = number()
    process = conch.begin("--", f"echo first; echo second >&2; sleep {mark}")
    assert piped(process).readline() == b"first\n"
    assert process.stderr is not None
    assert process.stderr.readline() == b"second\n"
    wait_for(lambda: running(f"sleep {mark}"), "it sleeps")
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130


def test_stdin_is_at_its_end(conch: Conch) -> None:
    done = conch.run("--timeout", "20", "--", "cat; echo done", input=b"secret of the terminal\n")
    assert done.stdout == b"done\n"


def test_a_time_limit_ends_all_of_it(conch: Conch) -> None:
    mark = number()
    command = f"echo partial; setsid sh -c \"trap '' TERM; sleep {mark}\" & (sleep 4; touch PROOF) & sleep {mark}"
    began = time.monotonic()
    done = conch.run("--timeout", "1.5", "--", command)
    assert done.returncode == 124
    assert done.stdout == b"partial\n"
    assert done.stderr.decode().startswith("conch: It was stopped after its time limit of 1.5 seconds.")
    assert processes(mark) == []
    time.sleep(max(0.0, began + 6 - time.monotonic()))
    assert not (conch.work / "PROOF").exists()


@pytest.mark.parametrize(
    ("number_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)]
)
def test_a_signal_stops_it_there_first(conch: Conch, number_: signal.Signals, code: int) -> None:
    mark = number()
    process = conch.begin(
        "--", f"trap '' INT TERM HUP QUIT; echo ready; setsid sleep {mark} & sleep {mark}; touch PROOF"
    )
    assert piped(process).readline() == b"ready\n"
    wait_for(lambda: len(running(f"sleep {mark}")) == 2, "both sleep")
    process.send_signal(number_)
    got, _, err = ended(process)
    assert processes(mark) == []  # dead there before we came back
    assert got == code
    assert b"Traceback" not in err
    assert not (conch.work / "PROOF").exists()


def test_ctrl_c_again_and_again_does_not_leave_it_running(conch: Conch) -> None:
    mark = number()
    process = conch.begin("--", f"trap '' INT TERM; echo ready; sleep {mark} & sleep {mark}")
    assert piped(process).readline() == b"ready\n"
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    got, _, err = ended(process)
    assert processes(mark) == []
    assert got == 130
    assert b"Traceback" not in err
    assert err.count(b"a moment") <= 1


def test_ctrl_c_before_anything_ran(conch: Conch) -> None:
    """At many moments of the start: it ends with 130, or with the command's own end, and nothing stays."""
    mark = number()
    for delay in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45):
        process = conch.begin("--", f"sleep {mark}")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        got, out, err = ended(process)
        # Before Python itself is ready the system ends it, or Python says that it could not start.
        unready = got == 1 and (b"Fatal Python error" in err or b"KeyboardInterrupt" in err)
        assert got in (130, -signal.SIGINT) or unready
        assert out == b""
        assert delay < 0.3 or b"Traceback" not in err
        assert processes(mark) == []


def test_a_hangup_that_was_ignored_stays_ignored(conch: Conch) -> None:
    mark = number()
    nohup = shutil.which("nohup")
    assert nohup
    process = subprocess.Popen(
        [nohup, *conch.argv("run", "--place", conch.place, "--", f"echo ready; sleep 1; echo {mark}")],
        env=conch.env, cwd=conch.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert piped(process).readline() == b"ready\n"
    process.send_signal(signal.SIGHUP)
    assert ended(process)[:2] == (0, f"{mark}\n".encode())


def test_a_reader_that_has_enough_ends_it(conch: Conch) -> None:
    mark = number()
    process = conch.begin("--", f"yes {mark}")
    assert piped(process).readline() == f"{mark}\n".encode()
    piped(process).close()
    assert process.wait(30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert processes(f"yes {mark}") == []


def test_ctrl_c_while_nobody_takes_the_output(conch: Conch) -> None:
    mark = number()
    process = conch.begin("--", f"yes {mark}")
    wait_for(lambda: running(f"yes {mark}"), "it runs")
    time.sleep(1)  # until every pipe on the way is full; nothing shows when
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert processes(f"yes {mark}") == []
    ended(process)


def test_a_time_limit_while_nobody_takes_the_output(conch: Conch) -> None:
    mark = number()
    process = conch.begin("--timeout", "2", "--", f"yes {mark}")
    assert process.wait(20) == 124
    assert processes(f"yes {mark}") == []
    ended(process)


def peak(pid: int) -> int:
    """The most memory that the process held at once so far, in KB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def test_two_hundred_megabytes_go_through_in_little_memory(conch: Conch) -> None:
    size = 200 * 1024 * 1024
    reader, writer = os.pipe()
    wc = subprocess.Popen(["wc", "-c"], stdin=reader, stdout=subprocess.PIPE)
    began = time.monotonic()
    process = conch.begin("--", f"head -c {size} /dev/zero", stdout=writer)
    os.close(reader)
    os.close(writer)
    most = 0  # KB; not rusage's, which begins with what this process held when it started that one
    while process.poll() is None:
        most = max(most, peak(process.pid))
        time.sleep(0.005)
    seconds = time.monotonic() - began
    assert int(wc.communicate()[0]) == size
    ended(process)
    assert process.returncode == 0
    assert 10 * 1024 < most < 150 * 1024  # Python with the docker library alone is about 60 MB
    assert seconds < 30


def test_the_object(conch: Conch) -> None:
    done = conch.run("--json", "--", "echo out; echo err >&2; exit 4")
    assert (done.returncode, done.stderr) == (4, b"")
    assert done.stdout.count(b"\n") == 1
    found = json.loads(done.stdout)
    assert set(found) == OBJECT
    assert (found["code"], found["timedOut"], found["where"], found["ran"]) == (4, False, conch.place, True)
    assert (found["sure"], found["error"]) == (True, None)
    assert 0 < found["seconds"] < 30
    assert sorted(found["output"]["text"].splitlines()) == ["err", "out"]
    assert {**found["output"], "text": ""} == {"text": "", "bytes": 8, "leftOut": 0, "file": None}
    proof = found["proof"]
    assert (proof["place"], proof["network"], proof["sealed"]) == (conch.place, False, True)
    assert Path(proof["folder"]).samefile(conch.work)
    assert proof["target"]
    opened = json.loads(conch.run("--json", "--open", "--", "true").stdout)
    assert (opened["proof"]["network"], opened["proof"]["sealed"]) == (True, False)


def test_a_list_of_allowed_hosts_holds_from_the_next_command_on(box: Conch) -> None:
    devices = "cut -d: -f1 /proc/net/dev | tail -1"
    look = ("--open", "--", devices)  # asks for no name: where none is answered that takes half a minute
    ask = ("--open", "--", f"curl -s -m 5 https://evil.test/; getent hosts github.com; {devices}")
    assert b"eth0" in box.run(*look).stdout
    assert box("set", "container.hosts", "https://pypi.org").returncode == 2
    assert box("set", "container.hosts", "pypi.org *.npmjs.org").stdout == b"container.hosts = pypi.org *.npmjs.org\n"
    done = box.run(*ask)
    assert (done.stdout.split(), done.returncode) == ([b"lo"], 0)
    assert b"Tried to reach evil.test:443, github.com, which is not allowed." in done.stderr
    found = json.loads(box.run("--json", *ask).stdout)
    assert found["tried"] == ["evil.test:443", "github.com"]
    assert "pypi.org, *.npmjs.org" in found["note"]
    assert json.loads(box.run("--json", "--", "true").stdout)["tried"] == []
    (box.home / "preferences.json").write_text('{"container.hosts": "http://typo"}')
    done = box.run(*ask)
    assert (done.stdout, done.returncode) == (b"", 125)
    assert b"not a host's name" in done.stderr
    assert box("set", "container.hosts", "").returncode == 0
    assert b"eth0" in box.run(*look).stdout


def test_the_object_of_a_long_output(conch: Conch) -> None:
    done = conch.run("--json", "--", "seq 1 100000")
    output = json.loads(done.stdout)["output"]
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    assert output["bytes"] == len(whole)
    assert 0 < output["leftOut"] < len(whole)
    assert output["text"].startswith("1\n2\n")
    assert output["text"].endswith("\n100000\n")
    kept = Path(output["file"])
    assert kept.read_text() == whole
    assert kept.is_relative_to(conch.home)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_the_object_of_one_that_took_too_long_and_of_one_that_was_stopped(conch: Conch) -> None:
    found = json.loads(conch.run("--json", "--timeout", "1", "--", "echo so far; sleep 60").stdout)
    assert (found["timedOut"], found["code"], found["output"]["text"]) == (True, None, "so far\n")
    mark = number()
    process = conch.begin("--json", "--", f"echo so far; sleep {mark}")
    wait_for(lambda: running(f"sleep {mark}"), "it sleeps")
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    found = json.loads(out)
    assert code == 143
    assert set(found) == OBJECT
    assert (found["code"], found["ran"], found["output"]["text"]) == (None, True, "so far\n")
    assert found["error"]["words"]


def test_a_terminal_gets_clean_text_and_all_of_it(conch: Conch) -> None:
    master, slave = pty.openpty()
    process = conch.begin("--", "printf '\\033]0;owned\\007\\033[2Jred\\n'; seq 1 60000; echo last", stdout=slave)
    os.close(slave)
    got = bytearray()
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        got += piece
    os.close(master)
    assert ended(process)[0] == 0
    lines = got.decode().replace("\r\n", "\n").split("\n")
    assert lines == ["red", *map(str, range(1, 60001)), "last", ""]


def test_what_is_protected_is_refused_wherever_it_would_run(conch: Conch) -> None:
    (conch.person / ".ssh").mkdir()
    (conch.person / ".ssh" / "id_ed25519").write_text("KEY")
    for command in ("cat ~/.ssh/id_ed25519; touch ran", f"ls {conch.home}; touch ran"):
        for more in ((), ("--open",)):
            done = conch.run(*more, "--", command)
            assert (done.returncode, done.stdout) == (125, b"")
            assert b"a protected place: nothing may touch it" in done.stderr
    done = conch.run("--json", "--", "cat", str(conch.person / ".ssh/id_ed25519"))
    found = json.loads(done.stdout)
    assert (done.returncode, found["code"], found["ran"], set(found)) == (125, None, False, OBJECT)
    assert ".ssh" in found["error"]["words"]
    assert not (conch.work / "ran").exists()


@pytest.mark.parametrize("which", ["gone", "/", "~", "file"])
def test_a_folder_that_cannot_be_runs_nowhere(conch: Conch, which: str) -> None:
    (conch.work / "file").write_text("x")
    folder = str(conch.person) if which == "~" else which
    done = conch.run("--folder", folder, "--", "touch ran")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.decode().splitlines()[1] == "Next: Choose another folder"
    assert not any((one / "ran").exists() for one in (conch.person, conch.work, Path("/")))


def test_a_folder_that_went_under_ones_feet_runs_nowhere(sealed: Conch) -> None:
    (sealed.work / "gone").mkdir()
    line = 'cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *sealed.argv("run", "--", "touch ran")], env=sealed.env, cwd=sealed.work,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 125
    assert done.stderr.startswith("conch: The folder you are in is not there any more.\nNext: ")


def test_a_folder_is_named_from_where_one_is(conch: Conch) -> None:
    (conch.work / "in it").mkdir()
    assert conch.run("--folder", "in it", "--", "touch here").returncode == 0
    assert (conch.work / "in it" / "here").exists()


def test_the_default_place_is_where_it_runs(box: Conch) -> None:
    assert box("default", "container").returncode == 0
    done = box("run", "--json", "--", "test -e /.dockerenv")
    assert (done.returncode, json.loads(done.stdout)["where"]) == (0, "container")
    places = json.loads(box("places", "--look", "--json").stdout)
    assert places["default"] == "container"
    by_id = {one["id"]: one for one in places["places"]}
    assert by_id["container"]["ready"] is True
    assert by_id["container"]["seals"] is True
    text = box("places").stdout.decode()
    assert "* container" in text
    assert "  computer" in text


@pytest.mark.parametrize("place", ["computer", "container"])
def test_an_ordinary_person_with_nothing_set_up(ordinary_user: Person, docker_host: Dockerd, place: str) -> None:
    work = ordinary_user.folder(f"work-{place}-{number()}")
    (work / "a.txt").write_text("from here\n")
    python = [sys.executable, "-I", "-m", "app"]
    env = {"DOCKER_HOST": docker_host.host, "CONCH_HOME": f"{work}.conch"}
    done = ordinary_user.run(
        *python, "run", "--place", place, "--folder", str(work), "--", "sh", "-c", "id -u; cat a.txt; echo hi > b.txt",
        env=env,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{ordinary_user.uid}\nfrom here\n"), done.stderr
    made = (work / "b.txt").stat()
    assert (made.st_uid, made.st_gid) == (ordinary_user.uid, ordinary_user.gid)
    home = Path(f"{work}.conch")
    assert (home.stat().st_uid, stat.S_IMODE(home.stat().st_mode)) == (ordinary_user.uid, 0o700)
    shutil.rmtree(home)
    shutil.rmtree(work)


def test_what_a_killed_one_left_goes_with_the_next(box: Conch, docker_host: Dockerd) -> None:
    mark = number()
    process = box.begin("--", f"echo ready; exec sleep {mark}")
    assert piped(process).readline() == b"ready\n"
    process.kill()
    ended(process)
    assert len(docker_host.boxes()) == 1
    assert box.run("--", "sleep 2").returncode == 0
    assert docker_host.boxes() == []
    assert running(f"sleep {mark}") == []


def test_an_engine_that_is_not_there_runs_nothing_anywhere(tmp_path: Path) -> None:
    conch = Conch(tmp_path, "container", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    done = conch.run("--", "touch ran")
    assert (done.returncode, done.stdout) == (125, b"")
    first, second = done.stderr.decode().splitlines()
    assert first.startswith("conch: ")
    assert second.startswith("Next: ")
    done = conch.run("--json", "--", "touch ran")
    assert done.returncode == 125
    found = json.loads(done.stdout)
    assert set(found) == OBJECT
    assert (found["code"], found["timedOut"], found["ran"], found["proof"]) == (None, False, False, None)
    assert found["note"] == found["error"]["words"] == first.removeprefix("conch: ")
    assert not (conch.work / "ran").exists()
    places = json.loads(conch("places", "--look", "--json").stdout)
    container = next(one for one in places["places"] if one["id"] == "container")
    assert container["ready"] is False
    assert container["next"]["label"]


def test_no_box_on_this_computer_runs_nothing_anywhere(sealed: Conch, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "touch"):
        (programs / name).symlink_to(shutil.which(name) or name)
    done = sealed.run("--", "touch ran", env={**sealed.env, "PATH": str(programs)})
    assert (done.returncode, done.stdout) == (125, b"")
    assert len(done.stderr.splitlines()) == 2
    assert not (sealed.work / "ran").exists()


@pytest.mark.parametrize(
    ("place", "says"), [("cloud", "not part of this version"), ("ssh:build-box", "name no machine build-box")]
)
def test_a_place_that_is_not_there_yet_runs_nothing(sealed: Conch, place: str, says: str) -> None:
    done = sealed("run", "--place", place, "--", "touch ran")
    assert done.returncode == 125
    assert says in done.stderr.decode()
    assert not (sealed.work / "ran").exists()


def test_an_image_that_comes_is_said_a_line_for_each_thing(fresh_dockerd: Dockerd, tmp_path: Path) -> None:
    conch = Conch(tmp_path, "container", DOCKER_HOST=fresh_dockerd.host, DOCKER_CONFIG=str(fresh_dockerd.home))
    done = conch.run("--", "echo here")
    assert (done.returncode, done.stdout) == (0, b"here\n")
    lines = done.stderr.decode().splitlines()
    assert 1 <= len(lines) <= 5
    assert "\x1b" not in done.stderr.decode()
    assert conch.run("--", "echo again").stderr == b""


def test_nothing_is_made_in_the_work_folder_or_a_shared_one(conch: Conch) -> None:
    shared = Path(tempfile.gettempdir())
    before = set(shared.iterdir())
    assert conch.run("--", "true").returncode == 0
    assert list(conch.work.iterdir()) == []
    assert [one for one in set(shared.iterdir()) - before if "conch" in one.name.lower()] == []
