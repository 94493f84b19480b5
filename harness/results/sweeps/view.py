"""What the report of several runs shows, as plain data: the templates only lay it out.

In: a `Comparison` (cleaned and redacted by `report`), and what is known about the sweep. Out:
`SweepView`: tables whose cells are text, in the order of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.results.comparing import metrics
from harness.results.comparing.types import Comparison, Expected
from harness.results.sweeps import wording as wording
from harness.results.sweeps.cautions import Warned, warnings
from harness.results.sweeps.tables import (
    KeyTable,
    PointRow,
    RunRow,
    best_points,
    cost_unit,
    key_tables,
    level_names,
    point_rows,
    run_row,
)
from harness.results.sweeps.wording import Digits, key_labels, level_text
from harness.wording import duration, listed, time_text


@dataclass(frozen=True)
class SweepAbout:
    """What the comparison itself does not know. `outcome`, `reason`: of the sweep, "" for runs that were
    compared without one. `started`, `ended`: epoch seconds. `canary`: what came of it, in words. `author`:
    "person", or the model that proposed the sweep. `model`: the one that wrote the narrative, "".
    `commit`: of the snapshot. `settings`: set in all points alike."""

    name: str
    question: str = ""
    outcome: str = ""
    reason: str = ""
    started: float | None = None
    ended: float | None = None
    design: str = ""
    seeds: tuple[int, ...] = ()
    parallel: int | None = None
    budget_s: float | None = None
    canary: str = ""
    author: str = ""
    model: str = ""
    commit: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepView:
    """Everything the documents show. `tone`: good, bad or "" for the colour of the verdict. `cost_per`: the
    improvement whose cost the points tell."""

    about: SweepAbout
    metric: str
    better: str
    verdict: str
    tone: str
    found: tuple[str, ...]
    best: str
    warnings: tuple[Warned, ...]
    counts: str
    span: str
    keys: tuple[KeyTable, ...]
    has_task_intervals: bool
    level_names: tuple[str, ...]
    points: tuple[PointRow, ...]
    threshold: str
    cost_unit: str
    cost_per: str
    expected: tuple[tuple[str, str, str, str], ...]  # what, because, verdict, why
    runs: tuple[RunRow, ...]
    notes: tuple[str, ...]
    methods: tuple[str, ...]
    planned: tuple[tuple[str, str], ...]


def build_view(comparison: Comparison, about: SweepAbout, folder: Path) -> SweepView:
    """Arrange everything for the documents that stand in `folder`."""
    digits, study = Digits.of(comparison), comparison.study
    warned = warnings(comparison)
    contrasts = [contrast for effect in comparison.keys for contrast in effect.contrasts]
    has_values = any(point.value for point in comparison.points)
    return SweepView(
        about=about,
        metric=comparison.metric,
        better="higher is better" if study.goal == "max" else "lower is better",
        verdict=wording.verdict(comparison),
        tone="bad" if not has_values else "good" if wording.is_tested(comparison) and not warned else "",
        found=wording.found(comparison),
        best=best_line(comparison, digits),
        warnings=warned,
        counts=_counts(comparison),
        span=_span(about),
        keys=key_tables(comparison, digits),
        has_task_intervals=any(contrast.over_tasks for contrast in contrasts),
        level_names=level_names(comparison),
        points=point_rows(comparison, digits),
        threshold=digits.value(comparison.threshold) if comparison.threshold is not None else "",
        cost_unit=cost_unit(comparison),
        cost_per=f"{metrics.cost_per(comparison.metric):g}",
        expected=tuple(_expected(each, comparison) for each in comparison.expected),
        runs=tuple(run_row(run, digits, folder) for run in comparison.runs),
        notes=comparison.notes,
        methods=tuple(dict.fromkeys(contrast.method for contrast in contrasts if contrast.method)),
        planned=_planned(comparison, about),
    )


def headline(view: SweepView) -> tuple[str, ...]:
    """The few lines a terminal shows."""
    warned = (f"caution: {warning.title}" for warning in view.warnings)
    return tuple(line for line in (view.verdict, *view.found, view.best, view.counts, *warned) if line)


def best_line(comparison: Comparison, digits: Digits) -> str:
    """Which point has the best mean, and that this was seen afterwards."""
    best = next((point for point in comparison.points if point.point.name == comparison.best), None)
    if best is None or best.value is None:
        return ""
    among = sum(point.value is not None for point in comparison.points)
    word = "highest" if comparison.study.goal == "max" else "lowest"
    seeds = "single seed" if best.is_single_seed else f"{best.value.n} seeds"
    equal = best_points(comparison)
    if len(equal) > 1:
        shown = listed([wording.short_names(comparison)[name] for name in equal], wording.MOST_NAMED)
        return f"The {word} mean is {digits.value(best.value.mean)}, shared by {len(equal)} points ({shown})"
    shown = f"{digits.value(best.value.mean)} {digits.of_mean(best.value)}".strip()
    return (
        f"The {word} mean is {shown}, of {best.point.name} ({seeds}); picked afterwards "
        f"among {among} points, so it flatters"
    )


def _counts(comparison: Comparison) -> str:
    counted = sum(run.value is not None for run in comparison.runs)
    planned = max(len(comparison.runs), len(comparison.study.runs))
    points = len(comparison.points)
    runs = f"{counted} of {planned} runs count" if counted < planned else f"all {planned} runs count"
    return f"{points} point{'' if points == 1 else 's'}, {runs}"


def _span(about: SweepAbout) -> str:
    if about.started is None:
        return ""
    took = "" if about.ended is None else f", {duration(about.ended - about.started)}"
    return f"{time_text(about.started)}{took}"


# --- expectations, plan ------------------------------------------------------------------------------------


def _expected(each: Expected, comparison: Comparison) -> tuple[str, str, str, str]:
    expectation, names = each.expectation, key_labels(comparison)
    key = names.get(expectation.key, expectation.key)
    effect = "no difference" if expectation.effect == "none" else expectation.effect
    return f"{key} {level_text(expectation.level)}: {effect}", expectation.why, each.verdict, each.why


def _planned(comparison: Comparison, about: SweepAbout) -> tuple[tuple[str, str], ...]:
    study = comparison.study
    keys = [
        f"{key.name}: {', '.join(map(level_text, key.levels))} (baseline {level_text(key.baseline)})"
        for key in study.keys
    ]
    rows: Sequence[tuple[str, str]] = (
        ("Question", about.question or study.question),
        ("Varied", "; ".join(keys)),
        ("Design", about.design or study.design.replace("given", "none: runs as they were")),
        ("Seeds", ", ".join(map(str, about.seeds))),
        ("Seed set by", study.seed_key),
        ("Metric", f"{comparison.metric}{' (chosen afterwards)' if comparison.chosen_afterwards else ''}"),
        ("Set in all points", "; ".join(f"{key}: {value}" for key, value in about.settings.items())),
        ("Runs at once", "" if about.parallel is None else str(about.parallel)),
        ("Budget", "" if about.budget_s is None else duration(about.budget_s)),
        ("Canary", about.canary),
        ("Planned by", about.author),
        ("Code", about.commit),
        ("Started", "" if about.started is None else time_text(about.started)),
        ("Ended", "" if about.ended is None else time_text(about.ended)),
    )
    return tuple((term, text) for term, text in rows if text)
