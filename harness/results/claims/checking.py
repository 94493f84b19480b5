"""A text that a model wrote, checked sentence by sentence against the evidence.

In: Markdown (or its tokens) and `Evidence`. Out: `Checked`. Three verdicts: *ok* (found in the raw files, or
follows from what is), *wrong* (is struck out), *not checkable* (nothing measured can settle it: marked).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.results.claims import in_comparison, in_run, wording
from harness.results.claims.lookup import Found, look_up
from harness.results.claims.mentions import take_apart
from harness.results.claims.passages import parser, passages
from harness.results.claims.reading import Sentence
from harness.results.claims.spoken_of import with_topic
from harness.results.claims.types import Checked, Claim, Evidence, Number, Omission

if TYPE_CHECKING:
    from markdown_it.token import Token

PLANS = "next_steps"
"""The section that says what to do: its numbers are proposals unless they tell what was measured."""
_TOLD = re.compile(
    r"\b(?:was|were|rose|fell|reached|ended|improved|dropped|increased|decreased|climbed|had|since|showed|is\s+at|stood)\b",
    re.IGNORECASE,
)


def check(text: str, evidence: Evidence, section: str = "findings") -> Checked:
    """Check one text. `section`: its name in the report; omissions are looked for in the whole of it."""
    claims = check_tokens(parser().parse(text), evidence, section)
    return Checked(tuple(claims), omissions([text], evidence) if section != PLANS else ())


def check_sections(narrative: Mapping[str, str], evidence: Evidence) -> Checked:
    """Check all sections of a narrative; what one of them names is not missing in the others."""
    reader = parser()
    claims = [
        claim
        for name, text in narrative.items()
        for claim in check_tokens(reader.parse(text), evidence, name)
    ]
    return Checked(tuple(claims), omissions(list(narrative.values()), evidence))


def omissions(texts: Sequence[str], evidence: Evidence) -> tuple[Omission, ...]:
    """What the texts together should have named and did not."""
    whole = "\n".join(texts)
    if not whole.strip():
        return ()
    return tuple(
        Omission(duty.what)
        for duty in evidence.duties
        if not any(re.search(pattern, whole, re.IGNORECASE) for pattern in duty.patterns)
    )


def check_tokens(tokens: Sequence[Token], evidence: Evidence, section: str = "findings") -> Iterator[Claim]:
    """The claims of a parsed text, each with the place of its sentence in the tokens."""
    before: Sentence | None = None
    named: list[Number] = []
    for passage in passages(tokens):
        text = f"{passage.heads}: {passage.text}" if passage.heads else passage.text
        sentence = take_apart(text, evidence, before)
        own = _own(sentence, len(text) - len(passage.text))
        if not _is_plan(text, section):
            found = look_up(own, evidence, named, before)
            meant = tuple(replace(item.bound, means=item.number) for item in found)
            found = [item for item in found if not _is_proposed(item, text)]
            for claim in (*_numbers(found), *_words(replace(own, numbers=meant), evidence, before)):
                yield replace(
                    claim,
                    sentence=text.strip(),
                    block=passage.token,
                    span=(passage.start, passage.end),
                )
            named = [item.number for item in found if item.number is not None]
        before = with_topic(sentence, before) if evidence.comparison is not None else sentence


def _own(sentence: Sentence, offset: int) -> Sentence:
    """Without the numbers of the words that a table cell stands under."""
    if not offset:
        return sentence
    kept = tuple(
        replace(bound, pair=None, parent=None) if bound.parent is None else bound
        for bound in sentence.numbers
    )
    inside = tuple(bound for bound in kept if bound.quantity.start >= offset)
    shift = len(kept) - len(inside)
    return replace(
        sentence,
        numbers=tuple(
            replace(bound, parent=bound.parent - shift) if bound.parent is not None else bound
            for bound in inside
        ),
    )


def _is_plan(text: str, section: str) -> bool:
    if section == PLANS:
        return not _TOLD.search(text)
    return wording.is_proposal(text)


_THEN = re.compile(
    r"(?:,|\band|\bso)\s+(?:then\s+|also\s+)?(?:run|repeat|try|use|add|train|extend|validate|evaluate|raise|lower|keep|set|stop|start|sweep|test)\s",
    re.IGNORECASE,
)


def _is_proposed(item: Found, text: str) -> bool:
    """Whether a number that was not found is of what to do: "since it fell, validate every 20 steps"."""
    return not item.is_found and _THEN.search(text[: item.bound.quantity.start]) is not None


def _numbers(found: Sequence[Found]) -> Iterator[Claim]:
    for item in found:
        yield Claim(item.bound.quantity.text, "number", "ok" if item.is_found else "wrong", item.why)


def _words(sentence: Sentence, evidence: Evidence, before: Sentence | None) -> Iterator[Claim]:
    if evidence.comparison is not None:
        yield from in_comparison.claims(sentence, evidence, before)
    else:
        yield from in_run.claims(sentence, evidence)
