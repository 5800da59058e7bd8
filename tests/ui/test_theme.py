"""The theme: text can be read on every ground it stands on, and the person's choice holds."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from ui.theme import ABALONE, PEARL, Themes, Tokens, contrast

GROUNDS = ("canvas", "sidebar", "surface", "sunken", "code")
INKS = ("text", "muted", "faint", "accent", "warn", "good", "bad", "computer", "container", "ssh", "cloud")
THEMES = pytest.mark.parametrize("tokens", [PEARL, ABALONE], ids=["light", "dark"])


def test_contrast_is_the_one_of_wcag() -> None:
    assert contrast(QColor("#000000"), QColor("#ffffff")) == pytest.approx(21.0)
    assert contrast(QColor("#777777"), QColor("#ffffff")) == pytest.approx(4.48, abs=0.01)


@THEMES
@pytest.mark.parametrize("ink", INKS)
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_reaches_aa_on_every_ground(tokens: Tokens, ink: str, ground: str) -> None:
    assert contrast(getattr(tokens, ink), getattr(tokens, ground)) >= 4.5


@THEMES
def test_text_on_the_accent_reaches_aa(tokens: Tokens) -> None:
    assert contrast(tokens.on_accent, tokens.accent) >= 4.5
    assert contrast(tokens.text, tokens.accent_soft) >= 4.5


@THEMES
@pytest.mark.parametrize("place", ["computer", "container", "ssh:build-box", "cloud"])
def test_a_places_name_reaches_aa_on_its_own_ground(tokens: Tokens, place: str) -> None:
    assert contrast(tokens.place(place), tokens.place_soft(place)) >= 4.5


def test_a_choice_holds_and_text_grows(qapp: QApplication) -> None:
    themes = Themes()
    told: list[bool] = []
    themes.changed.connect(lambda: told.append(themes.tokens.dark))
    assert themes.tokens is PEARL, "a system that does not say reads as light"
    themes.choose("dark")
    assert themes.tokens is ABALONE
    themes.choose("dark")
    assert told == [True], "told once, when it changed"
    size, length = themes.font().pixelSize(), themes.px(100)
    themes.choose_scale(1.5)
    assert themes.font().pixelSize() == round(1.5 * size)
    assert themes.px(100) == 150 == round(1.5 * length)
    themes.choose_scale(9)
    assert themes.scale == 2.0
    themes.choose("light")
