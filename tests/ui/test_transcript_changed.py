"""“Changed 3 files”: in the row's last line, open or shut, with the names to point at, and read out."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from app.chats.events import ChatEvent, StepChanged
from tests.ui.transcript_hands import Chat, Person
from ui.transcript import words
from ui.transcript.rows import StoryRow


def changed(chat: Chat, step: str, count: int, **ways: tuple[str, ...]) -> ChatEvent:
    return StepChanged(turn=chat.turn, seq=len(chat.events) + 100, step=step, count=count, **ways)


def tips(person: Person) -> list[str]:
    return [text for _, _, sheet in person.view.placed for _, text in sheet.tips]


def test_it_comes_after_the_end_and_stays_when_the_row_is_shut(qapp: QApplication) -> None:
    chat = Chat().user("go").starts("a").prints("a", "hello\n").ends("a").done()
    person = Person(chat.events)
    assert "Changed" not in person.seen()
    person.tell(changed(chat, "a", 3, added=("n.txt",), changed=("src/a.py",), deleted=("old",)))
    assert "Changed 3 files" in person.seen()
    assert "new: n.txt\ngone: old\nsrc/a.py" in tips(person)
    [story] = [row for row in person.model.rows.all if isinstance(row, StoryRow)]
    assert words.spoken(story).endswith("Changed 3 files")
    for _ in range(2):
        [fold] = [one for _, _, sheet in person.view.placed for one in sheet.controls if one.does[0] == "fold"]
        row = next(row for row, _, sheet in person.view.placed if fold in sheet.controls)
        person.view.deeds.do(row, fold)
        person.settle()
        assert "Changed 3 files" in person.seen()


def test_one_file_is_named(qapp: QApplication) -> None:
    for ways, said in (
        ({"changed": ("a\u202eb.py",)}, "Changed a"),
        ({"added": ("notes.txt",)}, "Made notes.txt"),
        ({"deleted": ("notes.txt",)}, "Removed notes.txt"),
    ):
        chat = Chat().user("go").starts("a").ends("a")
        person = Person([*chat.events, changed(chat, "a", 1, **ways)])
        assert said in person.seen()
        assert "\u202e" not in person.seen()


def test_a_story_counts_a_file_once(qapp: QApplication) -> None:
    chat = Chat().user("go").starts("a").ends("a").starts("b").ends("b").done()
    both = [changed(chat, "a", 2, changed=("x", "y")), changed(chat, "b", 2, changed=("y",), added=("z",))]
    person = Person([*chat.events, *both])
    assert "Changed 3 files" in person.seen()


def test_a_story_counts_what_is_not_named_too_and_what_came_and_went_not_at_all(qapp: QApplication) -> None:
    chat = Chat().user("go").starts("a").ends("a").starts("b").ends("b").done()
    one, two = (tuple(f"{letter}{number:03}" for number in range(200)) for letter in "ab")
    both = [changed(chat, "a", 500, added=one), changed(chat, "b", 500, added=two)]
    assert "Changed 1,000 files" in Person([*chat.events, *both]).seen()
    came = [changed(chat, "a", 2, added=("x", "y")), changed(chat, "b", 1, deleted=("x",))]
    assert "Made y" in Person([*chat.events, *came]).seen()
    went = [changed(chat, "a", 1, added=("x",)), changed(chat, "b", 1, deleted=("x",))]
    assert "Changed" not in (seen := Person([*chat.events, *went]).seen())
    assert "Made" not in seen
    back = [changed(chat, "a", 1, deleted=("x",)), changed(chat, "b", 1, added=("x",))]
    assert "Changed x" in Person([*chat.events, *back]).seen()


def test_of_very_many_the_number_is_said(qapp: QApplication) -> None:
    chat = Chat().user("go").starts("a").ends("a").done()
    names = tuple(f"f{number:03}" for number in range(200))
    person = Person([*chat.events, changed(chat, "a", 12_345, added=names)])
    assert "Changed 12,345 files" in person.seen()
    assert any(tip.endswith("and 12,325 more") for tip in tips(person))


def test_one_for_a_step_that_is_not_there_is_nothing(qapp: QApplication) -> None:
    chat = Chat().user("go").starts("a").ends("a").done()
    person = Person([*chat.events, changed(chat, "gone", 1, added=("x",))])
    assert "Made" not in person.seen()
