"""Reading a chat: scrolling, following what comes, selecting, copying, links. Mouse and keyboard only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QSignalSpy, QTest
from pytestqt.qtbot import QtBot

from app.chats.events import ChatEvent
from tests.ui.transcript_hands import Chat, Person, clipboard

SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier

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


def long_chat(turns: int = 60) -> Chat:
    chat = Chat()
    for number in range(turns):
        chat.user(f"Question {number}").says(f"Answer {number}.\n\n" + "It goes on for a while. " * 20).done()
    return chat


# Scrolling


def test_a_chat_opens_at_its_end(meet: Meet) -> None:
    person = meet(long_chat().events)
    assert "Answer 59." in person.seen()
    assert "Question 0" not in person.seen()


def test_the_wheel_and_the_keys_go_everywhere(meet: Meet) -> None:
    person = meet(long_chat().events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    assert "Question 0" in person.seen()
    person.key(Qt.Key.Key_PageDown)
    assert "Question 0" not in person.seen()
    person.key(Qt.Key.Key_PageUp)
    assert "Question 0" in person.seen()
    person.wheel(3)
    person.key(Qt.Key.Key_Down)
    person.key(Qt.Key.Key_End)
    assert "Answer 59." in person.seen()
    person.wheel(-1)
    person.key(Qt.Key.Key_Up)
    assert "Answer 59." in person.seen()


def test_scrolling_up_and_down_comes_back_to_the_same_place(meet: Meet) -> None:
    """Heights were guessed on the way: what is seen must not have slid."""
    person = meet(long_chat().events)
    person.wheel(-10)
    before = person.seen()
    person.wheel(-40)
    assert person.seen() != before
    person.wheel(40)
    assert person.seen() == before


def test_what_is_read_stays_put_while_an_answer_comes(meet: Meet) -> None:
    chat = long_chat()
    person = meet(chat.events)
    person.wheel(-8)
    before = person.seen()
    more = Chat()
    more.turn = "late"
    for number in range(30):
        more.says(f"Line {number} of what comes.\n\n")
    person.tell(*more.events)
    assert person.seen() == before + "\nNew"
    person.press("Go to what is new")
    assert "Line 29 of what comes." in person.seen()
    assert "New" not in person.seen().splitlines()


def test_at_the_end_it_follows(meet: Meet) -> None:
    person = meet(long_chat().events)
    more = Chat()
    more.turn = "late"
    for number in range(0, 40, 4):
        for each in range(number, number + 4):
            more.says(f"Line {each} of what comes.\n\n")
        person.tell(*more.events[-4:])
    assert "Line 39 of what comes." in person.seen()
    assert "Question 59" not in person.seen()


def test_scrolling_back_to_the_end_follows_again(meet: Meet) -> None:
    person = meet(long_chat().events)
    person.wheel(-5)
    person.wheel(6)
    more = Chat()
    more.turn = "late"
    for number in range(12):
        more.says(f"Line {number} of what comes.\n\n")
    person.tell(*more.events)
    assert "Line 11 of what comes." in person.seen()


def test_what_the_person_sends_is_shown_wherever_they_are(meet: Meet) -> None:
    person = meet(long_chat().events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    person.tell(*Chat().user("And now?").events)
    assert "And now?" in person.seen()
    assert "Thinking…" not in person.seen()  # it is painted, not laid out: see the pixel test below


def test_a_resized_window_keeps_the_place(meet: Meet) -> None:
    person = meet(long_chat().events)
    person.view.setFocus()
    person.key(Qt.Key.Key_Home)
    person.wheel(20)
    first = person.seen().splitlines()[1]
    for width in (640, 500, 1200):
        person.view.resize(width, 700)
        person.settle()
        assert first.split(".")[0] in person.seen()


def test_an_event_is_found_and_marked_for_a_moment(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.transcript.flash._MS", 600)
    chat = long_chat()
    person = meet(chat.events, theme="light")
    seq = next(e.seq for e in chat.events if getattr(e, "text", "").startswith("Answer 30."))
    assert person.view.scroll_to(seq)
    person.settle()
    assert "Answer 30." in person.seen()
    at = person.point("Answer 30.", end=True) + QPoint(60, 0)
    assert color_at(person, at) == person.themes.tokens.accent_soft
    for _ in range(100):
        if color_at(person, at) != person.themes.tokens.canvas:
            QTest.qWait(50)
    assert color_at(person, at) == person.themes.tokens.canvas


def color_at(person: Person, at: QPoint) -> QColor:
    return person.view.viewport().grab().toImage().pixelColor(at)


def test_it_says_that_the_assistant_thinks(meet: Meet) -> None:
    person = meet(Chat().user("q").events)
    bottom = person.point("q").y() + 60
    image = person.view.viewport().grab().toImage()
    rows = range(bottom - 40, bottom + 20)
    accent = person.themes.tokens.accent
    assert any(image.pixelColor(person.view.column + 4, y) == accent for y in rows)


def test_an_empty_chat_shows_nothing_and_bears_every_key(meet: Meet) -> None:
    person = meet()
    person.view.setFocus()
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageUp, Qt.Key.Key_Down, Qt.Key.Key_Escape, Qt.Key.Key_Tab):
        person.key(key)
    person.key(Qt.Key.Key_A, CTRL)
    person.wheel(2)
    person.click(QPoint(300, 300))
    assert person.seen() == ""


# Selecting and copying

ANSWER = "# Title\n\nFirst **bold** words.\n\n- one\n- two\n\n```py\nx = 1\ny = 2\n```\n\nLast words."


def test_a_drag_selects_over_blocks_and_copies_what_is_read(meet: Meet) -> None:
    person = meet(Chat().user("q").says(ANSWER).done().events)
    person.drag(person.point("bold"), person.point("two", end=True))
    assert person.copied() == "bold words.\n\n• one\n• two"


def test_a_drag_upwards_selects_the_same(meet: Meet) -> None:
    person = meet(Chat().user("q").says(ANSWER).done().events)
    person.drag(person.point("two", end=True), person.point("bold"))
    assert person.copied() == "bold words.\n\n• one\n• two"


def test_a_drag_into_code_copies_its_lines(meet: Meet) -> None:
    person = meet(Chat().user("q").says(ANSWER).done().events)
    person.drag(person.point("x = 1"), person.point("Last", end=True))
    assert person.copied() == "x = 1\ny = 2\n\nLast"


def test_a_drag_over_messages_and_cards(meet: Meet) -> None:
    chat = Chat().user("Please look.").says("I look.").starts("s").ends("s", text="fine\n").says("All is well.").done()
    person = meet(chat.events)
    person.drag(person.point("look."), person.point("All", end=True))
    assert person.copied() == "look.\n\nI look.\n\nRan the tests container 1.5 s\n\nAll"


def test_a_double_click_takes_a_word_and_a_third_the_paragraph(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some words stand here.\n\nMore.").done().events)
    at = person.point("words") + QPoint(8, 0)
    QTest.mouseDClick(person.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    assert person.copied() == "words"
    QTest.mousePress(person.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    QTest.mouseRelease(person.view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    assert person.copied() == "Some words stand here."


def test_shift_and_the_arrows_change_what_is_selected(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some words stand here.\n\nMore of it.").done().events)
    person.click(person.point("words"))
    for _ in range(3):
        person.key(Qt.Key.Key_Right, SHIFT)
    assert person.copied() == "wor"
    person.key(Qt.Key.Key_Left, SHIFT)
    assert person.copied() == "wo"
    person.key(Qt.Key.Key_Right, SHIFT, CTRL)
    assert person.copied() == "words"
    person.key(Qt.Key.Key_End, SHIFT)
    assert person.copied() == "words stand here."
    person.key(Qt.Key.Key_Down, SHIFT)
    assert person.copied().startswith("words stand here.\n\nMore")
    person.key(Qt.Key.Key_Up, SHIFT)
    person.key(Qt.Key.Key_Home, SHIFT)
    assert person.copied() == "Some"


def test_a_shifted_click_selects_up_to_it(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some words stand here.").done().events)
    person.click(person.point("words"))
    QTest.mouseClick(person.view.viewport(), Qt.MouseButton.LeftButton, SHIFT, person.point("here"))
    assert person.copied() == "words stand"


def test_select_all_takes_the_message_and_no_other(meet: Meet) -> None:
    chat = Chat().user("First question").says("First.\n\nAnswer.").done().user("Second question").says("Other.").done()
    person = meet(chat.events)
    person.click(person.point("First.") + QPoint(4, 0))
    person.key(Qt.Key.Key_A, CTRL)
    assert person.copied() == "First.\n\nAnswer."
    person.click(person.point("Second question") + QPoint(4, 0))
    person.key(Qt.Key.Key_A, CTRL)
    assert person.copied() == "Second question"


def test_a_selection_outlives_scrolling_and_streaming(meet: Meet) -> None:
    chat = long_chat()
    person = meet(chat.events)
    person.wheel(-10)
    words = person.seen().splitlines()[2][:30]
    person.drag(person.point(words), person.point(words, end=True))
    person.wheel(-60)
    more = Chat()
    more.turn = "late"
    person.tell(*more.says("More.\n\nAnd more.").events)
    assert person.copied() == words.strip() or person.copied() == words


def test_escape_drops_the_selection(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some words.").done().events)
    person.drag(person.point("Some"), person.point("words"))
    person.key(Qt.Key.Key_Escape)
    assert person.copied() == "nothing was copied"


def test_what_is_selected_is_seen(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some words.").done().events)
    at = person.point("Some") + QPoint(0, 8)
    before = color_at(person, at)
    person.drag(person.point("Some"), person.point("words", end=True))
    assert before == person.themes.tokens.canvas
    assert color_at(person, at) != before


def test_letters_outside_the_first_plane_are_copied_whole(meet: Meet) -> None:
    person = meet(Chat().user("q").says("A 🐚 **shell** 👩‍💻 and 你好.").done().events)
    person.drag(person.point("shell"), person.point("你好", end=True))
    assert person.copied() == "shell 👩‍💻 and 你好"


def test_right_to_left_stands_at_the_right(meet: Meet) -> None:
    person = meet(Chat().user("q").says("שלום עולם\n\nHello").done().events)
    right = person.view.column + person.view.arrangement.width
    assert right - person.point("שלום").x() < 20
    assert person.point("Hello").x() - person.view.column < 4
    person.drag(person.point("שלום"), person.point("עולם", end=True))
    assert person.copied() == "שלום עולם"


def test_the_menu_copies_a_message_as_it_reads_and_as_markdown(meet: Meet) -> None:
    person = meet(Chat().user("q").says("Some **bold** words.\n\n- a").done().events)
    at = person.point("Some") + QPoint(3, 0)
    person.menu(at, "Copy message")
    assert clipboard() == "Some bold words.\n\n• a"
    person.menu(at, "Copy as Markdown")
    assert clipboard() == "Some **bold** words.\n\n- a"
    person.menu(at, "Select the whole message")
    assert person.copied() == "Some bold words.\n\n• a"


def test_dragging_past_the_edge_scrolls_on(meet: Meet) -> None:
    person = meet(long_chat().events)
    view = person.view.viewport()
    before = person.seen()
    start = QPoint(view.width() // 2, view.height() // 2)
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, start)
    QTest.mouseMove(view, start - QPoint(0, 30))
    QTest.mouseMove(view, QPoint(start.x(), -60))
    QTest.qWait(400)
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(start.x(), -60))
    assert person.seen() != before
    assert len(person.copied()) > 500


# Links


def test_a_link_says_its_real_target_and_opens_on_a_click(meet: Meet) -> None:
    person = meet(Chat().user("q").says("See [bank.example](https://evil.example/x) now.").done().events)
    opened, hovered = QSignalSpy(person.view.link_activated), QSignalSpy(person.view.hovered)
    at = person.point("bank.example") + QPoint(20, 0)
    QTest.mouseMove(person.view.viewport(), at)
    assert hovered.at(hovered.count() - 1)[0] == "https://evil.example/x"
    person.click(at)
    assert [opened.at(n)[0] for n in range(opened.count())] == ["https://evil.example/x"]
    person.menu(at, "Copy link address")
    assert clipboard() == "https://evil.example/x"


def test_a_link_is_reached_and_opened_with_the_keyboard(meet: Meet) -> None:
    person = meet(
        Chat().user("q").says("See [the docs](https://docs.example/x) or https://other.example/y now.").done().events
    )
    opened = QSignalSpy(person.view.link_activated)
    person.view.setFocus()
    names = []
    for _ in range(2):
        person.key(Qt.Key.Key_Tab)
        focus = person.view.window().focusWidget()
        assert focus is not None
        names.append(focus.accessibleName())
        person.key(Qt.Key.Key_Return)
    assert names == ["Link: the docs. https://docs.example/x", "Link: https://other.example/y. https://other.example/y"]
    assert [opened.at(n)[0] for n in range(opened.count())] == ["https://docs.example/x", "https://other.example/y"]


def test_selecting_a_links_words_does_not_open_it(meet: Meet) -> None:
    person = meet(Chat().user("q").says("See [all of these words](https://docs.example/x) now.").done().events)
    opened = QSignalSpy(person.view.link_activated)
    person.drag(person.point("all of") + QPoint(2, 0), person.point("words") + QPoint(10, 0))
    assert opened.count() == 0


@pytest.mark.parametrize("target", ["javascript:alert(1)", "file:///etc/passwd", "ssh://host/x", "notes.md"])
def test_a_dead_link_does_nothing_and_shows_where_it_points(meet: Meet, target: str) -> None:
    person = meet(Chat().user("q").says(f"Press [here]({target}) now.").done().events)
    opened = QSignalSpy(person.view.link_activated)
    assert f"here ({target})" in person.seen()
    person.click(person.point("here") + QPoint(8, 0))
    person.click(person.point(target) + QPoint(8, 0))
    assert opened.count() == 0


def test_no_image_is_ever_loaded(meet: Meet, tmp_path_factory: pytest.TempPathFactory) -> None:
    from PySide6.QtGui import QPixmap

    red = tmp_path_factory.mktemp("pictures") / "red.png"
    pixmap = QPixmap(300, 300)
    pixmap.fill(QColor("#FF0000"))
    pixmap.save(str(red))
    chat = (
        Chat().user(f"![]({red})").says(f"![a]({red}) ![b](file://{red})\n\n<img src='{red}'>\n\n![c](red.png)").done()
    )
    person = meet(chat.events)
    assert "Image: a" in person.seen()
    image = person.view.grab().toImage()
    colors = {image.pixelColor(x, y).name() for x in range(0, image.width(), 5) for y in range(0, image.height(), 5)}
    assert "#ff0000" not in colors
