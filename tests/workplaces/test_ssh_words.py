"""What ssh says, made into words: its own sentences from several systems, and what a machine might add to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workplaces.ssh.meaning import Jump, meaning
from workplaces.ssh.options import (
    command_options,
    environment,
    first_options,
    settings_text,
    strict_checking,
    version,
)
from workplaces.ssh.trouble import cannot_share, is_full, is_gone, unreachable
from workplaces.words import PLACE_WORDS


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (
            "No ED25519 host key is known for x and you have requested strict checking.\nHost key verification failed.",
            "unmet",
        ),
        ("Host key verification failed.\r\n", "unmet"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "changed"),
        ("WARNING: POSSIBLE DNS SPOOFING DETECTED!\nHost key verification failed.", "changed"),
        ("@ WARNING: REVOKED HOST KEY DETECTED! @\nHost key verification failed.", "revoked"),
        ("me@x: Permission denied (publickey,password).", "denied"),
        ("Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures", "denied"),
        ("ssh: Could not resolve hostname x: Name or service not known", "no-name"),
        ("ssh: Could not resolve hostname x: nodename nor servname provided, or not known", "no-name"),
        ("ssh: Could not resolve hostname x: No such host is known. ", "no-name"),
        ("ssh: connect to host x port 22: Connection refused", "refused"),
        ("ssh: connect to host x port 22: Operation timed out", "asleep"),
        ("ssh: connect to host x port 22: Connection timed out", "asleep"),
        ("ssh: connect to host x port 22: No route to host", "asleep"),
        ("Connection timed out during banner exchange", "asleep"),
        ("Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa", "old"),
        ("kex_exchange_identification: Connection closed by remote host", "closed"),
        ("Connection reset by 10.0.0.1 port 22", "closed"),
        ("something nobody has seen", "failed"),
        ("", "failed"),
    ],
)
def test_each_trouble_has_its_words(said: str, word: str) -> None:
    error = unreachable("build-box", said, None)
    assert error.words == PLACE_WORDS[f"ssh.{word}"].format(host="build-box")
    assert error.next_step is not None
    assert error.next_step.label == PLACE_WORDS[f"ssh.{word}.next"].format(host="build-box")


def test_a_key_file_that_is_open_to_others() -> None:
    said = "@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nPermissions 0644 are too open.\nPermission denied (publickey)."
    assert unreachable("x", said, None).words == PLACE_WORDS["ssh.key-open"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("/home/me/.ssh/config: line 3: Bad configuration option: foo", "a mistake in config, line 3."),
        ("/home/me/.ssh/config line 7: unsupported option \"maybe\".", "a mistake in config, line 7."),
        ("/home/me/.ssh/more: terminating, 1 bad configuration options", "a mistake in more."),
        ("Bad owner or permissions on /home/me/.ssh/config", "others may write to config."),
        ("Too many recursive configuration includes", "a mistake in config."),
    ],
)  # fmt: skip
def test_a_mistake_in_the_settings_is_found(said: str, words: str) -> None:
    assert unreachable("x", said, None).words.endswith(words)


def test_every_word_of_ssh_has_its_next_step() -> None:
    for name in ("unmet", "changed", "denied", "locked", "no-name", "asleep", "refused", "no-shell", "space", "home"):
        assert PLACE_WORDS[f"ssh.{name}.next"]


@given(st.text())
def test_nothing_that_a_machine_says_is_shown(said: str) -> None:
    error = unreachable("build-box", said, None)
    known = [PLACE_WORDS[key].format(host="build-box", file="config", line="") for key in PLACE_WORDS if _is_whole(key)]
    assert error.words in known or "Your SSH settings" in error.words
    assert not any(letter < " " and letter not in "\n\t\r" for letter in error.details)


def _is_whole(key: str) -> bool:
    return key.startswith("ssh.") and "{" not in PLACE_WORDS[key].replace("{host}", "")


def test_what_is_said_of_the_shared_connection() -> None:
    assert is_gone("Control socket connect(c1.s): Connection refused\nConnection closed by UNKNOWN port 65535")
    assert is_full("mux_client_request_session: session request failed: Session open refused by peer")
    assert not is_gone("mux_client_read_packet: read header failed: Broken pipe"), "it may have run"
    assert cannot_share("unix_listener: cannot bind to path c1.s: Operation not permitted")
    assert not cannot_share("Permission denied")


# ---- what is given first ----


def test_the_version_is_read() -> None:
    assert version("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19") == (9, 2)
    assert version("OpenSSH_for_Windows_9.5p1, LibreSSL 3.8.2") == (9, 5)
    assert version("OpenSSH_10.0p2") == (10, 0)
    assert version("Sun_SSH_1.1") == (0, 0)


def test_what_is_given_first_wins() -> None:
    words = command_options((9, 2), ControlMaster="yes")
    assert words.index("ControlMaster=yes") < words.index("ControlMaster=no")
    given = dict(reversed(first_options((9, 2))))
    assert (given["BatchMode"], given["ForwardAgent"], given["ForwardX11"]) == ("yes", "no", "no")
    assert (given["ClearAllForwardings"], given["PermitLocalCommand"], given["UpdateHostKeys"]) == ("yes", "no", "no")
    assert (given["RemoteCommand"], given["RequestTTY"], given["ControlMaster"]) == ("none", "no", "no")
    assert "SessionType" not in dict(first_options((8, 0)))


def test_the_settings_file_of_ours_holds_ours_first() -> None:
    text = settings_text(Path("/home/me/a [b]*/config"), (9, 2), {"box": "yes"})
    lines = text.splitlines()
    assert lines[0] == "BatchMode yes"
    assert 'Include "/home/me/a [[]b[]][*]/config"' in lines
    assert lines.index("  StrictHostKeyChecking yes") < lines.index("Host *") < len(lines) - 2


def test_host_keys_are_checked_as_theirs_but_never_asked_about_and_never_exchanged() -> None:
    assert {
        theirs: strict_checking(theirs) for theirs in ("ask", "yes", "true", "no", "off", "false", "accept-new")
    } == {
        "ask": "yes",
        "yes": "yes",
        "true": "yes",
        "no": "accept-new",
        "off": "accept-new",
        "false": "accept-new",
        "accept-new": "accept-new",
    }


def test_what_would_be_sent_or_ask_is_left_out_of_the_environment() -> None:
    base = {"HOME": "/h", "LANG": "C", "LC_ALL": "C", "SSH_ASKPASS": "x", "SSH_ASKPASS_REQUIRE": "force", "AWS": "1"}
    assert environment(("LANG", "LC_*"), base) == {"HOME": "/h", "AWS": "1", "SSH_ASKPASS_REQUIRE": "never"}


# ---- what a name means ----


def test_what_ssh_says_of_a_name_is_read() -> None:
    said = "user none\nhostname ::1\nport 2222\nidentityfile ~/.ssh/a b\nidentityfile ~/.ssh/c\n"
    said += "proxyjump none\nsendenv LANG LC_*\n"
    found = meaning("box", said)
    assert (found.user, found.hostname, found.port, found.short()) == ("none", "::1", 2222, "none@[::1]:2222")
    assert found.said["identityfile"] == ("~/.ssh/a b", "~/.ssh/c")
    assert found.words("sendenv") == ("LANG", "LC_*")
    assert found.jumps == ()


@pytest.mark.parametrize(
    ("text", "jumps"),
    [
        ("a", (Jump("a"),)),
        ("me@a:22,b", (Jump("a", "me", "22"), Jump("b"))),
        ("me@corp@a", (Jump("a", "me@corp"),)),
        ("[::1]:22", (Jump("::1", "", "22"),)),
        ("ssh://me@a:2222/", (Jump("a", "me", "2222"),)),
        ("-oProxyCommand=evil", ()),
    ],
)
def test_the_machines_on_the_way_are_read(text: str, jumps: tuple[Jump, ...]) -> None:
    assert meaning("box", f"proxyjump {text}\n").jumps == jumps
