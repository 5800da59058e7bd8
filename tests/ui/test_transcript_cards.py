"""Cards, questions, notes and code in a chat: what is seen of them and what their buttons do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QWheelEvent
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.chats.events import ChatEvent, StepAnswered, StepAsked, StepProgress
from tests.ui.transcript_hands import Chat, Person, clipboard
from workplaces.words import PLACE_WORDS

Meet = Callable[..., Person]


@pytest.fixture
def meet(qtbot: QtBot) -> Iterator[Meet]:
    met: list[Person] = []

    def make(events: list[ChatEvent] | None = None, **how: object) -> Person:
        person = Person(events or [], **how)  # type: ignore[arg-type]
        met.append(person)
        return person

    yield make
    for person in met:
        person.view.highlighter.close()
        person.view.close()
        person.view.deleteLater()


def calls(spy: QSignalSpy) -> list[list[object]]:
    return [list(spy.at(number)) for number in range(spy.count())]


# A story


def story(outcome: str = "ok", **fields: object) -> Chat:
    fields = {"text": "one\ntwo\n"} | fields
    return Chat().user("q").says("I run it.").starts("s").ends("s", outcome, **fields).says("Done.").done()


def test_what_a_command_was_refused_is_read_in_its_row_without_opening_it(meet: Meet) -> None:
    assert "Tried to reach" not in meet(story().events).seen()
    person = meet(story(tried=("evil.test:443", "github.com")).events)
    assert "Tried to reach evil.test:443, github.com, which is not allowed." in person.seen().replace("\n", " ")
    person = meet(story("failed", code=6, tried=("evil.test:443",), words="It ended early.").events)
    assert "It ended early. Tried to reach evil.test:443, which is not allowed." in person.seen().replace("\n", " ")


def test_a_good_step_is_one_line_that_unfolds_to_the_command_and_its_output(meet: Meet) -> None:
    person = meet(story().events)
    assert "Ran the tests" in person.seen()
    assert "container" in person.seen()
    assert "1.5 s" in person.seen()
    assert "pytest -q" not in person.seen()
    person.press("Ran the tests. Ran in a container. 1.5 s")
    assert "pytest -q" in person.seen()
    assert "exit 0" in person.seen() or "two" in person.seen()
    person.press("Ran the tests. Ran in a container. 1.5 s")
    assert "pytest -q" not in person.seen()


def test_a_failed_step_is_open_and_says_its_exit_code(meet: Meet) -> None:
    person = meet(story("failed", code=3).events)
    assert "· failed" in person.seen()
    assert "exit 3" in person.seen()
    assert "two" in person.seen()


def test_command_and_output_are_copied_exactly(meet: Meet) -> None:
    command = "for i in 1 2; do\n\techo '$i'\ndone"
    chat = (
        Chat().user("q").starts("s", command=command).ends("s", "failed", code=1, text="\tapple  bee\n\n cat\n").done()
    )
    person = meet(chat.events)
    person.press(f"Copy the command: {command}")
    assert clipboard() == command
    person.press("Copy what it printed: Ran the tests")
    assert clipboard() == "\tapple  bee\n\n cat\n"
    assert "Copied" not in person.seen()  # the button says it, its name stays
    person.drag(person.point("apple"), person.point("cat", end=True))
    assert person.copied() == "apple  bee\n\n cat"


def test_nothing_names_this_computer(meet: Meet) -> None:
    chat = Chat().user("q").starts("s", place="computer").ends("s", where="").done()
    person = meet(chat.events)
    assert person.seen().splitlines() == ["q", "Ran the tests", "1.5 s"]


def test_the_place_stands_once_on_the_row_when_all_ran_there_and_on_each_step_when_not(meet: Meet) -> None:
    same = Chat().user("q").starts("a").ends("a").starts("b", "Ran make").ends("b").done()
    person = meet(same.events)
    assert person.seen().count("container") == 1
    person.press("Ran 2 commands. Ran in a container. 3.0 s")
    assert person.seen().count("container") == 1
    assert "Ran make" in person.seen()
    mixed = Chat().user("q").starts("c").ends("c").starts("d", "Ran make", place="ssh:build-box")
    other = meet(mixed.ends("d", where="build-box").done().events)
    assert "container" not in other.seen()
    other.press("Ran 2 commands. Ran in several places. 3.0 s")
    assert other.seen().count("container") == 1
    assert other.seen().count("build-box") == 1
    assert other.button("Ran make. Ran on build-box. 1.5 s")


def test_a_chip_has_its_places_hue(meet: Meet) -> None:
    for place, where, theme in (("container", "container", "light"), ("ssh:b", "b", "dark")):
        chat = Chat().user("q").starts("s", place=place).ends("s", where=where).done()
        person = meet(chat.events, theme=theme)
        at = person.point(where, end=True) + QPoint(5, 0)
        seen, due = person.view.viewport().grab().toImage().pixelColor(at), person.themes.tokens.place_soft(place)
        # The mouse may lie over the row, which then is a little darker; the hue is the place's either way.
        assert abs(seen.hslHue() - due.hslHue()) < 12
        assert abs(seen.lightness() - due.lightness()) < 12


def test_it_unfolds_while_it_runs_and_folds_when_all_went_well(meet: Meet) -> None:
    person = meet(Chat().user("q").events)
    person.tell(*Chat().starts("s").prints("s", "collecting\n").events)
    assert "collecting" not in person.seen()  # a quick command does not flicker open
    until = time.monotonic() + 3
    while "collecting" not in person.seen() and time.monotonic() < until:
        QTest.qWait(50)
    assert "collecting" in person.seen()
    assert "Running the tests" in person.seen()
    person.tell(*Chat().prints("s", "10 %\r100 %\n").events)
    assert "100 %" in person.seen()
    assert "10 %\n" not in person.seen().replace("100 %", "")
    person.tell(*Chat().ends("s", text="collecting\n100 %\n").events)
    assert "collecting" not in person.seen()
    assert "Ran the tests" in person.seen()


def test_what_the_person_opened_stays_open_and_is_so_after_scrolling_and_another_chat(meet: Meet) -> None:
    chat = story()
    for number in range(60):
        chat.user(f"{number}").says("Text. " * 60).done()
    person = meet(chat.events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    person.press("Ran the tests. Ran in a container. 1.5 s")
    person.key(Qt.Key.Key_End)
    assert "pytest -q" not in person.seen()
    person.key(Qt.Key.Key_Home)
    assert "pytest -q" in person.seen()
    from ui.transcript.model import TranscriptModel

    mine, other = person.model, TranscriptModel()
    other.load(story("failed", code=9).events)
    person.view.set_model(other)
    person.settle()
    assert "exit 9" in person.seen()
    person.view.set_model(mine)
    person.settle()
    assert "pytest -q" in person.seen()
    assert "Done." in person.seen()


def test_what_the_person_closed_stays_closed_when_it_ends(meet: Meet) -> None:
    person = meet(Chat().user("q").starts("s", by_person=True).prints("s", "hello\n").events)
    assert "hello" in person.seen()
    fold = next(b for b in person.buttons() if b.accessibleName().startswith("Running the tests"))
    QTest.mouseClick(fold, Qt.MouseButton.LeftButton)
    person.tell(*Chat().ends("s", "failed", code=1, text="hello\n").events)
    assert "hello" not in person.seen()


def test_a_long_output_shows_its_end_then_all_of_it_in_a_box(meet: Meet) -> None:
    text = "".join(f"line {number}\n" for number in range(3000))
    person = meet(story("failed", code=1, text=text, left_out=12_400_000, file="/home/me/out.txt").events)
    assert "line 2999" in person.seen()
    assert "line 2900" not in person.seen()
    assert "12.4 MB not shown." in person.seen()
    opened = QSignalSpy(person.view.open_file_asked)
    person.press("Open the whole output")
    assert calls(opened) == [["/home/me/out.txt"]]
    person.press("Show 3,000 lines")
    (box,) = person.view.findChildren(QPlainTextEdit)
    assert box.isVisible()
    assert box.height() < 600
    QTest.mouseClick(box.viewport(), Qt.MouseButton.LeftButton)
    QTest.keyClick(box, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(box, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == text.rstrip("\n")
    person.press("Show less")
    assert not [b for b in person.view.findChildren(QPlainTextEdit) if b.isVisible()]


def test_a_long_command_breaks_between_its_words(meet: Meet) -> None:
    long = " ".join(f"option_number_{number}" for number in range(12))
    person = meet(Chat().user("q").starts("s", command=long).ends("s", "failed", code=1, text="").events)
    (text,) = (text for one in person.view.placed for text in one.sheet.texts if text.text == long)
    lines = [text.laid.layout.lineAt(number) for number in range(text.laid.layout.lineCount())]
    assert len(lines) > 1
    assert all(long[line.textStart() :].startswith("option") for line in lines)


def test_progress_shows_bytes_and_a_bar_and_can_be_stopped(meet: Meet) -> None:
    person = meet(Chat().user("q").starts("s").events)
    person.tell(
        StepProgress(step="s", words="Getting the container's system ready", done=500_000_000, total=1_000_000_000)
    )
    assert "Getting the container's system ready · 500 MB of 1.0 GB" in person.seen()
    image = person.view.viewport().grab().toImage()
    y = person.point("Getting the container").y() + 15
    line = [image.pixelColor(x, dy) for dy in range(y - 4, y + 8) for x in range(image.width())]
    filled, empty = line.count(person.themes.tokens.accent), line.count(person.themes.tokens.border)
    assert filled > 500
    assert 0.6 < filled / empty < 1.5
    stopped = QSignalSpy(person.view.stop_asked)
    person.press("Stop")
    assert stopped.count() == 1


def test_when_all_is_here_it_says_what_goes_on_and_no_bar_stands_still(meet: Meet) -> None:
    person = meet(Chat().user("q").starts("s").events)
    person.tell(StepProgress(step="s", words="Getting the image", done=1_000_000_000, total=1_000_000_000))
    assert PLACE_WORDS["container.starting"] in person.seen()
    assert "1.0 GB" not in person.seen()
    image = person.view.viewport().grab().toImage()
    y = person.point(PLACE_WORDS["container.starting"]).y() + 15
    line = [image.pixelColor(x, dy) for dy in range(y - 4, y + 8) for x in range(image.width())]
    assert line.count(person.themes.tokens.accent) < 100, "only the letters of Stop"
    stopped = QSignalSpy(person.view.stop_asked)
    person.press("Stop")
    assert stopped.count() == 1


def test_a_step_that_did_not_run_says_why_and_the_one_next_step(meet: Meet) -> None:
    chat = story(
        "not_run",
        code=None,
        text="",
        where="",
        words="Docker is not running.",
        next_label="Start it with:",
        next_command="sudo systemctl start docker",
    )
    person = meet(chat.events)
    seen = person.seen()
    assert "Run the tests" in seen
    assert "did not run" in seen
    assert "Docker is not running." in seen
    assert "container" not in seen
    person.press("Copy the command: sudo systemctl start docker")
    assert clipboard() == "sudo systemctl start docker"


def test_a_next_step_that_conch_can_do_is_a_button(meet: Meet) -> None:
    chat = story("not_run", words="It needs a key.", next_label="Add a key", next_action="cloud.key")
    person = meet(chat.events)
    asked = QSignalSpy(person.view.action_asked)
    person.press("Add a key")
    assert calls(asked) == [["cloud.key", "s"]]


def test_an_open_command_says_that_it_left_the_box(meet: Meet) -> None:
    chat = Chat().user("q").starts("s", open=True).ends("s", "failed", code=1).done()
    assert "outside the box · exit 1" in meet(chat.events).seen()


@pytest.mark.parametrize(
    ("outcome", "words", "seen"),
    [
        ("stopped", "", "You stopped this."),
        ("failed", "The model's service did not answer. Try again.", "The model's service did not answer. Try again."),
        ("cut_off", "", "Conch closed before this was finished."),
    ],
)
def test_how_a_turn_ended_when_not_well(meet: Meet, outcome: str, words: str, seen: str) -> None:
    assert meet(Chat().user("q").says("Half").done(outcome, words).events).seen().splitlines()[-1] == seen


# Questions


@pytest.mark.parametrize(
    ("press", "answer"), [("Allow once", "once"), ("Always in this chat", "chat"), ("Don't allow", "no")]
)
def test_a_question_is_answered_with_the_mouse(meet: Meet, press: str, answer: str) -> None:
    person = meet(Chat().user("q").starts("s", command="pip install x").asks("s").events)
    assert person.seen().splitlines()[1:4] == ["Run this outside the sealed box?", "container", "It needs the network."]
    assert "pip install x" in person.seen()
    answered = QSignalSpy(person.view.answered)
    person.press(press)
    assert calls(answered) == [["s", answer]]
    person.tell(StepAnswered(step="s", answer=answer))  # type: ignore[arg-type]
    assert "sealed box" not in person.seen()


def test_escape_says_no_and_nothing_else_does(meet: Meet) -> None:
    person = meet(Chat().user("q").starts("s").asks("s").events)
    answered = QSignalSpy(person.view.answered)
    person.view.setFocus()
    person.key(Qt.Key.Key_Return)
    person.key(Qt.Key.Key_Y)
    assert answered.count() == 0
    person.key(Qt.Key.Key_Escape)
    assert calls(answered) == [["s", "no"]]


def test_tab_goes_through_the_answers_and_enter_and_space_press(meet: Meet) -> None:
    person = meet(Chat().user("q").starts("s", command="make").asks("s").events)
    answered = QSignalSpy(person.view.answered)
    person.view.setFocus()
    names = []
    for _ in range(3):
        person.key(Qt.Key.Key_Tab)
        focus = person.view.window().focusWidget()
        assert focus is not None
        names.append(focus.accessibleName())
    assert names == ["Allow once: make", "Always in this chat: make", "Don't allow: make"]
    person.key(Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    person.key(Qt.Key.Key_Return)
    person.key(Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    person.key(Qt.Key.Key_Space)
    assert calls(answered) == [["s", "chat"], ["s", "once"]]


def test_no_always_where_it_may_not_be(meet: Meet) -> None:
    chat = Chat().user("q").starts("s")
    chat.events.append(StepAsked(step="s", title="Sure?", why="", can_always=False))
    assert "Always in this chat" not in meet(chat.events).seen()


def test_a_folded_row_is_unfolded_with_the_keyboard(meet: Meet) -> None:
    person = meet(story().events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Tab)
    person.key(Qt.Key.Key_Return)
    person.settle()
    assert "pytest -q" in person.seen()
    person.key(Qt.Key.Key_Space)
    person.settle()
    assert "pytest -q" not in person.seen()


def test_tab_leaves_the_chat_for_what_comes_after_it(meet: Meet, qtbot: QtBot) -> None:
    from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

    person = meet(story().events)
    window = QWidget()
    before, after = QLineEdit(), QLineEdit()
    column = QVBoxLayout(window)
    for widget in (before, person.view, after):
        column.addWidget(widget)
    window.resize(900, 800)
    window.show()
    person.settle()
    before.setFocus()
    seen = []
    for _ in range(3):
        person.key(Qt.Key.Key_Tab)
        seen.append(window.focusWidget())
    assert seen[0] is person.view
    assert person.view.isAncestorOf(seen[1])
    assert seen[2] is after
    back = []
    for _ in range(2):
        person.key(Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
        back.append(window.focusWidget())
    assert back[0] is person.view or person.view.isAncestorOf(back[0])
    assert before in (back[1], *([] if back[0] is person.view else [before]))
    person.view.setParent(None)
    window.close()


# Code

CODE = "```python\ndef f(x):\n    return x  # " + "long " * 60 + "\n```"


def test_code_is_copied_from_its_button_wherever_it_is_scrolled_to(meet: Meet) -> None:
    lines = "\n".join(f"line_{number} = {number}" for number in range(300))
    chat = Chat().user("q").says(f"```python\n{lines}\n```\n\nAfter.").done()
    person = meet(chat.events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    assert "line_29 = 29" in person.seen()
    assert "line_40 = 40" not in person.seen()
    person.press("Show all 300 lines")
    person.wheel(20)
    assert "line_0 = 0" not in person.seen().splitlines()
    person.press("Copy the python code")
    assert clipboard() == lines


def test_long_lines_of_code_wrap_when_asked_and_move_sideways_when_not(meet: Meet) -> None:
    person = meet(Chat().user("q").says(CODE).done().events)
    assert person.seen().count("long") > 10
    shown = len([line for line in person.seen().splitlines() if "long" in line])
    assert shown == 1
    person.press("Wrap the lines of the python code")
    assert len([line for line in person.seen().splitlines() if "long" in line]) > 2
    person.press("Do not wrap the lines of the python code")
    at = QPointF(person.point("return") + QPoint(5, 0))
    before = person.view.viewport().grab().toImage()
    event = QWheelEvent(
        at,
        QPointF(person.view.viewport().mapToGlobal(at.toPoint())),
        QPoint(),
        QPoint(-240, 0),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(person.view.viewport(), event)
    QApplication.processEvents()
    assert person.view.viewport().grab().toImage() != before


def test_code_gets_its_colours(meet: Meet) -> None:
    person = meet(Chat().user("q").says("```python\ndef ffffffff():\n    pass\n```").done().events)

    def has(color: QColor) -> bool:
        image = person.view.viewport().grab().toImage()
        at = person.point("def")
        area = [image.pixelColor(at.x() + x, at.y() + y) for x in range(26) for y in range(-7, 8)]
        # Letters are drawn soft: near the hue is the hue.
        return any(
            abs(c.red() - color.red()) + abs(c.green() - color.green()) + abs(c.blue() - color.blue()) < 60
            for c in area
        )

    until = time.monotonic() + 10
    while not has(person.themes.tokens.ssh) and time.monotonic() < until:
        QTest.qWait(50)
    assert has(person.themes.tokens.ssh)


def test_an_open_fence_streams_and_shows_no_half_marks(meet: Meet) -> None:
    person = meet(Chat().user("q").events)
    chat = Chat()
    chat.turn = person.model.rows.turn
    seen = []
    for piece in ("Look:\n", "``", "`py", "\nx = 1\n", "y = 2\n``", "`\n", "After."):
        person.tell(*chat.says(piece).events[-1:])
        seen.append(person.seen())
    assert not [text for text in seen if "`" in text and "y = 2" not in text]
    assert "`" not in seen[-1]
    assert [line for line in seen[-1].splitlines() if line not in ("q", "Copy")] == [
        "Look:",
        "x = 1",
        "y = 2",
        "After.",
    ]


# A message of the person's


def test_a_very_long_message_is_folded_and_can_be_unfolded(meet: Meet) -> None:
    person = meet(Chat().user("\n".join(f"row {n}" for n in range(200))).says("Yes.").done().events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    assert "row 3" in person.seen()
    assert "row 150" not in person.seen()
    show = next(b for b in person.buttons() if b.text().startswith("Show all of it"))
    QTest.mouseClick(show, Qt.MouseButton.LeftButton)
    person.settle()
    person.wheel(200)
    assert "row 199" in person.seen()


def test_what_the_person_wrote_is_shown_as_written(meet: Meet) -> None:
    person = meet(Chat().user("**not bold** <b>no</b>\n  indented").says("x").done().events)
    assert "**not bold** <b>no</b>" in person.seen()
    assert "  indented" in person.seen()


# The look


def test_light_and_dark_change_while_it_is_open(meet: Meet) -> None:
    person = meet(story("failed", code=1).events, theme="light")

    def ground() -> QColor:
        return person.view.viewport().grab().toImage().pixelColor(3, 3)

    assert ground() == QColor("#F6F4F1")
    seen = person.seen()
    person.themes.choose("dark")
    person.settle()
    assert ground() == QColor("#17191B")
    assert person.seen() == seen


def test_larger_text_is_larger_and_nothing_is_lost(meet: Meet) -> None:
    person = meet(story("failed", code=1).events)
    high, seen = person.point("Done.").y() - person.point("q").y(), person.seen()
    person.themes.choose_scale(1.6)
    person.settle()
    assert person.point("Done.").y() - person.point("q").y() > 1.4 * high
    assert sorted(person.seen().splitlines()) == sorted(seen.splitlines())


@pytest.mark.parametrize("size", [(320, 300), (1600, 1200), (180, 90)])
def test_any_size_of_window_will_do(meet: Meet, size: tuple[int, int]) -> None:
    person = meet(Chat().user("q").starts("s").asks("s").says(CODE).events, size=size)
    person.wheel(-3)
    person.wheel(3)
    assert person.seen()
