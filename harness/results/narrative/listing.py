"""What a model is shown of the evidence: ids with their values, intervals and n.

In: the `Evidence`. Out: lines. A whole listing has one per metric and attempt, a search (`facts`) one per id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.results.narrative.evidence import Citable, Evidence
from monitors.metrics.names import direction

LONGEST_LISTING = 16_000
_ROOMS = ("key", "evaluation", "contrast", "point", "run", "level", "attempt", "val", "metric")
_NAMES_ALONE = ("metric/", "attempt/")
"""What is named in the lines of its values."""
_WORSE = {"max": "lowest", "min": "highest"}


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
