"""Looks at a display as a person does, through libX11 alone: when a window is painted, and what it shows.

Nothing in the measured program takes part. A window counts as painted when the root's colour, which shows through a
window that nobody has drawn in yet, is gone from every one of a grid of points.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT_COLOUR = 0xFF00FF  # nobody paints a window in this
_GRID = 5
_SOME = 60  # points: more than a cursor's blink, less than a letter or two
_STRUCTURE_MASK, _MAP_NOTIFY, _ZPIXMAP = 1 << 19, 19, 2


class _Image(ctypes.Structure):
    _fields_ = (
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("xoffset", ctypes.c_int),
        ("format", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("byte_order", ctypes.c_int),
        ("bitmap_unit", ctypes.c_int),
        ("bitmap_bit_order", ctypes.c_int),
        ("bitmap_pad", ctypes.c_int),
        ("depth", ctypes.c_int),
        ("bytes_per_line", ctypes.c_int),
        ("bits_per_pixel", ctypes.c_int),
    )


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a window, in points; ``right`` and ``bottom`` are just outside."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A window on the display: its id, and where it is."""

    window: int
    x: int
    y: int
    width: int
    height: int

    @property
    def box(self) -> Box:
        return Box(0, 0, self.width, self.height)


class Screen:
    """A display, looked at. Raises OSError when there is none, or it does not let us in."""

    def __init__(self, name: str, xauthority: Path) -> None:
        self._x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        self._test = ctypes.CDLL(ctypes.util.find_library("Xtst") or "libXtst.so.6")
        for function in ("XOpenDisplay", "XGetImage"):
            getattr(self._x, function).restype = ctypes.c_void_p
        for function in ("XDefaultRootWindow", "XStringToKeysym"):
            getattr(self._x, function).restype = ctypes.c_ulong
        with _environment("XAUTHORITY", str(xauthority)):  # libX11 asks for it there and nowhere else
            self._display = ctypes.c_void_p(self._x.XOpenDisplay(name.encode()))
        if not self._display.value:
            raise OSError(f"there is no display {name}")
        self._root = ctypes.c_ulong(self._x.XDefaultRootWindow(self._display))

    def watch(self) -> None:
        """Makes ready for ``painted``: gives the root the colour by which a window nobody has drawn in is known."""
        self._x.XSetWindowBackground(self._display, self._root, ctypes.c_ulong(_ROOT_COLOUR))
        self._x.XSelectInput(self._display, self._root, ctypes.c_long(_STRUCTURE_MASK))
        self.clear()

    def whole(self) -> Shown:
        """The display itself."""
        shown = self._geometry(self._root.value)
        assert shown is not None
        return shown

    def clear(self) -> None:
        """Paints what lies under all windows anew, and forgets what happened before."""
        self._x.XClearWindow(self._display, self._root)
        self._x.XSync(self._display, 1)

    def close(self) -> None:
        self._x.XCloseDisplay(self._display)

    def painted(self, seconds: float) -> tuple[Shown, float]:
        """Waits for a window at least 200 points wide to be painted. Returns it and when (``time.perf_counter``).

        Gives it the keyboard as it appears, as a window manager does. Raises TimeoutError.
        """
        end = time.perf_counter() + seconds
        shown: Shown | None = None
        while time.perf_counter() < end:
            shown = self._mapped() or shown
            if shown and self._is_painted(shown):
                return shown, time.perf_counter()
            time.sleep(0.001)
        raise TimeoutError("no window was painted" if shown is None else "a window came and stayed empty")

    def _mapped(self) -> Shown | None:
        """The newest window on show, if one has come since the last look."""
        came = False
        while self._x.XPending(self._display):
            event = (ctypes.c_long * 24)()
            self._x.XNextEvent(self._display, event)
            came = came or (event[0] & 0xFFFFFFFF) == _MAP_NOTIFY
        if not came:
            return None
        for window in reversed(self._children()):
            shown = self._geometry(window)
            if shown and shown.width >= 200:
                self._x.XSetInputFocus(self._display, ctypes.c_ulong(window), 1, ctypes.c_ulong(0))
                self._x.XFlush(self._display)
                return shown
        return None

    def _children(self) -> list[int]:
        root, parent, count = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.c_uint()
        children = ctypes.POINTER(ctypes.c_ulong)()
        refs = (ctypes.byref(root), ctypes.byref(parent), ctypes.byref(children), ctypes.byref(count))
        self._x.XQueryTree(self._display, self._root, *refs)
        found = [children[number] for number in range(count.value)]
        if found:
            self._x.XFree(children)
        return found

    def _geometry(self, window: int) -> Shown | None:
        root = ctypes.c_ulong()
        x, y, width, height, border, depth = (ctypes.c_int() for _ in range(6))
        refs = [ctypes.byref(value) for value in (root, x, y, width, height, border, depth)]
        if not self._x.XGetGeometry(self._display, ctypes.c_ulong(window), *refs):
            return None
        return Shown(window, x.value, y.value, width.value, height.value)

    def _is_painted(self, shown: Shown) -> bool:
        for row in range(_GRID):
            for column in range(_GRID):
                x = shown.x + (2 * column + 1) * shown.width // (2 * _GRID)
                y = shown.y + (2 * row + 1) * shown.height // (2 * _GRID)
                if self._pixels(x, y, 1, 1)[:3] == b"\xff\x00\xff":
                    return False
        return True

    def _pixels(self, x: int, y: int, width: int, height: int) -> bytes:
        """What the display shows there, 4 bytes a point."""
        image = self._x.XGetImage(self._display, self._root, x, y, width, height, ctypes.c_ulong(0xFFFFFFFF), _ZPIXMAP)
        if not image:
            return b""
        head = ctypes.cast(image, ctypes.POINTER(_Image)).contents
        data = ctypes.string_at(head.data, head.bytes_per_line * head.height)
        self._x.XDestroyImage(ctypes.c_void_p(image))
        return data

    def picture(self, shown: Shown) -> bytes:
        """The whole window as it is on the display now: 4 bytes a point, blue first, row after row."""
        return self._pixels(shown.x, shown.y, shown.width, shown.height)

    def press(self, *names: str) -> None:
        """Presses keys together and lets them go ("Control_L", "k")."""
        codes = []
        for name in names:
            symbol = ctypes.c_ulong(self._x.XStringToKeysym(name.encode()))
            codes.append(self._x.XKeysymToKeycode(self._display, symbol) & 0xFF)
        for code in codes:
            self._test.XTestFakeKeyEvent(self._display, code, 1, ctypes.c_ulong(0))
        for code in reversed(codes):
            self._test.XTestFakeKeyEvent(self._display, code, 0, ctypes.c_ulong(0))
        self._x.XFlush(self._display)

    def changed(self, shown: Shown, before: bytes, box: Box, *, seconds: float) -> float:
        """Waits until a part of the window looks other than before. Returns when. Raises TimeoutError."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if difference(before, self.picture(shown), shown.width, box) > _SOME:
                return time.perf_counter()
            time.sleep(0.002)
        raise TimeoutError("the keys changed nothing in the window")

    def settled(self, shown: Shown, *, still: float = 0.4, seconds: float = 10.0) -> bytes:
        """Waits until the window has looked the same for a while (a cursor may blink). Returns its picture."""
        last, since = self.picture(shown), time.perf_counter()
        end = since + seconds
        while time.perf_counter() < end:
            time.sleep(0.05)
            now = self.picture(shown)
            if difference(last, now, shown.width, shown.box) > _SOME:
                last, since = now, time.perf_counter()
            elif time.perf_counter() - since > still:
                return now
        raise TimeoutError("the window never came to rest")


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def difference(one: bytes, other: bytes, width: int, box: Box) -> int:
    """How many points differ in a part of two pictures of a window that is so wide."""
    if len(one) != len(other):
        return len(one)
    count = 0
    for row in range(box.top, box.bottom):
        left, right = 4 * (row * width + box.left), 4 * (row * width + box.right)
        if one[left:right] != other[left:right]:
            count += sum(one[at : at + 3] != other[at : at + 3] for at in range(left, right, 4))
    return count


def where_they_differ(one: bytes, other: bytes, shown: Shown) -> Box:
    """The part of the window that holds all that differs. Raises ValueError when nothing does."""
    width = shown.width
    rows = [row for row in range(shown.height) if difference(one, other, width, Box(0, row, width, row + 1))]
    top, bottom = min(rows), max(rows) + 1
    columns = [column for column in range(width) if difference(one, other, width, Box(column, top, column + 1, bottom))]
    return Box(min(columns), top, max(columns) + 1, bottom)
