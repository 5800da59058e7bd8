"""A chat's events as rows, and what the rows say. No window."""

from __future__ import annotations

import random

import pytest

from app.chats.events import ChatEvent, StepAnswered, StepProgress
from tests.ui.transcript_hands import Chat
from ui.transcript import words
from ui.transcript.heights import Heights
from ui.transcript.rows import AskRow, NoteRow, ProseRow, Row, Step, StoryRow, UserRow
from ui.transcript.telling import Rows


def loaded(events: list[ChatEvent]) -> Rows:
    rows = Rows()
    rows.load(events)
    return rows


def lived(events: list[ChatEvent]) -> Rows:
    rows = Rows()
    for event in events:
        rows.add(event)
    return rows


def shape(rows: Rows) -> list[str]:
    """The rows in short, hidden ones left out."""

    def one(row: Row) -> str:
        match row:
            case UserRow() | ProseRow():
                return f"{type(row).__name__}: {row.text.strip()}"
            case StoryRow():
                return f"StoryRow: {[(step.words, step.state) for step in row.shown]}"
            case AskRow():
                return f"AskRow: {row.title}"
            case NoteRow():
                return f"NoteRow: {words.note(row)}"
        raise AssertionError(row)

    return [one(row) for row in rows.all if not row.hidden]


def a_chat() -> Chat:
    chat = Chat().user("Find out why and fix it.")
    for piece in ("I'll run it", " a few times.\n", "\nThen I", " look.\n\n- one\n- two\n\n"):
        chat.says(piece)
    chat.starts("s1").prints("s1", "..F\n").ends("s1", "failed", code=1, text="..F\n")
    chat.starts("s2", "Read a.py", tool="read_file", command="", place="").ends("s2", where="")
    chat.says("It comes from a set.").says("\n\nDone.")
    return chat.done()


def test_a_chat_that_was_lived_and_one_that_was_loaded_look_the_same() -> None:
    events = a_chat().events
    assert shape(lived(events)) == shape(loaded(events))
    assert shape(loaded(events)) == [
        "UserRow: Find out why and fix it.",
        "ProseRow: I'll run it a few times.",
        "ProseRow: Then I look.",
        "ProseRow: - one\n- two",
        "StoryRow: [('Ran the tests', 'failed'), ('Read a.py', 'ok')]",
        "ProseRow: It comes from a set.",
        "ProseRow: Done.",
    ]


@pytest.mark.parametrize("cut", range(1, 22))
def test_a_chat_opened_in_the_middle_goes_on_as_if_it_had_been_open(cut: int) -> None:
    events = a_chat().events
    rows = loaded(events[:cut])
    for event in events[cut:]:
        rows.add(event)
    assert shape(rows) == shape(loaded(events))


def test_a_finished_block_is_never_touched_again() -> None:
    rows = lived(Chat().user("q").says("First.\n\nSecond").events)
    first = rows.all[1]
    before = first.rev
    rows.add(Chat().says(" goes on.\n\nThird.").events[0])
    assert first.rev == before


def test_steps_that_follow_one_another_share_a_card_and_words_begin_another() -> None:
    chat = Chat().user("q").starts("a").ends("a").says("  \n").starts("b").ends("b").says("Now this.").starts("c")
    assert [len(row.steps) for row in loaded(chat.events).all if isinstance(row, StoryRow)] == [2, 1]


def test_a_step_that_is_asked_about_shows_only_as_the_question() -> None:
    rows = lived(Chat().user("q").starts("a").asks("a").events)
    assert shape(rows) == ["UserRow: q", "AskRow: Run this outside the sealed box?"]
    assert rows.open_ask() is not None
    rows.add(StepAnswered(step="a", answer="once"))
    assert shape(rows)[1:] == ["StoryRow: [('Ran the tests', 'running')]"]
    assert rows.open_ask() is None


def test_a_refused_step_says_that_it_did_not_run_and_names_no_place() -> None:
    rows = lived(Chat().user("q").starts("a", "Ran make").asks("a").ends("a", "refused", where="").events)
    story = next(row for row in rows.all if isinstance(row, StoryRow))
    assert words.spoken(story) == "Run make, did not run"


def test_a_step_left_running_when_the_turn_ends_does_not_run_for_ever() -> None:
    rows = lived(Chat().user("q").starts("a").done("cut_off").events)
    assert shape(rows)[1:] == [
        "StoryRow: [('Ran the tests', 'cut_off')]",
        "NoteRow: Conch closed before this was finished.",
    ]


def test_output_in_a_flood_keeps_both_ends_and_stays_small() -> None:
    rows = lived(Chat().user("q").starts("a").prints("a", "first\n").events)
    for number in range(300):
        rows.add(Chat().prints("a", f"{number}:" + "x" * 10_000 + "\n").events[0])
    (step,) = next(row for row in rows.all if isinstance(row, StoryRow)).steps
    assert step.text.startswith("first\n")
    assert len(step.text) < 400_000
    assert words.tail(step.text, 10)[0][-1].startswith("299:")


def test_progress_goes_away_once_it_prints() -> None:
    rows = lived(Chat().user("q").starts("a").events)
    rows.add(
        StepProgress(step="a", words="Getting the container's system ready", done=312_000_000, total=1_100_000_000)
    )
    (step,) = next(row for row in rows.all if isinstance(row, StoryRow)).steps
    assert step.progress is not None
    assert words.progress(step.progress, step.place) == "Getting the container's system ready · 312 MB of 1.1 GB"
    rows.add(Chat().prints("a", "hi").events[0])
    assert step.progress is None


def test_events_of_unknown_steps_are_left_alone() -> None:
    rows = lived(Chat().user("q").prints("x", "y").asks("x").ends("x").events)
    assert shape(rows) == ["UserRow: q"]


def test_a_hit_leads_to_the_block_it_is_in() -> None:
    events = a_chat().events
    rows = loaded(events)
    for seq, shown in ((1, "Find"), (3, "I'll run"), (5, "Then I"), (6, "- one"), (12, "It comes"), (13, "Done.")):
        index = rows.at_seq(seq)
        assert index is not None
        row = rows.all[index]
        assert isinstance(row, UserRow | ProseRow), seq
        assert row.text.startswith(shown), seq
    assert rows.at_seq(0) is None


def test_the_assistant_thinks_when_a_turn_goes_on_and_nothing_moves() -> None:
    rows = lived(Chat().user("q").events)
    assert rows.waiting
    for event, waits in zip(
        Chat().says("Hi").starts("a").ends("a").starts("b").asks("b").events,
        (False, False, True, False, False),
        strict=True,
    ):
        rows.add(event)
        assert rows.waiting is waits, event
    rows.add(Chat().done().events[0])
    assert not rows.waiting


# What is said


def step(**fields: object) -> Step:
    return Step(**({"id": "s", "tool": "run_command", "words": "Ran the tests"} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "chip", "spoken"),
    [
        ({"place": "container", "state": "ok", "where": "container"}, "container", "Ran in a container"),
        ({"place": "ssh:build-box", "state": "ok", "where": "build-box"}, "build-box", "Ran on build-box"),
        ({"place": "cloud", "state": "ok", "where": "Daytona"}, "Daytona", "Ran on Daytona"),
        ({"place": "computer", "state": "ok", "where": ""}, "", ""),
        ({"place": "", "state": "ok"}, "", ""),
        ({"place": "container", "state": "running"}, "container", "Ran in a container"),
        ({"place": "container", "state": "not_run"}, "", ""),
        ({"place": "ssh:b", "state": "refused", "where": "b"}, "", ""),
    ],
)
def test_where_it_ran(fields: dict[str, object], chip: str, spoken: str) -> None:
    one = step(**fields)
    assert words.worked_at(one) == chip
    assert words.worked_at_spoken(*words.chip_of([one])) == spoken


def test_once_on_the_row_when_every_command_ran_there() -> None:
    there = step(place="container", state="ok", where="container")
    file = step(tool="read_file", state="ok")
    here = step(place="computer", state="ok")
    assert words.same_place([there, file, there])
    assert words.chip_of([file, there]) == ("container", "container")
    assert not words.same_place([there, here])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([step(state="running")], ("Running the tests", "")),
        ([step(state="ok")], ("Ran the tests", "")),
        ([step(state="failed", code=1)], ("Ran the tests", "failed")),
        ([step(state="not_run")], ("Run the tests", "did not run")),
        ([step(state="timed_out")], ("Ran the tests", "took too long and was stopped")),
        ([step(state="ok")] * 3 + [step(state="failed")], ("Ran 4 commands", "1 failed")),
        ([step(state="ok"), step(tool="read_file", state="ok")] * 2, ("Ran 2 commands, read 2 files", "")),
        ([step(tool="edit_file", state="ok"), step(tool="odd", state="ok")], ("Edited a file, took a step", "")),
        ([step(state="ok"), step(words="Read a.py", state="running")], ("Reading a.py", "step 2")),
    ],
)
def test_a_story_in_words(steps: list[Step], said: tuple[str, str]) -> None:
    assert words.headline(steps) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0.1 s"),
        (6.14, "6.1 s"),
        (9.96, "10 s"),
        (42.4, "42 s"),
        (59.6, "1 min 00 s"),
        (192, "3 min 12 s"),
        (3900, "1 h 05 min"),
    ],
)
def test_seconds(value: float, said: str) -> None:
    assert words.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "1 byte"),
        (640, "640 bytes"),
        (1000, "1.0 KB"),
        (12_400_000, "12.4 MB"),
        (999_600, "1.0 MB"),
        (312_000_000, "312 MB"),
        (1_100_000_000, "1.1 GB"),
    ],
)
def test_sizes(value: int, said: str) -> None:
    assert words.size(value) == said


def test_an_outputs_tail_is_as_a_terminal_would_show_it() -> None:
    assert words.tail("10 %\r50 %\r100 %\ndone\r\n", 5) == (["100 %", "done"], False)
    assert words.tail("a\nb\nc\n", 2) == (["b", "c"], True)
    assert words.tail("x" * 100_000, 3)[0][0] == "x" * 2000 + "…"
    assert words.tail("\x1b[1mbold\x1b[0m \u202eback", 3) == (["bold back"], False)


# Heights


@pytest.mark.parametrize("seed", range(5))
def test_heights_add_up(seed: int) -> None:
    dice = random.Random(seed)
    plain = [dice.randint(0, 90) for _ in range(1500)]
    heights = Heights(len(plain), list(plain).__getitem__)
    assert heights.rough, "only what is looked at is guessed"
    for _ in range(300):
        if dice.random() < 0.3:
            plain.append(high := dice.randint(0, 90))
            heights.append(high)
        else:
            index = dice.randrange(len(plain))
            plain[index] = dice.randint(0, 200)
            heights.set(index, plain[index])
    for _ in range(9):
        heights.refine()
    assert not heights.rough
    assert heights.total == sum(plain)
    for index in (0, 1, 255, 256, 257, 1023, len(plain) - 1):
        assert heights.offset(index) == sum(plain[:index])
    for y in (0, 1, 500, 20_000, heights.total - 1):
        index = heights.at(y)
        assert heights.offset(index) <= y < heights.offset(index) + plain[index]
    assert heights.at(heights.total + 5) == len(plain) - 1
