"""The command line as a person types it: the real program, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.__main__ import COMMANDS
from app.cli.arguments import RunArguments, run_arguments
from app.cli.main import HELPS
from app.cli.screen import BadUse
from app.preferred import TABLE
from app.version import VERSION
from workplaces.place import DEFAULT_TIMEOUT, WorkPlaceId

ROOT = Path(__file__).parents[2]


class Conch:
    """Runs the program with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "conch home"
        self.person = folder / "person"
        self.person.mkdir()

    def __call__(self, *given: str | bytes, home: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.person), "CONCH_HOME": str(home or self.home), **more}
        return subprocess.run(
            [sys.executable, "-I", "-m", "app", *given], env=env, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def conch(tmp_path: Path) -> Conch:
    return Conch(tmp_path)


def refused(done: subprocess.CompletedProcess[str], words: str, code: int = 2) -> None:
    """One sentence on stderr, and nothing else anywhere."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.startswith("conch: ")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 2


def test_its_version_is_the_one_that_is_packaged(conch: Conch) -> None:
    assert conch("--version").stdout == f"conch {VERSION}\n"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert not conch.home.exists()


def test_help_names_every_command_and_each_has_its_own(conch: Conch) -> None:
    whole = conch("--help").stdout
    for name in HELPS:
        assert f"conch {name}" in whole
        one = conch(name, "--help")
        assert one.returncode == 0
        assert one.stdout.startswith(f"conch {name}")
    assert not conch.home.exists()
    assert {*HELPS, "help"} == COMMANDS


WINDOW = """
import sys, types
ui, start = types.ModuleType("ui"), types.ModuleType("ui.start")
start.main = lambda home, arguments: print(home.path.name, arguments) or 7
sys.modules.update({"ui": ui, "ui.start": start})
from app.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("given", [[], ["."], ["run here"], ["/"]])
def test_without_a_command_the_window_opens(conch: Conch, given: list[str]) -> None:
    (conch.person / "run here").mkdir()
    (conch.person / "run").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(conch.person), "CONCH_HOME": str(conch.home)}
    how = {"env": env, "cwd": conch.person, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run([sys.executable, "-I", "-c", WINDOW, *given], **how)  # type: ignore[call-overload]
    assert (done.returncode, done.stdout) == (7, f"conch home {given}\n"), done.stderr
    done = subprocess.run([sys.executable, "-I", "-c", WINDOW, "run"], **how)  # type: ignore[call-overload]
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["rnu"], "“rnu” is nothing that conch can do. Did you mean run?"),
        (["--versoin"], "--versoin is not an option of conch. Did you mean --version?"),
        (["repair"], "“repair” is nothing that conch can do."),
        (["run"], "There is no command to run"),
        (["run", "--"], "There is no command to run"),
        (["run", "--", ""], "There is no command to run"),
        (["run", "--json", "--open"], "There is no command to run"),
        (["run", "--plcae", "computer", "--", "ls"], "--plcae is not an option of conch run. Did you mean --place?"),
        (["run", "-x", "ls"], "-x is not an option of conch run. See conch run --help."),
        (["run", "--place", "moon", "--", "ls"], "“moon” is not a place."),
        (["run", "--place", "ssh:-oProxyCommand=x", "--", "ls"], "cannot be a machine's name"),
        (["run", "--place"], "--place needs a value."),
        (["run", "--place", "--", "ls"], "--place needs a value."),
        (["run", "--open=yes", "--", "ls"], "--open takes no value."),
        (["run", "--open", "--open", "--", "ls"], "--open is given twice."),
        (["run", "--folder=", "--", "ls"], "--folder takes the path of a folder."),
        (["run", "--timeout", "0", "--", "ls"], "“0” is no time limit"),
        (["run", "--timeout", "-1", "--", "ls"], "“-1” is no time limit"),
        (["run", "--timeout", "3600.1", "--", "ls"], "at most 3600"),
        (["run", "--timeout", "soon", "--", "ls"], "“soon” is no time limit"),
        (["run", "--timeout", "nan", "--", "ls"], "“nan” is no time limit"),
        (["run", "--timeout", "inf", "--", "ls"], "“inf” is no time limit"),
        (["get", "colour"], "The names are: place, mode"),
        (["get", "a", "b"], "takes one name"),
        (["set", "theme"], "takes a name and a value"),
        (["set", "theme", "pink"], "system, light, dark"),
        (["set", "container.image", "no such/Image!"], "not the name of an image"),
        (["set", "model.base_url", "ftp://x"], "http:// or https://"),
        (["set", "place", "moon"], "“moon” is not a place."),
        (["set", "place", "cloud"], "Daytona is not part of this version"),
        (["default", "cloud"], "Daytona is not part of this version"),
        (["default", "moon"], "“moon” is not a place."),
        (["default", "a", "b"], "takes one place"),
        (["places", "now"], "takes no “now”"),
        (["places", "--jsno"], "Did you mean --json?"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(conch: Conch, given: list[str], words: str) -> None:
    refused(conch(*given), words)


def test_what_is_set_is_got(conch: Conch) -> None:
    assert conch("get", "theme").stdout == "system\n"
    assert conch("set", "theme", "dark").stdout == "theme = dark\n"
    assert conch("get", "theme").stdout == "dark\n"
    assert conch("set", "text.size", "120").stdout == "text.size = 120\n"
    assert json.loads((conch.home / "preferences.json").read_text()) == {"text.size": 120, "theme": "dark"}
    whole = conch("get").stdout
    assert "theme = dark\n" in whole
    for one in TABLE.values():
        assert one.internal or f"{one.name} = " in whole
        assert one.internal or one.words in whole


def test_the_default_place_is_chosen(conch: Conch) -> None:
    assert conch("default").stdout == "computer\n"
    done = conch("default", "container")
    assert (done.returncode, done.stdout) == (0, "New chats run their commands in: container\n")
    assert conch("default").stdout == conch("get", "place").stdout == "container\n"


def test_settings_that_were_damaged_are_said_and_used_as_far_as_they_read(conch: Conch) -> None:
    conch("set", "theme", "dark")
    (conch.home / "preferences.json").write_text('{\n"theme": "dark",\n"place": "cont')
    done = conch("get", "theme")
    assert (done.returncode, done.stdout) == (0, "dark\n")
    assert done.stderr.startswith("conch: Your settings could not be read.")
    assert conch("get", "theme").stderr == ""


def test_a_place_in_the_settings_that_is_none_runs_nowhere(conch: Conch, tmp_path: Path) -> None:
    conch("get")
    (conch.home / "preferences.json").write_text('{"place": "the moon"}')
    work = conch.person / "work"
    work.mkdir()
    given = ("run", "--folder", str(work), "--", "touch ran; echo ran")
    refused(conch(*given), "“the moon” is not a place", 125)
    (conch.home / "preferences.json").write_text('{\n"theme": "dark",\n"place": "conta')
    refused(conch(*given), "Your settings could not be read.", 125)
    assert not (work / "ran").exists()


def test_a_home_that_cannot_be_is_said(conch: Conch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(conch("get", home=tmp_path / "file"), "there is something there that is not a folder", 1)
    refused(conch("run", "--", "ls", home=conch.person), "that folder holds more than Conch", 125)


def test_settings_that_cannot_be_written_are_said(conch: Conch) -> None:
    conch("get")
    (conch.home / "preferences.json").mkdir()
    done = conch("set", "theme", "dark")
    assert done.returncode == 1
    assert "“theme” could not be kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_answer_that_nobody_reads_is_no_trouble(conch: Conch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    env = {"PATH": os.environ["PATH"], "HOME": str(conch.person), "CONCH_HOME": str(conch.home)}
    done = subprocess.run(
        [sys.executable, "-I", "-m", "app", "get"], env=env, stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_nobody_foresaw_is_logged_and_not_shown(conch: Conch) -> None:
    code = (
        "import sys, app.cli.settings as s\n"
        "def broken(*_): raise RuntimeError('boom')\n"
        "s.get = broken\n"
        "from app.__main__ import main\nsys.exit(main(['get']))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(conch.person), "CONCH_HOME": str(conch.home)}
    done = subprocess.run([sys.executable, "-I", "-c", code], env=env, capture_output=True, text=True, timeout=60)
    refused(done, "did not expect", 1)
    log = conch.home / "logs" / "conch.log"
    assert str(log) in done.stderr
    assert "RuntimeError: boom" in log.read_text()


def test_the_door_loads_only_what_it_needs(conch: Conch) -> None:
    code = (
        "import sys, functools; print = functools.partial(print, flush=True)\nfrom app.__main__ import main\n"
        "slow = {'docker', 'httpx', 'keyring', 'sqlite3', 'argparse', 'PySide6', 'paramiko', 'msgspec', 'asyncio'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
        "main(['--version']); print(sorted(slow & set(sys.modules)))\n"
        "main(['get', 'theme']); print(sorted(slow & set(sys.modules) - {'asyncio', 'msgspec'}))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(conch.person), "CONCH_HOME": str(conch.home)}
    done = subprocess.run([sys.executable, "-I", "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", f"conch {VERSION}", "[]", "system", "[]"], done.stderr


def asked(*given: str) -> RunArguments:
    return run_arguments(given)


def test_one_argument_is_a_line_and_several_are_literal() -> None:
    assert asked("--", "ls | wc").command == "ls | wc"
    assert asked("ls -l").command == "ls -l"
    assert asked("--", "ls", "-l", "--open", "$HOME").command == ("ls", "-l", "--open", "$HOME")
    assert asked("ls", "--json").command == ("ls", "--json")
    assert not asked("ls", "--json").json
    assert asked("--", "--").command == "--"
    assert asked("--", "a", "--", "b").command == ("a", "--", "b")
    assert asked("-", "x").command == ("-", "x")


def test_the_options_of_run() -> None:
    given = asked("--place=ssh:box", "--folder", "a b", "--open", "--timeout=1.5", "--json", "--", "x")
    assert given == RunArguments(
        command="x", place=WorkPlaceId("ssh", "box"), folder=Path("a b"), open=True, timeout=1.5, json=True
    )
    plain = asked("x")
    assert plain == RunArguments(command="x", place=None, folder=None, open=False, timeout=DEFAULT_TIMEOUT, json=False)
    with pytest.raises(BadUse):
        asked("--folder")
