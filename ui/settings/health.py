"""Health: what Conch put right by itself."""

from __future__ import annotations

from PySide6.QtCore import QDate, QDateTime, QLocale

from ui.desk import Desk
from ui.settings.base import Pane, SettingRow
from ui.standing import Standing
from ui.theme import Themes

SHOWN = 100


class Health(Pane):
    crumbs = ("Health",)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing) -> None:
        super().__init__(themes)
        self._standing = standing
        self.heading("Fixed on its own", "What Conch put right without being asked, when, and why. Kept for 30 days.")
        self._card = self.card([])
        standing.fixed.connect(self.entered)

    def entered(self) -> None:
        self._card.clear()
        fixes = self._standing.fixes()[:SHOWN]
        for one in fixes:
            when = when_words(one.at)
            line = f"{when} · {one.why}" if one.why else when
            self._card.add(SettingRow(self.themes, one.what, line, dot="good"))
        if not fixes:
            self._card.add(SettingRow(self.themes, "Nothing needed fixing", "", dot="good"))
        self.rows["fixed"] = SettingRow(self.themes, "")


def when_words(at: float) -> str:
    """``Today, 14:02``, in the person's own way of writing a time."""
    moment = QDateTime.fromSecsSinceEpoch(int(at))
    clock = QLocale().toString(moment.time(), QLocale.FormatType.ShortFormat)
    days = moment.date().daysTo(QDate.currentDate())
    if days == 0:
        return f"Today, {clock}"
    if days == 1:
        return f"Yesterday, {clock}"
    return f"{QLocale().toString(moment.date(), QLocale.FormatType.ShortFormat)}, {clock}"
