"""What a narrative may cite, and the error for what it may not.

In: what is known of a run or a comparison. Out: `Evidence`, which words a finding or raises `CitationError`.
Everything is in memory, so that the guard asks it without reading a file. A model is shown lines: a whole
listing has one per metric and attempt, a search (`facts`) one per id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.results.narrative.findings import Finding
from harness.wording import did_you_mean, listed
from monitors.metrics.names import direction

_MOST_LISTED = 24
LONGEST_LISTING = 16_000
_ROOMS = ("key", "evaluation", "contrast", "point", "run", "level", "attempt", "val", "metric")
_NAMES_ALONE = ("metric/", "attempt/")
"""What is named in the lines of its values."""
_WORSE = {"max": "lowest", "min": "highest"}
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
    """What is known of a run or a sweep: `citable` by id. A subclass has a method for each of the `kinds` of
    findings that it can look up, `_change` for a `change` (raises CitationError).

    `due`: findings that a report must not leave out: the program adds them where the model does. `cautions`:
    what a reader must know besides; the program always adds it.
    """

    kinds: tuple[str, ...]
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
        if finding.kind not in self.kinds:
            others = ", ".join(("value", *self.kinds))
            raise CitationError(f"{finding.kind} is not of this kind of report; cite one of {others}")
        sentence: Sentence = getattr(self, f"_{finding.kind}")(finding)
        return sentence


def lookup(name: object, known: Mapping[Any, _Item], what: str) -> _Item:
    """The item of that name. Raises CitationError with the nearest name and the list."""
    if name in known:
        return known[name]
    names = [str(item) for item in known]
    hint = did_you_mean(str(name), names, "did you mean {}? ")
    shown = listed(names, _MOST_LISTED) or "none"
    raise CitationError(f"there is no {what} {str(name)[:80]!r}; {hint}known are: {shown}")


# --- as a model is shown it --------------------------------------------------------------------------------


def listing(evidence: Evidence) -> str:
    """All evidence, the most important first, bounded; of a metric its first, best and last value."""
    groups: dict[str, dict[str, Citable]] = {}
    for item in _ordered(evidence):
        stem, place = _placed(item.id)
        if place or not stem.startswith(_NAMES_ALONE):
            groups.setdefault(stem, {})[place] = item
    lines, room = [_line(stem, _telling(stem, items)) for stem, items in groups.items()], LONGEST_LISTING
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*lines[:number], f"and {len(lines) - number} more"])
    return "\n".join(lines)


def lines_of(evidence: Evidence, query: str = "") -> list[str]:
    """A line for each thing that can be cited and has all the words of the query in its id or label, with
    interval and n; the most important first."""
    words = query.lower().split()
    return [
        _line(item.id, {"": item})
        for item in _ordered(evidence)
        if all(word in f"{item.id} {item.label}".lower() for word in words)
    ]


def _ordered(evidence: Evidence) -> list[Citable]:
    return sorted(evidence.citable.values(), key=lambda item: _ROOMS.index(item.id.partition("/")[0]))


def _placed(name: str) -> tuple[str, str]:
    """What an id is about, and which of its values it is: `val/STEP/loss`, `40`."""
    room, _, rest = name.partition("/")
    if room == "val":
        step, _, column = rest.partition("/")
        return f"val/STEP/{column}", step
    if room == "attempt":
        number, _, what = rest.partition("/")
        return f"attempt/{number}", what
    stem, _, place = name.rpartition("/")
    is_value = room == "metric" and place in ("first", "last", "lowest", "highest", "first_not_finite")
    return (stem, place) if is_value else (name, "")


def _telling(stem: str, items: Mapping[str, Citable]) -> Mapping[str, Citable]:
    """Of several values those that are shown: without the worst, and of validations the first, the best and
    the last."""
    better = direction(stem.removeprefix("val/STEP/").removeprefix("metric/"))
    if not stem.startswith("val/STEP/"):
        return {place: item for place, item in items.items() if place != _WORSE.get(better or "")}
    values = {step: item.value for step, item in items.items() if item.value is not None}
    best = {"max": max, "min": min}[better](values, key=values.__getitem__) if better and values else ""
    return {step: item for step, item in items.items() if step in (next(iter(items)), best, [*items][-1])}


def _line(stem: str, items: Mapping[str, Citable]) -> str:
    if [*items] == [""]:
        item = items[""]
        speaks = item.id.startswith(("val/", "metric/"))  # the id of these says what they are
        label = f"  ({item.label})" if item.label and not speaks else ""
        return f"{item.id} = {item.shown}{_n([item])}{label}"
    values = "; ".join(f"{place} = {item.shown}" for place, item in items.items())
    return f"{stem}: {values}{_n([*items.values()])}"


def _n(items: Sequence[Citable]) -> str:
    counts = dict.fromkeys(str(item.n) for item in items if item.n is not None)
    return f", n {' or '.join(counts)}" if counts else ""
