"""The list of allowed hosts: what it takes, what it lets through, which addresses are the internet's, and TLS' name."""

from __future__ import annotations

import ssl

import pytest

from workplaces.container.hosts import (
    LONGEST_TRIED,
    MOST_NAMES,
    MOST_TRIED,
    BadHosts,
    HostList,
    Tried,
    environment,
    is_public,
    plain_name,
    shown_target,
)
from workplaces.container.hosts_tls import NotTls, first_message


def listed(text: str) -> HostList:
    found = HostList.parse(text)
    assert found is not None
    return found


@pytest.mark.parametrize("text", ["", " ", "\n\t", ",", " , "])
def test_an_empty_text_is_no_list(text: str) -> None:
    assert HostList.parse(text) is None


def test_names_may_stand_between_spaces_commas_and_lines_each_once() -> None:
    found = listed("PyPI.org, *.npmjs.org\n\tpypi.org files.pythonhosted.org.,bücher.example")
    assert found.names == ("pypi.org", "*.npmjs.org", "files.pythonhosted.org", "xn--bcher-kva.example")


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "*.",
        "*.org",
        "*pypi.org",
        "pypi.*",
        "a.*.org",
        "**.pypi.org",
        "localhost",
        "off",
        "https://pypi.org",
        "pypi.org/simple",
        "pypi.org:443",
        "user@pypi.org",
        "127.0.0.1",
        "127.1",
        "0x7f.0.0.0x1",
        "::1",
        "[::1]",
        "2130706433",
        "pypi..org",
        ".pypi.org",
        "-pypi.org",
        "pypi-.org",
        "pypi.org;rm",
        "pypi.org\0",
        "\x1b[31mpypi.org",
        "a" * 64 + ".org",
        ".".join(["a" * 60] * 5) + ".org",
        "good.example http://bad.example",
    ],
)
def test_what_is_no_name_is_refused_with_words(text: str) -> None:
    with pytest.raises(BadHosts) as refused:
        HostList.parse(text)
    assert str(refused.value).endswith(".")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_a_list_has_an_end() -> None:
    names = [f"n{number}.example" for number in range(MOST_NAMES + 1)]
    assert len(listed(" ".join(names[:-1])).names) == MOST_NAMES
    with pytest.raises(BadHosts):
        HostList.parse(" ".join(names))
    assert str(listed(" ".join(names[:-1]))).endswith("and 80 more")


def test_a_name_lets_itself_through_and_a_star_what_is_below_it() -> None:
    hosts = listed("pypi.org *.npmjs.org")
    through = ["pypi.org", "registry.npmjs.org", "a.b.npmjs.org"]
    refused = ["npmjs.org", "evilnpmjs.org", "evilpypi.org", "x.pypi.org", "pypi.org.evil.example", ".npmjs.org", ""]
    assert [name for name in through if not hosts.allows(name)] == []
    assert [name for name in refused if hosts.allows(name)] == []


def test_a_name_is_compared_in_one_way_of_writing() -> None:
    assert plain_name("PyPI.ORG.") == "pypi.org"
    for text in (
        "pypi.org..",
        "pypi.org%00",
        "pypi.org\0.evil.example",
        "pypi．org",
        "1.2.3.4",
        "1.2.3.0x4",
        "[::1]",
        "a",
    ):
        assert plain_name(text) == ""


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_addresses_of_the_internet(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "203.0.113.5",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fc00::1",
        "fd12::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2001:0:808:808::1",
        "127.1",
        "2130706433",
        "pypi.org",
        "",
    ],
)
def test_addresses_that_are_not(address: str) -> None:
    assert not is_public(address)


def test_what_was_tried_is_told_once_bounded_and_clean() -> None:
    tried = Tried()
    for _ in range(3):
        tried.add("evil.example", "443")
    tried.add("a\x1b[31m\n‮b.example", "9\n9")
    tried.add("x" * 5000, "443")
    tried.add("", 80)
    tried.add("only.looked.up", "")
    assert tried.targets() == (
        "evil.example:443",
        "a?[31m??b.example:?",
        "x" * 253 + ":443",
        "?:80",
        "only.looked.up",
    )
    for number in range(100):
        tried.add(f"n{number}.example", 443)
    assert len(tried.targets()) == MOST_TRIED
    assert tried.left_out == 105 - MOST_TRIED
    assert max(map(len, tried.targets())) <= LONGEST_TRIED
    assert shown_target("[::1]", 80) == "[::1]:80"


def test_programs_are_told_of_the_proxy_in_both_spellings() -> None:
    told = dict(entry.split("=", 1) for entry in environment())
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        assert told[name] == told[name.lower()] == "http://127.0.0.1:3128"
    assert told["NO_PROXY"] == told["no_proxy"] == "localhost,127.0.0.1,::1"


# -- what a TLS client says first


def hello(name: str | None, *, lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> bytes:
    """A real one, as OpenSSL makes it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.minimum_version = lowest
    context.set_alpn_protocols(["h2", "http/1.1"])
    given, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(given, said, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def read_name(pieces: list[bytes]) -> tuple[bytes, str]:
    waiting = list(pieces)

    async def read() -> bytes:
        return waiting.pop(0) if waiting else b""

    return await first_message(read)


@pytest.mark.parametrize("lowest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_name_is_read_however_it_comes(lowest: ssl.TLSVersion) -> None:
    said = hello("pypi.org", lowest=lowest)
    assert await read_name([said]) == (said, "pypi.org")
    assert await read_name([bytes([letter]) for letter in said]) == (said, "pypi.org")
    assert await read_name([said + b"more"]) == (said + b"more", "pypi.org")
    body = said[5:]
    in_two = b"".join(said[:3] + len(part).to_bytes(2, "big") + part for part in (body[:7], body[7:100], body[100:]))
    assert (await read_name([in_two]))[1] == "pypi.org"


async def test_a_client_that_names_nobody_names_nobody() -> None:
    assert (await read_name([hello(None)]))[1] == ""


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff" + b"\x01" * 70000,
        b"\x16\x02\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x17\x03\x03\x00\x05hello",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x80\x2e\x01\x00\x02",
    ],
)
async def test_what_is_not_tls_is_told_apart(said: bytes) -> None:
    with pytest.raises(NotTls):
        await read_name([said])


@pytest.mark.parametrize("length", [0, 1, 4, 5, 9, 100])
async def test_one_that_breaks_off_is_neither(length: int) -> None:
    with pytest.raises(EOFError):
        await read_name([hello("pypi.org")[:length]])


async def test_a_damaged_first_message_is_no_name_of_another() -> None:
    whole = hello("pypi.org")
    for at in range(5, len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        try:
            _, name = await read_name([bytes(broken)])
        except (NotTls, EOFError):
            continue
        assert name in ("pypi.org", "") or broken[at] in name.encode()


async def test_a_first_message_without_end_is_not_gathered() -> None:
    taken = 0

    async def read() -> bytes:
        nonlocal taken
        taken += 16389
        return b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16380)

    with pytest.raises(NotTls):
        await first_message(read)
    assert taken < 1 << 18
