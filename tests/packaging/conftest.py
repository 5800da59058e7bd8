"""A small checkout to set up for real: the scripts as they are, one tiny locked part, an app that says how it runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_APP = """\
import json, os, sys
import tiny
said = {"argv": sys.argv[1:], "cwd": os.getcwd(), "python": sys.executable, "path": sys.path, "tiny": tiny.VERSION}
print(json.dumps({**said, "json": json.__file__, "app": __file__}))
"""


def wheel(folder: Path, version: str) -> str:
    """Makes a wheel of the part ``tiny``; returns its line for a lock file."""
    folder.mkdir(exist_ok=True)
    info = f"tiny-{version}.dist-info"
    files = {
        "tiny.py": f'VERSION = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record.append(f"{name},sha256={digest},{len(text)}")
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    made = folder / f"tiny-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return f"tiny=={version} --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n"


@dataclass(frozen=True, slots=True)
class Checkout:
    root: Path
    wheels: Path

    @property
    def lock(self) -> Path:
        return self.root / "packaging" / "requirements.lock"

    @property
    def env(self) -> dict[str, str]:
        """Where the part comes from is the person's pip setting, as an index of theirs would be."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        return {**kept, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri(), "QT_QPA_PLATFORM": "offscreen"}

    def start(
        self,
        *arguments: str,
        by: Path | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Starts it as a person does and waits."""
        return subprocess.run(
            [str(by or self.root / "packaging" / "run"), *arguments],
            cwd=cwd or self.root.parent,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def said(self, *arguments: str, **how: Any) -> dict[str, Any]:
        """What the app said about how it runs. It must have started."""
        done = self.start(*arguments, **how)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said


def make(root: Path) -> Checkout:
    (root / "packaging").mkdir(parents=True)
    for name in ("run", "setup.sh"):
        shutil.copy2(ROOT / "packaging" / name, root / "packaging" / name)
    (root / "app").mkdir()
    (root / "app" / "__init__.py").touch()
    (root / "app" / "__main__.py").write_text(_APP)
    made = Checkout(root, root.parent / "wheels")
    made.lock.write_text(wheel(made.wheels, "1.0"))
    return made


@pytest.fixture(scope="session")
def set_up_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, subprocess.CompletedProcess[str]]:
    """A clone that was set up, and what its first start printed."""
    checkout = make(tmp_path_factory.mktemp("front door") / "a clone")
    return checkout, checkout.start("run", "--", "ls")


@pytest.fixture
def checkout(set_up_once: tuple[Checkout, subprocess.CompletedProcess[str]]) -> Checkout:
    """A clone that is set up. Leave it set up."""
    return set_up_once[0]


@pytest.fixture
def new_checkout(checkout: Checkout, tmp_path: Path) -> Checkout:
    """A clone that must be set up, as its Python folder came from elsewhere: that spares making one in every test."""
    made = make(tmp_path / "a fresh clone")
    shutil.copytree(checkout.root / ".venv", made.root / ".venv", symlinks=True)
    return made
