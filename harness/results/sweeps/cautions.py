"""What a reader must know before the first number, and how the numbers were computed.

In: a `Comparison`. Out: `Caution`s for the box above the tables, and the notes below them; the templates
`reports/sweep_cautions.txt.j2` and `reports/sweep_notes.txt.j2` word them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.types import Comparison, Contrast
from harness.results.facts import RECENT
from harness.results.sweeps.wording import FOUND, MOST_NAMED, key_labels, level_text, p_text
from harness.templating import render
from harness.wording import count_text, listed

_UNLIKE = 3.0  # standard deviations further apart than this make the p values of few runs too small


@dataclass(frozen=True)
class Caution:
    """One reason for caution: a heading and what it is about, line by line."""

    title: str
    lines: tuple[str, ...]


def cautions(comparison: Comparison) -> tuple[Caution, ...]:
    """Every reason for caution."""
    words = render(
        "reports/sweep_cautions.txt.j2",
        single=[point.point.name for point in comparison.points if point.is_single_seed],
        unlike=list(_unlike_scatter(comparison)),
        level=level_text,
        **_shared(comparison),
    )
    found: list[tuple[str, list[str]]] = []
    for line in filter(None, words.splitlines()):
        if line.startswith("# "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line[2:])
    return tuple(Caution(title, tuple(dict.fromkeys(lines))) for title, lines in found if lines)


def _shared(comparison: Comparison) -> dict[str, Any]:
    """What both templates word: no text from outside makes a line of its own there."""
    return {
        "comparison": comparison,
        "names": key_labels(comparison),
        "counting": [run for run in comparison.runs if run.value is not None],
        "line": _line,
        "listed": lambda words, sign=", ": _line(listed(list(words), MOST_NAMED, sign)),
        "count": count_text,
        "p_text": p_text,
    }


def _line(text: str) -> str:
    return " ".join(text.split())


def _unlike_scatter(comparison: Comparison) -> Iterator[tuple[Contrast, float]]:
    """Findings with one side that scatters much more than the other, and how many times; 0: one does not."""
    for contrast in comparison.contrasts:
        small, large = sorted(_scatter(side, comparison) for side in contrast.points)
        if contrast.finding in FOUND and (not small or large > _UNLIKE * small):
            yield contrast, large / small if small else 0.0


def _scatter(points: Sequence[str], comparison: Comparison) -> float:
    """The standard deviation within these points."""
    values = [result.value for result in comparison.points if result.point.name in points]
    squares = [value.sd**2 for value in values if value is not None and value.sd is not None]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


# --- notes --------------------------------------------------------------------------------------------------


def notes(comparison: Comparison) -> tuple[str, ...]:
    """How everything was computed, one sentence each, those that change how results must be read first."""
    shared = _shared(comparison)
    by_point: dict[str, set[int | None]] = {}
    for run in shared["counting"]:
        by_point.setdefault(run.run.point, set()).add(run.run.seed)
    seeds = list(by_point.values())
    words = render(
        "reports/sweep_notes.txt.j2",
        tested=[contrast for contrast in comparison.contrasts if contrast.p is not None],
        has_same_seeds=len(seeds) > 1 and len(seeds[0]) > 1 and all(found == seeds[0] for found in seeds),
        stricter=_stricter(comparison),
        is_validation=comparison.metric.startswith("val/"),
        cost_per=f"{metrics.cost_per(comparison.metric):g}",
        recent=RECENT,
        **shared,
    )
    return tuple(line.strip() for line in words.splitlines() if line.strip())


def _stricter(comparison: Comparison) -> float:
    """How much larger the first step of Holm's method asks a difference to be than one test alone does."""
    degrees = {one.degrees for one in comparison.contrasts if one.p is not None and one.degrees is not None}
    tests = sum(one.p is not None for one in comparison.contrasts) + len(comparison.interactions)
    if tests < 2 or not degrees:
        return 1.0
    return max(stats.needed_ratio(one, stats.ALPHA / tests) / stats.needed_ratio(one) for one in degrees)
