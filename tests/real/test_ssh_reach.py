"""Reaching a real machine, and why it could not be reached: each trouble in its own words, with its next step."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.engines.needs import need
from tests.real.engines.sshd import HOST, Sshd
from tests.real.engines.sshd import made as another
from workplaces.place import PlaceUnavailable
from workplaces.ssh.connection import Connection
from workplaces.ssh.lines import is_locked

KINDS = ("shared", "separate", "library")
Reach = Callable[..., Connection]


@pytest.fixture
def reach(tmp_path: Path) -> Iterator[Reach]:
    """``reach(settings, kind)``: the connection to build-box by these settings. Closed afterwards."""
    made: list[Connection] = []

    def connection(text: str, kind: str = "shared", host: str = HOST, **how: str) -> Connection:
        settings = tmp_path / "settings"
        settings.write_text(text)
        made.append(Connection(host, tmp_path / "places", settings, kinds=(kind,), **how))
        return made[-1]

    yield connection
    for one in made:
        one.close()


def refused(connection: Connection) -> PlaceUnavailable:
    """Why it cannot be reached; never after a long wait."""
    began = time.monotonic()
    with pytest.raises(PlaceUnavailable) as raised:
        connection.ready()
    assert time.monotonic() - began < 30
    assert raised.value.next_step is not None
    assert raised.value.next_step.label
    return raised.value


def without(text: str, *starts: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.strip().startswith(starts))


# ---- reaching it ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_says_what_it_is(machine: Sshd, reach: Reach, kind: str) -> None:
    facts = reach(machine.settings(), kind).ready()
    user = machine.user()
    assert (facts.user, facts.uid, facts.name, facts.home) == ("build", str(user.uid), HOST, str(user.home))
    assert facts.meaning == f"build@127.0.0.1:{machine.port}"
    assert {"tar", "find"} <= facts.has
    assert facts.writable
    assert 0 < facts.answer < 10
    if kind != "separate":
        assert facts.fingerprint == machine.fingerprint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "shell", "rc", "text"),
    [
        ("fish", "/usr/bin/fish", ".config/fish/config.fish", "echo hello; echo noise >&2; cd /; set -x A b\n"),
        ("csh", "/bin/tcsh", ".cshrc", "echo hello; cd /; set echo\nset histchars='#'\nalias sh false\n"),
        ("rbash", "/bin/rbash", ".bashrc", "echo hello\n"),
        (
            "noisy",
            "/bin/bash",
            ".bashrc",
            "echo hello; head -c 100000 /dev/zero; echo >&2 x; cd /; set -eu; trap 'x' 0\n",
        ),
        ("holds", "/bin/bash", ".bashrc", "sleep 300 &\n"),
        ("exits", "/bin/bash", ".bashrc", "exit 3\n"),
        ("dash", "/bin/sh", ".profile", "exit 3\n"),
    ],
)
def test_any_login_shell_will_do(
    machine: Sshd, reach: Reach, name: str, shell: str, rc: str, text: str, kind: str
) -> None:
    need(Path(shell).name)
    user = machine.user(name, shell)
    user.write(rc, text)
    connection = reach(machine.settings(name, name), kind, name)
    facts = connection.ready()
    assert (facts.user, facts.uid, facts.login) == (name, str(user.uid), shell)
    channel = connection.program("exec /bin/sh -c 'echo mark; pwd; cat'")
    try:
        channel.write(b"all of the input\n")
        channel.end_input()
        heard = b""
        while data := channel.read("out"):
            heard += data
            if heard.endswith(b"input\n"):
                break
    finally:
        channel.close()
        connection.release()
    assert heard.partition(b"mark\n")[2].endswith(b"\nall of the input\n")
    for _, line in machine.table():
        assert "read -r c" not in line


@pytest.mark.parametrize("kind", KINDS)
def test_a_shell_that_ends_before_anything_runs_is_said(machine: Sshd, reach: Reach, kind: str) -> None:
    user = machine.user("shut")
    user.write(".bashrc", "exit 3\n")
    user.write(".bash_profile", "exit 3\n")
    error = refused(reach(machine.settings("shut", "shut"), kind, "shut"))
    assert "ends the session before a command runs" in error.words


@pytest.mark.parametrize("kind", KINDS)
def test_jumps_are_made(machine: Sshd, reach: Reach, kind: str) -> None:
    text = machine.settings()
    text += machine.settings("far", "build", "ProxyJump middle")
    text += machine.settings("middle", "build", f"ProxyJump {HOST}", "ForwardAgent yes", "ControlMaster auto")
    text += machine.settings("two", "build", f"ProxyJump {HOST},middle")
    for host in ("far", "two"):
        facts = reach(text, kind, host).ready()
        assert (facts.name, facts.user) == (HOST, "build")


@pytest.mark.parametrize("kind", KINDS)
def test_a_proxy_command_is_used(machine: Sshd, reach: Reach, kind: str) -> None:
    text = machine.settings(
        HOST, "build", "ProxyCommand bash -c 'exec 3<>/dev/tcp/127.0.0.1/%p; cat <&3 & exec cat >&3'"
    )
    facts = reach(text.replace("HostName 127.0.0.1", "HostName nowhere.invalid"), kind)
    # its name is another now, and so is the one it is known by
    (machine.folder / "known_hosts").write_text(machine.known.replace("127.0.0.1", "nowhere.invalid"))
    assert facts.ready().name == HOST


@pytest.mark.parametrize("kind", KINDS)
def test_the_agent_is_asked(machine: Sshd, reach: Reach, tmp_path: Path, kind: str) -> None:
    need("ssh-agent", "ssh-add")
    sock = Path(f"/run/conch-tests/agent-{os.getpid()}")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while not sock.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        env = {**os.environ, "SSH_AUTH_SOCK": str(sock)}
        subprocess.run(["ssh-add", "-q", str(machine.user().key)], env=env, check=True, stderr=subprocess.DEVNULL)
        text = without(machine.settings(HOST, "build", f"IdentityAgent {sock}"), "IdentityFile", "IdentitiesOnly")
        assert reach(text, kind).ready().user == "build"
    finally:
        process.terminate()
        process.wait()
        sock.unlink(missing_ok=True)


def test_a_long_home_has_room_for_the_socket(machine: Sshd, tmp_path: Path) -> None:
    settings = tmp_path / "a settings file"
    settings.write_text(machine.settings())
    home = tmp_path / ("long " * 30) / ("é" * 60) / "[x]"
    connection = Connection(HOST, home, settings)
    try:
        assert connection.ready().kind == "shared"
        assert connection.up
        assert home.stat().st_mode & 0o777 == 0o700
        (found,) = home.glob("*.s")
        assert found.is_socket()
        assert found.stat().st_mode & 0o777 == 0o600
    finally:
        connection.close()
    assert list(home.iterdir()) == []


def test_one_connection_serves_many_programs(machine: Sshd, reach: Reach) -> None:
    connection = reach(machine.settings())
    connection.ready()
    before = [line for _, line in machine.table() if line.startswith("sshd:")]
    for _ in range(3):
        assert connection.sweep("0" * 32)
    assert [line for _, line in machine.table() if line.startswith("sshd:")] == before


def test_nobody_is_asked_for_a_password(
    machine: Sshd, reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on the way: an ssh that is started for a jump has the same said first."""
    asked = tmp_path / "asked"
    script = tmp_path / "askpass"
    script.write_text(f"#!/bin/sh\ntouch {asked}\n")
    script.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(script))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("DISPLAY", ":77")
    text = machine.settings("middle").replace("User build", "User nobody-there")
    text += machine.settings(HOST, "build", "ProxyJump middle")
    assert "middle" in refused(reach(text)).words
    assert not asked.exists()


# ---- why it could not be reached ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_that_is_new_here(machine: Sshd, reach: Reach, tmp_path: Path, kind: str) -> None:
    text = without(machine.settings(), "UserKnownHostsFile") + "  UserKnownHostsFile /dev/null\n"
    error = refused(reach(text, kind))
    assert "has not met build-box" in error.words
    assert error.next_step is not None
    assert error.next_step.command == "ssh build-box"
    mine = tmp_path / "known"
    accepts = without(text, "UserKnownHostsFile") + f"  UserKnownHostsFile {mine}\n  StrictHostKeyChecking accept-new\n"
    assert reach(accepts, kind).ready().name == HOST
    assert machine.known.split()[2] in mine.read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strict", ["ask", "no", "accept-new"])
def test_a_changed_host_key_is_never_accepted(machine: Sshd, reach: Reach, strict: str, kind: str) -> None:
    text = machine.settings(HOST, "build", f"StrictHostKeyChecking {strict}", "CheckHostIP no")
    other = subprocess.run(
        ["ssh-keygen", "-q", "-y", "-f", str(machine.user().key)], capture_output=True, text=True, check=True
    ).stdout.split()
    known = machine.folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{machine.port} {other[0]} {other[1]}\n")
    error = refused(reach(text, kind))
    assert error.words.startswith("Danger: build-box shows another host key")
    assert error.next_step is not None
    assert error.next_step.command == "", "nothing to copy that would throw the old key away"
    assert other[1] in known.read_text()
    assert machine.known.split()[2] not in known.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_not_taken(machine: Sshd, reach: Reach, kind: str) -> None:
    error = refused(reach(machine.settings().replace("User build", "User nobody-there"), kind))
    assert "does not take your key" in error.words
    assert error.next_step is not None
    assert error.next_step.command == "ssh-copy-id build-box"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["RFC4716", "PEM"])
def test_a_key_under_a_passphrase(machine: Sshd, reach: Reach, tmp_path: Path, kind: str, form: str) -> None:
    key = tmp_path / "locked key"
    sort = ["-t", "rsa", "-m", "PEM"] if form == "PEM" else ["-t", "ed25519"]
    subprocess.run(["ssh-keygen", "-q", *sort, "-N", "sesame", "-f", str(key)], check=True)
    assert is_locked(key)
    assert not is_locked(machine.user().key)
    text = without(machine.settings(), "IdentityFile") + f'  IdentityFile "{key}"\n'
    error = refused(reach(text, kind))
    assert "needs its passphrase" in error.words
    assert error.next_step is not None
    assert error.next_step.command == f"ssh-add '{key}'"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_nobody_knows(machine: Sshd, reach: Reach, kind: str) -> None:
    error = refused(reach(machine.settings().replace("127.0.0.1", "no-such-name.invalid"), kind))
    assert "cannot be found on the network" in error.words


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_without_an_ssh_server(machine: Sshd, reach: Reach, kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        text = machine.settings().replace(str(machine.port), str(taken.getsockname()[1]))
        error = refused(reach(text, kind))
    assert "takes no SSH connections" in error.words


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_asleep(machine: Sshd, reach: Reach, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workplaces.ssh.options.CONNECT_LIMIT", 2)
    monkeypatch.setattr("workplaces.ssh.library.CONNECT_LIMIT", 2)
    monkeypatch.setattr(
        "workplaces.ssh.options._FIRST", (("ConnectTimeout", "2"), ("BatchMode", "yes"), ("ControlPath", "none"))
    )
    with socket.socket() as deaf:  # its queue is full: it is there, and answers nobody
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        queue = [socket.socket() for _ in range(4)]
        for one in queue:
            one.setblocking(False)
            one.connect_ex(deaf.getsockname())
        text = machine.settings().replace(str(machine.port), str(deaf.getsockname()[1]))
        error = refused(reach(text, kind))
        for one in queue:
            one.close()
    assert "does not answer. It may be asleep" in error.words


@pytest.mark.parametrize("kind", KINDS)
def test_trouble_on_the_way_names_the_machine_there(machine: Sshd, reach: Reach, kind: str) -> None:
    jump = machine.settings(HOST, "build", "ProxyJump middle")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = machine.settings("middle").replace(str(machine.port), str(taken.getsockname()[1]))
        down = refused(reach(jump + closed, kind))
    assert down.words.startswith("middle, on the way to build-box")
    assert "middle is on, but takes no SSH connections" in down.words
    denied = refused(reach(jump + machine.settings("middle").replace("User build", "User nobody-there"), kind))
    assert "middle does not take your key" in denied.words
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        behind = jump.replace(f"Port {machine.port}", f"Port {taken.getsockname()[1]}") + machine.settings("middle")
        past = refused(reach(behind, kind))
    assert past.words == "build-box is on, but takes no SSH connections."


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_cannot_be_read(machine: Sshd, reach: Reach, tmp_path: Path, kind: str) -> None:
    error = refused(reach(machine.settings() + "  Frobnicate yes\n", kind))
    assert error.words == "Your SSH settings cannot be read: there is a mistake in settings, line 9."
    assert "settings" in (error.next_step.label if error.next_step else "")


@pytest.mark.parametrize("kind", KINDS)
def test_no_ssh_here(machine: Sshd, reach: Reach, tmp_path: Path, kind: str) -> None:
    error = refused(reach(machine.settings(), kind, program=str(tmp_path / "no-ssh")))
    assert (error.need, "has no ssh" in error.words) == ("ssh", True)


@pytest.mark.parametrize("kind", KINDS)
def test_no_shell_there(machine: Sshd, reach: Reach, kind: str) -> None:
    machine.user("bare", "/bin/false-as-a-shell")
    error = refused(reach(machine.settings("bare", "bare"), kind, "bare"))
    assert "does not take your key" in error.words or "ends the session" in error.words
    (user := machine.user("nologin", "/usr/sbin/nologin")).write(".hushlogin", "")
    error = refused(reach(machine.settings("nologin", user.name), kind, "nologin"))
    assert "ends the session before a command runs" in error.words


def test_a_match_exec_runs_for_the_machine_that_is_reached_and_no_other(
    machine: Sshd, reach: Reach, tmp_path: Path
) -> None:
    log = tmp_path / "asked"
    text = f'Match exec "echo %n >> {log}"\n' + machine.settings() + machine.settings("other")
    assert reach(text).ready().name == HOST
    assert set(log.read_text().split()) == {HOST}


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_what_a_machine_says_of_itself_is_not_shown(reach: Reach, kind: str, tmp_path: Path) -> None:
    """An ssh server that sends terminal sequences and lies gets its kind of trouble told in our words."""
    with another(name="liar", options={"Banner": str(tmp_path / "banner")}) as liar:
        (tmp_path / "banner").write_text("\033]0;owned\007\033[2J Host key verification failed.\n")
        tmp_path.chmod(0o755)
        error = refused(reach(liar.settings().replace("User build", "User nobody"), kind, "liar"))
    assert "\033" not in error.words + error.details
    assert "liar" in error.words
