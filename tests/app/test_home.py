"""Where Conch keeps things, and who else works there."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.home import Home, HomeTrouble, Presence, protected_places
from app.locks import FileLock


def test_it_is_made_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCH_HOME", str(tmp_path / "a" / "conch"))
    home = Home()
    home.prepare()
    home.prepare()
    assert home.path == tmp_path / "a" / "conch"
    for folder in (home.path, home.output, home.places, home.running, home.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_name_it_is_in_the_persons_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in (None, ""):
        if named is None:
            monkeypatch.delenv("CONCH_HOME", raising=False)
        else:
            monkeypatch.setenv("CONCH_HOME", named)
        assert Home().path == tmp_path / ".conch"


def test_one_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "h").mkdir(mode=0o755)
    (tmp_path / "h").chmod(0o755)
    Home(tmp_path / "h").prepare()
    assert stat.S_IMODE((tmp_path / "h").stat().st_mode) == 0o700


def test_a_link_to_a_folder_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "h").symlink_to(tmp_path / "elsewhere")
    home = Home(tmp_path / "h")
    home.prepare()
    assert (tmp_path / "elsewhere" / "output").is_dir()
    assert {tmp_path / "h", tmp_path / "elsewhere"} <= set(protected_places(home))


def a_file(path: Path) -> None:
    path.write_text("x")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def a_link_to_a_file(path: Path) -> None:
    path.with_name("f").write_text("x")
    path.symlink_to(path.with_name("f"))


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("there", [a_file, a_link_to_nothing, a_link_to_a_file, a_link_to_itself])
def test_something_odd_is_refused_with_words(tmp_path: Path, there: object) -> None:
    path = tmp_path / "h"
    assert callable(there)
    there(path)
    with pytest.raises(HomeTrouble) as refused:
        Home(path).prepare()
    assert str(path) in refused.value.words
    assert "CONCH_HOME" in refused.value.words
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("which", ["/", "~", "~/.."])
def test_a_folder_that_holds_more_than_conch_is_refused(which: str) -> None:
    with pytest.raises(HomeTrouble, match="holds more than Conch"):
        Home(Path(which).expanduser()).prepare()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a folder to someone else")
def test_someone_elses_folder_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    with pytest.raises(HomeTrouble, match="belongs to someone else"):
        Home(theirs).prepare()
    assert list(theirs.iterdir()) == []


def test_a_folder_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(HomeTrouble, match="not a directory"):
        Home(tmp_path / "f" / "h").prepare()


def test_conchs_home_and_keys_are_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    places = protected_places(Home(tmp_path / ".conch"))
    assert tmp_path / ".conch" in places
    assert tmp_path / ".ssh" in places
    assert len(places) == len(set(places))


HOLDER = """
import sys
from pathlib import Path
from app.home import Home, Presence
presence = Presence(Home(Path(sys.argv[1])))
presence.begin()
print(presence.id, flush=True)
sys.stdin.read()
"""


def test_another_process_is_seen_for_as_long_as_it_lives(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.prepare()
    mine = Presence(home)
    assert not mine.alive(mine.id)
    mine.begin()
    assert mine.alive(mine.id)
    assert mine.others() == []
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        assert mine.alive(theirs)
        assert mine.others() == [theirs]
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert not mine.alive(theirs)
    assert mine.others() == []
    mine.end()
    assert list(home.running.iterdir()) == []


@pytest.mark.parametrize("odd", ["", "..", "../chats.sqlite3", "/etc/passwd", "nobody"])
def test_an_odd_id_is_nobodys(tmp_path: Path, odd: str) -> None:
    home = Home(tmp_path / "h")
    home.prepare()
    home.chats.write_text("precious")
    assert not Presence(home).alive(odd)
    assert home.chats.read_text() == "precious"


def test_a_lock_whose_file_went_is_taken_anew(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")
    assert one.take(wait=False)
    assert not two.take(wait=False)
    one.release(remove=True)
    assert two.take(wait=False)
    assert not FileLock(tmp_path / "l").take(wait=False)
    two.release()
    one.release()
