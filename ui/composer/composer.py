"""The composer: what is typed, the chips that say how it will run, and Send or Stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ui.buttons import Button, Chip
from ui.composer.drafts import Drafts
from ui.composer.editor import Editor
from ui.composer.engine_chip import EngineChip, EnginePicker
from ui.composer.folder_chip import OTHER, FolderChip, FolderPicker
from ui.composer.mode_chip import ModeChip, ModePicker
from ui.composer.place_picker import PlaceChip, PlacePicker
from ui.composer.sealed_switch import SealedSwitch
from ui.desk import Desk
from ui.flow import Flow
from ui.paint import round_box, shadow
from ui.place_words import dot_of, name_of, runs_words, standing_words
from ui.popover import Popover
from ui.standing import Standing
from ui.theme import RADIUS, Themes

DEPTH = 12  # pixels of shadow round the card
DRAFT_MS = 400  # after the last key, what is typed is kept
_TO_A_MODEL = "Message, or ! and a command to run it yourself"


class Composer(QWidget):
    """Signals:
    folder_asked: the person wants to choose another folder.
    followed: the next step of something that is not ready was pressed, by its key.
    """

    folder_asked = Signal()
    followed = Signal(str)

    def __init__(self, themes: Themes, desk: Desk, standing: Standing, window: QWidget) -> None:
        super().__init__()
        self.themes, self._desk, self._standing, self._window = themes, desk, standing, window
        self._drafts = Drafts(desk, self)
        self._of = ""
        self._begun = False
        self._send_when_open = False
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(DRAFT_MS)
        self.editor = Editor(themes)
        self.place_chip = PlaceChip(themes)
        self.mode_chip = ModeChip(themes)
        self.engine_chip = EngineChip(themes)
        self.folder_chip = FolderChip(themes)
        self.sealed = SealedSwitch(themes)
        self.send_button = Button(themes, "Send", kind="primary", pill=True)
        self.stop_button = Button(themes, "Stop", mark="stop", pill=True, name="Stop what this chat is doing")
        self.place_picker: PlacePicker | None = None
        self._pickers: dict[Chip, Popover] = {}

        flow = Flow(7)
        for chip in (self.folder_chip, self.place_chip, self.mode_chip, self.engine_chip, self.sealed):
            flow.add(chip)
        for control in (*flow.items, self.send_button, self.stop_button):
            # A click leaves the keyboard with the message, where the person goes on typing.
            control.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        foot = Qt.AlignmentFlag.AlignBottom
        chips = QHBoxLayout()
        chips.setSpacing(7)
        chips.addWidget(flow, 1, foot)
        chips.addWidget(self.stop_button, 0, foot)
        chips.addWidget(self.send_button, 0, foot)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(DEPTH + 15, DEPTH + 14, DEPTH + 14, DEPTH + 11)
        layout.setSpacing(14)
        layout.addWidget(self.editor)
        layout.addLayout(chips)

        self.editor.sent.connect(self.send)
        self.editor.textChanged.connect(self._typed)
        self.editor.focus_changed.connect(self.update)  # the card's edge says where the keyboard is
        self._pause.timeout.connect(self._keep_draft)
        desk.ending.connect(self._keep_draft)
        self.sealed.clicked.connect(lambda: self._drafts.seal(self._of, self.sealed.sealed))
        self.send_button.clicked.connect(self.send)
        self.stop_button.clicked.connect(desk.stop)
        self.place_chip.clicked.connect(self.open_places)
        self.mode_chip.clicked.connect(self._open_modes)
        self.engine_chip.clicked.connect(self._open_engines)
        self.folder_chip.clicked.connect(self._open_folders)
        desk.shown_changed.connect(self._show_other)
        desk.altered.connect(self.refresh)
        standing.changed.connect(self.refresh)
        standing.engines_changed.connect(self._show_engine)
        desk.chats_changed.connect(self._show_working)
        desk.ready.connect(self._opened)
        themes.changed.connect(self.refresh)
        self.stop_button.hide()
        self.place_chip.hide()
        self.sealed.hide()
        self.folder_chip.hide()
        self._typed()

    # Sending

    def send(self) -> None:
        """Sends what is typed, if this chat can take it now."""
        text = self.editor.toPlainText()
        if not text.strip() or self._working:
            return
        if not self._desk.open:
            self._send_when_open = True
            return
        if self._desk.shown.folder is None:
            self.folder_asked.emit()
            return
        self.editor.clear()
        self._desk.send(text, sealed=self.sealed.sealed)

    def _opened(self) -> None:
        self.refresh()
        if self._send_when_open:
            self._send_when_open = False
            self.send()

    @property
    def _working(self) -> bool:
        return self._desk.shown.id in self._desk.working

    def _typed(self) -> None:
        self.send_button.setEnabled(bool(self.editor.toPlainText().strip()))
        self._show_sealed()
        self._pause.start()

    # Showing

    def _show_other(self) -> None:
        """Another chat is open: its own draft comes back, and its place is shown without a glide."""
        typed = ""
        if self._begun:
            self._keep_draft()
        else:
            # What was typed before any chat was there is for the first one, below what was written in it before.
            self._begun, typed = True, self.editor.toPlainText()
        self._of = self._desk.shown.id
        text = self._drafts.text(self._of)
        if text and typed:
            self._send_when_open = False  # Enter was not meant for what came back
        text = "\n".join(part for part in (text, typed) if part)
        if text != self.editor.toPlainText():
            self.editor.setPlainText(text)
            self.editor.moveCursor(self.editor.textCursor().MoveOperation.End)
        self.sealed.want(self._drafts.sealed(self._of))
        self._show(glide=False)

    def _keep_draft(self) -> None:
        self._pause.stop()
        if self._begun:
            self._drafts.keep(self._of, self.editor.toPlainText())

    def refresh(self) -> None:
        if not self._of and self._desk.shown.id:
            self._of = self._desk.shown.id  # the new chat was made by its first message
            self._drafts.made(self._of)
        self._show(glide=True)

    def _show(self, *, glide: bool) -> None:
        shown = self._desk.shown
        status = self._standing.place(shown.place)
        name = name_of(shown.place, status)
        state = standing_words(status) if status is not None else ""
        self.place_chip.show_place(shown.place, name, dot_of(status), state, glide=glide)
        elsewhere = any(one.ready and one.id.kind != "computer" for one in self._standing.places)
        self.place_chip.setVisible(elsewhere or shown.place != "computer")
        self.mode_chip.show_mode(shown.mode)
        self.folder_chip.show_folder(shown.folder)
        self.folder_chip.setVisible(not shown.id)
        self._show_engine()
        self._show_sealed()
        self._show_working()

    def _show_engine(self) -> None:
        shown = self._desk.shown
        engine = next((one for one in self._standing.engines() if one.id == shown.engine), None)
        if engine is None:
            self.engine_chip.show_engine("Commands" if shown.engine == "commands" else shown.engine, ready=True)
        else:
            self.engine_chip.show_engine(engine.model or engine.name, ready=engine.ready)
        commands = shown.engine == "commands"
        hint = f"A command to run {runs_words(shown.place)}" if commands else _TO_A_MODEL
        if hint != self.editor.placeholderText():
            self.editor.setPlaceholderText(hint)
            self.editor.setAccessibleDescription(hint)

    def _show_sealed(self) -> None:
        status = self._standing.place(self._desk.shown.place)
        self.sealed.place_seals(status is None or status.seals)
        mine = self._desk.shown.engine == "commands" or self.editor.toPlainText().lstrip().startswith("!")
        self.sealed.setVisible(mine)

    def _show_working(self) -> None:
        working = self._working
        had_focus = self.send_button.hasFocus() or self.stop_button.hasFocus()
        self.send_button.setVisible(not working)
        self.stop_button.setVisible(working)
        if had_focus:
            self.editor.setFocus()

    # Pickers

    def open_places(self) -> None:
        """Opens the place picker: from its chip, or beside it where the chip is not shown."""
        if self.place_picker is None:
            self.place_picker = PlacePicker(self.themes, self._window, self._desk, self._standing)
            self.place_picker.picked.connect(self._pick_place)
            self.place_picker.followed.connect(self.followed)
            self.place_picker.default_asked.connect(self._make_default)
            self._with(self.place_picker, self.place_chip)
        self.place_picker.open_from(self.mode_chip if self.place_chip.isHidden() else self.place_chip)

    def _pick_place(self, place: str) -> None:
        if self.place_picker is not None:
            self.place_picker.shut()
        if place != self._desk.shown.place:
            self._desk.set_place(place)

    def _make_default(self) -> None:
        self._standing.make_default(self._desk.shown.place)

    def _open_modes(self) -> None:
        self._open(self.mode_chip, lambda: ModePicker(self.themes, self._window, self._desk))

    def _open_engines(self) -> None:
        self._open(self.engine_chip, lambda: EnginePicker(self.themes, self._window, self._desk, self._standing))

    def _open_folders(self) -> None:
        self._open(self.folder_chip, lambda: FolderPicker(self.themes, self._window, self._desk))

    def _open(self, chip: Chip, make: Callable[[], ModePicker | EnginePicker | FolderPicker]) -> None:
        """Opens the chip's picker, made on first use."""
        if chip not in self._pickers:
            picker = make()
            picker.picked.connect(lambda key: self._picked(picker, key))
            picker.followed.connect(lambda key: self._follow(picker, key))
            self._with(picker, chip)
        self._pickers[chip].open_from(chip)

    def _with(self, picker: Popover, chip: Chip) -> None:
        """Keeps a picker, and shows on its chip that it is open."""

        def shows(opened: bool) -> None:
            chip.opened = opened
            chip.update()

        picker.opened.connect(lambda: shows(True))
        picker.closed.connect(lambda: shows(False))
        self._pickers[chip] = picker

    def _picked(self, picker: Popover, key: str) -> None:
        picker.shut()
        if isinstance(picker, ModePicker):
            self._desk.set_mode(key)
        elif isinstance(picker, EnginePicker):
            self._desk.set_engine(key)
        elif key == OTHER:
            self.folder_asked.emit()
        else:
            self._desk.choose_folder(Path(key))

    def _follow(self, picker: Popover, key: str) -> None:
        picker.shut()
        self.followed.emit(key)

    # Qt

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.editor.setFocus(Qt.FocusReason.MouseFocusReason)
        event.accept()

    def paintEvent(self, event: QPaintEvent) -> None:
        tokens = self.themes.tokens
        painter = QPainter(self)
        card = QRectF(self.rect()).adjusted(DEPTH, DEPTH, -DEPTH, -DEPTH)
        shadow(painter, card, RADIUS["composer"], dark=tokens.dark, depth=DEPTH)
        border = tokens.tint(tokens.accent, 0.4, tokens.border) if self.editor.hasFocus() else tokens.border
        round_box(painter, card, RADIUS["composer"], tokens.surface, border)
        painter.end()
