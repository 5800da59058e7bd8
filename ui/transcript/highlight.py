"""Colours for code, by Pygments, in a thread of its own: importing and lexing would hold the window up."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QTextCharFormat, QTextLayout

from ui.transcript import markdown

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ui.transcript.look import Look

_MOST = 60_000  # characters; longer code is shown without colours
_KEPT = 200

Line = list[tuple[int, int, str]]  # start and length in Qt's positions, and the broad kind


class Colored:
    """The colours of a text of code, line by line."""

    def __init__(self, lines: list[Line], lengths: list[int]) -> None:
        self._lines, self._lengths = lines, lengths

    def ranges(self, look: Look, first: int, end: int) -> list[QTextLayout.FormatRange]:
        """The formats of lines ``first`` to ``end``, when they are joined with one character between them."""
        out: list[QTextLayout.FormatRange] = []
        at = 0
        for number in range(first, min(end, len(self._lines))):
            for start, length, kind in self._lines[number]:
                part = QTextLayout.FormatRange()
                style = QTextCharFormat()
                style.setForeground(look.code_color(kind))
                part.start, part.length, part.format = at + start, length, style
                out.append(part)
            at += self._lengths[number] + 1
        return out


def color(language: str, text: str) -> Colored | None:
    """Lexes the text. None for a language that Pygments does not know."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Comment, Keyword, Name, Number, String
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    kinds = (
        (Comment, "comment"),
        (Keyword, "keyword"),
        (String, "string"),
        (Number, "number"),
        (Name.Function, "name"),
        (Name.Class, "name"),
        (Name.Decorator, "name"),
        (Name.Tag, "name"),
        (Name.Builtin, "name"),
    )
    lines: list[Line] = [[]]
    lengths = [0]
    for token, value in lexer.get_tokens(text):
        kind = next((kind for family, kind in kinds if family is token or family in token.split()), "")
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
                lengths.append(0)
            long = len(part) if part.isascii() else len(part.encode("utf-16-le", "surrogatepass")) // 2
            if long and kind:
                lines[-1].append((lengths[-1], long, kind))
            lengths[-1] += long
    return Colored(lines, lengths)


class Highlighter(QObject):
    """Colours code in the background.

    Signals:
        ready: the colours of some code are known now.
    """

    ready = Signal()
    _done = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[tuple[str, str], Colored | None] = OrderedDict()
        self._asked: set[tuple[str, str]] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = self._warmed = False
        self._done.connect(self._take)

    def get(self, language: str, text: str) -> Colored | None:
        """The colours when they are known; else they are found out and ``ready`` is sent."""
        if not language or len(text) > _MOST or self._closed:
            return None
        key = (language.lower(), text)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if key not in self._asked:
            self._asked.add(key)
            self._thread().submit(self._work, key)
        return None

    def warm(self) -> None:
        """Loads the Markdown parser in the background, so that the first answer does not wait for it."""
        if not self._warmed and not self._closed:
            self._warmed = True
            self._thread().submit(markdown.warm)

    def _thread(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # not needed until a transcript shows

        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "highlight")
        return self._pool

    def close(self) -> None:
        """Ends the thread. What was asked for is not answered any more."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _work(self, key: tuple[str, str]) -> None:
        try:
            colored = color(*key)
        except Exception:  # noqa: BLE001  # a lexer that stumbles leaves the code without colours
            colored = None
        if not self._closed:
            self._done.emit(key, colored)

    def _take(self, key: tuple[str, str], colored: Colored | None) -> None:
        self._asked.discard(key)
        self._known[key] = colored
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        if colored is not None:
            self.ready.emit()
