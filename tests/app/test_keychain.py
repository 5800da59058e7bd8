"""Keys without a keychain, with one that fails, and never where they could be read. tests/real has the real one."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

from app.keys import keychain as module
from app.keys.keychain import LOCKED, NO_KEYCHAIN, Keychain, model_key
from app.keys.secret import Secret
from app.log import HIDDEN, redact, start_log


class InMemory:
    """A keychain that works."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


class Locked(InMemory):
    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError("locked: hunter2-secret")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise RuntimeError(f"locked: {password}")


class Asking(InMemory):
    """A keychain that asks the person for a password, who is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.answered.wait(60)
        return None


async def test_a_key_is_kept_given_and_forgotten() -> None:
    backend = InMemory()
    keychain = Keychain(backend)
    assert await keychain.get("model:x") is None
    assert await keychain.set("model:x", Secret("k-123")) == "keychain"
    assert backend.held == {("Conch", "model:x"): "k-123"}
    found = await Keychain(backend).get("model:x")
    assert found is not None
    assert found.reveal() == "k-123"
    assert await keychain.delete("model:x")
    assert await keychain.delete("model:x")
    assert await keychain.get("model:x") is None
    assert backend.held == {}
    assert keychain.words == ""


async def test_a_keychain_that_refuses_keeps_the_key_for_this_run_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    keychain = Keychain(Locked())
    assert await keychain.set("model:x", Secret("hunter2-secret")) == "session"
    assert keychain.words == LOCKED
    found = await keychain.get("model:x")
    assert found is not None
    assert found.reveal() == "hunter2-secret"
    assert not await keychain.delete("model:x")
    assert await keychain.get("model:x") is None
    assert "hunter2" not in caplog.text


async def test_a_key_replaced_while_locked_is_the_new_one() -> None:
    backend = InMemory()
    await Keychain(backend).set("n", Secret("old-key"))
    keychain = Keychain(Locked())
    await keychain.set("n", Secret("new-key"))
    found = await keychain.get("n")
    assert found is not None
    assert found.reveal() == "new-key"


async def test_a_keychain_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    backend = Asking()
    keychain = Keychain(backend)
    began = time.monotonic()
    assert await keychain.get("n") is None
    assert time.monotonic() - began < 5
    assert keychain.words == LOCKED
    (asking,) = [thread for thread in threading.enumerate() if thread.name == "keychain"]
    assert asking.daemon  # it does not keep Conch from closing
    backend.answered.set()
    asking.join(5)


@pytest.mark.parametrize(
    "backend",
    ["keyring.backends.null.Keyring", "keyring.backends.fail.Keyring", "tests.app.test_keychain.Plaintext"],
)
def test_what_is_no_keychain_is_not_used(tmp_path: Path, backend: str) -> None:
    code = (
        "import asyncio\nfrom app.keys.keychain import Keychain\nfrom app.keys.secret import Secret\n"
        "async def main():\n"
        "    k = Keychain()\n"
        "    print(await k.set('n', Secret('s3cret-value')), (await k.get('n')).reveal(), k.words, sep='|')\n"
        "asyncio.run(main())"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=60
    )
    assert done.stdout.strip() == f"session|s3cret-value|{NO_KEYCHAIN}", done.stderr
    assert not any(b"s3cret-value" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


try:
    from keyring.backend import KeyringBackend
except ImportError:  # pragma: no cover
    pass
else:

    class Plaintext(KeyringBackend):
        """Works, says that it is the best there is, and keeps what it is given in a file."""

        priority = 100

        def get_password(self, service: str, username: str) -> str | None:
            raise AssertionError("asked")

        def set_password(self, service: str, username: str, password: str) -> None:
            (Path.home() / "plain").write_text(password)

        def delete_password(self, service: str, username: str) -> None:
            raise AssertionError("asked")


def test_a_models_key_is_named_by_its_address() -> None:
    assert model_key(" https://x.example/v1/ ") == model_key("https://x.example/v1") == "model:https://x.example/v1"


def test_a_secret_does_not_show() -> None:
    secret = Secret("k-very-secret")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>30}",
        repr([secret]),
        repr({"a": secret}),
    ]
    try:
        raise ValueError(secret)
    except ValueError as error:
        shown += [str(error), *traceback.format_exception(error)]
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert not any("very" in one for one in shown)
    assert secret.reveal() == "k-very-secret"
    assert secret
    assert not Secret("")


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer abcdefgh12345678",
        "headers {'authorization': 'Bearer abcdefgh12345678', 'x': 1}",
        "sent x-api-key=abcdefgh12345678&y",
        '{"api_key": "abcdefgh12345678"}',
        "https://me:abcdefgh12345678@host/path",
        "the key sk-abcdefgh12345678 was refused",
        "dtn_abcdefgh12345678",
        "password=abcdefgh12345678",
    ],
)
def test_the_log_hides_what_looks_like_a_key(line: str) -> None:
    assert "abcdefgh" not in redact(line)
    assert HIDDEN in redact(line)


def test_the_log_is_otherwise_as_it_was() -> None:
    line = "token budget 5, basic idea, secretary, https://host/path?q=1@2 passwords are fun sk-1"
    assert redact(line) == line


def test_the_log_hides_every_key_that_is_held(tmp_path: Path) -> None:
    code = (
        "import logging, sys\nfrom pathlib import Path\n"
        "from app.keys.secret import Secret\nfrom app.log import start_log\n"
        "held = Secret('wombat-wombat')\n"
        "start_log(Path(sys.argv[1]))\n"
        "try: raise ValueError('it was wombat-wombat')\n"
        "except ValueError: logging.getLogger('x').exception('arg %s', 'wombat-wombat')\n"
        "raise RuntimeError('unexpected wombat-wombat')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""  # the person's screen stays clean
    kept = (tmp_path / "conch.log").read_text()
    assert "wombat" not in kept
    assert f"arg {HIDDEN}" in kept
    assert f"RuntimeError: unexpected {HIDDEN}" in kept
    assert (tmp_path / "conch.log").stat().st_mode & 0o077 == 0


def test_the_log_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.log.LARGEST", 2000)
    root = logging.getLogger()
    before, level, hooks = [*root.handlers], root.level, (sys.excepthook, threading.excepthook)
    try:
        start_log(tmp_path)
        for number in range(500):
            logging.getLogger("x").warning("line %d", number)
    finally:
        for handler in {*root.handlers} - {*before}:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        sys.excepthook, threading.excepthook = hooks
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert sum(file.stat().st_size for file in files) < 10_000
    assert {file.stat().st_mode & 0o077 for file in files} == {0}
    assert "line 499" in (tmp_path / "conch.log").read_text()
