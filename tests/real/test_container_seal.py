"""From inside a box on a real Docker: every limit and flag, sealed and open, read from the kernel and not from us."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import repository
from tests.workplaces.git_cases import CASES, Case, control, copies, person
from tests.workplaces.looking import listing, names, until
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest, RunResult

Run = Callable[..., Coroutine[Any, Any, RunResult]]
BOTH = pytest.mark.parametrize("opened", [False, True], ids=["sealed", "open"])

STATUS = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid|Gid|Groups)' /proc/self/status"
CGROUPS = (
    'for f in "memory/memory.limit_in_bytes" "memory/memory.memsw.limit_in_bytes" "pids/pids.max"'
    ' "cpu/cpu.cfs_quota_us" "cpu/cpu.cfs_period_us" memory.max memory.swap.max pids.max cpu.max;'
    ' do [ -e /sys/fs/cgroup/$f ] && echo "$f=$(cat /sys/fs/cgroup/$f)"; done; true'
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
async def place(docker_host: Dockerd, tmp_path: Path) -> AsyncIterator[Container]:
    made = Container(tmp_path / "conch", image=lambda: docker_host.image)
    yield made
    await made.close()
    assert docker_host.boxes(conch_work="1") == []


@pytest.fixture(params=["made for it", "made ahead"])
def run(request: pytest.FixtureRequest, place: Container, work: Path) -> Run:
    """Every test twice: in a box that is made for its command, and in one that was made before and waited for it."""

    async def go(command: str | tuple[str, ...], **how: Any) -> RunResult:
        asked = RunRequest(**{"command": command, "folder": work, "timeout": 60.0, **how})
        if request.param == "made ahead":
            asked = replace(asked, chat="seal")
            await spare_for(place, asked)
        result = await place.run(asked)
        assert result.proof.details["box"] == request.param
        return result

    return go


async def spare_for(place: Container, asked: RunRequest) -> None:
    """Sees to it that a box waits for just this. One for an open command is only kept after two of them."""
    for _ in range(2 if asked.open else 1):
        await place.run(replace(asked, command="true", output=OutputKeeper()))
    await until(lambda: place._spares.waits_for(asked.chat, open=asked.open) and place._spares.idle, 20, "it is made")


def pairs(text: str, between: str = "=") -> dict[str, str]:
    return dict(line.split(between, 1) for line in text.splitlines() if between in line)


@BOTH
async def test_nothing_may_be_done_that_needs_a_capability(run: Run, opened: bool) -> None:
    status = pairs((await run(STATUS, open=opened)).output.out, ":\t")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert set(status["Uid"].split()) == {str(os.getuid())}
    assert set(status["Gid"].split()) == {str(os.getgid())}
    assert status["Groups"].split() in ([], [str(os.getgid())])


@BOTH
async def test_the_limits_are_the_kernels(run: Run, opened: bool) -> None:
    limits = pairs((await run(CGROUPS, open=opened)).output.out)
    cpus = min(2, os.cpu_count() or 1)
    if "memory.max" in limits:
        assert (limits["memory.max"], limits["memory.swap.max"]) == (str(4 << 30), "0")
        assert limits["pids.max"] == "512"
        quota, period = limits["cpu.max"].split()
    else:
        assert limits["memory/memory.limit_in_bytes"] == str(4 << 30)
        assert limits.get("memory/memory.memsw.limit_in_bytes", str(4 << 30)) == str(4 << 30)
        assert limits["pids/pids.max"] == "512"
        quota, period = limits["cpu/cpu.cfs_quota_us"], limits["cpu/cpu.cfs_period_us"]
    assert int(quota) == cpus * int(period)
    ulimits = (await run("ulimit -c; ulimit -n; umask", open=opened)).output.out.split()
    assert ulimits == ["0", "16384", "0022"]


@BOTH
async def test_only_the_folder_and_tmp_can_be_written(run: Run, work: Path, opened: bool) -> None:
    places = "/ /etc /usr/bin /root /home /var/tmp /run /opt /proc/sys/kernel /sys /sys/fs/cgroup"
    attempt = (
        f"for d in {places}; do (: > $d/conch-x) 2>/dev/null && echo wrote $d; done; echo x > here; : > /tmp/x; ls /"
    )
    result = await run(attempt, open=opened)
    assert "wrote" not in result.output.out
    assert names(work) == {"here"}
    mounts = (await run("cat /proc/mounts", open=opened)).output.out
    options = {line.split(" ")[1]: set(line.split(" ")[3].split(",")) for line in mounts.splitlines()}
    kinds = {line.split(" ")[1]: line.split(" ")[2] for line in mounts.splitlines()}
    assert "ro" in options["/"]
    assert kinds["/tmp"] == "tmpfs"
    assert {"rw", "nosuid", "nodev", "size=2097152k"} <= options["/tmp"]
    assert "noexec" not in options["/tmp"]
    assert "rw" in options[str(work)]
    writable = {
        point
        for point, kept in options.items()
        if "rw" in kept and not point.startswith(("/dev", "/proc", "/sys/fs/cgroup"))
    }
    assert writable == {"/tmp", str(work)}


async def test_tmp_is_two_gigabytes_for_everyone_and_may_run_programs(run: Run) -> None:
    result = await run(
        "stat -c '%a %u' /tmp; df -B1 --output=size /tmp | tail -1; cp /bin/true /tmp/t; /tmp/t && echo ran"
    )
    assert result.output.out.split() == ["1777", "0", str(2 << 30), "ran"]


async def test_tmp_is_empty_each_time_and_private(run: Run, tmp_path: Path) -> None:
    await run("echo x > /tmp/left; echo x > /dev/shm/left; echo x > ~/left")
    result = await run("find /tmp /dev/shm -name left; ls -A ~")
    assert result.output.out == ""


@BOTH
async def test_home_is_made_in_the_box_and_the_persons_alone(run: Run, opened: bool) -> None:
    result = await run('stat -c "%a %u %g %n" ~; echo x > ~/y && cat ~/y; echo "$HOME"', open=opened)
    assert result.output.out == f"700 {os.getuid()} {os.getgid()} /tmp/home\nx\n/tmp/home\n"


@BOTH
async def test_the_environment_is_home_lang_and_the_images(run: Run, opened: bool, docker_host: Dockerd) -> None:
    with docker_host.client() as client:
        image = dict(line.split("=", 1) for line in client.images.get(docker_host.image).attrs["Config"]["Env"])
    seen = pairs((await run(("env",), open=opened)).output.out)
    hostname = seen.pop("HOSTNAME")
    assert re.fullmatch("[0-9a-f]{12}", hostname)
    assert seen == {**image, "HOME": "/tmp/home", "LANG": "C.UTF-8"}


async def test_a_sealed_box_reaches_nobody(run: Run, docker_host: Dockerd) -> None:
    import socket

    with socket.create_server((docker_host.gateway, 0)) as server:
        port = server.getsockname()[1]
        probe = (
            "import socket,sys\n"
            f"for a in [('{docker_host.gateway}', {port}), ('127.0.0.1', {port})]:\n"
            "  try: socket.create_connection(a, 2); print('reached')\n"
            "  except OSError as e: print(e.errno)\n"
        )
        sealed = await run(("python3", "-c", probe))
        assert "reached" not in sealed.output.out
        opened = await run(("python3", "-c", probe), open=True)
        assert opened.output.out.splitlines()[0] == "reached"
    devices = await run("ls /sys/class/net; wc -l < /proc/net/route; wc -l < /proc/net/unix")
    assert devices.output.out.split() == ["lo", "1", "1"]
    assert "eth0" in (await run("ls /sys/class/net", open=True)).output.out


@BOTH
async def test_the_engine_and_this_computer_are_out_of_sight(run: Run, docker_host: Dockerd, opened: bool) -> None:
    look = f"ls -d {docker_host.socket} /var/run/docker.sock {Path.home()}/.ssh; ps -e -o pid= | wc -l; id -u"
    result = await run(look, open=opened)
    assert "docker.sock" not in result.output.out
    assert int(result.output.out.splitlines()[0]) < 6, "only the box's own processes are seen"


@BOTH
async def test_a_setuid_program_gives_nothing(run: Run, opened: bool) -> None:
    attempt = (
        "cp /usr/bin/id /tmp/i; chmod 4777 /tmp/i; /tmp/i -u; mount -t tmpfs x /mnt; unshare -Ur true; chroot / true"
    )
    result = await run(attempt, open=opened)
    assert result.output.out == f"{os.getuid()}\n"
    assert result.code != 0


async def test_localhost_has_its_name_in_a_sealed_box_and_no_name_server_shows(run: Run) -> None:
    """Docker does not manage its network (``box.seal`` says why), nor these two files."""
    server = (
        "require('http').createServer((q, r) => r.end('hi')).listen(8080, () => require('http')"
        ".get('http://localhost:8080', r => { console.log(r.statusCode); process.exit() }))"
    )
    seen = (await run(f'readlink /proc/self/ns/net; node -e "{server}"; cat /etc/resolv.conf')).output
    space, *rest = seen.out.split()
    assert space != Path("/proc/self/ns/net").readlink().as_posix()
    assert (rest, seen.err) == (["200"], "")


async def test_the_proof_says_what_was_read_back(run: Run, work: Path, docker_host: Dockerd) -> None:
    repository(work)
    (work / "key").write_text("SECRET")
    sealed = (await run("true", protected=(work / "key",))).proof
    assert (sealed.place, sealed.network, sealed.sealed, sealed.folder) == ("container", False, True, str(work))
    with docker_host.client() as client:
        image = client.images.get(docker_host.image)
    assert {
        "engine": sealed.details["engine"],
        "image id": image.id,
        "digest": image.attrs["RepoDigests"][0].rpartition("@")[2],
        "endpoint": docker_host.host,
        "found": "DOCKER_HOST",
        "network": "none",
        "user": f"{os.getuid()}:{os.getgid()}",
        "capabilities": "none",
        "new privileges": "no",
        "root": "read-only",
        "memory": "4 GB",
        "processes": "512",
        ".git": "read-only",
        "covered": "1",
        "folder proven by": "device and inode",
    }.items() <= sealed.details.items()
    assert sealed.details["engine"].startswith("Docker ")
    opened = (await run("true", open=True)).proof
    assert (opened.network, opened.sealed, opened.details["network"], opened.details[".git"]) == (
        True,
        False,
        "bridge",
        "writable",
    )
    assert opened.target != sealed.target


async def test_git_cannot_be_hooked_when_sealed_and_can_when_open(run: Run, work: Path) -> None:
    repository(work)
    hook = "printf '#!/bin/sh\\ntouch HOOKED\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"
    moves = "mv .git moved; ln -sfn /tmp .git; mount --move .git /tmp; umount .git; rmdir .git/hooks; rm -rf .git"
    before = listing(work / ".git")
    await run(f"{hook}; {moves}; true")
    assert listing(work / ".git") == before
    result = await run(f"{hook} && mv .git moved && mv moved .git", open=True)
    assert result.code == 0, result.output.text
    assert (work / ".git" / "hooks" / "pre-commit").exists()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_nothing_left_behind_runs_at_the_next_git_command(run: Run, tmp_path: Path, case: Case) -> None:
    ran = tmp_path / "RAN"
    boxed, bare = copies(case, tmp_path)
    assert control(case, bare, ran), "outside of a box it works"
    result = await run(case.command(boxed / "RAN"), folder=boxed)
    assert result.proof.details[".git"] == (
        "none" if case.name.startswith(("none", "link to n")) or case.name == "part" else "read-only"
    )
    person(boxed)
    assert not (boxed / "RAN").exists()


async def test_git_inside_git_is_writable_when_open(run: Run, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "embedded")
    work = case.make(tmp_path)
    result = await run("echo x >> deep/emb/.git/description && mv deep other && mv other deep", folder=work, open=True)
    assert (result.code, result.proof.details[".git"]) == (0, "writable"), result.output.text


@BOTH
async def test_keys_in_the_folder_cannot_be_read_by_any_way(run: Run, work: Path, tmp_path: Path, opened: bool) -> None:
    keys = work / "a" / "keys"
    keys.mkdir(parents=True)
    keys.chmod(0o700)
    (keys / "id").write_text("SECRET-1")
    (work / "token").write_text("SECRET-2")
    (work / "token").chmod(0o600)
    (work / "to-keys").symlink_to("a/keys")
    conch = tmp_path / "conch"
    before = listing(work)
    ways = (
        "cat a/keys/id token to-keys/id a/../token /proc/self/root/$PWD/token; ls -la a/keys; umount a/keys token;"
        "find / -xdev -name id -path '*keys*' -exec cat {} + ; grep -r SECRET . ; tar c . | grep -a SECRET;"
        "dd if=token; cp token t; cat t; ln a/keys/id l; chmod 777 a/keys token; cat /proc/1/root/$PWD/token"
    )
    result = await run(ways, open=opened, protected=(work / "to-keys", work / "token", conch))
    assert "SECRET" not in result.output.text.replace("grep -a SECRET", "")
    after = listing(work)
    assert {path: after[path] for path in before} == before
    assert result.proof.details["covered"] == "2"
    where = await run(
        "stat -f -c %T a/keys; stat -c '%a %s' token; touch token; touch a/keys/x", protected=(keys, work / "token")
    )
    assert where.output.out == "tmpfs\n444 0\n"
    assert where.output.err.count("Read-only file system") + where.output.err.count("Permission denied") == 2


async def test_a_socket_and_a_pipe_can_be_covered(run: Run, work: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(work / "agent.sock"))
        agent.listen()
        os.mkfifo(work / "pipe")
        result = await run("stat -c %F agent.sock pipe", protected=(work / "agent.sock", work / "pipe"))
    assert result.output.out == "regular empty file\nregular empty file\n"


@pytest.mark.parametrize(
    "name", ["a:b", "a,b", 'q"q', "it's", "sp ace", "@x", "new\nline", "🤣", "n" * 255, "=", "a:/b:ro"]
)
async def test_odd_names_keep_the_seal(run: Run, work: Path, name: str) -> None:
    """With something over the folder, too: a mount that went wrong would show what it should hide."""
    folder = work / name if "/" not in name else work / "a:" / "b:ro"
    folder.mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / name[:200].replace("/", "_")).mkdir()
    key = folder / name[:200].replace("/", "_") / "key"
    key.write_text("SECRET")
    command = 'cat */key; touch .git/x; echo "$?"; echo x > made; pwd -P | tr "\\n" "/"'
    result = await run(command, folder=folder, protected=(key,))
    assert "SECRET" not in result.output.text
    assert result.output.out == "1\n" + str(folder).replace("\n", "/") + "/"
    assert (folder / "made").read_text() == "x\n"
    assert names(folder / ".git") == set()


async def test_an_images_own_entry_point_and_volume_do_nothing(
    run: Run, docker_host: Dockerd, tmp_path: Path, work: Path
) -> None:
    with docker_host.client() as client:
        box = client.api.create_container(docker_host.image, ["true"])
        changes = ['ENTRYPOINT ["/bin/false"]', "VOLUME /data", "USER 4242", "HEALTHCHECK CMD exit 1", "ENV X=of-image"]
        client.api.commit(box["Id"], "odd-image", "1", changes="\n".join(changes))
        client.api.remove_container(box["Id"])
    place = Container(tmp_path / "other", image=lambda: "odd-image:1")
    result = await place.run(RunRequest(command="id -u; echo $X; echo x > /data/x; stat -f -c %T /data", folder=work))
    assert result.output.out == f"{os.getuid()}\nof-image\ntmpfs\n"
    await place.close()
    with docker_host.client() as client:
        assert client.api.volumes()["Volumes"] in (None, [])


async def test_conchs_own_empty_file_is_looked_at_each_time(run: Run, work: Path, tmp_path: Path) -> None:
    (work / "key").write_text("SECRET")
    await run("true", protected=(work / "key",))
    empty = tmp_path / "conch" / "empty"
    for spoil in (lambda: empty.chmod(0o666), lambda: (empty.unlink(), empty.symlink_to(work / "key"))):
        spoil()
        result = await run("cat key; stat -c '%a %s' key", protected=(work / "key",))
        assert result.output.out == "444 0\n"
        assert not empty.is_symlink()
    assert (tmp_path / "conch").stat().st_mode & 0o777 == 0o700
