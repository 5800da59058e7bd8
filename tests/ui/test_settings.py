"""Settings: what is changed there is so at once and after a restart, and is found by its words."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.backends.fail
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget

from app.services import Services
from tests.ui.test_place_picker import COMPUTER, DOCKER, DOWN, Standings
from tests.ui.window_hands import CTRL, SHIFT, Person, use_window


def kept(home: Path) -> dict[str, Any]:
    file = home / "preferences.json"
    return json.loads(file.read_text()) if file.exists() else {}


def use(home: Path, script: Any, *statuses: Any) -> None:
    standings = Standings(*(statuses or (COMPUTER, DOCKER)))

    def double(services: Services) -> None:
        services.places.status = standings.status  # type: ignore[method-assign]

    use_window(home, script, before=double)


async def open_settings(person: Person, page: str = "") -> None:
    await person.key(Qt.Key.Key_Comma, CTRL)
    await person.until(lambda: person.there("Search settings"), "Settings are open")
    if page:
        await person.click(page)


def test_esc_and_back_lead_to_the_chats(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        for leave in ("key", "button"):
            await open_settings(person)
            assert not person.there("Search chats")
            if leave == "key":
                await person.key(Qt.Key.Key_Escape)
            else:
                await person.click("Back to the chats")
            await person.until(lambda: person.there("Search chats"), "the chats are there again")

    use(conch_home, script)


def test_the_theme_changes_at_once_and_is_kept(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "General")
        light = person.window.shell.grab().toImage().pixelColor(400, 400).lightness()
        await person.click("Theme: Dark")
        await person.until(
            lambda: person.window.shell.grab().toImage().pixelColor(400, 400).lightness() < light / 3, "it is dark"
        )
        await person.until(lambda: kept(conch_home).get("theme") == "dark", "it is kept")

    async def again(person: Person) -> None:
        assert person.window.shell.grab().toImage().pixelColor(5, 5).lightness() < 60, "dark from the first frame"
        await open_settings(person, "General")
        await person.click("Theme: As the system")
        await person.until(lambda: kept(conch_home).get("theme") == "system", "it is kept")

    use(conch_home, script)
    use(conch_home, again)


def test_text_grows(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "General")
        before = person.find("Back to the chats").height()
        await person.click("Text size: 150")
        await person.until(lambda: person.find("Back to the chats").height() > 1.2 * before, "it is larger")
        await person.until(lambda: kept(conch_home).get("text.size") == 150, "it is kept")

    use(conch_home, script)


def test_large_text_in_a_small_window_cuts_nothing_off(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        shell = person.window.shell
        shell.resize(800, 600)
        await open_settings(person, "General")
        for size in (130, 150):
            await person.click(f"Text size: {size}")
            await person.until(partial(lambda wanted: kept(conch_home).get("text.size") == wanted, size), "it is kept")
            for page in ("General", "Models", "Security", "Shortcuts"):
                await person.click(page)
                await person.rest()
                side = person.window.sides.width()
                for part in shell.findChildren(QWidget):
                    left = part.mapTo(shell, QPoint(0, 0)).x()
                    if not part.isVisible() or not part.accessibleName() or left < side:
                        continue
                    assert left + part.width() <= shell.width(), f"{part.accessibleName()} is cut off at {size}, {page}"
            await person.click("General")
        await person.key(Qt.Key.Key_K, CTRL)
        await person.until(lambda: person.there("What was found"), "the palette is open")
        found = person.find("What was found")
        assert found.mapTo(shell, QPoint(0, found.height())).y() <= shell.height()

    use(conch_home, script)


def test_a_setting_is_found_by_its_words_and_shown(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person)
        await person.click("Search settings")
        await person.type("api key")
        await person.until(lambda: person.there("The model's key, in Models"), "it is found")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: person.focused() == "The model's key", "the field has the keyboard")
        await person.click("Search settings")
        await person.type("nothing like that")
        await person.sees("Nothing is called that.")

    use(conch_home, script)


def test_where_work_runs_shows_how_each_place_stands_and_makes_one_the_default(
    conch_home: Path, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        await person.sees("Where new chats run their commands.")
        await person.until(lambda: person.there("This computer: Default"), "this computer is the default")
        await person.click("Docker: Make default")
        await person.until(lambda: person.there("Docker: Default"), "the container is")
        assert person.there("This computer: Make default")
        await person.until(lambda: kept(conch_home).get("place") == "container", "it is kept")

    use(conch_home, script)


def test_a_default_that_is_not_ready_puts_a_dot_on_settings(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await person.services.preferences.set("place", "container")
        await person.until(lambda: person.there("Settings. Docker: Docker is not running."), "it is said there")
        await person.click("Settings.")
        await person.click("Security")
        await person.until(lambda: person.there("Docker: Start Docker"), "the one next step")

    use(conch_home, script, COMPUTER, DOWN)


def test_the_containers_image_is_checked_and_kept(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        await person.replace("The container's image", "not an image!")
        await person.key(Qt.Key.Key_Return)
        await person.sees("is not the name of an image")
        assert "container.image" not in kept(conch_home)
        await person.replace("The container's image", "docker.io/library/debian:12")
        await person.key(Qt.Key.Key_Return)
        await person.until(lambda: kept(conch_home).get("container.image") == "docker.io/library/debian:12", "kept")
        await person.until(lambda: "is not the name" not in person.seen(), "the sentence is gone")
        await person.click("Use the default")
        await person.until(lambda: kept(conch_home).get("container.image", "").endswith("node:24-bookworm"), "kept")

    use(conch_home, script)


def test_a_models_address_is_checked(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Models")
        await person.replace("The model's address", "ftp://somewhere")
        await person.key(Qt.Key.Key_Tab)
        await person.sees("begins with http:// or https://")
        await person.replace("The model's address", "http://127.0.0.1:11434/v1")
        await person.key(Qt.Key.Key_Tab)
        await person.type("qwen3")
        await person.key(Qt.Key.Key_Tab)
        await person.until(lambda: kept(conch_home).get("model.name") == "qwen3", "both are kept")
        await person.until(lambda: "begins with http" not in person.seen(), "the sentence is gone")

    use(conch_home, script)


class Memory(keyring.backend.KeyringBackend):
    """A keychain in memory."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


@pytest.fixture
def keychain() -> Memory:
    return Memory()


def test_a_key_goes_to_the_keychain_and_is_never_shown_again(
    conch_home: Path, qapp: QApplication, keychain: Memory
) -> None:
    secret = "sk-very-secret-0123456789"

    def double(services: Services) -> None:
        services.keychain._given = keychain

    async def script(person: Person) -> None:
        await person.services.preferences.set("model.base_url", "http://127.0.0.1:11434/v1")
        await open_settings(person, "Models")
        await person.replace("The model's key", secret)
        await person.click("Save key")
        await person.sees("A key is kept for this address.")
        await person.sees("kept in this computer's keychain")
        assert list(keychain.held.values()) == [secret]
        assert secret not in person.seen()
        await person.click("Forget key")
        await person.until(lambda: not keychain.held, "it is gone from the keychain")
        await person.until(lambda: "A key is kept" not in person.seen(), "and that is said")

    use_window(conch_home, script, before=double)
    everything = b"".join(path.read_bytes() for path in conch_home.rglob("*") if path.is_file())
    assert secret.encode() not in everything


def test_where_there_is_no_keychain_it_says_what_becomes_of_the_key(
    conch_home: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", keyring.backends.fail.Keyring)  # as on a system without any
    secret = "sk-very-secret-0123456789"

    async def script(person: Person) -> None:
        await open_settings(person, "Models")
        await person.sees("This computer has no keychain that Conch can use")
        await person.sees("The key is written nowhere, sent only to this address")
        assert "keychain, sent only" not in person.seen()
        await person.replace("The model's address", "http://127.0.0.1:11434/v1")
        await person.key(Qt.Key.Key_Tab)
        await person.until(lambda: "model.base_url" in kept(conch_home), "the address is kept")
        await person.replace("The model's key", secret)
        await person.click("Save key")
        await person.sees("A key is held for this address. This computer has no keychain")
        assert "A key is kept" not in person.seen()

    async def again(person: Person) -> None:
        await open_settings(person, "Models")
        await person.sees("This computer has no keychain that Conch can use")
        assert not person.there("Forget key"), "it went when Conch closed"

    use_window(conch_home, script)
    use_window(conch_home, again)
    everything = b"".join(path.read_bytes() for path in conch_home.rglob("*") if path.is_file())
    assert secret.encode() not in everything


def test_every_key_is_listed_and_what_was_fixed_is_shown(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        person.services.fixed.note("Got the container's system ready", "1.1 GB, once")
        await open_settings(person, "Health")
        await person.sees("Got the container's system ready")
        await person.sees("1.1 GB, once")
        await person.click("Shortcuts")
        for action in person.window.actions_:
            if action.shortcut().toString() and not action.objectName().startswith("chat"):
                assert action.text().rstrip("…") in person.seen()
        await person.click("About")
        await person.sees(str(conch_home))

    use(conch_home, script)


def test_tab_goes_round_and_every_stop_is_seen(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "General")
        seen = []
        for _ in range(60):
            await person.key(Qt.Key.Key_Tab)
            seen.append(person.focused())
        assert all(seen), "every stop has a name"
        for name in ("Back to the chats", "Search settings", "General", "Theme: As the system"):
            assert name in seen
        await person.key(Qt.Key.Key_Tab, SHIFT)
        assert person.focused() == seen[-2]

    use(conch_home, script)
