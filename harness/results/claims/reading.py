"""A sentence taken apart: what it mentions, and which of its numbers each mention belongs to.

Nothing is found out here: `mentions` and `binding` make these.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.results.claims.quantity import Quantity
from harness.results.claims.types import Number


@dataclass(frozen=True)
class Mention:
    """A thing that a sentence names. `ids`: what it may mean. For axis "when": "first", "last", "best",
    "worst", "highest", "lowest", "moved", "step:N"."""

    start: int
    end: int
    axis: str
    ids: frozenset[str]
    text: str


@dataclass(frozen=True)
class Bound:
    """A number of a sentence with what it belongs to; None where the sentence does not say.

    `subjects`: for each axis (points, seeds, levels of a key) the subjects it may belong to. `is_end`:
    whether it is an end of an interval. `pair`: it is the second of "from A to B", this is A's index.
    `loose`: the axes ("metric", "when", "attempt", "subject") on which the sentence does not say firmly what
    it belongs to: another reading is as plausible there. `means`: what it was found to be.
    """

    quantity: Quantity
    metric: Mention | None
    when: Mention | None
    step: Mention | None
    attempt: Mention | None
    subjects: tuple[frozenset[str], ...]
    end: str = ""
    pair: int | None = None
    parent: int | None = None
    loose: frozenset[str] = frozenset()
    firm: tuple[frozenset[str], ...] = ()
    """Those of `subjects` that the sentence says firmly."""
    means: Number | None = None


@dataclass(frozen=True)
class Sentence:
    """A sentence taken apart. `before`: the words it stands under (table headers), which bind too."""

    text: str
    mentions: tuple[Mention, ...]
    numbers: tuple[Bound, ...]

    def of(self, axis: str) -> tuple[Mention, ...]:
        return tuple(mention for mention in self.mentions if mention.axis.startswith(axis))
