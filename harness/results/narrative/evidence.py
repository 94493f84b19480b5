"""What a narrative may cite, and the error for what it may not.

In: facts of a run or a comparison. Out: `Evidence`, which words one finding or raises `CitationError`.
Everything is in memory, so that the guard asks it without reading a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from harness.results.narrative.findings import Finding
from harness.wording import did_you_mean

_MOST_LISTED = 24
_Item = TypeVar("_Item")


class CitationError(Exception):
    """A finding or citation that cannot be looked up, or is not one of this kind of report; the message says
    what to write instead."""


@dataclass(frozen=True)
class Citable:
    """A number, or the name of something, that is cited by its id. `label`: what it is, "" for a name;
    `measure`: what is measured: only facts of one measure are compared."""

    id: str
    label: str
    shown: str
    value: float | None = None
    measure: str = ""


@dataclass(frozen=True)
class Sentence:
    """One sentence, looked up but not yet in a language: `kind` and `values` fill `templates/reports/
    findings.*`."""

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)


class Evidence(Protocol):
    """What is known of a run or a sweep."""

    @property
    def citable(self) -> Mapping[str, Citable]:
        """Everything that may be cited, by id."""
        ...

    @property
    def due(self) -> tuple[Finding, ...]:
        """Findings that a report must not leave out: the program adds them where the model does."""
        ...

    @property
    def cautions(self) -> tuple[Sentence, ...]:
        """What a reader must know besides; the program always adds it."""
        ...

    def resolve(self, finding: Finding) -> Sentence:
        """The finding looked up. Raises CitationError."""
        ...


def lookup(name: str, known: Mapping[str, _Item], what: str) -> _Item:
    """The item of that name. Raises CitationError with the nearest name and the list."""
    if name in known:
        return known[name]
    raise unknown(name, known, what)


def unknown(name: object, known: Iterable[object], what: str) -> CitationError:
    """The error for a name that is not known."""
    names = [str(item) for item in known]
    hint = did_you_mean(str(name), names, "did you mean {}? ")
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    listed = ", ".join(names[:_MOST_LISTED]) or "none"
    return CitationError(f"there is no {what} {str(name)[:80]!r}; {hint}known are: {listed}{more}")
