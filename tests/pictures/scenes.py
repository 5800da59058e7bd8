"""The scenes: what is in the chats, and what of the window is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.chats.events import (
    AnswerText,
    ChatEvent,
    StepAsked,
    StepChanged,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
    TurnFinished,
    TurnStarted,
    UserMessage,
)
from app.chats.store import ChatStore
from app.home import Home
from tests.pictures.stage import Stage, places, ready, stage, widget_named
from ui.loop import run
from workplaces.place import NextStep, PlaceStatus, WorkPlaceId

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
DAY = 86400.0
FOLDER = Path.home() / "src" / "tidy-parser"


def draw_all(out: Path, scratch: Path, *, only: str = "") -> int:
    app = QApplication.instance() or QApplication(["conch"])
    if not isinstance(app, QApplication):
        raise TypeError("another kind of Qt application runs")
    app.setQuitOnLastWindowClosed(False)
    drawn = 0

    async def everything() -> int:
        nonlocal drawn
        for number, (name, scene) in enumerate(SCENES.items()):
            for theme in THEMES:
                if only in name:
                    await scene(out / f"{name}-{theme}.png", scratch / f"{number}-{theme}", theme)
                    drawn += 1
        return 0

    run(app, everything())
    return drawn


# What is in the chats


def turn(number: int, *events: ChatEvent) -> list[ChatEvent]:
    import msgspec

    name = f"t{number}"
    return [msgspec.structs.replace(event, turn=name) for event in events]


def ran(step: str, words: str, command: str, text: str, place: str = "container", **how: Any) -> list[ChatEvent]:
    where = {"container": "container", "computer": ""}.get(place, place.partition(":")[2])
    how = {"outcome": "ok", "code": 0, "seconds": 6.1, "where": where, **how}
    return [
        StepStarted(step=step, tool="run_command", words=words, command=command, place=place),
        StepOutput(step=step, stream="out", text=text),
        StepFinished(step=step, text=text, size=len(text), **how),
    ]


def parser_turn() -> list[ChatEvent]:
    loop = "for i in $(seq 20); do pytest -q tests/test_parser.py; done"
    failed = (
        "…\nFAILED tests/test_parser.py::test_order - AssertionError: ['b', 'a'] != ['a', 'b']\n4 failed, 16 passed\n"
    )
    return turn(
        1,
        UserMessage(text="The parser test fails one run in five. Find out why and fix it."),
        TurnStarted(engine="openai", place="container", mode="ask", model="qwen3-coder"),
        AnswerText(answer="a1", text="I'll run it a few times first to see how it fails."),
        *ran("s1", "Ran the parser tests 20 times", loop, failed, outcome="failed", code=1),
        StepChanged(step="s1", count=3, added=("report.xml",), changed=(".coverage", "tests/seeds.json")),
        AnswerText(
            answer="a2",
            text="The order comes from a `set`. Sorting it before the comparison makes it deterministic:\n\n```python\n"
            "def names(tree: Tree) -> list[str]:\n    return sorted(node.name for node in tree.walk())\n```\n",
        ),
    )


ENDED = turn(1, TurnFinished(outcome="done", tokens_in=5120, tokens_out=640))


async def seed(
    home: Path, *, events: list[ChatEvent] | None = None, place: str = "container", older: bool = True
) -> str:
    """Chats of today and before in a store; gives the newest one's id."""
    here = Home(home)
    here.prepare()
    store = ChatStore(here.chats)
    await store.open()
    now = time.time()
    others = (
        (5 * DAY, "Draft the changelog", "computer"),
        (1.01 * DAY, "Try the new build in a sandbox", "cloud"),
        (0.02 * DAY, "Rename the release branch", "computer"),
        (0.01 * DAY, "Why is the GPU box swapping so much?", "ssh:build-box"),
    )
    for ago, title, where in others:
        with mock.patch("time.time", return_value=now - ago):
            await store.make(folder=FOLDER, place=where, mode="ask", engine="commands", title=title)
    chat = await store.make(
        folder=FOLDER, place=place, mode="ask", engine="commands", title="Fix the flaky parser test"
    )
    await store.close()
    return chat.id


# The scenes

Scene = Callable[[Path, Path, Theme], Awaitable[None]]


def scene(
    then: Callable[[Stage], Awaitable[None]],
    *,
    events: Callable[[], list[ChatEvent]] | None = None,
    place: str = "container",
    empty: bool = False,
) -> Scene:
    async def draw(path: Path, home: Path, theme: Theme) -> None:
        chat = "" if empty else await seed(home, place=place)
        async with stage(home, theme) as shown:
            await shown.places(*places())
            if events is not None:
                # Now, so that a turn that still runs is one of this process.
                await shown.services.store.append(chat, *events())
                shown.window.desk.new_chat()
                shown.window.desk.open_chat(chat)
                await shown.settle()
            await then(shown)
            await shown.settle()
            shown.save(path)

    return draw


async def nothing_more(shown: Stage) -> None:
    await asyncio.sleep(0)


async def picker(shown: Stage) -> None:
    shown.window.page.composer.place_chip.click()
    await shown.settle()


async def picker_searched(shown: Stage) -> None:
    computer = "In the sealed box: writes to the work folder, no network, no keys."
    machines = [f"{kind}-{number:02}" for kind in ("build", "gpu", "lab") for number in range(1, 9)]
    await shown.places(
        ready("computer", "This computer", computer),
        ready("container", "Docker", "A fresh, locked-down box for each command."),
        *(ready(f"ssh:{name}", name, "Your machine, over SSH. Works on a copy of the folder.") for name in machines),
    )
    await picker(shown)
    widget_named(shown.window.shell, "Search: Where work runs").setText("gpu")  # type: ignore[attr-defined]
    await shown.settle()


async def picker_without_docker(shown: Stage) -> None:
    await shown.places(
        ready("computer", "This computer", "In the sealed box: writes to the work folder, no network, no keys."),
        PlaceStatus(
            id=WorkPlaceId.parse("container"),
            name="Docker",
            line="Docker is not running.",
            standing="down",
            seals=True,
            next_step=NextStep("Start Docker", command="sudo systemctl start docker"),
        ),
    )
    await picker(shown)
    shown.window.follow("place:container")


async def modes(shown: Stage) -> None:
    shown.window.page.composer.mode_chip.click()


async def engines(shown: Stage) -> None:
    shown.window.page.composer.engine_chip.click()


async def new_chat(shown: Stage) -> None:
    shown.window.new_chat()
    shown.window.page.composer.editor.setPlainText("make test")


async def asks(shown: Stage) -> None:
    shown.window.desk.working.add(shown.window.desk.shown.id)
    shown.window.desk.chats_changed.emit()


async def palette(shown: Stage) -> None:
    shown.window.open_palette()


async def palette_asked(shown: Stage) -> None:
    shown.window.open_palette()
    found = shown.window._palette
    if found is not None:
        found.field.setText("whe")
        found.field.textEdited.emit("whe")
    await shown.settle(0.3)


async def search(shown: Stage) -> None:
    field = shown.window.sidebar.search
    field.setText("pars")
    field.setFocus()
    field.textEdited.emit("pars")
    await shown.settle(0.5)


async def deleted(shown: Stage) -> None:
    shown.window.desk.bin.delete(shown.window.desk.listed()[1].id)
    await shown.settle(0.3)


async def machines(shown: Stage) -> None:
    from workplaces.ssh.machines import Copy

    async def copies(chat: str = "") -> list[Copy]:
        return [
            Copy(host="build-box", name="a", folder=FOLDER),
            Copy(host="gpu-desk", name="b", folder=FOLDER.with_name("weather-net")),
        ]

    shown.services.places.copies = copies  # type: ignore[method-assign]
    shown.window.open_settings("", "mirror.leave")
    await shown.settle(1.6)  # until the row that was looked for is calm again


def settings(page: str) -> Callable[[Stage], Awaitable[None]]:
    async def open_page(shown: Stage) -> None:
        if page == "health":
            shown.services.fixed.note("Got the container's system ready", "1.1 GB, once")
            shown.services.fixed.note("Removed containers left behind", "2 from a Conch that ended suddenly")
        shown.window.open_settings(page)
        await shown.settle(0.3)

    return open_page


async def large_text(shown: Stage) -> None:
    shown.window.themes.choose_scale(1.5)
    await shown.settle(0.3)


async def narrow(shown: Stage) -> None:
    shown.window.shell.resize(680, 560)
    await shown.settle(0.3)


def ask_events() -> list[ChatEvent]:
    return parser_turn() + turn(
        1,
        StepStarted(step="s2", tool="run_command", words="Install pytest-randomly", place="container", open=True,
                    command="pip install pytest-randomly"),
        StepAsked(step="s2", title="Run this outside the sealed box?",
                  why="It needs the network to install a package."),
    )  # fmt: skip


def live_events() -> list[ChatEvent]:
    lines = "".join(f"[{n:3}/240] Building CXX object src/CMakeFiles/parser.dir/node{n}.cc.o\n" for n in range(96, 131))
    return [
        *parser_turn(),
        *ENDED,
        *turn(
            2,
            UserMessage(text="!make -j2"),
            TurnStarted(engine="commands", place="container", mode="ask"),
            StepStarted(step="s3", tool="run_command", words="make -j2", command="make -j2", place="container",
                        by_person=True),
            StepOutput(step="s3", stream="out", text=lines),
        ),
    ]  # fmt: skip


def pulling_events() -> list[ChatEvent]:
    return turn(
        1,
        UserMessage(text="!make test"),
        TurnStarted(engine="commands", place="container", mode="ask"),
        StepStarted(step="s1", tool="run_command", words="make test", command="make test", place="container",
                    by_person=True),
    )  # fmt: skip


async def pulling(shown: Stage) -> None:
    await asks(shown)
    event = StepProgress(turn="t1", step="s1", words="Getting node:24-bookworm", done=412_000_000, total=1_100_000_000)
    shown.window.desk.happened.emit(event)


async def keyboard_on_chat(shown: Stage) -> None:
    widget_named(shown.window, "Chat").setFocus(Qt.FocusReason.ShortcutFocusReason)
    await shown.settle()


async def pulled(shown: Stage) -> None:
    await asks(shown)
    event = StepProgress(
        turn="t1", step="s1", words="Getting node:24-bookworm", done=1_100_000_000, total=1_100_000_000
    )
    shown.window.desk.happened.emit(event)


def not_run_events() -> list[ChatEvent]:
    return turn(
        1,
        UserMessage(text="!make test"),
        TurnStarted(engine="commands", place="container", mode="ask"),
        StepStarted(step="s1", tool="run_command", words="make test", command="make test", place="container",
                    by_person=True),
        StepFinished(step="s1", outcome="not_run", where="container", words="Docker is not running.",
                     next_label="Start Docker", next_command="sudo systemctl start docker"),
        TurnFinished(outcome="failed", words=""),
    )  # fmt: skip


def story_events() -> list[ChatEvent]:
    return turn(
        1,
        UserMessage(text="Does it build on both?"),
        TurnStarted(engine="openai", place="container", mode="full", model="qwen3-coder"),
        AnswerText(answer="a1", text="I'll build it in the container, then on build-box."),
        *ran("s1", "Configured the build", "cmake -S . -B build", "-- Build files have been written\n", seconds=1.4),
        *ran("s2", "Built it", "cmake --build build -j2", "[100%] Built target parser\n", seconds=31.8),
        *ran(
            "s3", "Built it", "cmake --build build -j32", "[100%] Built target parser\n", "ssh:build-box", seconds=4.2
        ),
        *ran("s4", "Looked at the folder", "git status --short", " M CMakeLists.txt\n", "computer", seconds=0.1),
        AnswerText(
            answer="a2",
            text="Both build. What differs:\n\n| where | compiler | time |\n|---|---|---|\n"
            "| container | gcc 12.2 | 31.8 s |\n| build-box | clang 18 | 4.2 s |\n\n"
            "- The container has **two** cores.\n- `build-box` has 32.\n",
        ),
        TurnFinished(outcome="done", tokens_in=9120, tokens_out=340),
    )


def long_events() -> list[ChatEvent]:
    events: list[ChatEvent] = []
    for number in range(60):
        step = f"s{number}"
        events += turn(
            number,
            UserMessage(text=f"Step {number + 1}: look at module {number} and say what it does."),
            TurnStarted(engine="openai", place="container", mode="full", model="qwen3-coder"),
            *ran(
                step, f"Read module {number}", f"wc -l src/module{number}.py", f"{number * 7} src/module{number}.py\n"
            ),
            AnswerText(answer=f"a{number}", text=f"Module {number} parses one kind of node. It has no side effects."),
            TurnFinished(outcome="done"),
        )
    return events


SCENES: dict[str, Scene] = {
    "first-start": scene(nothing_more, empty=True),
    "new-chat": scene(new_chat),
    "chat": scene(nothing_more, events=lambda: parser_turn() + ENDED),
    "chat-focus": scene(keyboard_on_chat, events=lambda: parser_turn() + ENDED),
    "place-picker": scene(picker, events=lambda: parser_turn() + ENDED),
    "place-picker-searched": scene(picker_searched, events=lambda: parser_turn() + ENDED),
    "place-picker-docker-down": scene(picker_without_docker, events=lambda: parser_turn() + ENDED),
    "mode-picker": scene(modes, events=lambda: parser_turn() + ENDED),
    "engine-picker": scene(engines, events=lambda: parser_turn() + ENDED, place="computer"),
    "ask-card": scene(asks, events=ask_events),
    "live-output": scene(asks, events=live_events),
    "image-coming": scene(pulling, events=pulling_events),
    "container-starting": scene(pulled, events=pulling_events),
    "not-run": scene(nothing_more, events=not_run_events),
    "story": scene(nothing_more, events=story_events),
    "long-chat": scene(nothing_more, events=long_events),
    "palette": scene(palette, events=lambda: parser_turn() + ENDED),
    "palette-asked": scene(palette_asked, events=lambda: parser_turn() + ENDED),
    "search": scene(search, events=lambda: parser_turn() + ENDED),
    "deleted": scene(deleted, events=lambda: parser_turn() + ENDED),
    "settings-general": scene(settings("general")),
    "settings-models": scene(settings("models")),
    "settings-security": scene(settings("security")),
    "settings-machines": scene(machines),
    "settings-health": scene(settings("health")),
    "settings-shortcuts": scene(settings("shortcuts")),
    "settings-about": scene(settings("about")),
    "large-text": scene(large_text, events=lambda: parser_turn() + ENDED),
    "narrow": scene(narrow, events=lambda: parser_turn() + ENDED),
}
