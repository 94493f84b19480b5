"""What a reader must know before the first number: everything that weakens a comparison.

In: a `Comparison`. Out: `Warned`s, for the box above the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.results.comparing.types import Comparison
from harness.results.sweeps.wording import FOUND, MOST_NAMED, key_labels, level_text, p_text
from harness.wording import listed

_UNLIKE = 3.0  # standard deviations further apart than this make the p values of few runs too small


@dataclass(frozen=True)
class Warned:
    """One reason for caution: a heading and what it is about, line by line."""

    title: str
    lines: tuple[str, ...]


def warnings(comparison: Comparison) -> tuple[Warned, ...]:
    """Every reason for caution."""
    made = [
        _single_seeds(comparison),
        _group("What one key does depends on another", _interactions(comparison)),
        _group("Runs that do not count", comparison.missing),
        _group("The points differ in more than what was varied", comparison.confounds),
        _group("Runs that were repaired on the way", _deviating(comparison)),
        _group("Runs that did not train equally long", _ends(comparison)),
        _group("Findings whose p is only approximate", _unlike_scatter(comparison)),
    ]
    if comparison.chosen_afterwards:
        line = (
            f"{comparison.metric} was not named before the runs. A metric that is chosen among several "
            "when the numbers are known makes chance differences look real."
        )
        made.append(Warned("The metric was chosen afterwards", (line,)))
    return tuple(warned for warned in made if warned is not None)


def _group(title: str, lines: Iterable[str]) -> Warned | None:
    kept = tuple(dict.fromkeys(lines))
    return Warned(title, kept) if kept else None


def _single_seeds(comparison: Comparison) -> Warned | None:
    single = [point.point.name for point in comparison.points if point.is_single_seed]
    if not single:
        return None
    if comparison.is_single_seed:
        line = (
            "No point has two runs that count. The same settings with another seed can come out elsewhere: "
            "a higher number here is no evidence that its settings are better."
        )
        return Warned("Single seed", (line,))
    line = f"Without an interval, and no evidence by itself: {listed(single, MOST_NAMED)}."
    return Warned(f"{len(single)} point{'' if len(single) == 1 else 's'} with a single seed", (line,))


def _interactions(comparison: Comparison) -> Iterator[str]:
    names = key_labels(comparison)
    for pair in comparison.interactions:
        if pair.matters:
            one, other = (names.get(key, key) for key in pair.keys)
            yield (
                f"{one} and {other} (adjusted {p_text(pair.p_adjusted)}): a difference of one is an average "
                "over unlike, perhaps opposite, differences at the levels of the other. Compare the points."
            )


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
        yield (
            f"the last measurement is not at the same step in all runs: between step {min(ends)} and "
            f"{max(ends)}"
        )


def _unlike_scatter(comparison: Comparison) -> Iterator[str]:
    names = key_labels(comparison)
    for effect in comparison.keys:
        for contrast in effect.contrasts:
            if contrast.finding not in FOUND:
                continue
            one, other = (_scatter(side, comparison) for side in contrast.points)
            small, large = min(one, other), max(one, other)
            who = f"{names.get(effect.key, effect.key)} {level_text(contrast.level)}"
            if not small:
                yield f"{who}: all runs of one side gave the same number"
            elif large > _UNLIKE * small:
                yield f"{who}: the runs of one side scatter {large / small:.1f} times as much as the others"


def _scatter(points: Sequence[str], comparison: Comparison) -> float:
    """The standard deviation within these points."""
    values = [result.value for result in comparison.points if result.point.name in points]
    squares = [value.sd**2 for value in values if value is not None and value.sd is not None]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0
