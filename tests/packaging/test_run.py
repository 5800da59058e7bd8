"""packaging/run sets a checkout up once, starts nothing but it, and mends what was cut short."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.__main__ import COMMANDS
from tests.packaging.conftest import ROOT, Checkout, wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell script")


def test_the_first_start_sets_up_and_keeps_stdout_for_the_command(
    set_up_once: tuple[Checkout, subprocess.CompletedProcess[str]],
) -> None:
    checkout, first = set_up_once
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["argv"] == ["run", "--", "ls"]
    assert "Setting up with Python 3." in first.stderr
    assert first.stderr.rstrip().splitlines()[-1].startswith("Conch: ")
    (pth,) = (checkout.root / ".venv").glob("lib/python3*/site-packages/conch.pth")
    assert pth.read_text() == f"{checkout.root}\n"


def test_a_second_start_runs_nothing_but_the_app(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "cmp"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    pip = next((checkout.root / ".venv").glob("lib/python3*/site-packages/pip"))
    pip.rename(pip.with_name("pip-away"))
    try:
        done = checkout.start("run", "a b", "", env={"PATH": str(tmp_path / "bin")})
    finally:
        pip.with_name("pip-away").rename(pip)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["argv"] == ["run", "a b", ""]


def test_it_keeps_the_folder_it_was_started_in_also_through_links(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "conch").symlink_to(checkout.root / "packaging" / "run")
    (tmp_path / "conch").symlink_to("elsewhere/conch")
    said = checkout.said("run", "--folder", ".", by=tmp_path / "conch", cwd=tmp_path)
    assert said["cwd"] == str(tmp_path)
    assert Path(said["app"]).is_relative_to(checkout.root)


def test_nothing_in_the_folder_or_the_environment_takes_its_place(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "usr").mkdir()
    for name in ("app/__init__.py", "app/__main__.py", "json.py", "tiny.py", "sitecustomize.py", "usercustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('taken over')\n")
    hostile = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "json.py"), "PYTHONHOME": str(tmp_path)}
    said = checkout.said("run", cwd=tmp_path, env=hostile)
    assert said["tiny"] == "1.0"
    assert not any(place.startswith(str(tmp_path)) or place == "" for place in said["path"])
    assert not said["json"].startswith(str(tmp_path))


def test_another_lock_brings_other_parts(new_checkout: Checkout) -> None:
    assert new_checkout.said("run")["tiny"] == "1.0"
    new_checkout.lock.write_text(wheel(new_checkout.wheels, "1.1"))
    assert new_checkout.said("run")["tiny"] == "1.1"
    moved = Checkout(new_checkout.root.rename(new_checkout.root.with_name("moved")), new_checkout.wheels)
    said = moved.said("run")
    assert Path(said["app"]).is_relative_to(moved.root)


def test_a_part_that_is_not_the_locked_one_is_refused(new_checkout: Checkout) -> None:
    wheel(new_checkout.wheels, "1.2")
    new_checkout.lock.write_text("tiny==1.2 --hash=sha256:" + "0" * 64 + "\n")
    done = new_checkout.start("run")
    assert done.returncode == 75
    assert "do not match the hashes" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    new_checkout.lock.write_text(wheel(new_checkout.wheels, "1.0"))
    assert new_checkout.said("run")["tiny"] == "1.0"


def test_a_set_up_that_was_cut_short_is_mended(new_checkout: Checkout) -> None:
    # a pip setting of the person's makes this one wait for its part, so that it can be stopped half way
    os.mkfifo(new_checkout.root.parent / "waits.txt")
    env = {**new_checkout.env, "PIP_CONSTRAINT": str(new_checkout.root.parent / "waits.txt")}
    with subprocess.Popen(
        [str(new_checkout.root / "packaging" / "run"), "run"],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # whoever runs the tests in the background may have it ignored, and a shell cannot undo that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as first:
        mark = new_checkout.root / ".venv" / "conch" / "unfinished"
        end = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.killpg(first.pid, signal.SIGINT)
        out, err = first.communicate(timeout=30)
    assert first.returncode == 75, err
    assert out == ""
    assert "Start it again" in err
    assert not (new_checkout.root / ".venv" / "conch" / "stamp").exists()
    (new_checkout.root / ".venv" / "bin" / "python").unlink()  # what was cut short may be in any state
    assert new_checkout.said("run")["tiny"] == "1.0"


def test_two_first_starts_at_once_set_up_once(new_checkout: Checkout) -> None:
    line = [str(new_checkout.root / "packaging" / "run"), "run"]
    how = {"env": new_checkout.env, "stdin": subprocess.DEVNULL, "text": True}
    starts = [
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)  # type: ignore[call-overload]
        for _ in range(2)
    ]
    ends = [(*start.communicate(timeout=100), start.returncode) for start in starts]
    assert [code for _, _, code in ends] == [0, 0], ends
    assert [json.loads(out)["tiny"] for out, _, _ in ends] == ["1.0", "1.0"]
    assert sum("Bringing the parts" in err for _, err, _ in ends) == 1


def test_whatever_opens_the_window_looks_for_what_it_needs_first(checkout: Checkout, tmp_path: Path) -> None:
    script, stamp = checkout.root / "packaging" / "setup.sh", checkout.root / ".venv" / "conch" / "stamp"
    whole, stamped = script.read_text(), stamp.read_text()
    for name in ("my work", *COMMANDS):  # a folder that is called as a command is none
        (tmp_path / name).mkdir()
    lacks = "qt_libraries='libnothere.so.9 libnothere9'; x11_libraries=''; may_install() { return 1; }\n"
    script.write_text(f"{whole}\n{lacks}")
    stamp.write_text(f"1 no {checkout.root}\n")  # as the set-up leaves it where they are missing
    try:
        starts = {
            words: checkout.start(*words, cwd=tmp_path)
            for words in [(), ("my work",), (str(tmp_path),), *((name,) for name in COMMANDS), ("my work", "")]
        }
    finally:
        script.write_text(whole)
        stamp.write_text(stamped)
    stopped = [words for words, done in starts.items() if done.returncode == 69]
    assert stopped == [(), ("my work",), (str(tmp_path),)]
    for words in stopped:
        assert "The window cannot open" in starts[words].stderr
        assert "libnothere9" in starts[words].stderr
    assert all(done.returncode == 0 for words, done in starts.items() if words not in stopped)


def test_qt_lives_through_an_evening_on_this_python() -> None:
    """PySide6 6.12 on Python 3.11 does not; the lock file keeps that pair apart."""
    line = [sys.executable, "-I", str(ROOT / "tests" / "packaging" / "emit.py")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_old_python_gets_the_qt_that_works_there() -> None:
    lock = (ROOT / "packaging" / "requirements.lock").read_text()
    pins = [line for line in lock.splitlines() if line.startswith("pyside6-essentials==")]
    assert any("6.11." in pin and "python_full_version < '3.12'" in pin for pin in pins)
    assert all("6.11." in pin or "python_full_version >= '3.12'" in pin for pin in pins)
