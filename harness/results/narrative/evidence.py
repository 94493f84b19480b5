"""What a narrative may cite, and the error for what it may not.

In: what is known of a run or a comparison. Out: `Evidence`, which words a finding or raises `CitationError`.
Everything is in memory, so that the guard asks it without reading a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.results.narrative.findings import Finding
from harness.wording import did_you_mean, listed

_MOST_LISTED = 24
_Item = TypeVar("_Item")


class CitationError(Exception):
    """A finding or citation that cannot be looked up, or is not one of this kind of report; the message says
    what to write instead."""


@dataclass(frozen=True)
class Citable:
    """A number, or the name of something, that is cited by its id. `label`: what it is, "" for a name;
    `measure`: what is measured: only facts of one measure are compared; `n`: over how many tasks its interval
    is, None where it has none."""

    id: str
    label: str
    shown: str
    value: float | None = None
    measure: str = ""
    n: int | None = None


@dataclass(frozen=True)
class Sentence:
    """One sentence, looked up but not yet in a language: `kind` and `values` fill `templates/reports/
    findings.*`."""

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)


class Evidence:
    """What is known of a run or a sweep: `citable` by id. A subclass says in `answers` how each kind of
    finding, a value apart, is looked up (raises CitationError).

    `due`: findings that a report must not leave out: the program adds them where the model does. `cautions`:
    what a reader must know besides; the program always adds it.
    """

    answers: Mapping[str, Callable[[Any], Sentence]]
    due: tuple[Finding, ...]
    cautions: tuple[Sentence, ...]

    def __init__(self, citable: Iterable[Citable]) -> None:
        self.citable = {item.id: item for item in citable}

    def number(self, name: str) -> Citable:
        return lookup(name, {name: item for name, item in self.citable.items() if item.label}, "fact")

    def resolve(self, finding: Finding) -> Sentence:
        """The finding looked up. Raises CitationError."""
        if finding.kind == "value":
            return Sentence("value", {"fact": self.number(finding.fact)})
        if finding.kind not in self.answers:
            others = ", ".join(("value", *self.answers))
            raise CitationError(f"{finding.kind} is not of this kind of report; cite one of {others}")
        return self.answers[finding.kind](finding)


def lookup(name: object, known: Mapping[Any, _Item], what: str) -> _Item:
    """The item of that name. Raises CitationError with the nearest name and the list."""
    if name in known:
        return known[name]
    names = [str(item) for item in known]
    hint = did_you_mean(str(name), names, "did you mean {}? ")
    shown = listed(names, _MOST_LISTED) or "none"
    raise CitationError(f"there is no {what} {str(name)[:80]!r}; {hint}known are: {shown}")
