"""The colours of the two themes, by meaning.

Apart from ``ui.theme`` so that the first frame can be drawn from them alone: this module touches nothing of Qt but
``QColor`` (the ``Qt`` namespace alone costs a tenth of a start).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from PySide6.QtGui import QColor

TRANSCRIPT_WIDTH: Final = 720
SIDEBAR_WIDTH: Final = 248


@dataclass(frozen=True, slots=True)
class Tokens:
    """The colours of one theme. ``place`` gives a place's own hue, ``place_soft`` the ground under its mark."""

    dark: bool
    canvas: QColor
    sidebar: QColor
    surface: QColor
    sunken: QColor
    code: QColor
    text: QColor
    muted: QColor
    faint: QColor
    border: QColor
    accent: QColor
    accent_soft: QColor
    on_accent: QColor
    good: QColor
    warn: QColor
    bad: QColor
    computer: QColor
    container: QColor
    ssh: QColor
    cloud: QColor

    def place(self, kind: str) -> QColor:
        """The hue of a place, by its kind or its whole name (``ssh:build-box``)."""
        match kind.partition(":")[0]:
            case "container":
                return self.container
            case "ssh":
                return self.ssh
            case "cloud":
                return self.cloud
            case _:
                return self.computer

    def place_soft(self, kind: str) -> QColor:
        return self.tint(self.place(kind), 0.20 if self.dark else 0.12)

    def tint(self, color: QColor, strength: float, ground: QColor | None = None) -> QColor:
        """``color`` laid over ``ground`` (the surface) at ``strength`` from 0 to 1, as an opaque colour."""
        under = ground or self.surface
        return QColor(
            round(under.red() + (color.red() - under.red()) * strength),
            round(under.green() + (color.green() - under.green()) * strength),
            round(under.blue() + (color.blue() - under.blue()) * strength),
        )


def _tokens(dark: bool, **colors: str) -> Tokens:
    return Tokens(dark=dark, **{name: QColor(color) for name, color in colors.items()})


PEARL: Final = _tokens(
    False,
    canvas="#F6F4F1",
    sidebar="#EFECE7",
    surface="#FFFFFF",
    sunken="#F1EEE9",
    code="#F4F1EC",
    text="#24211D",
    muted="#655F57",
    faint="#706A61",
    border="#E3DED6",
    accent="#0B7285",
    accent_soft="#E0F0F2",
    on_accent="#FFFFFF",
    good="#287346",
    warn="#A84C08",
    bad="#B42318",
    computer="#5B6470",
    container="#2563A8",
    ssh="#7048B6",
    cloud="#0B7285",
)
ABALONE: Final = _tokens(
    True,
    canvas="#17191B",
    sidebar="#131517",
    surface="#202326",
    sunken="#1A1D1F",
    code="#1A1D1F",
    text="#ECEAE6",
    muted="#A6A098",
    faint="#918B82",
    border="#33373B",
    accent="#4FBFCB",
    accent_soft="#16363A",
    on_accent="#06282C",
    good="#6CC08C",
    warn="#E8A94B",
    bad="#F08A7E",
    computer="#A3ABB6",
    container="#79AEE8",
    ssh="#B99BEA",
    cloud="#4FBFCB",
)
