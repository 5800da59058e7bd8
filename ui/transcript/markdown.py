"""One block of Markdown as paragraphs, code and tables: what to draw, not how. No Qt.

markdown-it-py reads it ("commonmark", tables, strikethrough, HTML off). Nothing is ever loaded: an image is shown as
a link with its words. A link is only live for http, https and mailto; any other is shown as text with its target
beside it, so that it can be read and does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BOLD: Final = 1
ITALIC: Final = 2
CODE: Final = 4
STRUCK: Final = 8

BREAK: Final = "\u2028"  # a new line within one paragraph, as Qt's text layout knows it

# Text without any of these is one plain paragraph, and needs no parser.
_MARKS = re.compile(r"[*_`\[\]<>&\\~|#\n]|://|^\s*(?:[-+]|\d{1,9}[.)])(?:\s|$)|^ {4}|^\s*(?:-\s*){3,}$|^\t")
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"“”]+[^\s<>\"“”.,;:!?'’)\]}*_]")
_LIVE = re.compile(r"(?:https?://[^\s/]|mailto:[^\s@]+@)", re.IGNORECASE)
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]*)[ \t]*(?:\n|$)")
_HALF_FENCE = re.compile(r"\n {0,3}(?:`{1,}|~{3,})[\w+#.-]*$")


@dataclass(slots=True)
class Span:
    """A stretch of a paragraph's text that looks different. ``href`` is a live link's real target."""

    start: int
    length: int
    style: int = 0
    href: str = ""


@dataclass(slots=True)
class Para:
    """A paragraph. ``level`` is a heading's, 0 for text; ``depth`` its list depth; ``quote`` how deep it is quoted."""

    text: str
    spans: list[Span] = field(default_factory=list)
    level: int = 0
    depth: int = 0
    quote: int = 0
    marker: str = ""
    tight: bool = False


@dataclass(slots=True)
class Code:
    language: str
    text: str
    depth: int = 0
    quote: int = 0
    closed: bool = True


@dataclass(slots=True)
class Table:
    """``rows`` holds the head first; ``align`` one letter a column: l, c or r."""

    rows: list[list[Para]]
    align: list[Literal["l", "c", "r"]]
    depth: int = 0


@dataclass(slots=True)
class Rule:
    depth: int = 0


Piece = Para | Code | Table | Rule


def live_link(href: str) -> bool:
    """Whether a link may be opened at all: http, https or mailto."""
    return bool(_LIVE.match(href)) and href.isprintable()


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported on first use: 50 ms that the first paint of a window does not pay.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 60}).enable(["table", "strikethrough"])
    # Every target is taken, so that a dead one can be shown with its words; ``live_link`` decides which is live.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.disable(["html_block", "html_inline"])
    return parser


def warm() -> None:
    """Loads the parser ahead of its first use, in any thread."""
    _parser().parse("*a* `b`\n\n- c\n\n|d|\n|-|\n")


def read(text: str, *, live: bool = False) -> list[Piece]:
    """The block's pieces. ``live``: more is to come, so a fence counts as open and half a fence mark is held back."""
    if live:
        text = _HALF_FENCE.sub("", text)
    if (fence := _whole_fence(text)) is not None:
        return [fence]
    if not _MARKS.search(text):
        return [Para(" ".join(text.split()))]
    # What is nested deeper than anyone reads is not parsed: then the text is shown as it is.
    pieces = _Reader(_parser().parse(text)).pieces or [Para(text.replace("\n", BREAK))]
    if live and isinstance(last := pieces[-1], Code):
        last.closed = False
    return pieces


def _whole_fence(text: str) -> Code | None:
    """A block that is one fence and nothing else, which needs no parser: it is read anew for each line that comes."""
    found = _FENCED.match(text)
    if found is None:
        return None
    ends = re.compile(rf"^ {{0,3}}{found[1][0]}{{{len(found[1])},}}[ \t]*$", re.MULTILINE)
    body = text[found.end() :]
    end = ends.search(body)
    if end is None:
        return Code(found[2], body.removesuffix("\n"), closed=False)
    if body[end.end() :].strip():
        return None
    return Code(found[2], body[: end.start()].removesuffix("\n"))


def plain(text: str) -> str:
    """The block as it reads on the screen, without marks."""
    return "\n".join(piece_text(piece) for piece in read(text))


def piece_text(piece: Piece) -> str:
    match piece:
        case Para():
            marker = f"{piece.marker} " if piece.marker else ""
            return "  " * max(0, piece.depth - 1) + marker + piece.text.replace(BREAK, "\n")
        case Code():
            return piece.text
        case Table():
            return "\n".join("\t".join(cell.text for cell in row) for row in piece.rows)
        case Rule():
            return "———"


class _Reader:
    """Walks markdown-it's tokens once."""

    def __init__(self, tokens: list[Token]) -> None:
        self.pieces: list[Piece] = []
        self._lists: list[int] = []  # the next number of each open list, 0 for bullets
        self._quote = 0
        self._marker = ""
        self._level = 0
        self._table = Table([], [])
        self._in_table = self._tight = False
        for token in tokens:
            self._take(token)

    def _take(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self._lists.append(0)
            case "ordered_list_open":
                self._lists.append(int(token.attrs.get("start", 1)) or 1)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                number = self._lists[-1]
                self._marker = f"{number}." if number else ("•", "◦", "▪")[min(len(self._lists), 3) - 1]
                if number:
                    self._lists[-1] += 1
            case "list_item_close":
                if self._marker:  # an empty item
                    self._add_para("", [])
            case "blockquote_open":
                self._quote += 1
            case "blockquote_close":
                self._quote -= 1
            case "heading_open":
                self._level = int(token.tag[1])
            case "heading_close":
                self._level = 0
            case "paragraph_open":
                self._tight = token.hidden
            case "inline":
                self._inline(token)
            case "fence" | "code_block":
                self._code(token)
            case "hr":
                self.pieces.append(Rule(len(self._lists)))
            case "table_open":
                self._table = Table([], [], len(self._lists))
                self.pieces.append(self._table)
                self._in_table = True
            case "table_close":
                self._in_table = False
            case "tr_open":
                self._table.rows.append([])
            case "th_open":
                style = str(token.attrs.get("style", ""))
                self._table.align.append("r" if "right" in style else "c" if "center" in style else "l")

    def _inline(self, token: Token) -> None:
        text, spans = _runs(token.children or [])
        if self._in_table:
            self._table.rows[-1].append(Para(text, spans))
        else:
            self._add_para(text, spans)

    def _add_para(self, text: str, spans: list[Span]) -> None:
        marker, self._marker = self._marker, ""
        if marker and text.startswith(("[ ] ", "[x] ", "[X] ")):
            marker, text = ("☑" if text[1] in "xX" else "☐"), text[4:]
            spans = [Span(span.start - 4, span.length, span.style, span.href) for span in spans if span.start >= 4]
        self.pieces.append(
            Para(text, spans, self._level, len(self._lists), self._quote, marker, self._tight and bool(self._lists))
        )

    def _code(self, token: Token) -> None:
        if self._marker:
            self._add_para("", [])
        language = token.info.split()[0] if token.info.strip() else ""
        code = token.content.removesuffix("\n")
        self.pieces.append(Code(language, code, len(self._lists), self._quote))


def _runs(tokens: Iterable[Token]) -> tuple[str, list[Span]]:
    """Inline tokens as one text and its spans."""
    parts: list[str] = []
    spans: list[Span] = []
    at = style = 0
    href, dead, began = "", "", 0

    def add(text: str, look: int, link: str) -> None:
        nonlocal at
        if not text:
            return
        if look or link:
            last = spans[-1] if spans else None
            if last and last.start + last.length == at and (last.style, last.href) == (look, link):
                last.length += len(text)
            else:
                spans.append(Span(at, len(text), look, link))
        parts.append(text)
        at += len(text)

    for token in tokens:
        kind = token.type
        if kind == "text":
            if href or "://" not in token.content:
                add(token.content, style, href)
            else:
                reached = 0
                for found in _ADDRESS.finditer(token.content):
                    add(token.content[reached : found.start()], style, "")
                    add(found[0], style, found[0])
                    reached = found.end()
                add(token.content[reached:], style, "")
        elif kind == "code_inline":
            add(token.content, style | CODE, href)
        elif kind == "softbreak":
            add(" ", style, href)
        elif kind == "hardbreak":
            add(BREAK, style, href)
        elif kind in ("strong_open", "strong_close"):
            style ^= BOLD
        elif kind in ("em_open", "em_close"):
            style ^= ITALIC
        elif kind in ("s_open", "s_close"):
            style ^= STRUCK
        elif kind == "link_open":
            target = str(token.attrs.get("href", ""))
            href, dead, began = (target, "", at) if live_link(target) else ("", target, at)
        elif kind == "link_close":
            if dead and dead != "".join(parts)[began:at]:
                add(f" ({dead})", style, "")
            href = dead = ""
        elif kind == "image":
            target = str(token.attrs.get("src", ""))
            words = token.content or "without words"
            add(f"Image: {words}", style, href or (target if live_link(target) else ""))
            if not live_link(target):
                add(f" ({target})", style, "")
        else:
            add(token.content, style, href)
    return "".join(parts), spans
