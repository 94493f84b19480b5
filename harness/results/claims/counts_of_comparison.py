"""What can be counted of several runs: planned, that count, that reached the threshold, that failed, that
never started; of all, of each point, of each level, and of levels together.

In: a `Comparison`. Out: `Number`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from harness.results.claims.types import Number
from harness.results.comparing.types import Comparison, RunResult

_RUN = frozenset({"run", "seed"})
_MOST_LEVELS = 6
TOGETHER = "|"
"""Between the levels of a number that counts the runs of several levels."""


def counts(comparison: Comparison) -> Iterator[Number]:
    study = comparison.study
    per_point = max(
        [
            *(point.planned for point in comparison.points),
            len({run.seed for run in study.runs if run.seed is not None}),
        ],
        default=1,
    )
    counted: list[tuple[float, str, set[str]]] = [
        (len(study.runs), "the number of planned runs", {"run", "experiment", "training"}),
        (len(study.points), "the number of points", {"point", "configuration", "setting", "combination"}),
        (len(study.keys), "the number of keys", {"key", "hyperparameter", "factor"}),
        (per_point, "seeds per point", {"seed", "repeat"}),
        *(
            (len(study.runs) // len(key.levels), f"runs per level of {key.short}", {"seed"})
            for key in study.keys
        ),
    ]
    counted += [
        (len(key.levels), f"the number of levels of {key.short}", {"level", "value", "setting"})
        for key in study.keys
    ]
    counted += [
        (count, "validation tasks", {"task", "problem"})
        for count in {len(run.tasks) for run in comparison.runs if run.tasks}
    ]
    for value, label, nouns in counted:
        yield Number(float(value), "count", label, "comparison", nouns=frozenset(nouns))
    for subject, points in _groups(comparison):
        yield from _of_group(subject, points, comparison)


def never_started(run: RunResult) -> bool:
    return run.value is None and "never started" in f"{run.outcome} {run.why_not}"


def _groups(comparison: Comparison) -> Iterator[tuple[str, frozenset[str]]]:
    """Subjects with their points."""
    points = comparison.study.points
    yield "", frozenset(point.name for point in points)
    for point in points:
        yield point.name, frozenset({point.name})
    for key in comparison.study.keys:
        levels = key.levels[:_MOST_LEVELS]
        for size in range(1, len(levels)):
            for group in combinations(levels, size):
                subject = TOGETHER.join(f"{key.name}={level}" for level in group)
                names = frozenset(point.name for point in points if point.levels.get(key.name) in group)
                yield subject, names


def _of_group(subject: str, points: frozenset[str], comparison: Comparison) -> Iterator[Number]:
    planned = sum(run.point in points for run in comparison.study.runs)
    runs = [run for run in comparison.runs if run.run.point in points]
    done = sum(run.value is not None for run in runs)
    never = sum(never_started(run) for run in runs) + planned - len(runs)
    reached = sum(point.reached_threshold for point in comparison.points if point.point.name in points)
    failed = planned - done - never
    kinds = {"unstarted"} if never and not failed else {"crashed"} if failed and not never else set[str]()
    of = f" of {subject}" if subject else ""
    more = frozenset({"experiment", "training"}) if not subject else frozenset()
    told: tuple[tuple[int, str, frozenset[str]], ...] = (
        (planned, f"runs planned for {subject}", frozenset()),
        (done, f"runs{of} that count", frozenset({"counted"})),
        (planned - done, f"runs{of} that do not count", frozenset({"failed", *kinds})),
        (failed, f"runs{of} that failed", frozenset({"failed", "crashed"})),
        (never, f"runs{of} that never started", frozenset({"failed", "unstarted"})),
        (reached, f"runs{of} that reached the threshold", frozenset({"reached"})),
        (done - reached, f"runs{of} that did not reach the threshold", frozenset({"reached", "short"})),
    )
    for value, label, nouns in told if subject else told[1:]:
        if value or not subject:
            yield Number(
                float(value), "count", label, "comparison", subject=subject, nouns=_RUN | nouns | more
            )
