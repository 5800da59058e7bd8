"""What the policy says, and how each adapter says it on. Whether the box holds is tried in tests/real."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from workplaces.computer.caches import cache_folder, sweep_caches
from workplaces.folder import check_folder
from workplaces.place import PlaceUnavailable
from workplaces.seal import ability, seatbelt, seccomp
from workplaces.seal.bubblewrap import Bubblewrap
from workplaces.seal.environment import environment
from workplaces.seal.keys import key_places, present_keys
from workplaces.seal.policy import (
    Hidden,
    Policy,
    hidden_now,
    hidden_when_sealed,
    keep_out,
    open_policy,
    private_folders,
    sealed_policy,
)

NEW, OLD = Bubblewrap("/usr/bin/bwrap", (0, 11, 0)), Bubblewrap("/usr/bin/bwrap", (0, 4, 0))
EMPTY = Path("/conch/empty")


def policy(**how: object) -> Policy:
    given = {"start": Path("/w"), "sealed": True, "network": False, "env": {}, "writable": (Path("/w"),), **how}
    return Policy(**given)  # type: ignore[arg-type]


def mounts(made: Policy, bwrap: Bubblewrap = NEW) -> list[tuple[str, ...]]:
    """The options that mount something in the tree, each with its arguments; sizes and modes left out."""
    words = bwrap.options(made, EMPTY)
    found: list[list[str]] = []
    for word in words:
        found.append([word]) if word.startswith("--") else found[-1].append(word)
    kinds = ("--tmpfs", "--bind", "--ro-bind", "--dev-bind", "--symlink")
    return [tuple(part) for part in found if part[0] in kinds and part[-1] != "/"]


class TestKeys:
    def test_what_is_there_is_found_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".config" / "gh").mkdir(parents=True)
        (tmp_path / ".config" / "mine").mkdir()
        (tmp_path / ".netrc").symlink_to("/nowhere")
        found = {path for path in present_keys(tmp_path) if path.startswith(str(tmp_path))}
        assert found == {f"{tmp_path}/{name}" for name in (".ssh", ".config/gh", ".netrc")}
        assert {Path(path) for path in found} <= set(key_places(tmp_path))

    def test_what_the_environment_moved_is_among_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GNUPGHOME", "/elsewhere/gnupg")
        monkeypatch.setenv("KUBECONFIG", "/a/kube:/b/kube:relative")
        monkeypatch.setenv("DOCKER_CONFIG", "/elsewhere/docker")
        monkeypatch.setenv("CODEX_HOME", str(tmp_path.parent))
        places = key_places(tmp_path)
        for path in ("/elsewhere/gnupg", "/a/kube", "/b/kube", "/elsewhere/docker/config.json"):
            assert Path(path) in places
        assert tmp_path.parent not in places, "a mistake must not close everything"
        assert Path("relative") not in places

    def test_every_place_is_under_the_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(os.environ):
            monkeypatch.delenv(name)
        places = key_places(tmp_path)
        assert len(places) == len(set(places)) > 150
        assert all(tmp_path in place.parents and ".." not in place.parts for place in places)


class TestHidden:
    def test_links_are_followed_and_what_is_not_there_stays_out(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "key").write_text("")
        (tmp_path / "folder").symlink_to("real")
        (tmp_path / "file").symlink_to("real/key")
        (tmp_path / "gone").symlink_to("nothing")
        (tmp_path / "loop").symlink_to("loop")
        names = ("folder", "file", "gone", "loop", "none", "folder/key", "folder/../real", "real/\0")
        found = hidden_now([tmp_path / name for name in names])
        assert found == Hidden((f"{tmp_path}/real",), (f"{tmp_path}/real/key",))

    def test_a_folder_reached_another_way_is_told_by_both_names(self, tmp_path: Path) -> None:
        (tmp_path / "work" / "keys").mkdir(parents=True)
        work = check_folder(tmp_path / "work")
        elsewhere = replace(work, real=Path("/elsewhere"))  # as if the same folder were mounted there too
        found = keep_out(elsewhere, Hidden((f"{tmp_path}/work/keys",)))
        assert set(found.folders) == {f"{tmp_path}/work/keys", "/elsewhere/keys"}

    def test_a_work_folder_in_a_hidden_place_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "keys" / "deep").mkdir(parents=True)
        with pytest.raises(PlaceUnavailable, match="protected"):
            keep_out(check_folder(tmp_path / "keys" / "deep"), Hidden((f"{tmp_path}/keys",)))


class TestPolicies:
    def test_sealed(self, tmp_path: Path) -> None:
        home, work = tmp_path / "home", tmp_path / "home" / "work"
        (work / "deep").mkdir(parents=True)
        (work / ".git").mkdir()
        (work / "deep" / "secret").write_text("")
        (home / ".ssh").mkdir()
        caches = cache_folder(tmp_path / "conch", work)
        hidden = hidden_when_sealed(home, (work / "deep" / "secret", tmp_path / "conch"))
        made = sealed_policy(check_folder(work, (), home), home=home, caches=caches, hidden=hidden)
        assert (made.start, made.sealed, made.network, made.hosts) == (work, True, False, ())
        assert made.writable == (work, caches)
        assert work / ".git" in made.read_only
        assert made.pinned == (work / "deep",)
        assert {home / ".ssh", tmp_path / "conch"} <= set(made.hidden_folders)
        assert work / "deep" / "secret" in made.hidden_files
        assert made.private == private_folders()
        assert "SSH_AUTH_SOCK" not in made.env

    def test_open(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        (home / "work").mkdir(parents=True)
        (home / ".config" / "gh").mkdir(parents=True)
        hidden = hidden_now((home / ".config" / "gh",))
        made = open_policy(check_folder(home / "work", (), home), home=home, caches=tmp_path, hidden=hidden)
        assert (made.sealed, made.network, made.private, made.read_only) == (False, True, (), ())
        assert Path("/") in made.writable
        assert made.hidden_folders == (home / ".config" / "gh",)
        assert made.pinned == (home / ".config",), "or it could be moved, and what is in it with it"


class TestBubblewrap:
    def test_inner_paths_hold_and_come_later(self) -> None:
        made = policy(
            private=(Path("/tmp"),),
            hidden_folders=(Path("/home/me/.conch"), Path("/w/keys")),
            hidden_files=(Path("/w/.token"), Path("/tmp/socket"), Path("/home/me/.conch/x")),
            writable=(Path("/w"), Path("/home/me/.conch/caches/1"), Path("/tmp/w")),
            read_only=(Path("/w/.git"), Path("/etc/x"), Path("/tmp/main/.git")),
            pinned=(Path("/w/deep"), Path("/home/me")),
        )
        assert mounts(made) == [
            ("--tmpfs", "/tmp"),
            ("--bind", "/w", "/w"),
            ("--bind", "/w/deep", "/w/deep"),
            ("--bind", "/tmp/w", "/tmp/w"),
            ("--ro-bind", "/w/.git", "/w/.git"),
            ("--tmpfs", "/w/keys"),
            ("--ro-bind", str(EMPTY), "/w/.token"),
            ("--ro-bind", "/tmp/main/.git", "/tmp/main/.git"),
            ("--tmpfs", "/home/me/.conch"),
            ("--bind", "/home/me/.conch/caches/1", "/home/me/.conch/caches/1"),
        ]

    def test_what_is_both_is_hidden(self) -> None:
        path = Path("/w/x")
        made = policy(hidden_folders=(path,), read_only=(path,), writable=(Path("/w"), path), pinned=(path,))
        assert mounts(made) == [("--bind", "/w", "/w"), ("--tmpfs", "/w/x")]

    def test_open_covers_and_nothing_else(self) -> None:
        made = policy(
            sealed=False, network=True, writable=(Path("/"), Path("/h/.conch/c")), hidden_folders=(Path("/h/.conch"),)
        )
        words = NEW.options(made, EMPTY)
        assert mounts(made) == [("--tmpfs", "/h/.conch"), ("--bind", "/h/.conch/c", "/h/.conch/c")]
        assert words[words.index("--dev-bind") :][:3] == ["--dev-bind", "/", "/"]
        assert "--unshare-net" not in words
        assert {"--unshare-pid", "--die-with-parent", "--new-session"} <= set(words)

    def test_sealed_always_asks_for_the_whole_seal(self) -> None:
        for bwrap in (NEW, OLD):
            words = bwrap.options(policy(), EMPTY)
            wanted = {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--new-session"}
            assert {*wanted, "--die-with-parent", "--unshare-user"} <= set(words)
            assert words[words.index("--cap-drop") + 1] == "ALL"
            assert words[-2:] == ["--chdir", "/w"]

    def test_an_old_one_is_not_asked_what_it_does_not_know(self) -> None:
        words = OLD.options(policy(private=(Path("/tmp"),), hidden_folders=(Path("/w/x"),)), EMPTY)
        assert not {"--perms", "--size", "--disable-userns"} & set(words)

    def test_without_a_filter_bubblewrap_forbids_more_user_namespaces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("workplaces.seal.bubblewrap.filter_program", lambda: b"")
        assert "--disable-userns" in NEW.options(policy(), EMPTY)

    def test_links_and_the_environment(self) -> None:
        words = NEW.options(policy(env={"A": "b c"}, links=((Path("/tmp/l"), Path("/w")),)), EMPTY)
        assert words[words.index("--setenv") :][:3] == ["--setenv", "A", "b c"]
        assert words[words.index("--symlink") :][:3] == ["--symlink", "/w", "/tmp/l"]


class TestSeatbelt:
    """Its text only: no Mac ran it."""

    def test_sealed(self) -> None:
        text = seatbelt.profile(
            policy(
                hidden_folders=(Path("/Users/me/.ssh"), Path("/Users/me/.conch")),
                hidden_files=(Path('/w/a"b\\c'),),
                read_only=(Path("/w/.git"),),
                pinned=(Path("/w/deep"),),
                writable=(Path("/w"), Path("/Users/me/.conch/caches/1")),
            )
        )
        rules = text.splitlines()
        assert rules[:2] == ["(version 1)", "(deny default)"]
        order = [
            '(allow file-write* (subpath "/w") (subpath "/Users/me/.conch/caches/1"))',
            '(deny file-write* (subpath "/w/.git"))',
            '(deny file-write-unlink (literal "/w/deep") (literal "/w/.git"))',
            '(deny file-read* file-write* process-exec (subpath "/Users/me/.ssh") (subpath "/Users/me/.conch")'
            ' (subpath "/w/a\\"b\\\\c"))',
            '(allow file-read* file-write* (subpath "/Users/me/.conch/caches/1"))',
            "(deny network*)",
        ]
        assert [rule for rule in rules if rule in order] == order, "a later rule wins"
        assert text.count("(") == text.count(")")

    def test_open(self) -> None:
        text = seatbelt.profile(policy(sealed=False, network=True, writable=(Path("/"),), hidden_folders=(Path("/k"),)))
        assert text.splitlines()[1] == "(allow default)"
        assert '(subpath "/k")' in text
        assert "(deny network*)" not in text

    def test_the_command_is_kept_as_it_is(self) -> None:
        line = seatbelt.command(policy(), ["/bin/sh", "-c", "-p x"])
        assert line[:2] == ["/usr/bin/sandbox-exec", "-p"]
        assert line[3:] == ["--", "/bin/sh", "-c", "-p x"]


class TestFilter:
    """The filter as a little machine would run it, for calls of each kind. That a kernel takes it is tried for real."""

    def verdict(self, program: bytes, architecture: int, number: int, first: int = 0) -> int:
        code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
        data = {0: number, 4: architecture, 16: first}
        at = value = 0
        while True:
            operation, yes, no, word = code[at]
            at += 1
            if operation == 0x20:
                value = data[word]
            elif operation == 0x06:
                return int(word)
            else:
                holds = {0x15: value == word, 0x35: value >= word, 0x45: bool(value & word)}[operation]
                at += yes if holds else no

    @pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
    def test_what_it_allows(self, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("platform.machine", lambda: machine)
        program = seccomp.filter_program.__wrapped__()
        allow, unknown, family, forbidden, kill = 0x7FFF0000, 0x50000 | 38, 0x50000 | 97, 0x50000 | 1, 0x80000000
        for table in (seccomp._NATIVE[machine], seccomp._COMPATIBLE[machine]):
            kind = table.architecture
            for number in (table.add_key, table.request_key, table.keyctl, 425, 435):
                assert self.verdict(program, kind, number) == unknown
            for wanted in (1, 2, 10, 16):
                assert self.verdict(program, kind, table.socket, wanted) == allow
            for other in (0, 3, 17, 31, 38, 40):
                assert self.verdict(program, kind, table.socket, other) == family
            for number in (table.clone, table.unshare):
                assert self.verdict(program, kind, number, 0x10000000 | 17) == forbidden
                assert self.verdict(program, kind, number, 0x00010000 | 17) == allow
            assert self.verdict(program, kind, 3) == allow
        assert self.verdict(program, 0x12345678, 1) == kill
        if machine == "x86_64":
            assert self.verdict(program, 0xC000003E, 0x40000000 | 41, 40) == unknown, "x32"

    def test_there_is_none_for_other_computers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
        assert seccomp.filter_program.__wrapped__() == b""


class TestEnvironment:
    SOURCE = {  # noqa: RUF012
        "PATH": "/usr/bin:relative::/bin:/usr/bin",
        "LANG": "de_DE.UTF-8",
        "AWS_SECRET_ACCESS_KEY": "x",
        "OPENAI_API_KEY": "x",
        "SSH_AUTH_SOCK": "/run/agent",
        "DISPLAY": ":0",
        "LD_PRELOAD": "/evil.so",
        "PYTHONPATH": "/conch",
        "http_proxy": "http://user:pw@proxy",
        "TMPDIR": "/somewhere",
    }

    def test_it_is_a_short_list_by_name(self) -> None:
        env = environment(Path("/home/me"), Path("/c"), reach=False, source=self.SOURCE)
        assert not {"AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH"} & set(env)
        assert not {"SSH_AUTH_SOCK", "DISPLAY", "http_proxy"} & set(env)
        assert (env["HOME"], env["LANG"], env["PATH"]) == ("/home/me", "de_DE.UTF-8", "/usr/bin:/bin")

    def test_an_open_command_reaches_the_session(self) -> None:
        env = environment(Path("/home/me"), Path("/c"), reach=True, source=self.SOURCE)
        assert (env["SSH_AUTH_SOCK"], env["DISPLAY"], env["TMPDIR"]) == ("/run/agent", ":0", "/somewhere")
        assert not {"AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH"} & set(env)

    def test_conchs_own_python_is_not_the_commands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.prefix", "/opt/conch/venv")
        source = {"PATH": "/opt/conch/venv/bin:/usr/bin"}
        environment.__globals__["_path"].cache_clear()
        assert environment(Path("/h"), Path("/c"), reach=False, source=source)["PATH"] == "/usr/bin"
        environment.__globals__["_path"].cache_clear()


class TestCaches:
    def test_each_folder_has_its_own_and_only_its_owner_may_look(self, tmp_path: Path) -> None:
        one, other = cache_folder(tmp_path, Path("/a")), cache_folder(tmp_path, Path("/b"))
        assert one != other
        assert one == cache_folder(tmp_path, Path("/a"))
        assert one.stat().st_mode & 0o777 == 0o700

    def test_what_nobody_used_for_long_goes(self, tmp_path: Path) -> None:
        used, unused = cache_folder(tmp_path, Path("/a")), cache_folder(tmp_path, Path("/b"))
        (unused / "deep" / "deeper").mkdir(parents=True)
        (tmp_path / "caches" / "link").symlink_to(used)
        os.utime(unused, (0, 0))
        assert sweep_caches(tmp_path) == 1
        assert used.is_dir()
        assert not unused.exists()
        assert sweep_caches(tmp_path / "none") == 0


class TestAbility:
    """The words for what a real bubblewrap said elsewhere. What it says here is tried in tests/real."""

    def step(
        self, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], failed: str = "bwrap: no"
    ) -> ability.NoBox:
        monkeypatch.setattr(ability, "_setting", settings.get)
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        return ability._refused("/usr/bin/bwrap", failed)

    def test_apparmor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.step(monkeypatch, {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": 1})
        assert "AppArmor" in found.words
        assert found.next_step is not None
        assert "/etc/apparmor.d/bwrap" in found.next_step.command
        script = found.next_step.command.split(" | ")[0]
        profile = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        assert re.search(r"^profile bwrap /\S+ flags=\(unconfined\) \{\n  userns,\n\}$", profile, re.MULTILINE)
        assert profile.startswith("abi <abi/4.0>,\n")

    @pytest.mark.parametrize("name", ["kernel/unprivileged_userns_clone", "user/max_user_namespaces"])
    def test_a_setting(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        found = self.step(monkeypatch, {f"/proc/sys/{name}": 0})
        assert found.next_step is not None
        assert name.replace("/", ".") in found.next_step.command
        assert found.error().need == "bubblewrap"

    def test_anything_else_offers_another_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.step(monkeypatch, {}, "bwrap: something new")
        assert found.next_step is not None
        assert (found.next_step.command, found.next_step.action) == ("", "choose-place")
        assert found.details == "bwrap: something new"
