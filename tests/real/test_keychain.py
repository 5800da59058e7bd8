"""Keys in a real Secret Service: GNOME Keyring on a session bus of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("dbus-run-session", "gnome-keyring-daemon")

ROUND = """
import asyncio
from app.keys.keychain import Keychain
from app.keys.secret import Secret

async def main():
    first, second = Keychain(), Keychain()
    print(await first.get("model:https://x.example/v1"))
    print(await first.set("model:https://x.example/v1", Secret("rAnDoM-ké🗝")))
    print((await second.get("model:https://x.example/v1")).reveal())
    print(await second.set("model:https://x.example/v1", Secret("another")))
    print((await first.get("model:https://x.example/v1")).reveal())
    print(await first.get("model:https://y.example/v1"))
    print(await second.delete("model:https://x.example/v1"), await first.get("model:https://x.example/v1"))
    print([first.words, second.words])

asyncio.run(main())
"""

WITHOUT = """
import asyncio
from app.keys.keychain import Keychain
from app.keys.secret import Secret

async def main():
    keychain = Keychain()
    print(await keychain.set("n", Secret("rAnDoM-key")), bool(keychain.words), (await keychain.get("n")).reveal())

asyncio.run(main())
"""

UNLOCK = r'printf "\n" | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; '


def on_a_bus(tmp_path: Path, before: str, code: str) -> subprocess.CompletedProcess[str]:
    home, run = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    run.mkdir(mode=0o700)
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(run), "LANG": "C.UTF-8",
        "XDG_DATA_HOME": str(home / "data"), "CONCH_CODE": code, "PYTHON": sys.executable,
    }  # fmt: skip
    return subprocess.run(
        ["dbus-run-session", "--", "sh", "-c", before + 'exec "$PYTHON" -c "$CONCH_CODE"'],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_key_is_kept_in_the_keychain_and_nowhere_else(tmp_path: Path, need: Callable[..., None]) -> None:
    need(*NEEDED)
    done = on_a_bus(tmp_path, UNLOCK, ROUND)
    assert done.stdout.splitlines() == [
        "None", "keychain", "rAnDoM-ké🗝", "keychain", "another", "None", "True None", "['', '']",
    ], done.stderr  # fmt: skip
    everything = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any("keyring" in file.name for file in everything)  # the daemon did keep something
    for file in everything:
        assert b"rAnDoM" not in file.read_bytes()


def test_another_programs_view_agrees(tmp_path: Path, need: Callable[..., None]) -> None:
    """The key really is in the Secret Service: the `keyring` program reads it there."""
    need(*NEEDED)
    code = (
        "import asyncio, subprocess, sys\nfrom app.keys.keychain import Keychain\nfrom app.keys.secret import Secret\n"
        "asyncio.run(Keychain().set('n', Secret('seen-by-others')))\n"
        "sys.exit(subprocess.call([sys.executable, '-m', 'keyring', 'get', 'Conch', 'n']))"
    )
    done = on_a_bus(tmp_path, UNLOCK, code)
    assert done.stdout.strip() == "seen-by-others", done.stderr


@pytest.mark.parametrize("before", ["", "unset DBUS_SESSION_BUS_ADDRESS; "], ids=["no keychain", "no bus"])
def test_without_one_the_key_is_held_for_this_run_only(tmp_path: Path, need: Callable[..., None], before: str) -> None:
    need(*NEEDED)
    done = on_a_bus(tmp_path, before, WITHOUT)
    assert done.stdout.strip() == "session True rAnDoM-key", done.stderr
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"rAnDoM" not in file.read_bytes()
