"""The relay and the proxy: a real relay process, real TLS, and every way of asking for what is not allowed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from tests.workplaces.looking import until
from tests.workplaces.relay_hands import (
    PUBLIC,
    Certificate,
    Internet,
    Relay,
    certificate,
    proxy_for,
    tls_server,
)
from tests.workplaces.test_hosts import hello
from workplaces.container.hosts_proxy import Proxy

HOSTS = "allowed.test *.below.test inward.test moved.test gone.test"


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("paper"), "allowed.test", "*.below.test", "evil.test")


@pytest.fixture
async def echo(paper: Certificate) -> AsyncIterator[int]:
    """A TLS server that says back what it is told."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async with tls_server(paper, handle) as port:
        yield port


@pytest.fixture
def internet(echo: int) -> Internet:
    names = {
        "allowed.test": [PUBLIC],
        "a.below.test": ["10.0.0.1", PUBLIC],
        "inward.test": ["127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"],
        "moved.test": ["8.8.8.8"],
    }
    return Internet(names, echo)


@pytest.fixture
def proxy(internet: Internet) -> Proxy:
    return proxy_for(HOSTS, internet)


@pytest.fixture
async def relay(proxy: Proxy) -> AsyncIterator[Relay]:
    made = Relay()
    assert await asyncio.to_thread(made.pipe.here.wait, 10)
    made.pipe.let(proxy.serve, proxy.hear_name)
    yield made
    await made.pipe.shut()
    assert await asyncio.to_thread(made.close) == 0


async def ask(relay: Relay, request: bytes) -> bytes:
    """All that the proxy answers to a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def tunnel(relay: Relay, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return reader, writer


async def secured(
    relay: Relay, target: str, paper: Certificate, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel with TLS in it, checked against the certificate."""
    reader, writer = await tunnel(relay, target)
    context = ssl.create_default_context(cafile=str(paper.file))
    await asyncio.wait_for(writer.start_tls(context, server_hostname=name), 10)
    return reader, writer


@pytest.mark.parametrize("name", ["allowed.test", "ALLOWED.test.", "a.below.test"])
async def test_a_listed_host_is_reached_whole_with_its_own_certificate(
    relay: Relay, proxy: Proxy, internet: Internet, paper: Certificate, name: str
) -> None:
    plain = name.lower().removesuffix(".")
    reader, writer = await secured(relay, f"{name}:443", paper, plain)
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.readexactly(5), 10) == b"hello"
    writer.close()
    assert internet.asked == [plain]
    assert internet.dialled == [(PUBLIC, 443)]
    assert proxy.tried.targets() == ()


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("evil.test:443", "evil.test:443"),
        ("below.test:443", "below.test:443"),
        ("notallowed.test:443", "notallowed.test:443"),
        ("allowed.test:22", "allowed.test:22"),
        ("allowed.test:80", "allowed.test:80"),
        ("allowed.test", "?:?"),
        ("allowed.test:443:443", "allowed.test:443:443"),
        ("allowed.test:0443", "allowed.test:0443"),
        ("127.0.0.1:443", "127.0.0.1:443"),
        ("2130706433:443", "2130706433:443"),
        ("0x7f.1:443", "0x7f.1:443"),
        ("[::1]:443", "[::1]:443"),
        ("[allowed.test]:443", "[allowed.test]:443"),
        ("169.254.169.254:80", "169.254.169.254:80"),
        ("evil.test#.allowed.test:443", "evil.test?.allowed.test:443"),
        ("allowed.test@evil.test:443", "allowed.test?evil.test:443"),
        ("x" * 9000 + ".test:443", "x" * 253 + ":443"),
    ],
)
async def test_what_is_not_listed_is_refused_never_looked_up_and_told(
    relay: Relay, proxy: Proxy, internet: Internet, target: str, told: str
) -> None:
    answer = await ask(relay, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b".\n")
    assert internet.asked == internet.dialled == []
    assert proxy.tried.targets() == (told,)
    _, writer = await tunnel(relay, "allowed.test:443")  # and the same relay still serves
    writer.close()


@pytest.mark.parametrize(
    ("request_line", "told"),
    [
        ("GET http://allowed.test/ HTTP/1.1", ("allowed.test:80",)),
        ("GET http://evil.test:8080/x HTTP/1.0", ("evil.test:8080",)),
        ("POST http://u:p@evil.test/ HTTP/1.1", ("evil.test:80",)),
        ("GET http://169.254.169.254/latest HTTP/1.1", ("169.254.169.254:80",)),
    ],
)
async def test_plain_http_is_refused_whatever_the_host(
    relay: Relay, proxy: Proxy, internet: Internet, request_line: str, told: tuple[str, ...]
) -> None:
    answer = await ask(relay, f"{request_line}\r\nHost: allowed.test\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"https" in answer
    assert internet.asked == internet.dialled == []
    assert proxy.tried.targets() == told


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT allowed.test:443\r\n\r\n",
        b"connect allowed.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1 x\r\n\r\n",
        b"CONNECT  allowed.test:443 HTTP/1.1\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\n\r\n",
        b"A" * 40_000,
    ],
)
async def test_what_is_no_request_is_answered_so(relay: Relay, internet: Internet, request_bytes: bytes) -> None:
    answer = await ask(relay, request_bytes)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert internet.asked == internet.dialled == []


async def test_a_listed_name_that_leads_inwards_is_refused(relay: Relay, proxy: Proxy, internet: Internet) -> None:
    answer = await ask(relay, b"CONNECT inward.test:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"private" in answer
    assert internet.dialled == []
    assert proxy.inward.targets() == ("inward.test:443",)
    assert proxy.tried.targets() == ()


async def test_a_name_is_looked_up_once_and_only_good_addresses_of_that_answer_are_used(
    relay: Relay, internet: Internet
) -> None:
    internet.names = {**internet.names, "allowed.test": ["192.168.0.1", "8.8.8.8", PUBLIC, "127.0.0.1"]}
    _, writer = await tunnel(relay, "allowed.test:443")
    writer.close()
    assert internet.asked == ["allowed.test"]
    assert internet.dialled == [("8.8.8.8", 443), (PUBLIC, 443)]


@pytest.mark.parametrize(("name", "status"), [("gone.test", b"502"), ("moved.test", b"504")])
async def test_a_listed_host_that_is_not_there_is_no_refusal(
    relay: Relay, proxy: Proxy, name: str, status: bytes
) -> None:
    answer = await ask(relay, f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert proxy.tried.targets() == proxy.inward.targets() == ()


async def test_another_name_than_was_asked_for_does_not_come_through(
    relay: Relay, proxy: Proxy, paper: Certificate, internet: Internet
) -> None:
    """One address serves many names, so a listed one would lead to all of them."""
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await secured(relay, "allowed.test:443", paper, "evil.test")
    assert internet.dialled == [(PUBLIC, 443)]
    assert proxy.tried.targets() == ("evil.test:443",)


@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"])
async def test_what_is_not_tls_does_not_come_through(relay: Relay, proxy: Proxy, said: bytes) -> None:
    reader, writer = await tunnel(relay, "allowed.test:443")
    writer.write(said)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    assert proxy.tried.targets() == ("allowed.test:443",)


async def test_a_client_that_goes_before_it_said_anything_tried_nothing(relay: Relay, proxy: Proxy) -> None:
    for said in (b"", hello("evil.test")[:50]):
        _, writer = await tunnel(relay, "allowed.test:443")
        writer.write(said)
        writer.write_eof()
        await until(lambda: relay.pipe.idle)
        writer.close()
    assert proxy.tried.targets() == ()


async def test_much_goes_both_ways_whole_with_a_slow_reader_beside_it(relay: Relay, paper: Certificate) -> None:
    _, stuck_writer = await secured(relay, "allowed.test:443", paper, "allowed.test")
    stuck_writer.write(bytes(64_000_000))  # comes back, and nobody reads it: the others go on
    sent = hashlib.sha256(b"piece" * 4_000_000).hexdigest()

    async def one() -> str:
        reader, writer = await secured(relay, "allowed.test:443", paper, "allowed.test")

        async def send() -> None:
            for _ in range(400):
                writer.write(b"piece" * 10_000)
                await writer.drain()

        got, size = hashlib.sha256(), 0
        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            while size < 20_000_000:
                data = await reader.read(65536)
                assert data
                got.update(data)
                size += len(data)
        writer.close()
        return got.hexdigest()

    assert await asyncio.wait_for(asyncio.gather(one(), one()), 60) == [sent, sent]
    assert psutil.Process(relay.process.pid).memory_info().rss < 40_000_000, "what nobody reads is not gathered"
    stuck_writer.transport.abort()


async def test_more_connections_than_there_is_room_for_wait_their_turn(relay: Relay, paper: Certificate) -> None:
    async def one(number: int) -> bytes:
        reader, writer = await secured(relay, "allowed.test:443", paper, "allowed.test")
        writer.write(b"%06d" % number)
        data = await reader.readexactly(6)
        writer.close()
        return data

    said = await asyncio.wait_for(asyncio.gather(*map(one, range(200))), 60)
    assert said == [b"%06d" % number for number in range(200)]


async def test_the_end_of_what_is_said_comes_through_before_the_answer(
    paper: Certificate, relay: Relay, internet: Internet
) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # TLS has no half-open streams here: the raw end is what is passed on
        writer.write(b"%d" % len(data))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    internet.port = server.sockets[0].getsockname()[1]
    reader, writer = await tunnel(relay, "allowed.test:443")
    said = hello("allowed.test") + bytes(100_000)
    writer.write(said)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 10) == b"%d" % len(said)
    writer.close()
    server.close()


async def test_nobody_is_served_once_the_command_is_over(
    relay: Relay, proxy: Proxy, paper: Certificate, internet: Internet
) -> None:
    reader, _ = await secured(relay, "allowed.test:443", paper, "allowed.test")
    await relay.pipe.shut()
    await ends(reader)
    assert (await ask_or_nothing(relay, b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")) == b""
    assert proxy.tried.targets() == ()
    next_one = proxy_for("evil.test", internet)
    relay.pipe.let(next_one.serve, next_one.hear_name)
    assert (await ask(relay, b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")
    assert next_one.tried.targets() == ("allowed.test:443",)
    assert proxy.tried.targets() == ()


async def ends(reader: asyncio.StreamReader) -> None:
    try:
        assert await asyncio.wait_for(reader.read(1), 10) == b""
    except (ConnectionError, ssl.SSLError):
        return


async def ask_or_nothing(relay: Relay, request: bytes) -> bytes:
    try:
        return await ask(relay, request)
    except ConnectionError:
        return b""


async def test_what_was_asked_for_in_the_last_moment_is_heard(relay: Relay, proxy: Proxy) -> None:
    for number in range(50):
        with socket.create_connection(("127.0.0.1", relay.port)) as made:
            made.sendall(b"CONNECT n%d.test:443 HTTP/1.1\r\n\r\n" % number)
        assert await relay.pipe.ping(5)
        await asyncio.sleep(0)
        assert len(proxy.tried.targets()) == min(number + 1, 20), number


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return (
        b"\xab\xcd\x01\x00"
        + struct.pack(">4H", 1, 0, 0, 1)
        + labels
        + b"\0"
        + struct.pack(">2H", kind, 1)
        + b"\0\0\x29"
    )


async def test_a_name_that_is_looked_up_past_the_proxy_has_no_address_and_is_told(relay: Relay, proxy: Proxy) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(10)
        for garbage in (b"", b"x", bytes(11), bytes(12), b"\xff" * 200, b"\xab\xcd\x81\x00" + bytes(20)):
            made.sendto(garbage, ("127.0.0.1", relay.names))
        made.sendto(question("secret-data.evil.test"), ("127.0.0.1", relay.names))
        while (answer := await asyncio.to_thread(made.recv, 4096))[:2] != b"\xab\xcd":
            pass
    assert answer[3] & 0x0F == 3, "no such name"
    assert struct.unpack(">4H", answer[4:12]) == (1, 0, 0, 0)
    assert answer[12:] == question("secret-data.evil.test")[12:-3]
    assert await relay.pipe.ping(5)
    assert "secret-data.evil.test" in proxy.tried.targets()


async def test_the_relay_ends_with_its_stdin_and_programs_see_it(relay: Relay, paper: Certificate) -> None:
    reader, _ = await secured(relay, "allowed.test:443", paper, "allowed.test")
    assert await asyncio.to_thread(relay.close) == 0
    await ends(reader)
    assert not await relay.pipe.ping(1)


async def test_a_relay_that_is_killed_is_known_to_be(relay: Relay) -> None:
    waiting: list[Any] = [await asyncio.open_connection("127.0.0.1", relay.port) for _ in range(3)]
    assert await relay.pipe.ping(5)
    relay.process.kill()
    assert await asyncio.to_thread(relay.process.wait, 10)
    assert not await relay.pipe.ping(5)
    for _, writer in waiting:
        writer.close()
    relay.close = lambda: 0  # type: ignore[method-assign]
