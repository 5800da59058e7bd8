"""The front door as an ordinary user finds it: a fresh clone, a fresh HOME, one command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.real.engines.needs import missing
from tests.real.engines.person import CHECKOUT, Person


def log(home: Path) -> str:
    """What Conch wrote down there, for a failed test to show."""
    return "\n".join(file.read_text(errors="replace")[-3000:] for file in home.glob(".conch/logs/*.log"))


def clone(to: Path, person: Person) -> Path:
    """This checkout as it is now, without what is ignored, in the person's own hands."""
    listed = subprocess.run(
        ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, target = CHECKOUT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for folder, _, files in os.walk(to):
        os.chown(folder, person.uid, person.gid)
        for name in files:
            os.chown(Path(folder) / name, person.uid, person.gid)
    return to


@pytest.fixture(scope="module")
def fresh_clone(ordinary_user: Person) -> Path:
    code = f'root=/nowhere venv=/nowhere; . "{CHECKOUT}/packaging/setup.sh"; find_python'
    if ordinary_user.run("/bin/sh", "-c", code).returncode != 0:
        missing("an ordinary user finds no Python here that can make a venv (Debian package python3-venv)")
    return clone(ordinary_user.folder("a clone"), ordinary_user)


def test_a_fresh_clone_runs_a_command_in_a_container_it_pulls(
    ordinary_user: Person, fresh_clone: Path, fresh_dockerd: Dockerd
) -> None:
    folder = ordinary_user.folder("work")
    (folder / "a.txt").write_text("from here\n")
    # the person's own Python and settings, nothing of this test run's
    home = ordinary_user.folder("fresh home")
    env = {"HOME": str(home), "DOCKER_HOST": fresh_dockerd.host}
    run = [str(fresh_clone / "packaging" / "run"), "run", "--place", "container", "--folder", "work"]
    shell = ["--", "sh", "-c", "id -u; cat a.txt; echo hi > b.txt; cat /proc/1/cgroup; hostname"]
    done = ordinary_user.run(*run, *shell, env=env, timeout=110)
    assert done.returncode == 0, done.stderr + log(home)
    uid, text, *rest = done.stdout.splitlines()
    assert (uid, text) == (str(ordinary_user.uid), "from here")
    assert "docker" in "".join(rest[:-1]) or "0::/" in "".join(rest)
    assert rest[-1] != os.uname().nodename
    made = folder / "b.txt"
    assert (made.read_text(), made.stat().st_uid) == ("hi\n", ordinary_user.uid)
    assert fresh_dockerd.has(fresh_dockerd.image)

    again = ordinary_user.run(*run, "--json", "--", "true", env=env)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["code"] == 0
    assert "Setting up" not in again.stderr


def test_a_clone_of_somebody_else_is_refused_in_one_sentence(ordinary_user: Person, tmp_path: Path) -> None:
    theirs = ordinary_user.folder("of root")
    (theirs / "packaging").mkdir()
    for name in ("run", "setup.sh", "requirements.lock"):
        shutil.copy2(CHECKOUT / "packaging" / name, theirs / "packaging" / name)
    os.chown(theirs, 0, 0)
    done = ordinary_user.run(str(theirs / "packaging" / "run"), "--version")
    assert done.returncode == 73
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert "is not yours to write in" in sentence
    assert not (theirs / ".venv").exists()


def test_what_root_set_up_an_ordinary_user_starts(ordinary_user: Person, fresh_clone: Path) -> None:
    """A set-up checkout is used as it is; nothing needs to be written in it."""
    first = ordinary_user.run(str(fresh_clone / "packaging" / "run"), "--version", timeout=110)
    assert first.returncode == 0, first.stderr
    os.chown(fresh_clone, 0, 0)
    try:
        done = ordinary_user.run(str(fresh_clone / "packaging" / "run"), "--version")
    finally:
        os.chown(fresh_clone, ordinary_user.uid, ordinary_user.gid)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("conch ")


def test_in_ci_a_real_test_that_is_skipped_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.real\ndef test_real(): pytest.skip('no engine')\n"
        "def test_other(): pytest.skip('another system')\n"
        "def test_fine(): pass\n"
    )
    line = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    line += ["-c", str(CHECKOUT / "pyproject.toml"), f"--rootdir={tmp_path}", str(tmp_path / "test_some.py")]

    def run(ci: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "CI": ci}
        return subprocess.run(line, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=60, check=False)

    strict, kind = run("true"), run("")
    assert strict.returncode == 1, strict.stdout + strict.stderr
    assert "in CI every real test must run. Skipped: no engine" in strict.stdout
    assert "1 failed, 1 passed, 1 skipped" in strict.stdout.splitlines()[-1]
    assert kind.returncode == 0
    assert "1 passed, 2 skipped" in kind.stdout.splitlines()[-1]
