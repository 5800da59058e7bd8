"""Markdown as the transcript reads it: cut as it comes, and harmless whatever it says."""

from __future__ import annotations

import random

import pytest

from ui.transcript.blocks import safe, split
from ui.transcript.markdown import BOLD, CODE, Code, Para, Rule, Table, plain, read

ANSWER = """# What I found

There are **two** problems.
They are one paragraph.

1. One

   with a paragraph of its own

2. Two
   - nested

After the list
```python
def f():

    return 1
```
Right after the code.

> quoted

| a | b |
|---|--:|
| 1 | 2 |

- [x] done

~~~
open fence with ``` inside
~~~

The end."""


def streamed(text: str, sizes: list[int]) -> list[str]:
    """The blocks that remain when the text comes in pieces and a finished block is never looked at again."""
    frozen: list[str] = []
    tail, at = "", 0
    for size in sizes:
        tail += text[at : at + size]
        at += size
        parts = split(tail, whole=False)
        frozen += parts[:-1]
        tail = parts[-1] if parts else ""
    assert at >= len(text)
    return [block for block in frozen + split(tail) if block.strip()]


@pytest.mark.parametrize("seed", range(40))
def test_pieces_give_the_same_blocks_as_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, dice.choice([2, 7, 40])) for _ in range(len(ANSWER))]
    assert [b.rstrip() for b in streamed(ANSWER, sizes)] == [b.rstrip() for b in split(ANSWER)]


def test_cutting_changes_nothing_that_is_shown() -> None:
    apart = [piece for block in split(ANSWER) for piece in read(block)]
    assert apart == read(ANSWER)


def test_a_fence_is_a_block_even_without_blank_lines() -> None:
    blocks = split("Look:\n```sh\nls\n\npwd\n```\nThat was it.")
    assert blocks == ["Look:", "```sh\nls\n\npwd\n```", "That was it."]


def test_a_loose_list_stays_one_block() -> None:
    assert split("- a\n\n- b\n\n  more of b\n\nafter") == ["- a\n\n- b\n\n  more of b", "after"]


def test_half_a_list_item_is_waited_for() -> None:
    assert split("1. a\n\n2", whole=False) == ["1. a\n\n2"]
    assert split("1. a\n\n20 people came and", whole=False) == ["1. a", "20 people came and"]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\n \n"])
def test_nothing_gives_no_block(text: str) -> None:
    assert split(text) == []


def test_paragraph_code_and_links_are_told_apart() -> None:
    (para,) = read("Some **bold** and `code` and [words](https://docs.example/a).")
    assert isinstance(para, Para)
    said = {para.text[s.start : s.start + s.length]: (s.style, s.href) for s in para.spans}
    assert said == {"bold": (BOLD, ""), "code": (CODE, ""), "words": (0, "https://docs.example/a")}


def test_a_bare_address_is_a_link_without_the_full_stop() -> None:
    (para,) = read("See https://docs.example/a?b=1.")
    assert isinstance(para, Para)
    assert [span.href for span in para.spans] == ["https://docs.example/a?b=1"]


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "ssh://host",
        "notes.md",
        "JavaScript:x",
    ],
)
def test_any_other_target_is_text_that_says_where_it_goes(target: str) -> None:
    (para,) = read(f"Press [here]({target}) now")
    assert isinstance(para, Para)
    assert not [span for span in para.spans if span.href]
    assert para.text.startswith("Press here (")
    assert target.split(":")[0].lower() in para.text.lower()


@pytest.mark.parametrize(
    "source", ["file:///etc/passwd", "/root/secret.png", "../../secret.png", "https://evil.example/x.png"]
)
def test_an_image_is_words_and_never_loaded(source: str) -> None:
    (para,) = read(f"![a picture]({source})")
    assert isinstance(para, Para)
    assert para.text.startswith("Image: a picture")
    assert [span.href for span in para.spans] == ([source] if source.startswith("https:") else [])


def test_html_is_text() -> None:
    pieces = read("<script>alert(1)</script>\n\n<img src=x onerror=y> and <b>bold</b>")
    shown = "\n".join(piece.text for piece in pieces if isinstance(piece, Para))
    assert "<script>alert(1)</script>" in shown
    assert "<img src=x onerror=y> and <b>bold</b>" in shown


def test_sequences_and_overrides_are_taken_out() -> None:
    assert safe("a\x1b[31mred\x1b[0m\x1b]0;title\x07b\x00c") == "aredbc"
    assert safe("if \u202eevil\u2066") == "if evil"
    assert safe("one\r\ntwo\rthree") == "one\ntwo\nthree"
    assert safe("مرحبا 🐚\ttab 👩\u200d💻") == "مرحبا 🐚\ttab 👩\u200d💻"


def test_code_keeps_every_letter() -> None:
    (code,) = read('```rust\nlet x = "<b>";\n\n  &y\n```')
    assert isinstance(code, Code)
    assert (code.language, code.text, code.closed) == ("rust", 'let x = "<b>";\n\n  &y', True)


def test_a_fence_that_is_still_open_says_so() -> None:
    (code,) = read("```py\nx = 1\n", live=True)
    assert isinstance(code, Code)
    assert not code.closed


def test_tables_and_rules() -> None:
    table, rule = read("|a|b|\n|:-:|--:|\n|1|2|\n\n---")
    assert isinstance(table, Table)
    assert isinstance(rule, Rule)
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "b"], ["1", "2"]]
    assert table.align == ["c", "r"]


def test_plain_text_has_no_marks() -> None:
    assert plain("# Hi\n\n- **a**\n- `b`") == "Hi\n• a\n• b"


@pytest.mark.parametrize("text", ["[" * 3000, "*" * 3000, "`" * 3000, "> " * 300 + "x", "|" * 2000, "- " * 200])
def test_nonsense_is_read_without_an_error(text: str) -> None:
    assert read(text)
