"""The theme as the transcript uses it: fonts, text formats and lengths, worked out once for each theme and size."""

from __future__ import annotations

from itertools import count
from typing import Final

from PySide6.QtGui import QColor, QFont, QFontMetricsF, QTextCharFormat

from ui.theme import Themes
from ui.transcript.markdown import BOLD, CODE, ITALIC, STRUCK

_epochs = count(1)

# What stands out in code, by Pygments' broad kinds, from the theme's own hues.
_CODE_HUES: Final = {"keyword": "ssh", "string": "good", "number": "warn", "name": "container", "comment": "faint"}


class Look:
    """``epoch`` is another for every look, so that what was laid out for one is not shown in another."""

    def __init__(self, themes: Themes) -> None:
        self.epoch = next(_epochs)
        self.themes = themes
        self.tokens = themes.tokens
        self.px = themes.px
        self.body = themes.font("body")
        self.strong = themes.font("body", weight=QFont.Weight.DemiBold)
        self.medium = themes.font("body", weight=QFont.Weight.Medium)
        self.small = themes.font("small")
        self.small_medium = themes.font("small", weight=QFont.Weight.Medium)
        self.code = themes.code_font("small")
        # Text is read at 1.5 times its size (WCAG 2.2, 1.4.12 asks that this may be so).
        self.line = round(self.body.pixelSize() * 1.52)
        self.small_line = round(self.small.pixelSize() * 1.5)
        self.code_line = round(self.code.pixelSize() * 1.55)
        self.char = QFontMetricsF(self.body).averageCharWidth()
        self._headings: dict[int, QFont] = {}
        self._formats: dict[tuple[int, bool], QTextCharFormat] = {}

    def width(self, text: str, font: QFont) -> float:
        return QFontMetricsF(font).horizontalAdvance(text)

    def heading(self, level: int) -> QFont:
        if (known := self._headings.get(level)) is None:
            known = QFont(self.strong)
            factor = {1: 1.36, 2: 1.2, 3: 1.08}.get(level, 1.0)
            known.setPixelSize(round(self.body.pixelSize() * factor))
            self._headings[level] = known
        return known

    def format(self, style: int, link: bool) -> QTextCharFormat:
        """How a span of a paragraph looks."""
        key = (style, link)
        if (known := self._formats.get(key)) is None:
            known = QTextCharFormat()
            if style & CODE:
                known.setFontFamilies(self.code.families() or [self.code.family()])
                known.setProperty(QTextCharFormat.Property.FontPixelSize, round(self.body.pixelSize() * 0.92))
            if style & BOLD:
                known.setFontWeight(QFont.Weight.DemiBold)
            if style & ITALIC:
                known.setFontItalic(True)
            if style & STRUCK:
                known.setFontStrikeOut(True)
            if link:
                known.setForeground(self.tokens.accent)
                known.setFontUnderline(True)
            self._formats[key] = known
        return known

    def code_color(self, kind: str) -> QColor:
        color: QColor = getattr(self.tokens, _CODE_HUES[kind])
        return color

    @property
    def selection(self) -> QColor:
        return self.tokens.tint(self.tokens.accent, 0.38 if self.tokens.dark else 0.24, self.tokens.canvas)
