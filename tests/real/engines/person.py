"""An ordinary user of this machine, for what must hold when Conch does not run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.engines.folders import locked, remove, sockets
from tests.real.engines.needs import program
from tests.real.engines.processes import alive

NAME = "conch-test"
_HOMES = Path(f"/var/lib/{NAME}")
CHECKOUT = Path(__file__).resolve().parents[3]
# Makes every folder on the way to the given ones passable, for one process tree only: a closed folder (root's home) is
# covered by an empty one that holds nothing but the wanted folders, read-only.
_ENTER = """\
set -e
covers=() wanted=() held=()
while [ "$1" != -- ]; do
  exec {fd}<"$2"
  covers+=("$1") wanted+=("$2") held+=("$fd")
  shift 2
done
shift
for at in "${!wanted[@]}"; do
  cover=${covers[$at]} folder=${wanted[$at]} fd=${held[$at]}
  if ! mountpoint -q "$cover" || [ "$(stat -f -c %T "$cover")" != tmpfs ]; then
    mount -t tmpfs -o mode=755,size=1m conch "$cover"
  fi
  mkdir -p "$folder"
  mount --no-canonicalize --bind "/proc/self/fd/$fd" "$folder"  # by its descriptor: its name is covered now
  mount -o remount,ro,bind "$folder"
  exec {fd}<&-
done
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Person:
    """``home`` is theirs to write and theirs alone. Commands of theirs get a clean environment."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "CI") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.home / "tmp"),
        }

    def folder(self, name: str) -> Path:
        """A folder of theirs, made now."""
        made = self.home / name
        made.mkdir(parents=True, exist_ok=True)
        os.chown(made, self.uid, self.gid)
        return made

    def argv(self, *command: str) -> list[str]:
        """What to start (as root) so that ``command`` runs as them, with this checkout and this Python readable."""
        enter: list[str] = []
        for wanted in _wanted():
            if closed := _closed_above(wanted):
                enter += [str(closed), str(wanted)]
        setpriv = [program("setpriv") or "setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"]
        setpriv += ["--inh-caps=-all", "--", *command]
        if not enter:
            return setpriv
        unshare = [program("unshare") or "unshare", "--mount", "--propagation=private", "--", "/bin/bash", "-c", _ENTER]
        return [*unshare, "enter", *enter, "--", *setpriv]

    def run(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60.0,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as them and waits for it."""
        return subprocess.run(
            self.argv(*command),
            env={**self.env, **(env or {})},
            cwd=cwd or self.home,
            timeout=timeout,
            check=check,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def python(self, code: str, *arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
        """Runs Python code as them, in the running Python, with Conch and the tests importable."""
        return self.run(sys.executable, "-c", code, *arguments, **_python(how))  # type: ignore[arg-type]

    def module(self, name: str, *arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
        """``python -m name …`` as them."""
        return self.run(sys.executable, "-m", name, *arguments, **_python(how))  # type: ignore[arg-type]

    def pytest(self, *arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
        """Runs tests of this checkout as them. Their cache and their byte code stay out of the checkout."""
        words = ["-p", "no:cacheprovider", f"--basetemp={self.home / 'tmp' / 'pytest'}"]
        return self.module("pytest", *words, *arguments, **{"cwd": CHECKOUT, **how})


def _python(how: dict[str, object]) -> dict[str, object]:
    env = how.get("env")
    own = {"PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**how, "env": {**own, **(env if isinstance(env, Mapping) else {})}}


def _wanted() -> Sequence[Path]:
    """The checkout, its venv, and the Python that the venv borrows."""
    return [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix).resolve()]


def _closed_above(folder: Path) -> Path | None:
    """The first folder on the way that only root may pass through."""
    for above in reversed(folder.parents):
        if not above.stat().st_mode & 0o001:
            return above
    return None


@contextmanager
def made() -> Iterator[Person]:
    """The user, made if there is none yet, with a new empty HOME that is gone afterwards."""
    with locked(sockets() / "person.lock"):
        try:
            found = pwd.getpwnam(NAME)
        except KeyError:
            useradd = program("useradd") or "useradd"
            words = ["--system", "--user-group", "--no-create-home", "--shell", "/bin/sh"]
            subprocess.run([useradd, *words, "--home-dir", str(_HOMES), NAME], check=True)
            found = pwd.getpwnam(NAME)
    _HOMES.mkdir(mode=0o755, exist_ok=True)
    for left in _HOMES.iterdir():
        if not (left.name.isdecimal() and alive(int(left.name))):
            remove(left)
    home = _HOMES / str(os.getpid())
    person = Person(NAME, found.pw_uid, found.pw_gid, home)
    person.folder("")
    home.chmod(0o700)
    person.folder("tmp")
    try:
        yield person
    finally:
        remove(home)
