"""The report of several runs as plain data: tables whose cells are text, which the templates only lay out.

In: a `Comparison` (cleaned and redacted by `report`), and what is known about the sweep. Out: the page as a
mapping, in its order; a row is a mapping from column to text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.results.comparing import metrics
from harness.results.comparing.types import Comparison, Contrast, Expected, KeyEffect, PointResult, RunResult
from harness.results.sweeps import wording
from harness.results.sweeps.cautions import cautions, notes
from harness.results.sweeps.wording import Digits, key_labels, level_text
from harness.wording import DASH, count_text, duration, listed, number_text, time_text

Row = Mapping[str, Any]
"""Column to text; of a key also `rows`, of a point `levels` and `marks`."""

_MOST_LEVEL_COLUMNS = 4  # with more keys, one column names what differs from the baseline
_OUTCOMES = {"stopped_early": "stopped early", "timed_out": "ended at its time limit"}


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


def build_page(comparison: Comparison, about: SweepAbout, folder: Path) -> dict[str, Any]:
    """Everything that the documents in `folder` show. `tone`: good, bad or "" for the colour of the verdict;
    `cost_per`: the improvement whose cost the points tell; `headline`: the few lines a terminal shows."""
    digits, threshold, warned = Digits.of(comparison), comparison.yardstick.threshold, cautions(comparison)
    names = tuple(key_labels(comparison)[key.name] for key in comparison.study.keys)
    is_good = wording.is_tested(comparison) and not warned
    took = "" if not (about.started and about.ended) else f", {duration(about.ended - about.started)}"
    found, best, counts = wording.found(comparison), best_line(comparison), _counts(comparison)
    lines = (wording.verdict(comparison), *found, best, counts, *(f"caution: {one.title}" for one in warned))
    return {
        "about": about,
        "headline": tuple(line for line in lines if line),
        "metric": comparison.metric,
        "better": "higher is better" if comparison.study.goal == "max" else "lower is better",
        "verdict": lines[0],
        "tone": "good" if is_good else "" if any(point.value for point in comparison.points) else "bad",
        "found": found,
        "best": best,
        "cautions": warned,
        "counts": counts,
        "span": "" if about.started is None else f"{time_text(about.started)}{took}",
        "varied": tuple(key_row(effect, comparison, digits) for effect in comparison.keys),
        "has_task_intervals": any(contrast.over_tasks for contrast in comparison.contrasts),
        "level_names": names if len(names) <= _MOST_LEVEL_COLUMNS else ("differs from the baseline in",),
        "points": point_rows(comparison, digits),
        "threshold": digits.value(threshold) if threshold is not None else "",
        "cost_unit": cost_unit(comparison),
        "cost_per": f"{metrics.cost_per(comparison.metric):g}",
        "expected": tuple(_expected(each, comparison) for each in comparison.expected),
        "runs": tuple(_run_row(run, digits, folder) for run in comparison.runs),
        "notes": notes(comparison),
    }


def best_points(comparison: Comparison) -> tuple[str, ...]:
    """The point with the best mean, and those that share it."""
    means = {point.point.name: point.value.mean for point in comparison.points if point.value is not None}
    best = means.get(comparison.best or "")
    return tuple(name for name, mean in means.items() if mean == best)


def best_line(comparison: Comparison) -> str:
    """Which point has the best mean, and that this was seen afterwards."""
    best = next((point for point in comparison.points if point.point.name == comparison.best), None)
    if best is None or best.value is None:
        return ""
    digits, equal = Digits.of(comparison), best_points(comparison)
    word = "highest" if comparison.study.goal == "max" else "lowest"
    start = f"The {word} mean is {digits.value(best.value.mean)}"
    if len(equal) > 1:
        shown = listed([wording.short_names(comparison)[name] for name in equal], wording.MOST_NAMED)
        return f"{start}, shared by {len(equal)} points ({shown})"
    among = sum(point.value is not None for point in comparison.points)
    seeds = "single seed" if best.is_single_seed else f"{best.value.n} seeds"
    interval = f" {digits.of_mean(best.value)}".rstrip()
    whose = f"of {best.point.name} ({seeds}); picked afterwards among {among} points, so it flatters"
    return f"{start}{interval}, {whose}"


def _counts(comparison: Comparison) -> str:
    counted = sum(run.value is not None for run in comparison.runs)
    planned = max(len(comparison.runs), len(comparison.study.runs))
    runs = f"{counted} of {planned} runs count" if counted < planned else f"all {planned} runs count"
    return f"{count_text(len(comparison.points), 'point')}, {runs}"


# --- keys ---------------------------------------------------------------------------------------------------


def key_row(effect: KeyEffect, comparison: Comparison, digits: Digits) -> Row:
    """One key with its levels in `rows`."""
    names = key_labels(comparison)
    parts = ["matters" if effect.matters else "no detectable difference"]
    if effect.matters is None:
        parts = [f"not tested ({effect.why_not})"]
    if effect.p_adjusted is not None:
        parts.append(f"smallest adjusted {wording.p_text(effect.p_adjusted)}")
    parts += [f"what it does depends on {names[other]}" for other in comparison.depends_on(effect.key)]
    rows = tuple(_contrast_row(contrast, digits) for contrast in effect.contrasts)
    return {"name": effect.key, "label": names[effect.key], "verdict": ", ".join(parts), "rows": rows}


def _contrast_row(contrast: Contrast, digits: Digits) -> Row:
    needed, remarks = contrast.seeds_needed, [contrast.why_not] if contrast.why_not else []
    if contrast.over_tasks is not None:
        low, high, tasks = contrast.over_tasks
        interval = digits.interval(low, high)
        remarks.append(f"over the same {tasks} tasks {interval}: other tasks, not other seeds")
    return {
        "level": level_text(contrast.level),
        "baseline": level_text(contrast.baseline),
        "runs": f"{contrast.n[0]} v {contrast.n[1]}",
        "difference": digits.difference(contrast.difference),
        "interval": digits.interval(contrast.low, contrast.high),
        "p": wording.p_value(contrast.p_adjusted),
        "effect": DASH if contrast.effect is None else f"{contrast.effect:+.2f}".replace("-", "−"),
        "finding": contrast.finding,
        "detectable": DASH if contrast.detectable is None else f"±{digits.value(contrast.detectable)}",
        "needed": DASH if needed is None else str(needed) if needed < 1000 else "> 999",
        "remark": "; ".join(remarks),
    }


def _expected(each: Expected, comparison: Comparison) -> Row:
    one, names = each.expectation, key_labels(comparison)
    effect = "no difference" if one.effect == "none" else one.effect
    what = f"{names.get(one.key, one.key)} {level_text(one.level)}: {effect}"
    return {"what": what, "why": one.why, "verdict": each.verdict}


# --- points -------------------------------------------------------------------------------------------------


def cost_unit(comparison: Comparison) -> str:
    """`hours`, or `GPU hours`."""
    unit = comparison.study.cost_unit
    return "hours" if unit == "run" else f"{unit} hours"


def point_rows(comparison: Comparison, digits: Digits) -> tuple[Row, ...]:
    """All points, the better mean first; those without a value last."""
    sign = -1 if comparison.study.goal == "max" else 1
    ranked = sorted(
        comparison.points, key=lambda one: (one.value is None, sign * one.value.mean if one.value else 0.0)
    )
    return tuple(_point_row(point, comparison, digits) for point in ranked)


def _point_row(point: PointResult, comparison: Comparison, digits: Digits) -> Row:
    keys, value, steps, name = comparison.study.keys, point.value, point.steps_to_threshold, point.point.name
    label = wording.point_labels(comparison)[name]
    levels = [level_text(point.point.levels[key.name]) for key in keys if key.name in point.point.levels]
    mean_steps = DASH if steps is None else number_text(round(steps.mean), "count")
    best = "highest mean" if comparison.study.goal == "max" else "lowest mean"
    marks = {
        "baseline": point.point.is_baseline,
        best: name in best_points(comparison),
        "single seed": point.is_single_seed,
        "no run counts": value is None,
    }
    return {
        "name": name,
        "short": wording.short_names(comparison)[name],
        "label": label,
        "levels": (label,) if len(keys) > _MOST_LEVEL_COLUMNS else tuple(levels),
        "seeds": f"{value.n if value else 0} of {point.planned}",
        "mean": digits.value(value.mean if value else None),
        "interval": digits.of_mean(value),
        "sd": digits.value(value.sd if value else None),
        "area": digits.value(point.area.mean if point.area else None),
        "to_threshold": f"{mean_steps} ({point.reached_threshold} of {value.n})" if value else DASH,
        "hours": _hours(hours_of(name, comparison)),
        "cost": DASH if point.cost_per_point is None else f"{point.cost_per_point:.3g}",
        "marks": tuple(mark for mark, is_so in marks.items() if is_so),
    }


def hours_of(point: str, comparison: Comparison) -> float | None:
    """Mean wall time of the point's runs that count."""
    counting = [run for run in comparison.runs if run.run.point == point and run.value is not None]
    hours = [run.hours for run in counting if run.hours is not None]
    return math.fsum(hours) / len(hours) if hours else None


def _hours(hours: float | None) -> str:
    return duration(None if hours is None else hours * 3600)


# --- runs --------------------------------------------------------------------------------------------------


def _run_row(run: RunResult, digits: Digits, folder: Path) -> Row:
    """One run, with the link from a page in `folder` to its own report, "" where there is none."""
    page = run.run.folder / "report.html"
    remarks = [run.why_not] if run.value is None and run.why_not else []
    remarks += [*run.deviations, *([f"{run.attempts} attempts"] if run.attempts > 1 else [])]
    return {
        "name": run.run.name,
        "seed": DASH if run.run.seed is None else str(run.run.seed),
        "outcome": _OUTCOMES.get(run.outcome, run.outcome.replace("_", " ")) or DASH,
        "value": "" if run.value is None else f"{digits.value(run.value)}{'†' if run.code_changed else ''}",
        "source": str(run.source) if run.source else "",
        "step": DASH if run.last_step is None else number_text(run.last_step, "count"),
        "hours": _hours(run.hours),
        "href": quote(os.path.relpath(page, folder)) if page.is_file() else "",
        "remarks": "; ".join(remarks),
    }
