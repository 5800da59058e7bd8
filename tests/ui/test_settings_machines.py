"""Settings › your machines: which are offered, what stays here, and the copies there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.ui.test_place_picker import BOX, COMPUTER
from tests.ui.test_settings import kept, open_settings, use
from tests.ui.window_hands import Person
from workplaces.place import PlaceUnavailable
from workplaces.ssh.machines import Copy


class Copies:
    """The copies of a test, in place of those on machines: tests/real has these."""

    def __init__(self, person: Person, *copies: Copy) -> None:
        self.left = list(copies)
        self.removed: list[tuple[str, str]] = []
        self.down = False
        self.others: dict[str, dict[str, int]] = {}  # what lies there and this Conch does not know
        places = person.window.desk.services.places
        places.copies = self.copies  # type: ignore[method-assign]
        places.copy_sizes = self.copy_sizes  # type: ignore[method-assign]
        places.remove_copy = self.remove_copy  # type: ignore[method-assign]

    async def copies(self, chat: str = "") -> list[Copy]:
        return [copy for copy in self.left if not chat or copy.name == chat]

    async def copy_sizes(self, host: str) -> dict[str, int]:
        self._reach(host)
        return {copy.name: 12_400_000 for copy in self.left if copy.host == host} | self.others.get(host, {})

    async def remove_copy(self, host: str, name: str) -> None:
        self._reach(host)
        self.removed.append((host, name))
        self.left = [copy for copy in self.left if (copy.host, copy.name) != (host, name)]
        self.others.get(host, {}).pop(name, None)

    def _reach(self, host: str) -> None:
        if self.down:
            raise PlaceUnavailable(f"{host} is not answering.")


def copy(name: str, host: str = "build-box") -> Copy:
    return Copy(host=host, name=name, folder=Path.home() / "src" / "tidy")


def test_what_stays_here_is_typed_and_checked(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        await open_settings(person, "Security")
        await person.sees("node_modules")
        await person.replace("Folders that stay here", "data ../up")
        await person.key(Qt.Key.Key_Return)
        await person.sees("“../up” is not the name of a folder")
        assert "mirror.leave" not in kept(conch_home)
        for field, name, text in (
            ("Folders that stay here", "mirror.leave", "data, out"),
            ("Copied all the same", "mirror.carry", "target"),
            ("Machines that are offered", "ssh.hosts", "build-box"),
        ):
            await person.replace(field, text)
            await person.key(Qt.Key.Key_Return)
            await person.until(lambda name=name, text=text: kept(conch_home).get(name) == text, "it is kept")
        settings = person.window.desk.services._base._settings()
        assert (settings.leave, settings.carry, settings.ssh_hosts) == (("data", "out"), ("target",), ("build-box",))

    use(conch_home, script)


def test_copies_are_measured_when_asked_and_removed_when_pressed_twice(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        copies = Copies(person, copy("chat-1"), copy("chat-2", "gpu-desk"))
        await open_settings(person, "Security")
        await person.sees("On build-box, of ~/src/tidy")
        assert "12.4 MB" not in person.seen(), "no machine was asked"
        copies.down = True
        await person.click("See how big they are")
        await person.sees("build-box is not answering.")
        copies.down = False
        await person.click("See how big they are")
        await person.sees("On gpu-desk, of ~/src/tidy · 12.4 MB")
        await person.click("Remove the copy on build-box")
        await person.sees("What only lies on build-box is lost.")
        assert copies.removed == [], "once is a question"
        await person.click("Remove it there, on build-box")
        await person.until(lambda: copies.removed == [("build-box", "chat-1")], "it is removed")
        await person.until(lambda: "On build-box, of" not in person.seen(), "it is not listed")
        await person.click("Remove the copy on gpu-desk")
        await person.click("Remove it there, on gpu-desk")
        await person.sees("None lie on your machines")

    use(conch_home, script)


def test_copies_that_this_conch_does_not_know_are_seen_once_they_are_measured(
    conch_home: Path, qapp: QApplication
) -> None:
    async def script(person: Person) -> None:
        copies = Copies(person)
        copies.others = {"build-box": {"run-12ab": 3_000_000}}
        await open_settings(person, "Security")
        await person.sees("None lie on your machines")
        await person.until(lambda: person.there("See how big they are"), "a machine was reached")
        await person.click("See how big they are")
        await person.sees("On build-box, which this Conch does not know · 3.0 MB")
        assert "run-12ab" in person.seen()
        await person.click("Remove the copy on build-box")
        await person.click("Remove it there, on build-box")
        await person.until(lambda: copies.removed == [("build-box", "run-12ab")], "it is removed")
        await person.sees("None lie on your machines")

    use(conch_home, script, COMPUTER, replace(BOX, details={"reached": "yes"}))


def test_they_are_found_by_their_words(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        Copies(person, copy("chat-1"))
        await open_settings(person)
        await person.click("Search settings")
        await person.type("copies")
        await person.key(Qt.Key.Key_Return)
        await person.until(
            lambda: (
                person.there("Remove the copy on build-box")
                and not person.find("Remove the copy on build-box").visibleRegion().isEmpty()
            ),
            "the page went there",
        )

    use(conch_home, script)


def test_a_chat_that_is_deleted_offers_to_remove_its_copy(conch_home: Path, qapp: QApplication) -> None:
    async def script(person: Person) -> None:
        desk = person.window.desk
        for title in ("one", "two"):
            await desk.services.store.make(
                folder=conch_home.parent, place="computer", mode="ask", engine="commands", title=title
            )
        desk.chats = await desk.services.store.chats()
        one, two = (next(chat.id for chat in desk.chats if chat.title == title) for title in ("one", "two"))
        copies = Copies(person, copy(one), copy(two, "gpu-desk"))
        desk.bin.delete(one)
        await person.sees("Deleted “one”.")
        await person.click("Close this note")
        await person.sees("Its copy is still on build-box. Your folder here stays as it is either way.")
        await person.click("Remove it there")
        await person.until(lambda: copies.removed == [("build-box", one)], "it is removed")
        await person.sees("Removed on build-box.")
        copies.down = True
        await person.click("Close this note")
        desk.bin.delete(two)
        await person.sees("Deleted “two”.")
        await person.click("Close this note")
        await person.click("Remove it there")
        await person.sees("gpu-desk is not answering. The copy on gpu-desk is listed in Settings")

    use(conch_home, script)
