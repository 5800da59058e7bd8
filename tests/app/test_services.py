"""Everything joined: what the window starts and closes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.chats.events import AnswerText, ChatEvent, TurnFinished, UserMessage
from app.home import Home, HomeTrouble
from app.keys.keychain import Keychain, model_key
from app.keys.secret import Secret
from app.services import Services
from tests.app.test_keychain import InMemory
from tests.doubles.openai import Answer, OpenAIDouble


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
async def services(home: Home) -> AsyncIterator[Services]:
    services = Services(home)
    await services.start()
    yield services
    await services.close()


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir(exist_ok=True)
    return made


def test_building_opens_nothing(home: Home) -> None:
    services = Services(home)
    assert services.preferences.get("place") == "computer"
    assert not home.path.exists()


async def test_it_starts_in_a_home_that_was_not_there_and_closes_twice(home: Home) -> None:
    services = Services(home)
    await services.start()
    assert await services.store.chats() == []
    assert services.store.trouble is None
    assert not services.already_open
    await services.close()
    await services.close()
    assert list(home.running.iterdir()) == []


async def test_a_home_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    services = Services(Home(tmp_path / "file"))
    with pytest.raises(HomeTrouble):
        await services.start()
    await services.close()


async def test_a_model_answers_with_the_address_the_name_and_the_key_that_were_set(
    services: Services, tmp_path: Path
) -> None:
    services.keychain = Keychain(InMemory())
    ended = asyncio.Event()
    seen: list[ChatEvent] = []

    def watch(chat: str, event: ChatEvent) -> None:
        seen.append(event)
        if isinstance(event, TurnFinished):
            ended.set()

    services.turns.subscribe(watch)
    with OpenAIDouble() as double:
        double.script([Answer(text="Hello there.")])
        await services.preferences.set("model.base_url", double.base_url)
        await services.preferences.set("model.name", "double-1")
        await services.keychain.set(model_key(double.base_url), Secret("key-of-the-test"))
        chat = await services.store.make(folder=folder(tmp_path), place="computer", mode="ask", engine="openai")
        services.turns.send(chat.id, "Hi")
        await asyncio.wait_for(ended.wait(), 20)
        (request,) = double.requests
    assert request.headers["authorization"] == "Bearer key-of-the-test"
    kept = await services.store.events(chat.id)
    assert [type(event) for event in kept if event in seen] == [type(event) for event in kept[1:]]
    assert "".join(event.text for event in kept if isinstance(event, AnswerText)) == "Hello there."
    assert (await services.store.chat(chat.id)).title == "Hi"
    for file in services.home.path.rglob("*"):
        assert not file.is_file() or b"key-of-the-test" not in file.read_bytes()


async def test_closing_stops_what_runs_and_says_so(services: Services, tmp_path: Path) -> None:
    with OpenAIDouble() as double:
        double.script([Answer(text="This takes for ever.", hang_after=3)])
        await services.preferences.set("model.base_url", double.base_url)
        await services.preferences.set("model.name", "double-1")
        chat = await services.store.make(folder=folder(tmp_path), place="computer", mode="ask", engine="openai")
        said = asyncio.Event()
        services.turns.subscribe(lambda _, event: said.set() if isinstance(event, AnswerText) else None)
        services.turns.send(chat.id, "Hi")
        await asyncio.wait_for(said.wait(), 20)
        await services.close()
    again = Services(services.home)
    await again.start()
    last = (await again.store.events(chat.id))[-1]
    assert isinstance(last, TurnFinished)
    assert last.outcome == "stopped"
    await again.close()


KILLED = """
import asyncio, sys
from pathlib import Path
from app.chats.events import UserMessage
from app.home import Home
from app.services import Services

async def main():
    services = Services(Home(Path(sys.argv[1])))
    await services.start()
    chat = await services.store.make(folder=Path(sys.argv[1]), place="computer", mode="ask", engine="openai")
    await services.store.append(chat.id, UserMessage(turn="t", text="go"))
    print(chat.id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_another_conch_on_the_same_home_is_seen_and_left_alone(home: Home) -> None:
    other = subprocess.Popen([sys.executable, "-c", KILLED, str(home.path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    try:
        chat = other.stdout.readline().strip()
        second = Services(home)
        await second.start()
        assert second.already_open
        assert isinstance((await second.store.events(chat))[-1], UserMessage)
        mine = await second.store.make(folder=home.path, place="computer", mode="ask", engine="commands")
        assert {one.id for one in await second.store.chats()} == {chat, mine.id}
        await second.close()
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    third = Services(home)
    await third.start()
    assert not third.already_open
    last = (await third.store.events(chat))[-1]
    assert isinstance(last, TurnFinished)
    assert last.outcome == "cut_off"
    await third.close()


async def test_what_a_place_fixed_is_noted(services: Services) -> None:
    assert services.places._on_fixed is not None
    services.places._on_fixed("Woke Podman.", "A command needed it.")
    assert [one.what for one in services.fixed.list()] == ["Woke Podman."]


async def test_a_setting_of_another_conch_reaches_the_places(services: Services) -> None:
    from app.preferences import Preferences

    await Preferences(services.home.preferences).set("container.image", "alpine:3")
    await services.preferences.refresh()
    assert services.places._settings().image == "alpine:3"
