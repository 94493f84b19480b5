"""Proposes expressions for a log that holds numbers but no known metric row.

Lines of one shape (equal but for their numbers) that come back with other numbers are what a training
reports. Their words name the groups; a person decides which of the proposals is right.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from monitors.logs import Line, is_progress_bar
from monitors.metrics.names import kind_of, words
from monitors.metrics.parser import message_of
from monitors.metrics.row import NUMBER

MOST_SHAPES = 2000
MOST_KEPT = 50  # lines of one shape that are looked at
LEAST_LINES = 3
MOST_COLUMNS = 12
_NUMBER = re.compile(rf"(?<![\w.])(?:{NUMBER})(?![\w]|\.\d)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Proposal:
    """`expression`: for `[exp_metrics]`; `lines`: how many it was made from; `sample`: one of them."""

    expression: str
    lines: int
    sample: str


def propose(lines: Iterable[Line], most: int = 3) -> list[Proposal]:
    """Return the most telling expressions for these lines, the best first."""
    shapes: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for line in lines:
        text = message_of(line.text[:500])
        if is_progress_bar(text) or not 1 <= len(_NUMBER.findall(text)) <= MOST_COLUMNS:
            continue
        shape = re.sub(r"\s+", " ", _NUMBER.sub("#", text))
        if not _NAME.search(shape) or (shape not in shapes and len(shapes) >= MOST_SHAPES):
            continue
        counts[shape] = counts.get(shape, 0) + 1
        kept = shapes.setdefault(shape, [])
        if len(kept) < MOST_KEPT:
            kept.append(text)
    found = []
    for shape, texts in shapes.items():
        if counts[shape] >= LEAST_LINES and (expression := _expression(texts)):
            named = sum(kind_of(name) is not None for name in re.compile(expression).groupindex)
            found.append((named, counts[shape], Proposal(expression, counts[shape], texts[-1])))
    found.sort(key=lambda one: one[:2], reverse=True)
    return [proposal for _, _, proposal in found[:most]]


def _expression(texts: list[str]) -> str | None:
    """The expression that reads the numbers which change from line to line; None where only a count does."""
    rows = [[match[0] for match in _NUMBER.finditer(text)] for text in texts]
    columns = list(zip(*rows, strict=True))
    varies = [len(set(column)) > 1 for column in columns]
    counter = next((place for place, column in enumerate(columns) if _counts_up(column)), None)
    if sum(varies) - (counter is not None) < 1:
        return None
    pieces, end, used = list[str](), 0, set[str]()
    for place, match in enumerate(_NUMBER.finditer(texts[-1])):
        before = texts[-1][end : match.start()]
        pieces.append(_literal(before))
        if varies[place]:
            name = "step" if place == counter else _group_name(before, used)
            used.add(name)
            pieces.append(rf"(?P<{name}>[-+.\w]+)")
        else:
            pieces.append(r"[-+.\w]+")
        end = match.end()
    return "".join(pieces)


def _counts_up(column: tuple[str, ...]) -> bool:
    if not all(text.isdigit() for text in column):
        return False
    numbers = [int(text) for text in column]
    return all(one < other for one, other in pairwise(numbers))


def _literal(text: str) -> str:
    """The text between two numbers, with any blanks where it has some."""
    return re.sub(r"(?:\\?\s)+", lambda _: r"\s+", re.escape(text))


def _group_name(before: str, used: set[str]) -> str:
    said = [word.lower() for word in _NAME.findall(before)]
    known = [word for word in said if word not in ("is", "are", "was", *words("before_counters"))]
    telling = [word for word in known if kind_of(word)]
    name = next(iter([*telling[-1:], *known[-1:], "value"]))
    count = 2
    while name in used:
        name, count = f"{name.rstrip('0123456789')}{count}", count + 1
    return name
