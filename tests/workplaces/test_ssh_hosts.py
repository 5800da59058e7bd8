"""Which machines an SSH settings file names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workplaces.place import WorkPlaceId
from workplaces.ssh.hosts import Hosts


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    folder = tmp_path / ".ssh"
    folder.mkdir()
    return folder / "config"


def names(settings: Path, text: str | bytes) -> tuple[str, ...]:
    settings.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Hosts(settings).read().names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("Host build-box\n  HostName 10.0.0.1\n", ("build-box",)),
        ("host a\nHOST b\n", ("a", "b")),
        ("Host a b   c\td\n", ("a", "b", "c", "d")),
        ("Host=a\nHost = b\nHost =c\n", ("a", "b", "c")),
        ('Host "a" \'b\' c"d"\n', ("a", "b", "cd")),
        ("   Host a\n\t\tHost b\n", ("a", "b")),
        ("Host a\r\nHost b\r\n  User x\r\n", ("a", "b")),
        (b"\xef\xbb\xbfHost a\n", ("a",)),
        ("Host a # b c\n# Host d\n", ("a",)),
        ("Host a\nHost a b\n", ("a", "b")),
        ("Host *\nHost *.lan web-? !x a\n", ("a",)),
        ("Host a !a\n", ("a",)),
        ("Host -oProxyCommand=evil --help -x a\n", ("a",)),
        ("Host a;b $(id) `id` a|b x/y\n", ()),
        ('Host "a b"\nHost ""\nHost\n', ()),
        ("Host 10.0.0.1 ::1 [::1] me@there fe80::1%eth0\n", ("10.0.0.1", "::1", "[::1]", "me@there", "fe80::1%eth0")),
        ("Match host x\n  User y\nHost a\nMatch all\nHost b\nMatch exec false\n", ("a", "b")),
        ("Hostname x\nHostKeyAlias y\nHost a\n", ("a",)),
        (b"Host a\n\xff\xfe\x00Host b\nHost c\n", ("a", "c")),
        ("Host a", ("a",)),
    ],
)
def test_a_file_names_its_machines(settings: Path, text: str | bytes, found: tuple[str, ...]) -> None:
    assert names(settings, text) == found


def test_a_file_that_is_not_there_names_none(settings: Path) -> None:
    listed = Hosts(settings).read()
    assert (listed.names, listed.unreadable) == ((), ())


def test_a_file_that_cannot_be_read_is_told(settings: Path) -> None:
    settings.mkdir()
    assert Hosts(settings).read().unreadable == (settings,)


def test_included_files_are_followed(settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONCH_TEST_PLACE", str(tmp_path))
    ssh = settings.parent
    (ssh / "conf.d").mkdir()
    (ssh / "conf.d" / "20").write_text("Host twenty\n")
    (ssh / "conf.d" / "10").write_text("Include nested\nHost ten\n")
    (ssh / "nested").write_text("Host nested\n")
    (tmp_path / "elsewhere").write_text("Host elsewhere\n")
    (tmp_path / "a file").write_text("Host spaced\n")
    text = f"""Include conf.d/* missing
    Include = ~/elsewhere
    Include "{tmp_path}/a file" ~nobody-of-that-name/x
    Include ${{CONCH_TEST_PLACE}}/elsewhere
    Host last
    """
    assert names(settings, text) == ("nested", "ten", "twenty", "elsewhere", "spaced", "last")


def test_what_a_block_includes_holds_for_that_block_alone(settings: Path) -> None:
    (settings.parent / "more").write_text("Host a\nHost web-1\nHost b\nHost web-2\n")
    assert names(settings, "Host a web-* !web-2\n  Include more\nHost z\n") == ("a", "web-1", "z")
    assert names(settings, "Match user me\n  Include more\n") == ("a", "web-1", "b", "web-2")
    assert names(settings, "Host *\n  Include more\n") == ("a", "web-1", "b", "web-2")


def test_files_that_include_each_other_end(settings: Path) -> None:
    (settings.parent / "a").write_text("Include b b b\nHost a\n")
    (settings.parent / "b").write_text("Include a a config\nHost b\n")
    assert names(settings, "Include config a\nHost z\n") == ("b", "a", "z")


def test_a_change_anywhere_is_seen(settings: Path) -> None:
    folder = settings.parent / "conf.d"
    folder.mkdir()
    hosts = Hosts(settings)
    assert hosts.read().names == ()
    assert not hosts.changed()
    settings.write_text("Include conf.d/*\nHost a\n")
    assert hosts.changed()
    assert hosts.read().names == ("a",)
    assert not hosts.changed()
    (folder / "new").write_text("Host b\n")
    assert hosts.changed()
    assert hosts.read().names == ("b", "a")
    (folder / "new").write_text("Host b c\n")
    assert hosts.read().names == ("b", "c", "a")
    # an editor that writes beside and renames, in the same second and with the same size
    seen = settings.stat()
    other = settings.with_name("other")
    other.write_text("Include conf.d/*\nHost z\n")
    os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    other.replace(settings)
    assert hosts.read().names == ("b", "c", "z")
    (folder / "new").unlink()
    assert hosts.read().names == ("z",)
    settings.unlink()
    assert hosts.read().names == ()


@given(st.binary(max_size=400), st.lists(st.sampled_from(["Host ", "Include ", "Match ", "*", "\n", '"', "-a", "b"])))
def test_no_file_breaks_it_and_no_name_is_an_option(tmp_path_factory: object, noise: bytes, parts: list[str]) -> None:
    folder = Path(str(tmp_path_factory.mktemp("ssh")))  # type: ignore[attr-defined]
    (folder / "config").write_bytes(noise + "".join(parts).encode() + noise)
    for name in Hosts(folder / "config").read().names:
        assert not name.startswith("-")
        assert WorkPlaceId.parse(f"ssh:{name}") == WorkPlaceId("ssh", name)
