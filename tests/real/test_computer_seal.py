"""The sealed box from inside: everything here is tried by a real command in a real bubblewrap, as root and as a user.

Each attempt is also made by an open command where that must succeed: an attempt that could not work proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.person import Person
from tests.workplaces.contract import git, repository
from tests.workplaces.looking import listing, number, processes, until
from workplaces.computer.boxes import box_name
from workplaces.computer.place import Computer
from workplaces.place import PlaceUnavailable, RunRequest, RunResult

SECRET = "hunter2-the-secret"
# The one the venv's leads to: the checkout itself may lie in /tmp, which no box shows.
PYTHON = os.path.realpath(sys.executable)
KEYS = (
    *(".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".docker/config.json", ".config/gh/hosts.yml"),
    *(".mozilla/firefox/x/logins.json", ".config/google-chrome/Default/Cookies", ".kube/config", ".bash_history"),
    *(".local/share/keyrings/login.keyring", ".cargo/credentials.toml", ".claude.json", "snap/firefox/common/key4.db"),
)
CONNECT = """
import json, socket, sys
out = {}
for name in json.loads(sys.argv[1]):
    try:
        if name.startswith("tcp:"):
            socket.create_connection(("127.0.0.1", int(name[4:])), 2).close()
        else:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(2)
            made.connect(chr(0) + name[1:] if name.startswith("@") else name)
        out[name] = "open"
    except OSError as error:
        out[name] = type(error).__name__
print(json.dumps(out))
"""


class House:
    """A person's home with keys in it, outside any private folder, and the place that keeps them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.conch = self.home / ".conch"
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        self.conch.mkdir(mode=0o700)
        (self.conch / "chats.sqlite3").write_text(SECRET)
        for name in KEYS:
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(SECRET)
        (base / "moved" / "gnupg").mkdir(parents=True)
        (base / "moved" / "gnupg" / "key").write_text(SECRET)
        (self.home / ".gnupg").symlink_to(base / "moved" / "gnupg")
        (self.home / ".pypirc").symlink_to(base / "moved" / "nothing")
        self.place = Computer(self.conch / "places", lambda: (self.conch,), key_home=self.home)

    async def run(
        self, command: str | tuple[str, ...], *, opened: bool = False, folder: Path | None = None
    ) -> RunResult:
        request = RunRequest(command=command, folder=folder or self.work, open=opened, timeout=30)
        result = await self.place.run(request)
        assert result.proof.details["seal"].startswith("bubblewrap")
        return result

    async def text(self, command: str, *, opened: bool = False) -> str:
        return (await self.run(command, opened=opened)).output.text

    async def reach(self, names: list[str], *, opened: bool = False) -> dict[str, str]:
        """Which of the sockets answer a command."""
        result = await self.run((PYTHON, "-I", "-c", CONNECT, json.dumps(names)), opened=opened)
        assert result.code == 0, result.output.text
        found: dict[str, str] = json.loads(result.output.out)
        return found


@pytest.fixture
def house(need: Callable[..., None]) -> Iterator[House]:
    need("bwrap", "git")
    base = Path(tempfile.mkdtemp(prefix="conch-seal-", dir="/var/lib" if os.geteuid() == 0 else Path.home()))
    try:
        yield House(base)
    finally:
        shutil.rmtree(base)


@contextlib.contextmanager
def listening(*addresses: str) -> Iterator[None]:
    """Sockets that answer, at paths and abstract names (``@name``)."""
    with contextlib.ExitStack() as stack:
        for address in addresses:
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.bind("\0" + address[1:] if address.startswith("@") else address)
            made.listen(20)
        yield


# ---- what is hidden ----


async def test_no_key_can_be_read(house: House) -> None:
    paths = " ".join(shlex.quote(str(house.home / name)) for name in (*KEYS, ".gnupg/key", ".conch/chats.sqlite3"))
    look = f"cat {paths} {house.base}/moved/gnupg/key; grep -rs {SECRET} {house.base}; ls -A {house.home}/.ssh; true"
    text = await house.text(look)
    assert SECRET not in text
    assert "id_ed25519:" in text, "it was looked for"
    opened = await house.text(look, opened=True)
    assert opened.count(SECRET) > len(KEYS), "these are the person's own, and an open command has their reach"
    assert "chats.sqlite3:" + SECRET not in opened, "but Conch's home is protected everywhere"


async def test_nothing_hidden_is_made_or_changed(house: House) -> None:
    before = listing(house.home)
    await house.text(f"echo x > {house.home}/.ssh/new; echo x > {house.home}/.netrc; touch {house.home}/.pypirc; true")
    after = {path: seen for path, seen in listing(house.home).items() if not path.startswith(b".conch/places")}
    assert after == before


async def test_root_cannot_read_what_is_the_systems(house: House) -> None:
    text = await house.text("cat /etc/shadow /etc/shadow- /etc/ssh/*key /etc/ssl/private/* 2>&1; true")
    assert "root:" not in text
    assert "PRIVATE KEY" not in text


# ---- what can be written ----


async def test_only_the_folder_can_be_written(house: House) -> None:
    outside = [
        house.home / "x",
        house.home / ".cache" / "x",
        house.base / "x",
        Path("/etc/x"),
        Path("/usr/x"),
        Path("/x"),
    ]
    (house.home / ".cache").mkdir()
    tries = "; ".join(f"echo x > {path}" for path in outside)
    result = await house.run(f"{tries}; echo in > made; chmod 777 {house.home}; mv ../project ../other; true")
    assert (house.work / "made").read_text() == "in\n"
    assert not any(path.exists() for path in outside)
    assert result.output.text.count("Read-only file system") >= len(outside)
    assert house.work.is_dir()


async def test_temporary_folders_are_its_own(house: House) -> None:
    mark = f"conch-{number()}"
    folders = ("/tmp", "/var/tmp", "/dev/shm")
    text = await house.text("; ".join(f"ls -A {folder}; echo x > {folder}/{mark} && echo made" for folder in folders))
    assert text == "made\n" * 3, "they are empty, and can be written"
    assert not any(Path(folder, mark).exists() for folder in folders)
    assert await house.text("ls -A /run") == ""


async def test_caches_are_conchs_own_for_each_folder(house: House) -> None:
    other = house.home / "other"
    other.mkdir()
    names = (
        "XDG_CACHE_HOME",
        "npm_config_cache",
        "PIP_CACHE_DIR",
        "CARGO_HOME",
        "GOCACHE",
        "GOMODCACHE",
        "UV_CACHE_DIR",
    )
    show = "; ".join(f'echo "${name}"; mkdir -p "${name}" && touch "${name}/x"' for name in names)
    seen = {}
    for folder in (house.work, other):
        for opened in (False, True):
            result = await house.run(show, opened=opened, folder=folder)
            assert result.output.err == ""
            seen[folder, opened] = result.output.out.split()
            for path in seen[folder, opened]:
                assert Path(path).is_relative_to(house.conch / "places" / "caches")
                assert (Path(path) / "x").exists()
    assert seen[house.work, False] == seen[house.work, True]
    assert not set(seen[house.work, False]) & set(seen[other, False])
    assert not (house.home / ".cache").exists()


# ---- out of the box ----


async def test_a_command_has_no_abilities(house: House) -> None:
    status = await house.text("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status")
    values = dict(line.split(":\t") for line in status.splitlines())
    assert values.pop("NoNewPrivs") == "1"
    assert values.pop("Seccomp") == "2"
    assert set(values) == {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
    assert set(values.values()) == {"0" * 16}


@pytest.mark.parametrize(
    "attempt",
    [
        "umount {home}/.ssh",
        "umount -l {home}/.ssh",
        "umount -l {home}/.netrc",
        "mount --bind / /tmp",
        "mount -o remount,rw /",
        "mount -t tmpfs none /mnt",
        "mount -t proc proc /tmp",
        "unshare -Ur true",
        "unshare -Urm umount -l {home}/.ssh",
        "unshare -m true",
        "unshare -n true",
        "chroot / true",
        "nsenter -t 1 -m true",
        "nsenter --net=/proc/1/ns/net true",
        "mknod /tmp/disk b 254 0",
        "mknod disk b 254 0",
        "bwrap --bind / / true",
        "setpriv --reuid 0 --regid 0 --clear-groups true",
        "sysctl -w kernel.domainname=evil",
        "test -e /dev/mem -o -e /dev/kmsg -o -e /dev/vda -o -e /dev/sda -o -e /dev/kvm",
        "chown 12345 .",
    ],
)
async def test_a_way_out_is_closed(house: House, attempt: str) -> None:
    line = attempt.format(home=house.home)
    look = f"cat {house.home}/.ssh/id_ed25519 {house.home}/.netrc"
    result = await house.run(f"PATH=$PATH:/usr/sbin:/sbin; if {line}; then echo GOT OUT; fi; {look}")
    assert "GOT OUT" not in result.output.text
    assert SECRET not in result.output.text
    assert "not found" not in result.output.err, "the attempt was never made"


async def test_other_processes_are_out_of_sight(house: House) -> None:
    with subprocess.Popen(["sleep", number()]) as outside:
        try:
            command = (
                f"kill -0 {outside.pid}; ls -d /proc/{outside.pid}; ls /proc | grep -c '^[0-9]';"
                f"for p in /proc/[0-9]*; do cat $p/root{house.home}/.ssh/id_ed25519 $p/cwd/../.ssh/id_ed25519; done;"
                "true"
            )
            text = await house.text(command)
        finally:
            outside.kill()
    assert SECRET not in text
    assert "No such process" in text
    count = next(int(line) for line in text.splitlines() if line.isdigit())
    assert count < 8


async def test_the_kernels_settings_cannot_be_written(house: House) -> None:
    settings = ("kernel/core_pattern", "kernel/hostname", "kernel/domainname", "vm/drop_caches", "net/ipv4/ip_forward")
    before = {
        name: (Path("/proc/sys") / name).read_bytes() for name in settings if os.access(f"/proc/sys/{name}", os.R_OK)
    }
    tries = "; ".join(f"echo 1 > /proc/sys/{name} && echo WROTE" for name in settings)
    text = await house.text(
        f"{tries}; echo h > /proc/sysrq-trigger && echo WROTE; echo x > /sys/power/state && echo WROTE"
    )
    assert "WROTE" not in text
    assert {name: (Path("/proc/sys") / name).read_bytes() for name in before} == before


async def test_the_kernels_keyrings_are_closed(house: House) -> None:
    code = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall({n}, 0, -3, 0), ctypes.get_errno())"
    keyctl = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if keyctl is None:
        pytest.skip("no filter was written for this kind of computer")
    line = shlex.join([PYTHON, "-I", "-c", code.format(n=keyctl)])
    assert (await house.text(line)).split() == ["-1", "38"]
    assert (await house.text(line, opened=True)).split()[0] != "-1"


async def test_threads_and_forks_work_in_spite_of_the_filter(house: House) -> None:
    code = (
        "import threading, subprocess, socket, os; t = threading.Thread(target=print, args=('thread',)); t.start(); "
        "t.join(); print(subprocess.check_output(['echo', 'fork']).decode(), end='', flush=True); "
        "a, b = socket.socketpair(); a.send(b'pair\\n'); print(b.recv(9).decode(), end='')"
    )
    assert await house.text(shlex.join([PYTHON, "-I", "-c", code])) == "thread\nfork\npair\n"


# ---- sockets and the network ----


async def test_no_socket_answers(house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Path("/run") if os.geteuid() == 0 else house.home / "run"
    run.mkdir(exist_ok=True)
    mark = number()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(house.home / "runtime"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{house.base}/named/docker.sock")
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    for name in ("runtime", ".docker/desktop", ".colima/default", "agents", "project/run"):
        (house.home / name).mkdir(parents=True, exist_ok=True)
    (house.base / "named").mkdir()
    addresses = [
        f"{run}/conch-{mark}.sock",
        f"{house.home}/runtime/bus",
        f"{house.home}/.docker/desktop/docker.sock",
        f"{house.home}/.colima/default/docker.sock",
        f"{house.home}/agents/agent.sock",
        f"{house.base}/named/docker.sock",
        f"{house.work}/run/dev.sock",
        f"{house.work}/docker.sock",
        f"/tmp/conch-{mark}.sock",
        f"/var/tmp/conch-{mark}.sock",
        f"@conch-{mark}",
    ]
    try:
        with listening(*addresses):
            before = listing(house.work)
            assert await house.reach(addresses, opened=True) == dict.fromkeys(addresses, "open")
            assert "open" not in (await house.reach(addresses)).values()
            assert listing(house.work) == before, "a socket in the folder is covered, and stays"
            moved = await house.text("mv run elsewhere; ls -d run docker.sock; true")
            assert not (house.work / "elsewhere").exists(), moved
    finally:
        for address in addresses:
            Path(address).unlink(missing_ok=True)


async def test_a_socket_bound_by_a_relative_name_does_not_answer(house: House) -> None:
    where = house.home / ("deep" * 30)
    where.mkdir()
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('here.sock'); s.listen(9); print(flush=True); input()"
    )
    line = [PYTHON, "-I", "-c", code]
    with subprocess.Popen(line, cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        connect = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('here.sock'); print('open')"
        inside = shlex.join([PYTHON, "-I", "-c", connect])
        look = f"cd {where} && {inside} 2>&1 | tail -n 1"
        assert await house.text(look, opened=True) == "open\n"
        assert "Error" in await house.text(look)
        server.communicate("\n")


async def test_engines_sockets_are_covered_before_anything_listens(house: House) -> None:
    """One that listens in a network namespace of its own is in no list; it lies where engines put theirs."""
    context = house.home / ".docker" / "contexts" / "meta" / "abc"
    context.mkdir(parents=True)
    endpoint = {"Endpoints": {"docker": {"Host": f"unix://{house.base}/context.sock"}}}
    (context / "meta.json").write_text(json.dumps(endpoint))
    paths = [house.base / "context.sock", house.home / ".rd" / "docker.sock"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("a socket of another namespace")
    assert await house.text(f"cat {paths[0]}; cd {house.home}; find .docker .rd") == ".docker\n.rd\n"


async def test_hundreds_of_sockets_are_no_trouble(house: House) -> None:
    folder = house.home / "many"
    folder.mkdir()
    names = [f"{folder}/{at}.sock" for at in range(300)]
    with listening(*names):
        reached = await house.reach([names[0], names[150], names[299]])
        assert "open" not in reached.values()


async def test_sockets_that_come_and_go_do_no_harm(house: House) -> None:
    """What is to be covered can be gone a moment later: the command still runs, and no stub takes its place."""
    done = threading.Event()

    def churn() -> None:
        at = 0
        while not done.is_set():
            at += 1
            for folder in (house.work, house.home):
                name = f"{folder}/{at % 5}.sock"
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as made:
                    made.bind(name)
                    made.listen()
                Path(name).unlink(missing_ok=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            assert await house.text("echo ran") == "ran\n"
    finally:
        done.set()
        thread.join()
    assert list(house.work.iterdir()) == []


async def test_there_is_no_network(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"tcp:{server.getsockname()[1]}"
        assert await house.reach([name], opened=True) == {name: "open"}
        assert "open" not in (await house.reach([name])).values()
    families = {
        name: int(getattr(socket, name)) for name in ("AF_VSOCK", "AF_BLUETOOTH", "AF_PACKET") if hasattr(socket, name)
    }
    code = f"""
import errno, socket
for name, family in {families!r}.items():
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print(name, "made")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
    result = await house.run((PYTHON, "-I", "-c", code))
    assert set(result.output.out.split()[1::2]) == {"EAFNOSUPPORT"}
    hint = await house.run("echo 'curl: (6) Could not resolve host: example.org' >&2; exit 6")
    assert "without any network" in hint.note


# ---- git ----

HARM = (
    "for g in {dot} {real}; do echo evil > $g/hooks/pre-commit; echo evil >> $g/config; echo x > $g/HEAD;"
    "rm -rf $g; mv $g $g.moved; done; ln -sf /tmp .git; true"
)


async def test_a_worktrees_git_is_kept_and_usable(house: House) -> None:
    main = house.home / "main"
    main.mkdir()
    repository(main)
    git(main, "worktree", "add", "-q", str(house.home / "tree"))
    tree = house.home / "tree"
    before = listing(main), (tree / ".git").read_bytes()
    await house.run(HARM.format(dot=".git", real=main / ".git"), folder=tree)
    assert (listing(main), (tree / ".git").read_bytes()) == before
    status = await house.run("echo x > new; git -c safe.directory='*' status --porcelain", folder=tree)
    assert (status.code, status.output.text) == (0, "?? new\n")


async def test_a_worktree_in_a_temporary_folder_finds_its_repository(house: House, tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    repository(main)
    git(main, "worktree", "add", "-q", str(tree))
    status = await house.run("git -c safe.directory='*' status --porcelain && echo evil >> $PWD/.git", folder=tree)
    assert "Read-only" in status.output.text or "cannot create" in status.output.text
    assert git(tree, "status", "--porcelain") == ""
    assert (await house.run("git -c safe.directory='*' log --format=%s", folder=tree)).output.text == "first\n"


async def test_a_git_folder_inside_the_folder_is_kept(house: House) -> None:
    git(house.work, "init", "-q", "--separate-git-dir", str(house.work / "apart"))
    before = listing(house.work / "apart")
    await house.run(HARM.format(dot=".git", real="apart"))
    assert listing(house.work / "apart") == before
    assert (house.work / ".git").is_file()


async def test_a_submodules_git_is_kept(house: House) -> None:
    inner = house.home / "inner"
    inner.mkdir()
    repository(inner)
    repository(house.work)
    git(house.work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "libs/inner")
    git(house.work, "commit", "-qam", "second")
    before = (house.work / "libs/inner/.git").read_bytes()
    harm = "echo 'gitdir: /tmp' > libs/inner/.git; mv libs/inner libs/x; mv libs other; rm -rf libs/inner/.git; true"
    await house.run(harm)
    assert (house.work / "libs/inner/.git").read_bytes() == before
    status = await house.run("git -c safe.directory='*' status --porcelain", folder=house.work)
    assert status.code == 0, status.output.text


async def test_a_git_that_is_a_link_is_put_back(house: House) -> None:
    apart = house.home / "apart.git"
    git(house.work, "init", "-q", "--separate-git-dir", str(apart))
    (house.work / ".git").unlink()
    (house.work / ".git").symlink_to(apart)
    before = listing(apart)
    result = await house.run(
        "rm .git; mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout; echo evil >> ../apart.git/config"
    )
    assert (house.work / ".git").readlink() == apart
    assert listing(apart) == before
    assert ".git.moved-1" in result.note
    assert (await house.run("git -c safe.directory='*' status -s")).note == ""


async def test_a_git_file_cannot_show_what_is_hidden(house: House) -> None:
    """Whoever wrote the repository may have written any path into it."""
    for target in (house.home / ".ssh", house.conch):
        (target / "HEAD").write_text("ref: refs/heads/main")
        (target / "objects").mkdir()
        (house.work / ".git").write_text(f"gitdir: {target}\n")
        assert SECRET not in await house.text(f"cat {target}/*; true")


# ---- folders ----


async def test_the_work_folder_may_lie_in_a_private_folder(house: House, tmp_path: Path) -> None:
    bases = [Path("/tmp"), Path("/var/tmp")] + ([Path("/run")] if os.geteuid() == 0 else [])
    for base in bases:
        with tempfile.TemporaryDirectory(prefix="conch-work-", dir=base) as made:
            folder = Path(made, "a b")
            folder.mkdir()
            (folder.parent / "beside").write_text(SECRET)
            result = await house.run("pwd; echo x > made; ls -A ..; cat ../beside; true", folder=folder)
            assert result.output.out.splitlines() == [str(folder), "a b"]
            assert (folder / "made").read_text() == "x\n"


async def test_a_link_in_a_private_folder_stays_usable(house: House, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(house.work)
    result = await house.run(f"echo x > {link}/made; pwd -P", folder=link)
    assert (house.work / "made").read_text() == "x\n"
    assert result.output.out == f"{house.work}\n"


@pytest.mark.parametrize("which", ["home", "above", "conch", "in conch", "keys", "in keys"])
async def test_a_folder_with_too_much_in_it_is_refused(house: House, which: str) -> None:
    inside = house.conch / "places" / "deep"
    inside.mkdir(parents=True)
    folders = {
        "home": house.home,
        "above": house.base,
        "conch": house.conch,
        "in conch": inside,
        "keys": house.home / ".ssh",
        "in keys": house.home / ".config" / "google-chrome" / "Default",
    }
    with pytest.raises(PlaceUnavailable) as raised:
        await house.run("touch PROOF", folder=folders[which])
    assert str(folders[which]) in raised.value.words
    assert not (folders[which] / "PROOF").exists()


async def test_a_folder_that_became_another_is_looked_at_anew(house: House) -> None:
    await house.run("true")
    house.work.rmdir()
    house.work.symlink_to(house.home / ".ssh")
    with pytest.raises(PlaceUnavailable):
        await house.run("touch PROOF")


# ---- when there is no box ----


def programs_without_bwrap(folder: Path, *, instead: str | None = None) -> str:
    """A PATH with what the tests need, and another ``bwrap`` or none."""
    folder.mkdir()
    for name in ("sh", "cat", "echo", "touch", "env", "sleep", "setsid"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    if instead is not None:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{instead}\n")
        (folder / "bwrap").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("leave", [False, True], ids=["sealed", "open"])
async def test_without_bubblewrap_nothing_runs(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, leave: bool
) -> None:
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin"))
    with pytest.raises(PlaceUnavailable) as raised:
        await house.place.run(RunRequest(command="touch PROOF", folder=house.work, open=leave))
    assert raised.value.need == "bubblewrap"
    assert "bubblewrap" in raised.value.words
    assert raised.value.next_step is not None
    assert list(house.work.iterdir()) == []
    status = await house.place.standing()
    assert (status.ready, status.need, status.seals) == (False, "bubblewrap", True)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("bwrap: setting up uid map: Permission denied", "namespaces"),
        ("bwrap: No permissions to create new namespace", "namespaces"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "namespaces"),
        ("bwrap: something else", "could not be made"),
    ],
)
async def test_a_bubblewrap_that_is_refused_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, words: str
) -> None:
    instead = f'[ "$1" = --version ] && echo "bubblewrap 0.9.0" && exit; echo "{says}" >&2; exit 1'
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin", instead=instead))
    with pytest.raises(PlaceUnavailable) as raised:
        await house.place.run(RunRequest(command="touch PROOF", folder=house.work))
    assert words in raised.value.words or "AppArmor" in raised.value.words
    assert raised.value.next_step is not None
    assert says in raised.value.details
    assert list(house.work.iterdir()) == []


async def test_a_bubblewrap_that_is_too_old_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin", instead="echo bubblewrap 0.3.1"))
    with pytest.raises(PlaceUnavailable) as raised:
        await house.place.run(RunRequest(command="touch PROOF", folder=house.work))
    assert "0.3.1" in raised.value.words


async def test_a_box_that_does_not_hold_is_not_used(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program called bwrap that seals nothing: it is found out before a command is given to it."""
    instead = (
        '[ "$1" = --version ] && echo "bubblewrap 0.9.0" && exit; while [ "$1" != -- ]; do shift; done; shift; "$@"'
    )
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin", instead=instead))
    with pytest.raises(PlaceUnavailable) as raised:
        await house.place.run(RunRequest(command="touch PROOF", folder=house.work))
    assert "does not hold" in raised.value.details
    assert list(house.work.iterdir()) == []


async def test_a_box_that_fails_later_runs_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = shutil.which("bwrap")
    instead = (
        f'[ "$1" != --args ] && exec {real} "$@"; cat /proc/self/fd/"$2" >/dev/null; echo "bwrap: no luck" >&2; exit 1'
    )
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin", instead=instead))
    with pytest.raises(PlaceUnavailable) as raised:
        await house.place.run(RunRequest(command="touch PROOF", folder=house.work))
    assert "no luck" in raised.value.details
    assert list(house.work.iterdir()) == []


async def test_it_runs_again_once_bubblewrap_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", programs_without_bwrap(tmp_path / "bin"))
    with pytest.raises(PlaceUnavailable):
        await house.run("true")
    monkeypatch.setenv("PATH", path)
    assert (await house.run("true")).code == 0


# ---- what others see, and what stays ----


async def test_nothing_of_the_policy_shows_in_the_process_list(house: House) -> None:
    mark = number()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(house.run(f"sleep {mark}"))
        await until(lambda: processes(mark))
        lines = processes(mark)
        task.cancel()
    assert not any(".ssh" in line or "XDG_CACHE" in line or "--ro-bind" in line for line in lines)


async def test_a_conch_that_is_killed_takes_its_commands_along(house: House) -> None:
    mark = number()
    code = f"""
import asyncio
from pathlib import Path
from workplaces.computer.boxes import box_name
from workplaces.computer.place import Computer
from workplaces.place import RunRequest
place = Computer(Path({str(house.conch / "places")!r}), key_home=Path({str(house.home)!r}))
asyncio.run(place.run(RunRequest(command="setsid sleep {mark} & sleep {mark}", folder=Path({str(house.work)!r}))))
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2]) as conch:
        await until(lambda: sum(line.startswith("sleep") for line in processes(mark)) == 2)
        conch.kill()
    await until(lambda: processes(mark) == [])


async def test_a_box_that_outlived_its_conch_ends_with_the_next(house: House) -> None:
    """As when a Conch was killed in the moment before bubblewrap had tied the box's life to its own."""
    mark = number()
    orphan(box_name(house.conch / "places"), mark)
    heard = number()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(house.run(f"sleep {heard}"))
        await until(lambda: any(line.startswith("sleep") for line in processes(heard)))
        await until(lambda: any(line.startswith("sleep") for line in processes(mark)))
        os.kill(outside(mark), signal.SIGKILL)
        assert processes(mark), "it outlives the one that started it"
        await Computer(house.home / "another").sweep()
        assert processes(mark), "another home's boxes are not ours"
        await house.place.sweep()
        await until(lambda: processes(mark) == [])
        assert processes(heard), "a box that is followed goes on"
        running.cancel()


def orphan(name: str, mark: str) -> None:
    """Starts a box under a name that does not die with anyone."""
    box = [name, "--ro-bind", "/", "/", "--unshare-pid", "--", "sleep", mark]
    start = f"import os; os.fork() and os._exit(0); os.execv({shutil.which('bwrap')!r}, {box!r})"
    subprocess.run([sys.executable, "-c", start], check=True)


def outside(mark: str) -> int:
    """The bubblewrap of a box that is not in the box itself."""
    ours = Path("/proc/self/ns/pid").stat().st_ino
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "cmdline").read_bytes() and (entry / "ns/pid").stat().st_ino == ours:
                return int(entry.name)
    raise AssertionError("it is not there")


async def test_a_very_long_line_runs(house: House) -> None:
    line = "cat <<'EOF' | wc -c\n" + "x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 3000 + "EOF\necho $#; exit 4"
    for opened in (False, True):
        result = await house.run(line, opened=opened)
        assert (result.output.text, result.code) == ("300100\n0\n", 4)


async def test_an_argument_that_is_too_long_says_so(house: House) -> None:
    with pytest.raises(PlaceUnavailable) as raised:
        await house.run(("echo", "x" * 200_000))
    assert "longer" in raised.value.words


async def test_a_command_that_cannot_be_is_refused_in_words(house: House) -> None:
    for command in ("echo a\0b", (), ("echo", "\0")):
        with pytest.raises(PlaceUnavailable):
            await house.run(command)


def test_all_this_holds_for_an_ordinary_user(ordinary_user: Person) -> None:
    done = ordinary_user.pytest("-q", "-x", "-k", "not ordinary_user", __file__, timeout=110, env={"CI": "1"})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
