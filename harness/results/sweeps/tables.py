"""The tables of a comparison's report: keys with their levels, points, runs; every cell is text.

In: a `Comparison`. Out: rows for the templates and the command line to lay out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from harness.config.edit import Scalar
from harness.results.comparing.types import Comparison, Contrast, Estimate, KeyEffect, PointResult, RunResult
from harness.results.sweeps import wording as wording
from harness.results.sweeps.wording import Digits, key_labels, level_text
from harness.wording import duration, number_text

DASH = "—"
_MOST_LEVEL_COLUMNS = 4  # with more keys, one column names what differs from the baseline
_MOST_SEEDS_SHOWN = 999
_OUTCOMES = {"": "", "stopped_early": "stopped early", "timed_out": "ended at its time limit"}


@dataclass(frozen=True)
class ContrastRow:
    """One level against the baseline level of its key."""

    level: str
    baseline: str
    n: str
    difference: str
    interval: str
    p: str
    effect: str
    finding: str
    detectable: str
    seeds_needed: str
    note: str


@dataclass(frozen=True)
class KeyTable:
    """One key: whether it matters at all, and its levels."""

    name: str
    label: str
    verdict: str
    rows: tuple[ContrastRow, ...]


@dataclass(frozen=True)
class PointRow:
    """One point over its seeds. `short`: its name as the first column shows it; `label`: what differs from
    the baseline. `marks`: baseline, highest mean, single seed."""

    name: str
    short: str
    label: str
    levels: tuple[str, ...]
    n: str
    mean: str
    interval: str
    sd: str
    area: str
    to_threshold: str
    hours: str
    cost: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class RunRow:
    """One run. `value` is a dash with `why_not` beside it where the run does not count; `href`: its own
    report, "" where there is none."""

    name: str
    point: str
    seed: str
    outcome: str
    value: str
    why_not: str
    source: str
    step: str
    hours: str
    href: str
    remarks: tuple[str, ...]


# --- keys ---------------------------------------------------------------------------------------------------


def key_tables(comparison: Comparison, digits: Digits) -> tuple[KeyTable, ...]:
    """One table per key, in the order of the comparison."""
    names = key_labels(comparison)
    return tuple(
        KeyTable(
            effect.key,
            names.get(effect.key, effect.key),
            _key_verdict(effect, [names.get(key, key) for key in comparison.depends_on(effect.key)]),
            tuple(_contrast(contrast, digits) for contrast in effect.contrasts),
        )
        for effect in comparison.keys
    )


def _key_verdict(effect: KeyEffect, others: Sequence[str]) -> str:
    parts = ["matters" if effect.matters else "no detectable difference"]
    if effect.matters is None:
        parts = [f"not tested ({effect.why_not})"]
    if effect.p_adjusted is not None:
        parts.append(f"smallest adjusted {wording.p_text(effect.p_adjusted)}")
    if effect.share is not None:
        parts.append(f"partial η² = {effect.share:.2f}")
    parts += [f"what it does depends on {other}" for other in others]
    return ", ".join(parts)


def _contrast(contrast: Contrast, digits: Digits) -> ContrastRow:
    return ContrastRow(
        level=level_text(contrast.level),
        baseline=level_text(contrast.baseline),
        n=f"{contrast.n[0]} v {contrast.n[1]}",
        difference=digits.difference(contrast.difference),
        interval=digits.interval(contrast.low, contrast.high),
        p=wording.p_value(contrast.p_adjusted),
        effect=DASH if contrast.effect is None else f"{contrast.effect:+.2f}".replace("-", "−"),
        finding=contrast.finding,
        detectable=DASH if contrast.detectable is None else f"±{digits.value(contrast.detectable)}",
        seeds_needed=_seeds(contrast.seeds_needed),
        note=_note(contrast, digits),
    )


def _seeds(needed: int | None) -> str:
    if needed is None:
        return DASH
    return str(needed) if needed <= _MOST_SEEDS_SHOWN else f"> {_MOST_SEEDS_SHOWN}"


def _note(contrast: Contrast, digits: Digits) -> str:
    notes = [contrast.why_not]
    if contrast.over_tasks is not None:
        low, high, tasks = contrast.over_tasks
        notes.append(
            f"over the same {tasks} tasks {digits.interval(low, high)}: other tasks, not other seeds"
        )
    return "; ".join(note for note in notes if note)


# --- points -------------------------------------------------------------------------------------------------


def ranked(comparison: Comparison) -> list[PointResult]:
    """The points by their mean, the better first; those without a value last."""
    sign = -1 if comparison.study.goal == "max" else 1

    def place(point: PointResult) -> tuple[bool, float]:
        return (point.value is None, sign * point.value.mean if point.value else 0.0)

    return sorted(comparison.points, key=place)


def best_points(comparison: Comparison) -> tuple[str, ...]:
    """The point with the best mean, and those that share it."""
    means = {point.point.name: point.value.mean for point in comparison.points if point.value is not None}
    best = means.get(comparison.best or "")
    return tuple(name for name, mean in means.items() if mean == best)


def cost_unit(comparison: Comparison) -> str:
    """`hours`, or `GPU hours`."""
    unit = comparison.study.cost_unit
    return "hours" if unit == "run" else f"{unit} hours"


def level_names(comparison: Comparison) -> tuple[str, ...]:
    """The columns that tell a point's levels."""
    names = tuple(key_labels(comparison).values())
    return names if len(names) <= _MOST_LEVEL_COLUMNS else ("differs from the baseline in",)


def point_rows(comparison: Comparison, digits: Digits) -> tuple[PointRow, ...]:
    """All points, the better mean first."""
    names, labels = wording.short_names(comparison), wording.point_labels(comparison)
    return tuple(
        _point(point, comparison, digits, names[point.point.name], labels[point.point.name])
        for point in ranked(comparison)
    )


def _point(point: PointResult, comparison: Comparison, digits: Digits, short: str, label: str) -> PointRow:
    keys = comparison.study.keys
    levels: tuple[str, ...] = (label,)
    if len(keys) <= _MOST_LEVEL_COLUMNS:
        levels = tuple(_level(point.point.levels, key.name) for key in keys)
    value, n = point.value, point.value.n if point.value else 0
    return PointRow(
        name=point.point.name,
        short=short,
        label=label,
        levels=levels,
        n=f"{n} of {point.planned}",
        mean=digits.value(value.mean if value else None),
        interval=digits.of_mean(value) if value else "",
        sd=digits.value(value.sd if value else None),
        area=digits.value(point.area.mean if point.area else None),
        to_threshold=_to_threshold(point, n),
        hours=_hours(hours_of(point.point.name, comparison)),
        cost=DASH if point.cost_per_point is None else f"{point.cost_per_point:.3g}",
        marks=_marks(point, comparison),
    )


def _level(levels: Mapping[str, Scalar], key: str) -> str:
    return level_text(levels[key]) if key in levels else DASH


def _marks(point: PointResult, comparison: Comparison) -> tuple[str, ...]:
    marks = []
    if point.point.is_baseline:
        marks.append("baseline")
    if point.point.name in best_points(comparison):
        marks.append("highest mean" if comparison.study.goal == "max" else "lowest mean")
    if point.is_single_seed:
        marks.append("single seed")
    if point.value is None:
        marks.append("no run counts")
    return tuple(marks)


def _to_threshold(point: PointResult, n: int) -> str:
    steps: Estimate | None = point.steps_to_threshold
    if not n:
        return DASH
    if steps is None or not point.reached_threshold:
        return f"{DASH} (0 of {n})"
    return f"{number_text(round(steps.mean), 'count')} ({point.reached_threshold} of {n})"


def hours_of(point: str, comparison: Comparison) -> float | None:
    """Mean wall time of the point's runs that count."""
    hours = [
        run.hours
        for run in comparison.runs
        if run.run.point == point and run.value is not None and run.hours is not None
    ]
    return math.fsum(hours) / len(hours) if hours else None


def _hours(hours: float | None) -> str:
    return DASH if hours is None else duration(hours * 3600)


# --- runs ---------------------------------------------------------------------------------------------------


def run_row(run: RunResult, digits: Digits, folder: Path) -> RunRow:
    """One run, with the link from a page in `folder`."""
    remarks = list(run.deviations)
    if run.attempts > 1:
        remarks.append(f"{run.attempts} attempts")
    return RunRow(
        name=run.run.name,
        point=run.run.point,
        seed=DASH if run.run.seed is None else str(run.run.seed),
        outcome=_OUTCOMES.get(run.outcome, run.outcome.replace("_", " ")),
        value=digits.value(run.value),
        why_not=run.why_not if run.value is None else "",
        source=str(run.source) if run.source else "",
        step=DASH if run.last_step is None else number_text(run.last_step, "count"),
        hours=_hours(run.hours),
        href=_link(run.run.folder, folder),
        remarks=tuple(remarks),
    )


def _link(run_folder: Path, folder: Path) -> str:
    """The way from the page to the run's own report; quoted, so that no name can be anything but a path."""
    page = run_folder / "report.html"
    return quote(os.path.relpath(page, folder)) if page.is_file() else ""
