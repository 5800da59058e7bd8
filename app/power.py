"""Whether this computer saves its battery: then nothing is done ahead of time.

Linux: the firmware's platform profile (sysfs-platform_profile) and power-profiles-daemon's program. macOS: Low Power
Mode, by pmset(1). Windows: ``GetSystemPowerStatus``. Where none of these answers, it does not.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

_PROFILE = Path("/sys/firmware/acpi/platform_profile")
_FRESH = 30.0
_PATIENCE = 2.0


class Power:
    """Asked in any thread, and never waited for: what was seen last is given, and looked at again behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._saving = False

    def saving(self) -> bool:
        """Whether the battery is to be saved, as of half a minute ago at most. Not before it was seen. Never raises."""
        with self._lock:
            if time.monotonic() - self._looked > _FRESH:
                self._looked = time.monotonic()
                threading.Thread(target=self._look, name="conch-power", daemon=True).start()
            return self._saving

    def _look(self) -> None:
        saving = look()
        with self._lock:
            self._saving = saving


def look() -> bool:
    """Asks the system, anew."""
    if sys.platform == "win32":
        return _windows()
    if sys.platform == "darwin":
        lines = _asked("pmset", "-g").splitlines()
        return any(line.split() == ["lowpowermode", "1"] for line in lines)
    try:
        profile = _PROFILE.read_text().strip()
    except OSError:
        profile = ""
    return profile == "low-power" or _asked("powerprofilesctl", "get").strip() == "power-saver"


def _asked(program: str, *arguments: str) -> str:
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


class _SystemPowerStatus(ctypes.Structure):
    _fields_ = (
        ("ACLineStatus", ctypes.c_ubyte),
        ("BatteryFlag", ctypes.c_ubyte),
        ("BatteryLifePercent", ctypes.c_ubyte),
        ("SystemStatusFlag", ctypes.c_ubyte),
        ("BatteryLifeTime", ctypes.c_ulong),
        ("BatteryFullLifeTime", ctypes.c_ulong),
    )


def _windows() -> bool:
    status = _SystemPowerStatus()
    kernel = getattr(ctypes, "windll", None)
    return bool(kernel and kernel.kernel32.GetSystemPowerStatus(ctypes.byref(status)) and status.SystemStatusFlag == 1)
