"""The look, by meaning: colours of the two themes, fonts and sizes. Widgets take them from here and nowhere else.

*Pearl* is light, *Abalone* is dark. Every text colour reaches 4.5:1 on every ground that text stands on (WCAG 2.2,
1.4.3; ``tests/ui/test_theme.py`` computes it). A place's hue names the place and never says how something stands.
"""

from __future__ import annotations

from typing import Final, Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QGuiApplication, QPalette

from ui.motion import Motion
from ui.tokens import ABALONE, PEARL, SIDEBAR_WIDTH, TRANSCRIPT_WIDTH, Tokens

Choice = Literal["system", "light", "dark"]
Size = Literal["small", "body", "title"]

SPACE: Final = (4, 8, 12, 16, 20, 24)
RADIUS: Final = {"chip": 20, "control": 9, "card": 12, "composer": 16}
SETTINGS_WIDTH: Final = 760
POPOVER_MS: Final = 140

_SIZES: Final[dict[Size, float]] = {"small": 12.5, "body": 14, "title": 20}


def contrast(one: QColor, other: QColor) -> float:
    """The contrast ratio of two opaque colours, 1 to 21 (WCAG 2.2)."""

    def light(color: QColor) -> float:
        parts = (color.redF(), color.greenF(), color.blueF())
        linear = [p / 12.92 if p <= 0.04045 else float(((p + 0.055) / 1.055) ** 2.4) for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def palette_of(tokens: Tokens) -> QPalette:
    """What Qt's own widgets (menus, file dialogs, line editors) take their colours from."""
    palette = QPalette()
    role = QPalette.ColorRole
    for name, color in (
        (role.Window, tokens.canvas),
        (role.WindowText, tokens.text),
        (role.Base, tokens.surface),
        (role.AlternateBase, tokens.sunken),
        (role.Text, tokens.text),
        (role.PlaceholderText, tokens.faint),
        (role.Button, tokens.surface),
        (role.ButtonText, tokens.text),
        (role.BrightText, tokens.bad),
        (role.Highlight, tokens.accent),
        (role.HighlightedText, tokens.on_accent),
        (role.Link, tokens.accent),
        (role.LinkVisited, tokens.accent),
        (role.ToolTipBase, tokens.surface),
        (role.ToolTipText, tokens.text),
        (role.Light, tokens.surface),
        (role.Midlight, tokens.sunken),
        (role.Mid, tokens.border),
        (role.Dark, tokens.border),
        (role.Shadow, QColor(0, 0, 0)),
        (role.Accent, tokens.accent),
    ):
        palette.setColor(name, color)
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, tokens.faint)
    return palette


class Themes(QObject):
    """The theme in force. One is made at start and handed to every widget that paints.

    ``families`` names a UI font and a fixed font to use in place of the system's, so that pictures are the same
    everywhere.

    Signals:
        changed: the colours, the fonts or the sizes are others now.
    """

    changed = Signal()

    def __init__(
        self,
        *,
        choice: Choice = "system",
        scale: float = 1.0,
        motion: Motion | None = None,
        families: tuple[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._families = families
        self.motion = motion or Motion()
        self._choice: Choice = choice
        self._scale = scale
        self._fonts: dict[tuple[Size, int, bool], QFont] = {}
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._system_changed)
        self.tokens: Tokens = self._pick()

    @property
    def choice(self) -> Choice:
        return self._choice

    @property
    def scale(self) -> float:
        """How large text is, 1.0 = as the design has it."""
        return self._scale

    def choose(self, choice: Choice) -> None:
        self._choice = choice
        self._apply()

    def choose_scale(self, scale: float) -> None:
        """Text from 0.8 to 2 times its size."""
        self._scale = min(2.0, max(0.8, scale))
        self._fonts.clear()
        self._apply(always=True)

    def font(self, size: Size = "body", *, weight: int = QFont.Weight.Normal) -> QFont:
        """The system's own UI font. Treat it as read-only: it is shared."""
        return self._font(size, int(weight), False)

    def code_font(self, size: Size = "small") -> QFont:
        """The system's own fixed font."""
        return self._font(size, int(QFont.Weight.Normal), True)

    def px(self, length: float) -> int:
        """A length that grows with the text, in logical pixels."""
        return round(length * self._scale)

    def line(self, size: Size = "body") -> int:
        """The height of one line of text, in logical pixels."""
        return round(QFontMetricsF(self.font(size)).height())

    def _font(self, size: Size, weight: int, fixed: bool) -> QFont:
        key = (size, weight, fixed)
        if (known := self._fonts.get(key)) is not None:
            return known
        system = QFontDatabase.SystemFont.FixedFont if fixed else QFontDatabase.SystemFont.GeneralFont
        font = QFont(QFontDatabase.systemFont(system))
        if self._families is not None:
            font.setFamilies([self._families[1 if fixed else 0]])
        font.setPixelSize(max(8, round(_SIZES[size] * self._scale)))
        font.setWeight(QFont.Weight(weight))
        self._fonts[key] = font
        return font

    def _pick(self) -> Tokens:
        if self._choice == "system":
            # Unknown (no desktop that says) reads as light.
            return ABALONE if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else PEARL
        return ABALONE if self._choice == "dark" else PEARL

    def _system_changed(self) -> None:
        self._apply()

    def _apply(self, *, always: bool = False) -> None:
        tokens = self._pick()
        if tokens is self.tokens and not always:
            return
        self.tokens = tokens
        QGuiApplication.setPalette(palette_of(tokens))
        self.changed.emit()

    def dress(self) -> None:
        """Gives the application the palette and the font in force. Called once, before the first window."""
        QGuiApplication.setPalette(palette_of(self.tokens))
        QGuiApplication.setFont(self.font())


def scrollbar_style(tokens: Tokens) -> str:
    """A thin bar without arrows. Set on the bar itself, so that no other widget pays for a style sheet."""
    handle = tokens.tint(tokens.muted, 0.45, tokens.canvas).name()
    return (
        "QScrollBar{background:transparent;border:0;margin:0}"
        "QScrollBar:vertical{width:10px}QScrollBar:horizontal{height:10px}"
        f"QScrollBar::handle{{background:{handle};border-radius:3px;margin:2px}}"
        "QScrollBar::handle:vertical{min-height:32px}QScrollBar::handle:horizontal{min-width:32px}"
        "QScrollBar::add-line,QScrollBar::sub-line{width:0;height:0}"
        "QScrollBar::add-page,QScrollBar::sub-page{background:transparent}"
    )


__all__ = [
    "ABALONE", "PEARL", "POPOVER_MS", "RADIUS", "SETTINGS_WIDTH", "SIDEBAR_WIDTH", "SPACE", "TRANSCRIPT_WIDTH",
    "Choice", "Size", "Themes", "Tokens", "contrast", "palette_of", "scrollbar_style",
]  # fmt: skip
