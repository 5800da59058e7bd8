"""A small filter of system calls, for what namespaces do not hold back (seccomp(2), Linux only).

Kernel keyrings are shared across a box's wall, and some socket families have no network namespace of their own:
Bluetooth, and vsock, by which a virtual machine talks to its host. "No network at all" includes them. No further user
namespace can be made in a box: in one a command would be root again, and could take its covers off. The calls answer
as if the kernel did not know them, so programs go on without.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from functools import lru_cache
from typing import NamedTuple

# BPF: ld abs word, jeq, jge, jset, ret
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_IO_URING_SETUP = 425  # the same everywhere; a ring can make sockets that no filter sees
_CLONE3 = 435  # the same everywhere; its flags are behind a pointer. Programs go back to clone
_NEW_USER = 0x10000000  # CLONE_NEWUSER
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK


class _Calls(NamedTuple):
    """One architecture's numbers: its audit name, then the calls (linux/audit.h, each architecture's unistd.h)."""

    architecture: int
    add_key: int
    request_key: int
    keyctl: int
    socket: int
    clone: int
    unshare: int


_NATIVE = {
    "x86_64": _Calls(0xC000003E, 248, 249, 250, 41, 56, 272),
    "aarch64": _Calls(0xC00000B7, 217, 218, 219, 198, 220, 97),
}
# What a 64-bit kernel runs too. Its socket call of old (socketcall) hides the family behind a pointer, so it goes.
_COMPATIBLE = {
    "x86_64": _Calls(0x40000003, 286, 287, 288, 359, 120, 310),
    "aarch64": _Calls(0x40000028, 309, 310, 311, 281, 120, 337),
}
_SOCKETCALL = {"x86_64": 102, "aarch64": 102}


@lru_cache(maxsize=1)
def filter_program() -> bytes:
    """The filter, as the kernel takes it; empty where this computer is of a kind it was not written for."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _NATIVE:
        return b""
    native = _for_calls(_NATIVE[machine], x32=machine == "x86_64")
    compatible = _for_calls(_COMPATIBLE[machine], socketcall=_SOCKETCALL[machine])
    return b"".join(
        (
            *_for_architecture(_NATIVE[machine], native),
            *_for_architecture(_COMPATIBLE[machine], compatible),
            _ret(_KILL),
        )
    )


def _for_architecture(calls: _Calls, body: list[bytes]) -> list[bytes]:
    return [_load(_ARCHITECTURE), _jump(_EQUAL, calls.architecture, no=len(body)), *body]


def _for_calls(calls: _Calls, *, x32: bool = False, socketcall: int | None = None) -> list[bytes]:
    unknown, no_family = _ret(_ERRNO | errno.ENOSYS), _ret(_ERRNO | errno.EAFNOSUPPORT)
    body = [_load(_NUMBER)]
    if x32:
        body += [_jump(_AT_LEAST, _X32, no=1), unknown]
    refused = [calls.add_key, calls.request_key, calls.keyctl, _IO_URING_SETUP, _CLONE3]
    refused += [socketcall] if socketcall is not None else []
    for number in refused:
        body += [_jump(_EQUAL, number, no=1), unknown]
    for number in (calls.clone, calls.unshare):
        body += [_jump(_EQUAL, number, no=4), _load(_FIRST_ARGUMENT), _jump(_ANY_OF, _NEW_USER, no=1)]
        body += [_ret(_ERRNO | errno.EPERM), _ret(_ALLOW)]
    families: list[bytes] = []
    for at, family in enumerate(_FAMILIES):
        families.append(_jump(_EQUAL, family, yes=len(_FAMILIES) - at))
    families = [_load(_FIRST_ARGUMENT), *families, no_family]
    body += [_jump(_EQUAL, calls.socket, no=len(families)), *families, _ret(_ALLOW)]
    return body


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _ret(value: int) -> bytes:
    return _instruction(_RETURN, 0, 0, value)


def _jump(how: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return _instruction(how, yes, no, value)


def _instruction(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
