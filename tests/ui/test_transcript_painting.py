"""What is on the screen after moving and repainting only parts is what a whole repaint would show."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chats.events import StepProgress
from tests.ui.transcript_hands import Chat, Person

PIECES = [
    "Some words ",
    "**bold** and `code` ",
    "[a link](https://docs.example) ",
    "more words that go on and on and on ",
    ".\n\n",
    "\n\n- an item ",
    "\n  - nested ",
    "\n\n```py\nx = 1\n",
    "y = 2\n",
    "```\n\n",
    "\n\n# Heading\n\n",
    "\n\n> quoted ",
    "\n\n|a|b|\n|-|-|\n|1|2|\n",
    "שלום 🐚 ",
]


@pytest.fixture
def person(qtbot: QtBot) -> Iterator[Person]:
    chat = Chat()
    for number in range(12):
        chat.user(f"Question {number}").says("It goes on for a while. " * (number % 5 + 1))
        chat.starts(f"s{number}").ends(f"s{number}", "failed" if number % 4 == 0 else "ok", code=1, text="out\n").done()
    one = Person(chat.events, size=(820, 560))
    yield one
    one.view.highlighter.close()
    one.view.close()
    one.view.deleteLater()


def on_screen(person: Person) -> QImage:
    view = person.view
    return view.screen().grabWindow(view.winId()).toImage().convertToFormat(QImage.Format.Format_RGB32)


def repainted(person: Person) -> QImage:
    return person.view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def where_they_differ(one: QImage, other: QImage) -> list[tuple[int, int]]:
    """Points whose colours differ by more than the rounding of a soft edge."""
    if one == other:
        return []
    left, right = bytes(one.constBits()), bytes(other.constBits())
    wide = one.bytesPerLine()
    at = [n for n in range(0, len(left), 4) if left[n : n + 3] != right[n : n + 3]]
    far = [n for n in at if sum(abs(left[n + k] - right[n + k]) for k in range(3)) > 9]
    return [(n % wide // 4, n // wide) for n in far]


def same(person: Person, said: str) -> None:
    shown, whole = on_screen(person), repainted(person)
    assert shown.size() == whole.size()
    differ = where_they_differ(shown, whole)
    assert not differ, f"after {said}: {len(differ)} points, from {differ[0]} to {differ[-1]}"


@pytest.mark.parametrize("seed", [3, 18, 43])
def test_partial_painting_leaves_nothing_behind(person: Person, seed: int) -> None:
    dice = random.Random(seed)
    chat = Chat().user("Go on.")
    person.tell(*chat.events)
    steps = 0
    for _ in range(60):
        said = dice.choice(["text", "text", "text", "up", "down", "end", "step", "fold", "progress", "select"])
        match said:
            case "text":
                person.tell(*chat.says(dice.choice(PIECES)).events[-1:])
            case "up" | "down":
                person.wheel(dice.randint(1, 4) * (1 if said == "down" else -1))
            case "end":
                person.view.setFocus()
                person.key(Qt.Key.Key_End)
            case "step":
                steps += 1
                chat.starts(f"x{seed}{steps}", by_person=True).prints(f"x{seed}{steps}", "hello\nthere\n")
                person.tell(*chat.events[-2:])
            case "progress" if steps:
                name = f"x{seed}{steps}"
                person.tell(StepProgress(step=name, words="Getting ready", done=dice.randint(1, 9), total=9))
            case "fold":
                names = [b.accessibleName() for b in person.buttons() if b.accessibleDescription()]
                if names and names.count(name := dice.choice(names)) == 1:
                    person.press(name)
            case "select":
                x = person.view.column
                person.drag(QPoint(x + dice.randint(5, 500), 40), QPoint(x + dice.randint(5, 500), 500))
        QTest.qWait(5)
        same(person, said)
