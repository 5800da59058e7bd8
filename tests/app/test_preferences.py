"""What the person chose: kept whole, checked, merged between processes, and said when it cannot be used."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.preferences import BadPreference, Preferences, PreferenceTrouble
from app.preferred import TABLE
from workplaces.container.hosts import BadHosts, HostList
from workplaces.service import DEFAULT_IMAGE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "preferences.json"


def in_file(path: Path) -> Any:
    return json.loads(path.read_text())


def test_every_default_is_a_value_that_it_takes() -> None:
    for one in TABLE.values():
        assert one.check(one.default) == one.default
        assert one.words.endswith(".")


async def test_what_is_set_is_there_at_once_and_in_the_file(path: Path) -> None:
    preferences = Preferences(path)
    assert preferences.get("place") == "computer"
    assert not preferences.chosen("place")
    saving = asyncio.get_running_loop().create_task(preferences.set("place", "container"))
    await asyncio.sleep(0)
    assert preferences.get("place") == "container"
    assert await saving == "container"
    assert in_file(path) == {"place": "container"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Preferences(path)
    assert again.get("place") == "container"
    assert again.chosen("place")
    assert again.troubles == []
    await again.reset("place")
    assert in_file(path) == {}
    assert again.get("place") == "computer"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("place", "ssh:build-box"),
        ("place", "cloud"),
        ("mode", "full"),
        ("engine", "openai"),
        ("container.image", "alpine"),
        ("container.image", "localhost:5000/team/tool:1.2_x"),
        ("container.image", "localhost/x"),
        ("container.image", "registry.example.com/a/b@sha256:" + "0f" * 32),
        ("container.image", "[::1]:5000/a"),
        ("container.hosts", ""),
        ("container.hosts", "pypi.org *.npmjs.org"),
        ("container.hosts", "pypi.org,files.pythonhosted.org"),
        ("model.base_url", "http://localhost:11434/v1"),
        ("model.base_url", "https://openrouter.ai/api/v1"),
        ("model.base_url", ""),
        ("model.name", "qwen3:8b"),
        ("theme", "dark"),
        ("motion", "off"),
        ("folder.last", os.fsdecode(b"/tmp/\xff")),
    ],
)
async def test_what_is_good_is_taken(path: Path, name: str, value: str) -> None:
    await Preferences(path).set(name, value)
    assert Preferences(path).get(name) == value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("place", "moon", "“moon” is not a place"),
        ("place", "ssh:-oProxyCommand=x", "cannot be a machine's name"),
        ("mode", "yolo", "ask, full"),
        ("engine", "no such engine!", "not the name of an engine"),
        ("container.image", "", "not the name of an image"),
        ("container.image", "Team/tool", "not the name of an image"),
        ("container.image", "a b", "not the name of an image"),
        ("container.image", "-v", "not the name of an image"),
        ("container.image", "a:tag:tag", "not the name of an image"),
        ("container.image", "https://docker.io/library/node", "not the name of an image"),
        ("container.image", "a" * 600, "not the name of an image"),
        ("container.hosts", "https://pypi.org", "not a host's name"),
        ("container.hosts", "pypi.org *", "nearly everything"),
        ("container.hosts", "*.org", "nearly everything"),
        ("container.hosts", "127.0.0.1", "not a host's name"),
        ("container.hosts", "off", "not a host's name"),
        ("model.base_url", "ftp://x/v1", "http:// or https://"),
        ("model.base_url", "localhost:11434", "http:// or https://"),
        ("model.base_url", "file:///etc/passwd", "http:// or https://"),
        ("model.base_url", "http://me:hunter2@x/v1", "may not hold a name or a password"),
        ("model.base_url", "http://x/a b", "http:// or https://"),
        ("model.name", "a\nb", "one line"),
        ("theme", "pink", "system, light, dark"),
        ("text.size", "79", "between 80 and 200"),
        ("text.size", "large", "not a whole number"),
        ("text.size", True, "not a whole number"),
        ("theme", 7, "takes text"),
        ("colour", "red", "is not a preference. The names are: place, mode"),
    ],
)
async def test_what_is_not_is_refused_with_words_and_changes_nothing(
    path: Path, name: str, value: Any, words: str
) -> None:
    preferences = Preferences(path)
    with pytest.raises(BadPreference) as refused:
        await preferences.set(name, value)
    assert words in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert not path.exists()


@pytest.mark.parametrize("held", ["https://pypi.org", ["pypi.org"], 7, True])
async def test_a_list_of_hosts_that_cannot_be_used_is_not_taken_for_none(path: Path, held: Any) -> None:
    """Without one everything can be reached."""
    path.write_text(json.dumps({"container.hosts": held}))
    preferences = Preferences(path)
    assert preferences.get("container.hosts") == ""
    with pytest.raises(BadHosts):
        HostList.parse(preferences.written("container.hosts"))
    await preferences.set("container.hosts", "pypi.org")
    assert preferences.written("container.hosts") == "pypi.org"
    await preferences.reset("container.hosts")
    assert preferences.written("container.hosts") == ""


async def test_a_number_is_a_number_in_the_file(path: Path) -> None:
    preferences = Preferences(path)
    assert await preferences.set("text.size", " 120 ") == 120
    assert in_file(path) == {"text.size": 120}
    assert preferences.get("text.size") == 120


async def test_names_of_a_newer_version_are_kept(path: Path) -> None:
    path.write_text('{"from.the.future": {"a": [1]}, "theme": "dark"}')
    preferences = Preferences(path)
    await preferences.set("theme", "light")
    assert in_file(path) == {"from.the.future": {"a": [1]}, "theme": "light"}
    assert preferences.troubles == []


async def test_a_value_that_cannot_be_used_is_said_and_stays(path: Path) -> None:
    path.write_text('{"place": "the moon", "theme": "dark"}')
    preferences = Preferences(path)
    assert preferences.get("place") == "computer"
    assert preferences.get("theme") == "dark"
    (trouble,) = preferences.troubles
    assert "“the moon” is not a place" in trouble
    assert "the moon" in (preferences.unusable("place") or "")
    assert preferences.unusable("theme") is None
    await preferences.set("theme", "light")
    assert in_file(path)["place"] == "the moon"


@pytest.mark.parametrize(
    "damaged",
    [
        b'{\n  "container.image": "alpine",\n  "place": "container",\n  "theme": "da',
        b'{\n  "container.image": "alpine",\n  "place": "container"\n  "theme": oops\n}\n',
        b'\xff{\n"container.image": "alpine",\n"place": "container",\n}',
        b'{ "container.image": "alpine",\n"place": "container", }\n]]]',
    ],
)
async def test_a_file_that_cannot_be_read_is_kept_aside_and_its_good_parts_stay(path: Path, damaged: bytes) -> None:
    path.write_bytes(damaged)
    preferences = Preferences(path)
    assert preferences.get("place") == "container"
    assert preferences.get("container.image") == "alpine"
    (trouble,) = preferences.troubles
    (aside,) = [one for one in path.parent.iterdir() if ".kept-" in one.name]
    assert str(aside) in trouble
    assert aside.read_bytes() == damaged
    assert in_file(path) == {"place": "container", "container.image": "alpine"}
    assert Preferences(path).get("place") == "container"


@pytest.mark.parametrize("damaged", [b"", b"[1, 2]", b"nonsense", b"[" * 100_000, b'{"a": "' + b"x" * 2_000_000])
async def test_a_file_without_good_parts_gives_defaults(path: Path, damaged: bytes) -> None:
    path.write_bytes(damaged)
    preferences = Preferences(path)
    assert preferences.get("container.image") == DEFAULT_IMAGE
    assert len(preferences.troubles) == 1
    await preferences.set("theme", "dark")
    assert in_file(path) == {"theme": "dark"}


async def test_each_change_is_told_once(path: Path) -> None:
    preferences = Preferences(path)
    told: list[tuple[str, object]] = []
    end = preferences.subscribe(lambda name, value: told.append((name, value)))
    await preferences.set("theme", "dark")
    await preferences.set("theme", "dark")
    await preferences.set("text.size", 150)
    await preferences.reset("theme")
    assert told == [("theme", "dark"), ("text.size", 150), ("theme", "system")]
    end()
    end()
    await preferences.set("theme", "light")
    assert len(told) == 3


async def test_two_that_write_take_in_each_others_changes(path: Path) -> None:
    window, other = Preferences(path), Preferences(path)
    told: list[tuple[str, object]] = []
    assert window.get("theme") == other.get("theme") == "system"
    window.subscribe(lambda name, value: told.append((name, value)))
    await other.set("place", "container")
    assert window.get("place") == "computer"
    await window.set("theme", "dark")
    assert in_file(path) == {"place": "container", "theme": "dark"}
    assert window.get("place") == "container"
    await other.set("motion", "off")
    await window.refresh()
    assert window.get("motion") == "off"
    await window.refresh()
    assert told == [("theme", "dark"), ("place", "container"), ("motion", "off")]
    await other.refresh()
    assert other.get("theme") == "dark"


async def test_a_later_change_is_not_undone_by_an_earlier_write(path: Path) -> None:
    preferences = Preferences(path)
    await asyncio.gather(*(preferences.set("theme", value) for value in ("dark", "light") * 20))
    assert preferences.get("theme") == in_file(path)["theme"] == "light"


async def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from app.preferences import Preferences\n"
        "async def main():\n"
        "    p = Preferences(Path(sys.argv[1]))\n"
        "    for n in range(40): await p.set(sys.argv[2], sys.argv[3] + str(n))\n"
        "asyncio.run(main())"
    )
    names = (("model.name", "m"), ("engine", "e"), ("container.image", "i"))
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), *one]) for one in names]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert in_file(path) == {"model.name": "m39", "engine": "e39", "container.image": "i39"}
    assert sorted(one.name for one in path.parent.iterdir()) == ["preferences.json", "preferences.json.lock"]


async def test_what_could_not_be_written_is_as_it_was(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "gone" / "preferences.json")
    told: list[object] = []
    preferences.subscribe(lambda name, value: told.append(value))
    with pytest.raises(PreferenceTrouble, match="could not be kept"):
        await preferences.set("theme", "dark")
    assert preferences.get("theme") == "system"
    assert told == ["dark", "system"]


async def test_a_file_that_may_not_be_read_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "preferences.json"
    path.mkdir()  # for root too, nothing else is as unreadable
    preferences = Preferences(path)
    assert preferences.get("theme") == "system"
    assert len(preferences.troubles) == 1
    with pytest.raises(PreferenceTrouble):
        await preferences.set("theme", "dark")
    assert path.is_dir()


async def test_a_link_to_settings_kept_elsewhere_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text('{"theme": "dark"}')
    path = tmp_path / "preferences.json"
    path.symlink_to(kept)
    preferences = Preferences(path)
    await preferences.set("motion", "off")
    assert path.is_symlink()
    assert in_file(kept) == {"theme": "dark", "motion": "off"}


async def test_a_caller_that_is_stopped_leaves_memory_and_file_alike(path: Path) -> None:
    preferences = Preferences(path)
    saving = asyncio.get_running_loop().create_task(preferences.set("theme", "dark"))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    await preferences.set("motion", "off")
    assert in_file(path) == {"theme": "dark", "motion": "off"}
    assert preferences.get("theme") == "dark"
