"""What a reader must know before the first number, and how the numbers were computed.

In: a `Comparison`. Out: `Caution`s for the box above the tables, and the notes below them, which
`templates/reports/sweep_notes.txt.j2` words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.types import Comparison
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
    single = [point.point.name for point in comparison.points if point.is_single_seed]
    chosen = (
        f"{comparison.metric} was not named before the runs. A metric that is chosen among several when the "
        "numbers are known makes chance differences look real."
    )
    groups: tuple[tuple[str, Iterable[str]], ...] = (
        (_single_title(comparison, len(single)), _single_seeds(comparison, single)),
        ("What one key does depends on another", _interactions(comparison)),
        ("Runs that do not count", comparison.missing),
        ("The points differ in more than what was varied", comparison.confounds),
        ("Runs whose code a model changed (†): not the author's results", _changed_code(comparison)),
        ("Runs that were repaired on the way", _deviating(comparison)),
        ("Runs that did not train equally long", _ends(comparison)),
        ("Findings whose p is only approximate", _unlike_scatter(comparison)),
        ("The metric was chosen afterwards", (chosen,) if comparison.chosen_afterwards else ()),
    )
    made = [Caution(title, tuple(dict.fromkeys(lines))) for title, lines in groups]
    return tuple(caution for caution in made if caution.lines)


def _single_title(comparison: Comparison, single: int) -> str:
    return "Single seed" if comparison.is_single_seed else f"{count_text(single, 'point')} with a single seed"


def _single_seeds(comparison: Comparison, single: Sequence[str]) -> Iterator[str]:
    if single and comparison.is_single_seed:
        yield (
            "No point has two runs that count. The same settings with another seed can come out elsewhere: "
            "a higher number here is no evidence that its settings are better."
        )
    elif single:
        yield f"Without an interval, and no evidence by itself: {listed(single, MOST_NAMED)}."


def _interactions(comparison: Comparison) -> Iterator[str]:
    names = key_labels(comparison)
    for pair in comparison.interactions:
        if pair.matters:
            one, other = (names[key] for key in pair.keys)
            yield (
                f"{one} and {other} (adjusted {p_text(pair.p_adjusted)}): a difference of one is an average "
                "over unlike, perhaps opposite, differences at the levels of the other. Compare the points."
            )


def _changed_code(comparison: Comparison) -> Iterator[str]:
    names = [run.run.name for run in comparison.runs if run.code_changed and run.value is not None]
    if names:
        yield f"their reports have the changes: {listed(names, MOST_NAMED)}"


def _deviating(comparison: Comparison) -> Iterator[str]:
    for run in comparison.runs:
        if run.deviations and run.value is not None:
            yield f"{run.run.name}: {listed(run.deviations, MOST_NAMED, '; ')}"


def _ends(comparison: Comparison) -> Iterator[str]:
    counting = [run for run in comparison.runs if run.value is not None]
    for outcome, words in (("timed_out", "its time limit"), ("stopped_early", "an early stop")):
        names = [run.run.name for run in counting if run.outcome == outcome]
        if names:
            yield f"ended by {words} and counted with the value then: {listed(names, MOST_NAMED)}"
    ends = {run.curve.steps[-1] for run in counting if run.curve.steps}
    if len(ends) > 1:
        steps = f"between step {min(ends)} and {max(ends)}"
        yield f"the last measurement is not at the same step in all runs: {steps}"


def _unlike_scatter(comparison: Comparison) -> Iterator[str]:
    names = key_labels(comparison)
    for contrast in comparison.contrasts:
        if contrast.finding in FOUND:
            small, large = sorted(_scatter(side, comparison) for side in contrast.points)
            who = f"{names[contrast.key]} {level_text(contrast.level)}"
            if not small:
                yield f"{who}: all runs of one side gave the same number"
            elif large > _UNLIKE * small:
                yield f"{who}: the runs of one side scatter {large / small:.1f} times as much as the others"


def _scatter(points: Sequence[str], comparison: Comparison) -> float:
    """The standard deviation within these points."""
    values = [result.value for result in comparison.points if result.point.name in points]
    squares = [value.sd**2 for value in values if value is not None and value.sd is not None]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


# --- notes --------------------------------------------------------------------------------------------------


def notes(comparison: Comparison) -> tuple[str, ...]:
    """How everything was computed, one sentence each, those that change how results must be read first."""
    counting = [run for run in comparison.runs if run.value is not None]
    seeds = [
        {run.run.seed for run in counting if run.run.point == point.point.name} for point in comparison.points
    ]
    seeds = [found for found in seeds if found]
    words = render(
        "reports/sweep_notes.txt.j2",
        comparison=comparison,
        names=key_labels(comparison),
        tested=[contrast for contrast in comparison.contrasts if contrast.p is not None],
        counting=counting,
        has_same_seeds=len(seeds) > 1 and len(seeds[0]) > 1 and all(found == seeds[0] for found in seeds),
        stricter=_stricter(comparison),
        is_validation=comparison.metric.startswith("val/"),
        cost_per=f"{metrics.cost_per(comparison.metric):g}",
        recent=RECENT,
        listed=lambda words: listed(list(words), MOST_NAMED),
        count=count_text,
        p_text=p_text,
    )
    return tuple(line.strip() for line in words.splitlines() if line.strip())


def _stricter(comparison: Comparison) -> float:
    """How much larger the first step of Holm's method asks a difference to be than one test alone does."""
    degrees = {one.degrees for one in comparison.contrasts if one.p is not None and one.degrees is not None}
    tests = sum(one.p is not None for one in comparison.contrasts) + len(comparison.interactions)
    if tests < 2 or not degrees:
        return 1.0
    return max(stats.needed_ratio(one, stats.ALPHA / tests) / stats.needed_ratio(one) for one in degrees)
