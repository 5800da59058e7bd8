"""Chats and settings on a disk that is really full: a small tmpfs, in a mount namespace of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.real.engines.needs import missing

ROOT = Path(__file__).parents[2]

FILL = """
import asyncio, os, sys
from pathlib import Path
from app.chats.events import UserMessage
from app.chats.store import ChatStore, StoreTrouble
from app.preferences import Preferences, PreferenceTrouble

async def main():
    disk = Path(sys.argv[1])
    store = ChatStore(disk / "chats.sqlite3")
    await store.open()
    chat = await store.make(folder=disk, place="computer", mode="ask", engine="commands")
    await store.append(chat.id, UserMessage(text="before"))
    preferences = Preferences(disk / "preferences.json")
    await preferences.set("theme", "dark")

    with open(disk / "ballast", "wb") as ballast:  # nothing is left but what is already taken
        try:
            while True:
                ballast.write(os.urandom(65536))
                ballast.flush()
        except OSError:
            pass

    kept = 0
    try:
        for number in range(1000):
            await store.append(chat.id, UserMessage(text=f"{number} " + "x" * 5000))
            kept += 1
    except StoreTrouble as trouble:
        print("store:", trouble.words)
    try:
        await preferences.set("model.name", "m" * 400)
    except PreferenceTrouble as trouble:
        print("preferences:", trouble.words)

    (disk / "ballast").unlink()
    events = await store.events(chat.id)
    print(len(events) == kept + 2, preferences.get("model.name") == "")
    await store.append(chat.id, UserMessage(text="after"))
    await preferences.set("model.name", "m")
    await store.close()

    again = ChatStore(disk / "chats.sqlite3")
    await again.open()
    events = await again.events(chat.id)
    print(again.trouble, len(events) == kept + 3, events[1].text, events[-1].text)
    print(Preferences(disk / "preferences.json").get("theme"), [p.name for p in disk.glob(".*")])
    await again.close()

asyncio.run(main())
"""


def test_a_full_disk_costs_nothing_that_was_there(tmp_path: Path, need: Callable[..., None]) -> None:
    need("unshare")
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        missing("this system lets nobody make a mount namespace")
    line = 'mount -t tmpfs -o size=1m full "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [*alone, "sh", "-c", line, "sh", str(tmp_path), sys.executable, FILL],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    store, preferences, held, after, files = done.stdout.splitlines() or [done.stderr] * 5
    assert store.startswith("store: There is no room left on the disk"), done.stderr
    assert preferences.startswith("preferences: “model.name” could not be kept: no space left on device.")
    assert held == "True True"
    assert after == "None True before after"
    assert files == "dark []"
