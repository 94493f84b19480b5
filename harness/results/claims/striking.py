"""What is not borne out, struck out in the tokens of a text; what cannot be checked, marked there.

In: Markdown tokens and the claims about them. Out: tokens in which each wrong sentence stands inside `<del>`,
piece by piece, so that emphasis and code around it stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from harness.results.claims.passages import plain
from harness.results.claims.types import Claim

if TYPE_CHECKING:
    from markdown_it.token import Token

MARK = " [not checkable]"


def struck(tokens: Sequence[Token], claims: Iterable[Claim]) -> list[Token]:
    """The tokens with the sentences of wrong claims struck, and those of unsure ones marked at their end."""
    wrong: dict[int, set[tuple[int, int]]] = {}
    unsure: dict[int, set[tuple[int, int]]] = {}
    for claim in claims:
        if claim.verdict != "ok":
            places = wrong if claim.verdict == "wrong" else unsure
            places.setdefault(claim.block, set()).add(claim.span)
    made: list[Token] = []
    for index, token in enumerate(tokens):
        spans = wrong.get(index, set())
        ends = {end for start, end in unsure.get(index, set()) if (start, end) not in spans}
        if not spans and not ends:
            made.append(token)
        elif token.children is None:
            made += _paragraph(token, spans, ends)
        else:
            token.children = list(_children(token.children, spans, ends))
            made.append(token)
    return made


def _paragraph(block: Token, spans: set[tuple[int, int]], ends: set[int]) -> list[Token]:
    """A block of code with a wrong line, as a paragraph: nothing can be struck in code."""
    from markdown_it.token import Token

    children = [Token("text", "", 0, content=plain(block))]
    inline = Token("inline", "", 0, children=list(_children(children, spans, ends)), level=block.level + 1)
    return [
        Token("paragraph_open", "p", 1, block=True, level=block.level),
        inline,
        Token("paragraph_close", "p", -1, block=True, level=block.level),
    ]


def _children(children: Sequence[Token], spans: set[tuple[int, int]], ends: set[int]) -> Iterator[Token]:
    from markdown_it.token import Token

    at = 0
    for child in children:
        length = len(child.content) or (1 if child.type in ("softbreak", "hardbreak") else 0)
        if not length:
            yield child
            continue
        cuts = sorted({at, at + length, *(place for span in spans for place in span), *ends})
        for start, end in pairwise(place for place in cuts if at <= place <= at + length):
            piece = child.copy(content=child.content[start - at : end - at]) if child.content else child
            is_wrong = any(first <= start and end <= last for first, last in spans)
            yield from _wrapped(piece) if is_wrong else [piece]
            if end in ends:
                yield Token("text", "", 0, content=MARK)
        at += length


def _wrapped(piece: Token) -> list[Token]:
    from markdown_it.token import Token

    return [Token("del_open", "del", 1), piece, Token("del_close", "del", -1)]
