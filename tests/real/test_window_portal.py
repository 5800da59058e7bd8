"""Reduced motion as the desktop says it, over a real session bus, where Qt itself does not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_ASK = """
import subprocess, sys
from PySide6.QtCore import QCoreApplication, QTimer
from ui.motion import Motion, Portal
portal = None
if sys.argv[1]:
    portal = subprocess.Popen([sys.executable, "-m", "tests.real.portal", sys.argv[1]], stdout=subprocess.PIPE)
    assert portal.stdout.readline() == b"ready\\n"
app = QCoreApplication([])
motion = Motion()
asks = Portal(motion)
motion.changed.connect(app.quit)
asks.ask()
assert not motion.reduced, "nothing waits for the answer"
QTimer.singleShot(3000 if sys.argv[1] == "1" else 700, app.quit)
app.exec()
print(motion.reduced)
if portal:
    portal.kill()
"""


@pytest.mark.parametrize(("setting", "reduced"), [("1", "True"), ("0", "False"), ("", "False")])
def test_the_desktops_setting_is_taken(setting: str, reduced: str, need: Callable[..., None]) -> None:
    need("dbus-run-session")
    line = ["dbus-run-session", "--", sys.executable, "-c", _ASK, setting]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == reduced, done.stderr
