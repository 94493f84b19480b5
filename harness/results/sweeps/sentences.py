"""What a comparison found, what weakens that, and how it was computed: in sentences, never by a model.

In: a `Comparison`. Out: `Findings`, `Caution`s for the box above the tables, and the notes below them. The
templates `reports/sweep_findings.txt.j2`, `sweep_cautions.txt.j2` and `sweep_notes.txt.j2` word them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.types import Comparison, Contrast
from harness.results.facts import RECENT
from harness.results.sweeps.wording import Digits, best_points, key_labels, level_text, p_text, short_names
from harness.templating import render
from harness.wording import count_text, listed

MOST_NAMED = 4  # contrasts or runs named in one sentence; the tables have all
_UNLIKE = 3.0  # standard deviations further apart than this make the p values of few runs too small


@dataclass(frozen=True)
class Caution:
    """One reason for caution: a heading and what it is about, line by line."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """The first lines of a report. `found`: one sentence per key, those with a difference first; `best`:
    which point has the best mean, "" for none; `counts`: points, and runs that count."""

    verdict: str
    found: tuple[str, ...]
    best: str
    counts: str


def findings(comparison: Comparison) -> Findings:
    """What was found."""

    def largest(contrasts: Sequence[Contrast]) -> Contrast:
        return max(contrasts, key=lambda contrast: abs(contrast.difference or 0.0))

    shorts = short_names(comparison)
    said = _said(
        "findings",
        comparison,
        effects=sorted(comparison.keys, key=lambda effect: (not effect.matters, effect.matters is None)),
        among=sum(point.value is not None for point in comparison.points),
        equal=[shorts[name] for name in best_points(comparison)],
        is_tested=is_tested(comparison),
        digits=Digits.of(comparison),
        largest=largest,
    )
    (verdict,), (counts,) = said["verdict"], said["counts"]
    return Findings(verdict, said["found"], " ".join(said["best"]), counts)


def is_tested(comparison: Comparison) -> bool:
    """True if any difference was tested over seeds."""
    return any(effect.matters is not None for effect in comparison.keys)


def cautions(comparison: Comparison) -> tuple[Caution, ...]:
    """Every reason for caution."""
    single = [point.point.name for point in comparison.points if point.is_single_seed]
    said = _said("cautions", comparison, single=single, unlike=list(_unlike_scatter(comparison)))
    return tuple(Caution(title, tuple(dict.fromkeys(lines))) for title, lines in said.items() if lines)


def _unlike_scatter(comparison: Comparison) -> Iterator[tuple[Contrast, float]]:
    """Findings with one side that scatters much more than the other, and how many times; 0: one does not."""
    for contrast in comparison.contrasts:
        small, large = sorted(_scatter(side, comparison) for side in contrast.points)
        if contrast.is_found and (not small or large > _UNLIKE * small):
            yield contrast, large / small if small else 0.0


def _scatter(points: Sequence[str], comparison: Comparison) -> float:
    """The standard deviation within these points."""
    values = [result.value for result in comparison.points if result.point.name in points]
    squares = [value.sd**2 for value in values if value is not None and value.sd is not None]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


def notes(comparison: Comparison) -> tuple[str, ...]:
    """How everything was computed, one sentence each, those that change how results must be read first."""
    by_point: dict[str, set[int | None]] = {}
    for run in comparison.runs:
        if run.value is not None:
            by_point.setdefault(run.run.point, set()).add(run.run.seed)
    seeds = list(by_point.values())
    (lines,) = _said(
        "notes",
        comparison,
        tested=[contrast for contrast in comparison.contrasts if contrast.p is not None],
        has_same_seeds=len(seeds) > 1 and len(seeds[0]) > 1 and all(found == seeds[0] for found in seeds),
        stricter=_stricter(comparison),
        is_validation=comparison.metric.startswith("val/"),
        cost_per=f"{metrics.cost_per(comparison.metric):g}",
        recent=RECENT,
    ).values()
    return lines


def _stricter(comparison: Comparison) -> float:
    """How much larger the first step of Holm's method asks a difference to be than one test alone does."""
    degrees = {one.degrees for one in comparison.contrasts if one.p is not None and one.degrees is not None}
    tests = sum(one.p is not None for one in comparison.contrasts) + len(comparison.interactions)
    if tests < 2 or not degrees:
        return 1.0
    return max(stats.needed_ratio(one, stats.ALPHA / tests) / stats.needed_ratio(one) for one in degrees)


def _said(template: str, comparison: Comparison, **values: object) -> dict[str, tuple[str, ...]]:
    """The lines of a template by their title. No text from outside makes a line of its own there."""
    words = render(
        f"reports/sweep_{template}.txt.j2",
        comparison=comparison,
        names={key: _line(label) for key, label in key_labels(comparison).items()},
        counting=[run for run in comparison.runs if run.value is not None],
        line=_line,
        level=lambda level: _line(level_text(level)),
        listed=lambda words, sign=", ": _line(listed(list(words), MOST_NAMED, sign)),
        count=count_text,
        p_text=p_text,
        **values,
    )
    found: dict[str, tuple[str, ...]] = {}
    title = ""
    for line in filter(None, map(str.strip, words.splitlines())):
        if line.startswith("# "):
            title = line[2:]
            found[title] = ()
        else:
            found[title] = (*found.get(title, ()), line.removeprefix("- "))
    return found


def _line(text: str) -> str:
    return " ".join(text.split())
