"""What the buttons over the rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication

from ui.transcript.markdown import Code, read
from ui.transcript.rows import ProseRow, Step, StoryRow
from ui.transcript.sheet import Control

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView


class Deeds:
    """Does what a control asks for, by its verb."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view

    def do(self, row: int, control: Control) -> None:
        verb, of = control.does
        what, _, how = verb.partition(".")
        match what:
            case "answer":
                self._view.answered.emit(of, how)
            case "link":
                self._view.link_activated.emit(of)
            case "stop":
                self._view.stop_asked.emit()
            case "fold":
                self._view.model.folds.choose(of, not control.on)
                self._show(row)
            case "output" | "user" | "steps":
                self._view.model.folds.flip(self._view.model.folds.whole, of)
                self._show(row)
            case "code":
                self._code(row, how, of, control)
            case "copy":
                self._copy(row, how, of, control)
            case "open":
                if (step := self.step(row, of)) is not None:
                    self._view.open_file_asked.emit(step.file)
            case "next":
                if (step := self.step(row, of)) is not None:
                    self._view.action_asked.emit(step.next_action, of)

    def step(self, row: int, name: str) -> Step | None:
        found = self._view.model.rows.all[row]
        if not isinstance(found, StoryRow):
            return None
        return next((step for step in found.steps if step.id == name), None)

    def code(self, row: int, name: str) -> str:
        """The text of a block of code, by its name in the row."""
        found = self._view.model.rows.all[row]
        if not isinstance(found, ProseRow):
            return ""
        blocks = [piece for piece in read(found.text, live=found.live) if isinstance(piece, Code)]
        number = int(name.removeprefix("code"))
        return blocks[number].text if number < len(blocks) else ""

    def _code(self, row: int, how: str, name: str, control: Control) -> None:
        folds = self._view.model.folds
        if how == "copy":
            self._put(self.code(row, name), row, control)
        elif how == "wrap":
            folds.flip(folds.wrapped, f"{row}:{name}")
            folds.shifts.get(row, {}).pop(name, None)
            self._show(row)
        else:
            folds.flip(folds.whole, f"{row}:{name}")
            self._show(row)

    def _copy(self, row: int, how: str, name: str, control: Control) -> None:
        step = self.step(row, name)
        if step is None:
            return
        text = {"command": step.command, "output": step.text, "next": step.next_command}.get(how, "")
        self._put(text, row, control)

    def _put(self, text: str, row: int, control: Control) -> None:
        QGuiApplication.clipboard().setText(text)
        self._view.copied(row, control.name)

    def _show(self, row: int) -> None:
        """Shows a row that was folded or unfolded: it stays where it is and opens downwards, even at the end."""
        view = self._view
        first = next((one for one in view.placed if one.row == row), None)
        if first is not None:
            view.arrangement.hold(row, first.y)
        view.show_rows()
