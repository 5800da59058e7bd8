"""WorkPlacePicker: the chip that says where a chat's commands run, and the card that changes it.

When the place changes its mark glides up into the chip on a spring, with one glint. With reduced motion it is there.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.buttons import Button, Chip
from ui.choices import Choice, ChoicePopover
from ui.desk import Desk
from ui.marks import paint_mark
from ui.motion import Glint, Spring
from ui.place_words import dot_of, line_of, name_of, runs_words, standing_words, step_of
from ui.standing import Standing
from ui.theme import RADIUS, Themes, Tokens
from ui.widgets import Label

COPIED_MS = 2000


class PlaceChip(Chip):
    """Where this chat's commands run."""

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "This computer", mark="computer")
        self._place = "computer"
        self._before = "computer"
        self._shown = False
        self._glide = Spring(themes.motion, 1.0, parent=self)
        self._glint = Glint(themes.motion, parent=self)
        self._glide.moved.connect(self._moved)
        self._glint.moved.connect(self._moved)

    def show_place(self, place: str, name: str, dot: str, state: str, *, glide: bool = True) -> None:
        """``state`` is how the place stands, in words; ``glide`` False shows another chat's place at once, still."""
        said = f"Where commands run: {name}" + (f", {state.lower()}" if dot not in ("", "good") else "")
        tokens = self.themes.tokens
        self.dot = getattr(tokens, dot) if dot not in ("", "good") else None
        moved = place != self._place
        self._before, self._place = self._place, place
        self.set_mark(place)
        self.say(name, said)
        if not moved:
            return
        if glide and self.isVisible():
            self._glide.jump(0.0)
            self._glide.pull(1.0)
            self._glint.play()
        else:
            self._glide.jump(1.0)
            self._glint.stop()

    @property
    def still(self) -> bool:
        """Nothing of it moves."""
        return not (self._glide.moving or self._glint.moving)

    def _moved(self, _: float) -> None:
        self.update()

    def ground(self, tokens: Tokens) -> tuple[QColor, QColor]:
        fill, border = super().ground(tokens)
        if self._place == "computer":
            return fill, border
        hue = tokens.place(self._place)
        strength = 0.14 if self.opened or self.underMouse() else 0.09
        return tokens.tint(hue, strength + (0.06 if tokens.dark else 0)), hue

    def paint_chip_mark(self, painter: QPainter, rect: QRectF) -> None:
        at = self._glide.value
        tokens = self.themes.tokens
        if abs(at - 1.0) < 0.001:
            paint_mark(painter, rect, self._place, tokens.place(self._place))
            return
        painter.save()
        clip = QPainterPath()
        clip.addRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), RADIUS["chip"], RADIUS["chip"])
        painter.setClipPath(clip)
        way = self.height() * 0.5 + rect.height()
        painter.setOpacity(max(0.0, 1.0 - 1.6 * at))
        paint_mark(painter, rect.translated(0, -way * at * 0.5), self._before, tokens.place(self._before))
        painter.setOpacity(min(1.0, max(0.0, at * 1.4)))
        paint_mark(painter, rect.translated(0, way * (1.0 - at)), self._place, tokens.place(self._place))
        painter.restore()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._glint.moving:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        clip = QPainterPath()
        clip.addRoundedRect(QRectF(self.rect()), RADIUS["chip"], RADIUS["chip"])
        painter.setClipPath(clip)
        wide = self.width() * 0.45
        left = -wide + (self.width() + 2 * wide) * self._glint.at - wide / 2
        light = QLinearGradient(left, 0, left + wide, self.height())
        strength = 150 if not self.themes.tokens.dark else 60
        for stop, alpha in ((0.0, 0), (0.5, strength), (1.0, 0)):
            light.setColorAt(stop, QColor(255, 255, 255, alpha))
        painter.fillRect(self.rect(), light)
        painter.end()


class _Footer(QWidget):
    """*Make this my default*, and where new chats run now."""

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes
        self.button = Button(themes, "Make this my default", kind="link", size="small")
        self.words = Label(themes, role="muted", size="small")
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 0, 14, 0)
        row.addWidget(self.button)
        row.addStretch(1)
        row.addWidget(self.words)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(0, 0, self.width(), 1, self.themes.tokens.border)
        painter.end()


class PlacePicker(ChoicePopover):
    """Every place with how it stands and the one next step of one that is not ready; rows update where they are.

    Signals:
        default_asked: the chat's place is to be where new chats run.
    """

    default_asked = Signal()

    def __init__(self, themes: Themes, window: QWidget, desk: Desk, standing: Standing) -> None:
        super().__init__(themes, window, title="Where work runs")
        self._desk, self._standing = desk, standing
        self._copied = ""
        self._footer_row = _Footer(themes)
        self.set_footer(self._footer_row)
        self._footer_row.button.clicked.connect(self.default_asked)
        self._uncopy = QTimer(self)
        self._uncopy.setSingleShot(True)
        self._uncopy.setInterval(COPIED_MS)
        self._uncopy.timeout.connect(self._forget_copied)
        standing.changed.connect(self.refresh)
        desk.altered.connect(self.refresh)
        self.opened.connect(lambda: standing.look(reach=True))
        self.refresh()

    def refresh(self) -> None:
        """Shows the places as they stand now."""
        current = self._desk.shown.place
        choices = []
        for status in self._standing.places:
            place = str(status.id)
            if status.standing == "later" and place != current:
                continue
            label, key = step_of(status)
            if place == self._copied:
                label = "Copied"
            choices.append(
                Choice(
                    key=place,
                    title=status.name,
                    line=line_of(status),
                    mark=place,
                    dot=dot_of(status),
                    state=standing_words(status).lower(),
                    link=label,
                    link_key=key,
                    can_pick=status.ready or place == current,
                    tone=place,
                )
            )
        if not any(choice.key == current for choice in choices):
            name = name_of(current, None)
            line = "Looking…" if not self._standing.places else "This place is not in your settings any more."
            choices.append(Choice(key=current, title=name, line=line, mark=current, tone=current))
        default = self._standing.default_place
        self._footer_row.words.setText(f"New chats run {runs_words(default)}")
        self._footer_row.button.setVisible(default != current)
        self.show_choices(choices, current)

    def say_copied(self, place: str) -> None:
        """Shows on the place's row, for two seconds, that its command was copied."""
        self._copied = place
        self._uncopy.start()
        self.refresh()

    def _forget_copied(self) -> None:
        self._copied = ""
        self.refresh()
