"""The marks: each is drawn, each is another, and the SVGs in ``resources`` are the same drawings.

``python -m tests.ui.test_marks`` writes the SVGs anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from ui.marks import app_icon, mark_svg, paint_mark
from ui.tokens import PEARL

ICONS = Path(__file__).resolve().parents[2] / "resources" / "icons"
PLACES = ("computer", "container", "ssh", "cloud")


def svgs() -> dict[str, str]:
    made = {f"place-{kind}": mark_svg(kind, PEARL.place(kind).name()) for kind in PLACES}
    made["conch"] = mark_svg("shell", "#ffffff", ground=PEARL.accent.name())
    return made


def drawn(kind: str) -> QImage:
    picture = QImage(32, 32, QImage.Format.Format_ARGB32)
    picture.fill(QColor("#ffffff"))
    painter = QPainter(picture)
    paint_mark(painter, QRectF(0, 0, 32, 32), kind, QColor("#000000"))
    painter.end()
    return picture


def test_each_place_has_a_mark_of_its_own(qapp: QApplication) -> None:
    pictures = [drawn(kind) for kind in (*PLACES, "shell")]
    assert all(a != b for n, a in enumerate(pictures) for b in pictures[n + 1 :])
    assert drawn("ssh:build-box") == drawn("ssh"), "a place's whole name gives its kind's mark"


def test_the_app_has_an_icon_in_every_size(qapp: QApplication) -> None:
    assert {size.width() for size in app_icon().availableSizes()} >= {16, 32, 48, 128, 256}


@pytest.mark.parametrize("name", [*(f"place-{kind}" for kind in PLACES), "conch"])
def test_the_svg_is_the_same_drawing(name: str, qapp: QApplication) -> None:
    assert (ICONS / f"{name}.svg").read_text() == svgs()[name], "run python -m tests.ui.test_marks"


if __name__ == "__main__":
    ICONS.mkdir(parents=True, exist_ok=True)
    for name, svg in svgs().items():
        (ICONS / f"{name}.svg").write_text(svg)
    sys.exit(0)
