"""Markdown cut into top-level blocks, quickly and as it comes.

A streamed answer must not be rendered anew for every token, and a long chat must not be parsed to show its last
screen. So the text is cut here, line by line, where one block surely ends: nothing after such a place can change what
stands before it (CommonMark 0.31, "Block structure"). What a block *is* is only found out when it is painted
(``markdown.py``). A block may hold more than one thing; it is never cut too early.
"""

from __future__ import annotations

import re

LONGEST = 6000  # characters of a paragraph or a list in one row

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_MAYBE_ITEM = re.compile(r"(?:[-+*]{1,2}|\d{1,9}[.)]?)$")

# Terminal sequences, in their whole length: CSI, OSC (to BEL or ST), and the two-character ones.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Controls but tab and newline; the bidirectional embeddings, overrides and isolates, which can make a text read as
# something it is not (CVE-2021-42574); the line and paragraph separators, which Qt would break at.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]")


def safe(text: str) -> str:
    """The text without terminal sequences, controls and bidirectional overrides."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _UNSAFE.sub("", text)


def opens_fence(line: str) -> str:
    """The fence's own marks when the line opens one, else empty. A back-tick fence has no back-tick in its info."""
    found = _FENCE.match(line)
    if not found or (found[1][0] == "`" and "`" in found[2]):
        return ""
    return found[1]


def closes_fence(line: str, marks: str) -> bool:
    found = _FENCE.match(line)
    return bool(found and found[1][0] == marks[0] and len(found[1]) >= len(marks) and not found[2].strip())


def split(text: str, *, whole: bool = True) -> list[str]:
    """The text cut into blocks, in order, without the blank lines between them.

    With ``whole`` False more may follow: the last piece is then the rest of the text as it came, and a cut is only
    made where no further text could undo it.
    """
    if whole:
        text = text.strip("\n")
    if "\n" not in text or (whole and "\n\n" not in text and "```" not in text and "~~~" not in text):
        return [text] if text.strip() else []
    lines = text.split("\n")
    last = len(lines) - 1
    out: list[str] = []
    block: list[str] = []
    began = 0  # the line that the last block begins in
    fence = ""
    blank = False  # a blank line since the block's last line
    in_list = False

    def cut() -> None:
        while block and not block[-1].strip():
            block.pop()
        if block:
            out.append("\n".join(block))
        block.clear()

    for number, line in enumerate(lines):
        if fence:
            block.append(line)
            if closes_fence(line, fence) and (whole or number < last):
                fence, in_list, blank = "", False, False
                cut()
            continue
        if not line.strip():
            if block:
                blank = True
                block.append(line)
            continue
        indented = line[0] in " \t"
        sure = whole or number < last or len(line) > 12
        marks = opens_fence(line)
        if marks and not (in_list and indented) and (whole or number < last):
            cut()
            began = number
            block.append(line)
            fence, in_list, blank = marks, False, False
            continue
        item = bool(_ITEM.match(line))
        if block and blank and not indented:
            joins = in_list and (item or (not sure and bool(_MAYBE_ITEM.match(line))))
            # Half a line that may yet become a fence or a list is decided when there is more of it.
            if not joins:
                cut()
                in_list = False
        if not block:
            began = number
            in_list = item
        elif item and not indented:
            in_list = True
        blank = False
        block.append(line)
    if whole:
        cut()
    elif block:
        out.append("\n".join(block))
    elif out:
        out[-1] = "\n".join(lines[began:])
    return out


def chop(block: str) -> list[str]:
    """A block that is far too long for one, in parts that can be laid out one at a time, as few as possible.

    Code and tables stay whole: code is laid out in parts of its own, and a table without its head is none.
    """
    if len(block) <= LONGEST or opens_fence(block.partition("\n")[0]) or block.lstrip().startswith("|"):
        return [block]
    parts: list[str] = []
    while len(block) > LONGEST:
        at = block.rfind("\n", LONGEST // 2, LONGEST)
        if at < 0:
            at = block.rfind(" ", LONGEST // 2, LONGEST)
        at = LONGEST if at < 0 else at + 1
        parts.append(block[:at])
        block = block[at:]
    return [*parts, block]
