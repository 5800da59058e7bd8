"""Renames that never replace what nobody looked at: into a free name, or an exchange of two."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from typing import Final

_NOREPLACE: Final = 1
_EXCHANGE: Final = 2


def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    return call


_RENAME = _renameat2()


def _renamed(at: int, one: str, parent: int, other: str, flag: int) -> bool | None:
    """True: done; None: this system or file system cannot. Raises OSError."""
    if _RENAME is None:
        return None
    if _RENAME(at, os.fsencode(one), parent, os.fsencode(other), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return None
    raise OSError(number, os.strerror(number), other)


def exchange(at: int, one: str, parent: int, other: str) -> bool:
    """Exchanges two files in one step; False where that cannot be done, or one of them is gone."""
    try:
        return _renamed(at, one, parent, other, _EXCHANGE) is True
    except FileNotFoundError:
        return False


def move_new(at: int, one: str, parent: int, other: str) -> bool:
    """Gives a file a name that is not taken; False when it is."""
    try:
        if _renamed(at, one, parent, other, _NOREPLACE):
            return True
    except FileExistsError:
        return False
    try:
        os.link(one, other, src_dir_fd=at, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            os.stat(other, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(one, other, src_dir_fd=at, dst_dir_fd=parent)
            return True
        return False
    os.unlink(one, dir_fd=at)
    return True
