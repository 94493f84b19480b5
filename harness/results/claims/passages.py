"""A model's Markdown as passages: what stands together, sentence by sentence, table cell by table cell.

In: Markdown tokens. Out: `Passage`s, each with its place in the tokens, so that it can be struck there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_ACTIVE = ("link", "image", "autolink", "html_inline", "html_block", "reference")
_DISGUISING = ("entity", "escape")  # the text that redaction and checking read is then the text that is shown
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|approx|ca|resp|cf|etc|fig|no|eq|al|incl|std)|\b[A-Z])\.$", re.IGNORECASE
)
_END = re.compile(r"[.!?]+[\"'”’)\]*]*(?=\s+[^\sa-z]|\s*$)|[\n\r]+|;(?=\s)")


@dataclass(frozen=True)
class Passage:
    """One sentence, or one cell of a table. `token`: index of its block's token; `start`, `end`: its place in
    the block's plain text. `heads`: words that it stands under: of a cell its row's first cell and the head
    of its column."""

    text: str
    token: int
    start: int
    end: int
    heads: str = ""


def parser() -> MarkdownIt:
    """The one way in which a model's Markdown is read: nothing active, nothing disguised."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable([*_ACTIVE, *_DISGUISING])


def plain(token: Token) -> str:
    """A block's text as its reader sees it, one space for a line break."""
    if token.children is None:
        return token.content
    return "".join(
        child.content or (" " if child.type in ("softbreak", "hardbreak") else "") for child in token.children
    )


def passages(tokens: Sequence[Token]) -> Iterator[Passage]:
    """All passages, in their order."""
    heads: list[str] = []
    row: list[str] = []
    column = 0
    is_head = False
    for index, token in enumerate(tokens):
        if token.type in ("thead_open", "thead_close"):
            is_head = token.type == "thead_open"
            heads = [] if is_head else heads
        elif token.type == "tr_open":
            row, column = [], 0
        elif token.type == "inline" and tokens[index - 1].type in ("th_open", "td_open"):
            text = plain(token)
            if is_head:
                heads.append(text)
            else:
                above = heads[column] if column < len(heads) else ""
                first = f"{heads[0]} {row[0]}" if row and heads else ""
                yield Passage(text, index, 0, len(text), f"{first} {above}".strip())
                row.append(text)
            column += 1
        elif token.type in ("inline", "fence", "code_block"):
            yield from _sentences(plain(token), index)


def _sentences(text: str, token: int) -> Iterator[Passage]:
    start = 0
    for match in _END.finditer(text):
        if _ABBREVIATED.search(text[start : match.end()]) or re.fullmatch(
            r"\s*\d+[.)]", text[start : match.end()]
        ):
            continue
        if text[start : match.end()].strip():
            yield _passage(text, token, start, match.end())
        start = match.end()
    if text[start:].strip():
        yield _passage(text, token, start, len(text))


def _passage(text: str, token: int, start: int, end: int) -> Passage:
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return Passage(text[start:end], token, start, end)
