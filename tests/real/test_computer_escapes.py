"""Ways out of the sealed box that ``test_computer_seal.py`` does not try, each beside a control that shows it is one.

A control is the same attempt made outside the box, or by an open command: where it fails too, the test fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.workplaces.contract import ODD_NAMES, repository
from tests.workplaces.git_cases import CASES, Case, control, copies, person
from tests.workplaces.looking import listing, names, number
from workplaces.computer.place import Computer
from workplaces.place import PlaceUnavailable, RunRequest, RunResult, Stopped

SECRET = "correct-horse-battery"
# The one the venv's leads to: the checkout itself may lie in /tmp, which no box shows.
PYTHON = os.path.realpath(sys.executable)
KEYS = (
    *(".ssh/id_rsa", ".gnupg/private-keys-v1.d/a.key", ".aws/credentials", ".config/gh/hosts.yml", ".netrc"),
    *(".docker/config.json", ".kube/config", ".mozilla/firefox/a/logins.json", ".config/chromium/Default/Cookies"),
    *(".local/share/keyrings/login.keyring", ".local/share/conch/chats.sqlite3"),
)
CONNECT = """
import json, socket, sys
answers = []
for name in json.loads(sys.argv[1]):
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(2)
    try:
        made.connect(chr(0) + name[1:] if name.startswith("@") else name)
        answers.append(name)
    except OSError:
        pass
print(json.dumps(answers))
"""
# Traces a process, and reads its memory; prints what came of it.
TRACE = """
import ctypes, os, sys
pid = int(sys.argv[1])
kernel = ctypes.CDLL(None, use_errno=True)
kernel.ptrace.argtypes = [ctypes.c_long] * 4
kernel.ptrace.restype = ctypes.c_long
traced = kernel.ptrace(16, pid, 0, 0) == 0
print("traced" if traced else os.strerror(ctypes.get_errno()))
if traced:
    os.waitpid(pid, 0x40000000)
    kernel.ptrace(17, pid, 0, 0)
try:
    print("memory", len(open(f"/proc/{pid}/mem", "rb", 0).name) > 0)
except OSError as error:
    print(error.strerror)
"""
# A process that anyone of the same user may trace, whatever Yama says.
TRACEABLE = """
import ctypes
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
print(flush=True)
input()
"""


class House:
    """A home with keys in it, outside every private folder, and the place that keeps them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.conch = self.home / ".local" / "share" / "conch"
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        for name in KEYS:
            (self.home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.home / name).write_text(SECRET)
        self.place = Computer(self.conch / "places", lambda: (self.conch,), key_home=self.home)

    async def run(self, command: str | tuple[str, ...], **how: object) -> RunResult:
        request = {"command": command, "folder": self.work, "timeout": 30.0, **how}
        result = await self.place.run(RunRequest(**request))  # type: ignore[arg-type]
        assert result.proof.details["seal"].startswith("bubblewrap")
        return result

    async def text(self, command: str, **how: object) -> str:
        return (await self.run(command, **how)).output.text

    async def answering(self, addresses: list[str], **how: object) -> list[str]:
        result = await self.run((PYTHON, "-I", "-c", CONNECT, json.dumps(addresses)), **how)
        assert result.code == 0, result.output.text
        found: list[str] = json.loads(result.output.out)
        return found


@pytest.fixture
def house(need: Callable[..., None]) -> Iterator[House]:
    need("bwrap", "git", "unshare")
    base = Path(tempfile.mkdtemp(prefix="conch-out-", dir="/var/lib" if os.geteuid() == 0 else Path.home()))
    try:
        yield House(base)
    finally:
        for folder, _, _ in os.walk(base):  # a copy of what covers a folder has its mode
            Path(folder).chmod(0o700)
        shutil.rmtree(base)


def outside(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=30)
    return done.stdout + done.stderr


# ---- processes and namespaces ----


async def test_a_process_outside_cannot_be_traced(house: House) -> None:
    line = [PYTHON, "-I", "-c", TRACEABLE]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        trace = (PYTHON, "-I", "-c", TRACE, str(victim.pid))
        try:
            assert outside(*trace).splitlines() == ["traced", "memory True"]
            for opened in (False, True):
                seen = (await house.run(trace, open=opened)).output.text
                assert seen.splitlines() == ["No such process", "No such file or directory"]
        finally:
            victim.communicate("\n")


async def test_the_root_of_a_process_outside_cannot_be_entered(house: House) -> None:
    key = house.home / ".ssh" / "id_rsa"
    with subprocess.Popen(["sleep", number()]) as sleeper:
        try:
            way = f"cat /proc/{sleeper.pid}/root{key}"
            assert outside("sh", "-c", way) == SECRET
            ways = f"{way}; cat /proc/1/root{key} /proc/self/root{key} /proc/*/root{key} /proc/*/cwd/../.ssh/id_rsa"
            seen = await house.text(f"{ways}; ls -d /proc/1/root/; for n in /proc/1/fd/*; do cat $n/id_rsa; done; true")
        finally:
            sleeper.kill()
    assert SECRET not in seen
    assert seen.count("No such file") + seen.count("Permission denied") + seen.count("Not a directory") > 3, seen


async def test_a_namespace_that_can_be_made_outside_cannot_be_made_inside(house: House) -> None:
    """Outside, one takes covers off in it; were it refused there, the test of the box would show nothing."""
    for kind in ("-Ur", "-Urm", "-Urn", "-Urpf", "-Urpf --mount-proc", "--user --map-root-user --keep-caps"):
        assert outside(*f"unshare {kind} echo made".split()) == "made\n"
        seen = await house.text(
            f"unshare {kind} sh -c 'echo made; umount -l {house.home}/.ssh; cat {house.home}/.ssh/*'"
        )
        assert "made" not in seen, kind
        assert SECRET not in seen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do these outside")
async def test_what_root_may_do_outside_it_may_not_inside(house: House, tmp_path: Path) -> None:
    at = house.work / "at"
    at.mkdir()
    tries = (
        f"mknod {at}/null c 1 3 && rm {at}/null",
        f"mount -t tmpfs none {at} && umount {at}",
        f"mount --bind /etc {at} && umount -l {at}",
        "chroot / true",
        f"chown 1 {at} && chown 0 {at}",
        "nice -n -5 true && setpriv --reuid=1 true",
        "test -w /proc/sys/kernel/core_pattern && : >> /proc/sys/kernel/core_pattern",
    )
    for line in tries:
        assert "did" in outside("sh", "-c", f"{line} && echo did"), line
        assert "did" not in await house.text(f"PATH=$PATH:/usr/sbin:/sbin; {line} && echo did; true"), line


async def test_a_program_of_root_gives_nothing(house: House) -> None:
    """``su`` and the like keep their mode in the box, and do nothing with it."""
    programs = [path for name in ("su", "mount", "passwd", "newgrp") if (path := shutil.which(name))]
    assert any(Path(path).stat().st_mode & 0o4000 for path in programs), "there is such a program"
    found = "for p in %s; do cp -p $p ./p 2>/dev/null; chmod 4755 p; done; cp $(command -v id) i; chmod 6755 i; ./i -u"
    own = str(os.geteuid())
    assert (await house.text(found % shlex.join(programs))).split()[-1] == own
    assert "NoNewPrivs:\t1" in await house.text("cat /proc/self/status")


async def test_the_network_inside_is_a_loopback_of_its_own(house: House) -> None:
    devices = "tail -n +3 /proc/net/dev | cut -d: -f1"
    assert (await house.text(devices)).split() == ["lo"]
    assert len(outside("sh", "-c", devices).split()) > 1
    assert len((await house.text(devices, open=True)).split()) > 1
    assert await house.text("tail -n +2 /proc/net/route; tail -n +2 /proc/net/unix") == ""
    assert (await house.run("true")).proof.details["net-namespace"] != str(Path("/proc/self/ns/net").stat().st_ino)


# ---- sockets ----


async def test_no_socket_of_the_persons_answers(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = number()
    root = os.geteuid() == 0
    session = Path(f"/run/user/{mark}") if root else house.home / "run-user"
    shown = Path("/tmp/.X11-unix")
    if root:
        shown.mkdir(mode=0o1777, exist_ok=True)
    display = shown if shown.is_dir() else house.home
    elsewhere = house.base / "elsewhere"
    for folder in (session, elsewhere, house.home / ".docker" / "run", house.home / ".gnupg"):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{elsewhere}/docker.sock")
    monkeypatch.setenv("SSH_AUTH_SOCK", f"{house.home}/agent.{mark}")
    addresses = [
        *(f"@/tmp/.X11-unix/X{mark}", f"@/containerd-shim/{mark}.sock", f"{display}/X{mark}"),
        *(f"{session}/bus", f"{session}/wayland-0", f"{session}/docker.sock", f"{house.home}/agent.{mark}"),
        *(f"{house.home}/.docker/run/docker.sock", f"{house.home}/.gnupg/S.gpg-agent", f"{elsewhere}/docker.sock"),
        *(f"{house.home}/beside.sock", f"{house.work}/in.sock", f"/dev/shm/{mark}.sock"),
        *([f"/run/{mark}.sock", f"/var/run/{mark}.2.sock"] if root else []),
    ]
    try:
        with contextlib.ExitStack() as stack:
            for address in addresses:
                made = stack.enter_context(socket.socket(socket.AF_UNIX))
                made.bind("\0" + address[1:] if address.startswith("@") else address)
                made.listen(9)
            assert json.loads(outside(PYTHON, "-I", "-c", CONNECT, json.dumps(addresses))) == addresses
            assert await house.answering(addresses) == []
            assert set(addresses) - set(await house.answering(addresses, open=True)) == set()
            # By another name for the same file, too.
            (house.work / "link").symlink_to(f"{house.home}/beside.sock")
            roundabout = [f"{house.work}/link", f"/proc/self/root{house.home}/beside.sock", "/proc/self/cwd/in.sock"]
            assert await house.answering(roundabout, open=True) == roundabout
            assert await house.answering(roundabout) == []
    finally:
        for address in addresses:
            Path(address).unlink(missing_ok=True)
        if root:
            shutil.rmtree(session)


# ---- keys ----


async def test_a_key_is_not_read_by_any_way(house: House) -> None:
    paths = [house.home / name for name in KEYS]
    for path in paths:
        ways = f"cat {path}; cp {path} got; ln {path} hard; dd if={path}; tar c {path.parent}; true"
        assert SECRET in outside("cat", str(path))
        assert SECRET not in await house.text(ways), path
    copies = await house.text(f"cat got hard; cp -r {house.home} /tmp/all; grep -rs {SECRET} /tmp/all; ls -A /tmp/all")
    assert SECRET not in copies
    assert ".ssh" in copies, "it was there to copy"


async def test_a_key_does_not_come_out_by_moving_what_it_is_in(house: House) -> None:
    before = listing(house.home)
    moves = ("mv ../.ssh x", "mv ../.ssh ../y", "mv ../.config y", "mv ../../home ../h", "mv ../.kube/config z")
    for move in moves:
        seen = await house.text(f"{move}; cat x/* ../y/* y/gh/* ../h/.ssh/* z; true")
        assert SECRET not in seen
        assert "mv: cannot" in seen, move
    now = listing(house.home)
    assert {path: now.get(path) for path in before} == before
    assert {path.split(b"/")[0] for path in now} == {path.split(b"/")[0] for path in before}, "nothing moved beside"
    moved = await house.text("mv ../.ssh ../y && cat ../y/id_rsa && mv ../y ../.ssh", open=True)
    assert SECRET in moved, "an open command has the person's reach"


async def test_keys_behind_a_link_are_hidden_at_both_ends(house: House) -> None:
    real = house.base / "vault"
    (house.home / ".ssh").rename(real)
    (house.home / ".ssh").symlink_to(real)
    (house.home / ".netrc").rename(house.base / "netrc")
    (house.home / ".netrc").symlink_to("../netrc")
    look = f"cat {house.home}/.ssh/id_rsa {real}/id_rsa {house.base}/netrc {house.home}/.netrc; true"
    assert outside("sh", "-c", look).count(SECRET) == 4
    assert SECRET not in await house.text(look)
    assert (await house.text(look, open=True)).count(SECRET) == 4


async def test_conchs_home_stays_closed_to_an_open_command(house: House) -> None:
    """Its folders above are the person's to write, and yet cannot be moved from under what covers it."""
    inside = house.work / "deep" / "token"
    inside.parent.mkdir()
    inside.write_text(SECRET)
    chats = house.conch / "chats.sqlite3"
    moves = (f"mv {house.home}/.local {house.home}/l; mv {house.conch.parent} {house.home}/l", "mv deep shallow")
    for move in moves:
        how = {"open": True, "protected": (inside,)}
        seen = await house.text(f"{move}; cat {chats} {house.home}/l/*/conch/* deep/token shallow/token; true", **how)
        assert SECRET not in seen
    assert (chats.read_text(), inside.read_text()) == (SECRET, SECRET)
    assert SECRET in await house.text("cat deep/token", open=True), "unprotected, it can be read"
    for line in (f"umount -l {house.conch}", f"umount -l {inside}", f"rm -rf {house.conch}", f"echo x > {chats}"):
        assert SECRET not in await house.text(f"{line}; cat {chats} deep/token; true", open=True, protected=(inside,))
    assert chats.read_text() == SECRET


# ---- environment ----


@pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
async def test_the_environment_is_a_short_list(house: House, monkeypatch: pytest.MonkeyPatch, opened: bool) -> None:
    never = (
        "SECRET_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",
        "LD_PRELOAD",
        "PYTHONPATH",
        "GIT_DIR",
        "BASH_ENV",
    )
    reach = (
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
    )
    own = ("XDG_CACHE_HOME", "npm_config_cache", "PIP_CACHE_DIR", "CARGO_HOME", "GOCACHE", "GOMODCACHE")
    for name in (*never, *reach, *own):
        monkeypatch.setenv(name, str(house.home / "persons"))
    result = await house.run(("env",), open=opened)
    seen = dict(pair.split("=", 1) for pair in result.output.out.splitlines())
    assert not set(never) & set(seen)
    assert set(reach) & set(seen) == (set(reach) if opened else set())
    assert {seen[name].startswith(f"{house.conch}/places/caches/") for name in own} == {True}
    persons = {name for name, value in seen.items() if value == str(house.home / "persons")}
    assert persons == (set(reach) if opened else set())
    assert (seen["HOME"], seen["PATH"] != "") == (str(house.home), True)


# ---- the folder ----


async def test_a_command_that_writes_nothing_leaves_nothing(house: House) -> None:
    repository(house.work)
    (house.work / "token").write_text(SECRET)
    (house.work / "keys").mkdir()
    before = listing(house.base)
    for opened in (False, True):
        protected = (house.work / "token", house.work / "keys", house.work / "not-there", house.work / "no" / "key")
        await house.run("find . >/dev/null; cat a.txt; exit 3", open=opened, protected=protected)
        now = {path: seen for path, seen in listing(house.base).items() if b"conch/places" not in path}
        assert now == before


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_an_odd_name_keeps_the_seal(house: House, name: str) -> None:
    """With something to cover in it: a mount that went wrong would show what it should hide."""
    folder = house.home / name
    (folder / name / ".git").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / name / "key").write_text(SECRET)
    look = "cat ./*/key; touch .git/x; touch ../x; echo in > made; cat ../.ssh/id_rsa; true"
    seen = await house.text(look, folder=folder, protected=(folder / name / "key",))
    assert SECRET not in seen
    assert (names(folder), names(folder / ".git")) == ({name, ".git", "made"}, set())
    assert not (house.home / "x").exists()
    assert SECRET in await house.text("cat ./*/key", folder=folder), "unprotected, it can be read"


@pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])
async def test_a_folder_nobody_may_be_given_is_refused_before_anything_runs(house: House, opened: bool) -> None:
    (house.home / "to-home").symlink_to(house.home)
    proof = house.base / "PROOF"
    for folder in (Path("/"), house.home, house.home / "to-home", house.home / "gone", house.work / "..", Path("/etc")):
        with pytest.raises(PlaceUnavailable) as raised:
            await house.run(f"touch {proof}; touch {house.work}/PROOF", folder=folder, open=opened)
        assert len(raised.value.words) > 20
        assert raised.value.next_step is not None
    assert not proof.exists()
    assert not (house.home / "gone").exists()
    await house.run("touch PROOF", open=opened)
    assert names(house.work) == {"PROOF"}


# ---- git ----


async def test_gits_own_folder_cannot_be_moved_or_hooked(house: House) -> None:
    """And the person's next git command runs nothing that was left for it."""
    repository(house.work)
    before = listing(house.work / ".git")
    evil = f"git config core.fsmonitor 'touch {house.work}/RAN; false'"
    tries = (
        f"{evil}; mv .git x; mv .git/hooks h; mv .git/config c; rm -rf .git; ln -sfn /tmp .git; mkdir x; mv -T x .git",
        "cd .git && echo '#!/bin/sh' > hooks/post-index-change; printf x > info/attributes; ln config ../hard; true",
        "git commit -qam x; git checkout -qb y; git update-ref refs/heads/z HEAD; git -c core.hooksPath=. status; true",
    )
    for line in tries:
        await house.run(line)
        assert listing(house.work / ".git") == before
    assert (await house.run("git -c safe.directory='*' status --porcelain -uno")).output.text == " M a.txt\n"
    outside("git", "-C", str(house.work), "status")
    assert not (house.work / "RAN").exists()
    assert (await house.run(evil, open=True)).code == 0
    outside("git", "-C", str(house.work), "-c", "safe.directory=*", "status")
    assert (house.work / "RAN").exists(), "so it would have run"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_nothing_left_behind_runs_at_the_next_git_command(house: House, case: Case) -> None:
    ran = house.base / "RAN"
    boxed, bare = copies(case, house.home)
    assert control(case, bare, ran), "outside of a box it works"
    await house.run(case.command(ran), folder=boxed)
    person(boxed)
    assert not ran.exists()
    assert (await house.run("true", folder=boxed)).note == "", "all is in order again"


async def test_a_new_repository_can_be_made_and_used_in_one_command(house: House) -> None:
    commit = "git -c user.name=a -c user.email=b commit -qm first"
    result = await house.run(f"git init -q && echo x > a && git add a && {commit} && git log --format=%s")
    assert (result.code, result.output.text, result.note) == (0, "first\n", "")
    assert "first" in outside("git", "-C", str(house.work), "-c", "safe.directory=*", "log")


async def test_what_a_stopped_command_left_is_moved_too(house: House) -> None:
    plant = "mkdir -p .git/objects .git/refs; echo x > .git/HEAD; printf '[core]\\nfsmonitor=x\\n' > .git/config"
    task = asyncio.get_running_loop().create_task(house.run(f"{plant}; touch READY; sleep {number()}"))
    while not (house.work / "READY").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(Stopped) as raised:
        await task
    assert (raised.value.sure, ".git.moved-1" in raised.value.words) == (True, True)
    assert names(house.work) == {"READY", ".git.moved-1"}
    late = await house.run(f"{plant}; sleep {number()}", timeout=0.5)
    assert (late.timed_out, ".git.moved-2" in late.note) == (True, True)


# ---- what leads out of a hidden place ----


async def test_a_key_that_is_a_link_is_hidden_where_it_lies(house: House) -> None:
    """As whoever keeps their settings in a folder of their own has it."""
    dotfiles = house.home / "dotfiles"
    (dotfiles / "all").mkdir(parents=True)
    (dotfiles / "README").write_text("of use")
    for name in ("aws", "gh", "all/one", "all/two"):
        (dotfiles / name).write_text(SECRET)
    for name, target in ((".aws/credentials", "aws"), (".config/gh/hosts.yml", "gh")):
        (house.home / name).unlink()
        (house.home / name).symlink_to(dotfiles / target)
    (house.home / ".ssh" / "more").symlink_to(dotfiles / "all")
    (house.home / ".ssh" / "sh").symlink_to("/bin/sh")
    look = f"cd {dotfiles}; cat aws gh all/*; cat README; /bin/sh -c 'echo works'"
    assert outside("sh", "-c", look).count(SECRET) == 4
    assert await house.text(look) == "of useworks\n"
    (house.home / ".aws" / "credentials").unlink()
    (house.home / ".aws" / "credentials").symlink_to(dotfiles / "README")
    assert "of use" not in await house.text(look), "and so it is when the link changes"


async def test_the_names_of_network_devices_are_not_shown(house: House) -> None:
    devices = names(Path("/sys/class/net")) - {"lo"}
    assert devices, "or there is nothing to hide"
    seen = await house.text("ls /sys/class/net; ls -R /sys/devices/virtual/net; find /sys/devices -name address; true")
    assert not [name for name in devices if name in seen.split()]
    assert "/net/" not in seen


def test_all_this_holds_for_an_ordinary_user(ordinary_user: Person) -> None:
    done = ordinary_user.pytest(
        "-q", "-x", "-k", "not ordinary_user and not root_may", __file__, timeout=110, env={"CI": "1"}
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
