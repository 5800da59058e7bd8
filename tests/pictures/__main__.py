"""Draws the window's states to PNG, from the real widgets over the real services, without a display."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder for the pictures, made when needed")
    parser.add_argument("--only", default="", help="draw only the scenes whose name holds this")
    parser.add_argument("--scale", type=float, default=1.0, help="pixels for each logical pixel")
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = str(given.scale)
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="conch-pictures-") as scratch:
        from tests.pictures.scenes import draw_all

        drawn = draw_all(given.out, Path(scratch), only=given.only)
    print(f"{drawn} pictures in {given.out}")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main())
