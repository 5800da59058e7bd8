"""Why a machine could not be reached, in words: what happened and the one next step.

What ``ssh`` says is read for its kind only; a machine can say anything, so nothing of it is shown but to the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workplaces.clean import Cleaner
from workplaces.place import NextStep, PlaceUnavailable
from workplaces.ssh.meaning import Meaning
from workplaces.words import PLACE_WORDS

NEED = "ssh"
_LONGEST_LOG = 4000

_NO_SHARING = re.compile(r"unix_listener|mux listener|ControlSocket|ControlPath", re.IGNORECASE)
_GONE = re.compile(r"UNKNOWN port 65535|Control socket connect", re.IGNORECASE)
_NEVER_IN = re.compile(
    r"connect to host|Could not resolve hostname|Host key verification failed|IDENTIFICATION HAS CHANGED"
    r"|Permission denied \(|Too many authentication failures|Unable to negotiate|terminating, \d+ bad"
)
_FULL = re.compile(r"Session open refused|session request failed|open failed", re.IGNORECASE)
_SETTINGS = re.compile(
    r"^(?P<file>.+?)(?::)? line (?P<line>\d+): |^(?P<other>.+?): terminating, \d+ bad"
    r"|Bad owner or permissions on (?P<owner>.+)|Can't open user config file (?P<missing>.+?):"
    r"|Too many recursive configuration includes",
    re.MULTILINE,
)
_KEY_FILE = re.compile(r"UNPROTECTED PRIVATE KEY FILE|bad permissions", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of trouble: how ssh says it, and which words say it here."""

    pattern: re.Pattern[str]
    word: str


def _kind(pattern: str, word: str) -> _Kind:
    return _Kind(re.compile(pattern, re.IGNORECASE), word)


# In this order: the first that fits is it.
_KINDS = (
    _kind(r"IDENTIFICATION HAS CHANGED|POSSIBLE DNS SPOOFING|Host key for .* has changed", "changed"),
    _kind(r"REVOKED HOST KEY|host key .* (is|was) revoked|marked as revoked", "revoked"),
    _kind(r"Host key verification failed|No .* host key is known|no hostkey", "unmet"),
    _kind(r"Permission denied|Too many authentication failures|no more authentication methods", "denied"),
    _kind(
        r"Could not resolve hostname|Name or service not known|nodename nor servname|No address associated", "no-name"
    ),
    _kind(r"Connection refused", "refused"),
    _kind(r"timed out|No route to host|Network is unreachable|Host is down|Network is down", "asleep"),
    _kind(r"no matching (host key type|key exchange|cipher|mac)|Unable to negotiate", "old"),
    _kind(r"Connection (closed|reset)|kex_exchange_identification|Broken pipe|banner exchange", "closed"),
)


def cannot_share(said: str) -> bool:
    """Whether ssh could connect and not share the connection."""
    return _NO_SHARING.search(said) is not None


def is_gone(said: str) -> bool:
    """Whether the shared connection was not there, so that nothing was run."""
    return _GONE.search(said) is not None


def was_never_in(said: str) -> bool:
    """Whether ssh said that it did not get as far as to run anything."""
    return _NEVER_IN.search(said) is not None


def is_full(said: str) -> bool:
    """Whether the machine let no further program run on the connection."""
    return _FULL.search(said) is not None


def unreachable(
    host: str, said: str, meaning: Meaning | None, *, locked: Path | None = None, jump: str = ""
) -> PlaceUnavailable:
    """Makes words of what ssh said when it could not reach ``host``.

    ``locked`` is a key that needs its passphrase; ``jump`` the machine on the way that it is about, if that is known.
    """
    broken = _settings_trouble(host, said)
    if broken is not None:
        return broken
    if _KEY_FILE.search(said) and "denied" in said:
        return _trouble("key-open", host, said)
    jump = jump or _jump_in(said, meaning)
    for kind in _KINDS:
        if kind.pattern.search(said):
            word = "locked" if kind.word == "denied" and locked is not None else kind.word
            return _trouble(word, host, said, jump=jump, meaning=meaning, locked=locked)
    return _trouble("failed", host, said, jump=jump, meaning=meaning)


def missing_ssh(details: str = "") -> PlaceUnavailable:
    """This computer has no ssh."""
    step = NextStep(PLACE_WORDS["ssh.missing.next"])
    return PlaceUnavailable(PLACE_WORDS["ssh.missing"], next_step=step, need=NEED, details=details)


def not_listed(host: str) -> PlaceUnavailable:
    """The settings name no such machine (any more)."""
    step = NextStep(PLACE_WORDS["ssh.unlisted.next"], action="choose-place")
    return PlaceUnavailable(PLACE_WORDS["ssh.unlisted"].format(host=host), next_step=step)


def trouble(word: str, host: str, details: str = "", **more: str) -> PlaceUnavailable:
    """The words of ``ssh.<word>`` and their next step."""
    label = PLACE_WORDS[f"ssh.{word}.next"].format(host=host, **more)
    return PlaceUnavailable(
        PLACE_WORDS[f"ssh.{word}"].format(host=host, **more), next_step=NextStep(label), details=_log(details)
    )


def _trouble(
    word: str, host: str, said: str, *, jump: str = "", meaning: Meaning | None = None, locked: Path | None = None
) -> PlaceUnavailable:
    """The same, for the machine itself or for the one on the way to it."""
    who = jump or host
    words = PLACE_WORDS[f"ssh.{word}"].format(host=who)
    if jump:
        words = f"{PLACE_WORDS['ssh.jump'].format(host=host, jump=jump)} {words}"
    commands: dict[str, Callable[[], str]] = {
        "unmet": lambda: f"ssh {who}",
        "denied": lambda: f"ssh-copy-id {who}",
        "locked": lambda: f"ssh-add {_quoted(locked)}",
        "failed": lambda: f"ssh {who}",
        "closed": lambda: f"ssh {who}",
    }
    command = commands.get(word, lambda: "")()
    step = NextStep(PLACE_WORDS[f"ssh.{word}.next"].format(host=who), command=command)
    known = f"{meaning.short()}\n" if meaning else ""
    return PlaceUnavailable(words, next_step=step, details=_log(known + said))


def _settings_trouble(host: str, said: str) -> PlaceUnavailable | None:
    found = _SETTINGS.search(said)
    if found is None:
        return None
    file = found["file"] or found["other"] or found["owner"] or found["missing"] or ""
    where = Path(file.strip().strip('"')).name if file else ""
    key = "settings.owner" if found["owner"] else "settings"
    line = PLACE_WORDS["ssh.settings.line"].format(line=found["line"]) if found["line"] else ""
    words = PLACE_WORDS[f"ssh.{key}"].format(host=host, file=where or "config", line=line)
    return PlaceUnavailable(
        words, next_step=NextStep(PLACE_WORDS[f"ssh.{key}.next"].format(file=where or "config")), details=_log(said)
    )


def _jump_in(said: str, meaning: Meaning | None) -> str:
    """The machine on the way that the trouble is with, empty when it is with the machine itself."""
    if meaning is None or not meaning.jumps:
        return ""
    if "stdio forwarding failed" in said or "channel 0: open failed" in said:
        return ""  # it was there, and could not reach the next
    if "UNKNOWN port 65535" not in said:
        return ""
    return meaning.jumps[-1].host if len(meaning.jumps) == 1 else meaning.jumps[0].host


def _quoted(path: Path | None) -> str:
    import shlex

    return shlex.quote(str(path)) if path is not None else ""


def _log(text: str) -> str:
    return Cleaner().feed(text.encode(errors="replace"), final=True)[-_LONGEST_LOG:]
