"""The transcript to someone who hears it: every row is named, every button says what it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chats.events import StepAnswered
from tests.ui.transcript_hands import Chat, Person, name, walk
from ui.transcript import a11y

Role = QAccessible.Role


@pytest.fixture
def person(qtbot: QtBot) -> Iterator[Person]:
    chat = Chat().user("Please **look**.").says("# Found\n\nIt *works*, see [docs](https://docs.example).")
    chat.starts("a").ends("a").starts("b", "Ran make", place="ssh:build-box").ends("b", where="build-box")
    chat.says("Then.").starts("c", command="pip install x").ends(
        "c", "not_run", words="Docker is not running.", where=""
    )
    chat.done("failed", "The service did not answer.").user("Again").starts("d", command="make").asks("d")
    one = Person(chat.events)
    yield one
    one.view.highlighter.close()
    one.view.close()
    one.view.deleteLater()


def rows(person: Person) -> list[QAccessibleInterface]:
    interface = QAccessible.queryAccessibleInterface(person.view)
    assert interface.role() == Role.List
    assert name(interface) == "Chat"
    return [interface.child(number) for number in range(interface.childCount())]


def test_every_row_is_named_in_order(person: Person) -> None:
    assert [name(row) for row in rows(person)] == [
        "You: Please **look**.",
        "Answer: Found",
        "It works, see docs.",
        "Ran 2 commands. Ran in several places. 3.0 s",
        "Then.",
        "Run the tests, did not run. Docker is not running",
        "The service did not answer.",
        "You: Again",
        "Run this outside the sealed box? It needs the network. make",
    ]


def test_the_question_is_an_alert_and_goes_when_it_is_answered(person: Person) -> None:
    (ask,) = [row for row in rows(person) if row.role() == Role.AlertMessage]
    buttons = [name(ask.child(n)) for n in range(ask.childCount())]
    assert buttons == ["Allow once: make", "Always in this chat: make", "Don't allow: make"]
    person.tell(StepAnswered(step="d", answer="once"))
    assert not [row for row in rows(person) if row.role() == Role.AlertMessage]
    assert name(rows(person)[-1]).startswith("Running the tests. Ran in a container")


def test_every_button_has_a_name_and_a_place_on_the_screen(person: Person) -> None:
    buttons = [i for row in rows(person) for i in walk(row) if i.role() == Role.Button]
    assert len(buttons) > 4
    for button in buttons:
        assert name(button).strip()
        assert button.rect().isValid()
    texts = [name(button) for button in buttons]
    assert len(set(texts)) == len(texts), "two buttons that a listener could not tell apart"


def test_each_step_says_its_own_place_when_they_differ(person: Person) -> None:
    person.press("Ran 2 commands. Ran in several places. 3.0 s")
    names = [name(i) for row in rows(person) for i in walk(row)]
    assert "Ran the tests. Ran in a container. 1.5 s" in names
    assert "Ran make. Ran on build-box. 1.5 s" in names


def test_parents_children_and_rectangles_agree(person: Person) -> None:
    top = QAccessible.queryAccessibleInterface(person.view)
    for number, row in enumerate(rows(person)):
        assert top.indexOfChild(row) == number
        assert row.parent().object() is person.view
        assert row.rect().width() > 0
        middle = row.rect().center()
        if top.rect().contains(middle):
            assert name(top.childAt(middle.x(), middle.y())) == name(row)
        for at in range(row.childCount()):
            assert row.indexOfChild(row.child(at)) == at


def test_ten_thousand_rows_are_named_and_those_out_of_sight_say_so(qtbot: QtBot) -> None:
    chat = Chat()
    for number in range(5000):
        chat.user(f"Question {number}").says(f"Reply {number}")
    person = Person(chat.events)
    every = rows(person)
    assert len(every) == 10_000
    assert [name(row) for row in every[:2]] == ["You: Question 0", "Answer: Reply 0"]
    assert name(every[-1]) == "Answer: Reply 4999"
    assert all(name(row) for row in every)
    assert every[0].state().offscreen
    assert not every[-1].state().offscreen
    person.view.close()
    person.view.deleteLater()


def test_it_is_found_from_the_window_down_and_outlives_its_view(qtbot: QtBot) -> None:
    window = QWidget()
    person = Person(Chat().user("Hello").says("Hi.").events)
    QVBoxLayout(window).addWidget(person.view)
    window.show()
    person.settle()
    found = [name(i) for i in walk(QAccessible.queryAccessibleInterface(window))]
    assert "You: Hello" in found
    assert "Answer: Hi." in found
    person.view.setParent(None)
    person.view.deleteLater()
    QTest.qWait(30)
    assert "You: Hello" not in [name(i) for i in walk(QAccessible.queryAccessibleInterface(window))]
    window.close()


def test_a_finished_answer_and_a_question_are_announced(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, bool]] = []
    monkeypatch.setattr(a11y, "announce", lambda view, text, urgent=False: said.append((text, urgent)))
    person.tell(*Chat().user("q").starts("z", command="make").asks("z").events)
    person.tell(*Chat().ends("z", "refused").says("All is well.").done().events)
    assert said[0] == ("Run this outside the sealed box? It needs the network. make", True)
    assert said[-1] == ("Finished. All is well.", False)


def test_qt_takes_the_announcement(person: Person) -> None:
    a11y.announce(person.view, "Finished.")
    a11y.announce(person.view, "Allow?", urgent=True)
