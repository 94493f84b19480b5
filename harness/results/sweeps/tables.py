"""The report of several runs as plain data: tables whose cells are text, which the templates only lay out;
and the comparison as JSON, and its runs as CSV.

In: a `Comparison` (cleaned and redacted by `report`), and what is known about the sweep. Out: the page as a
mapping, in its order; a row is a mapping from column to text.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.config.values import as_text
from harness.results.comparing.types import SIGN, Comparison, Contrast, Expected, KeyEffect, RunResult
from harness.results.manifest import plain
from harness.results.sweeps import wording
from harness.results.sweeps.wording import Digits, level_text
from harness.wording import DASH, duration, number_text, time_text

Row = Mapping[str, Any]
"""Column to text; of a key also `rows`, of a point `levels` and `marks`."""

_SCHEMA = 2  # of the comparison in sweep.json
_MOST_LEVEL_COLUMNS = 4  # with more keys, one column names what differs from the baseline
_OUTCOMES = {"timed_out": "ended at its time limit", "": DASH}


@dataclass(frozen=True)
class SweepAbout:
    """What the comparison itself does not know. `outcome`, `reason`: of the sweep, "" for runs that were
    compared without one. `started`, `ended`: epoch seconds. `canary`: what came of it, in words. `model`: the
    one that wrote the narrative, "". `no_words`: how to have one written, where there is none. `commit`: of
    the snapshot. `plan`: the sweep's, as in its journal. `to_answer`: what runs ask a person now, each with
    the command that answers it."""

    outcome: str = ""
    reason: str = ""
    started: float | None = None
    ended: float | None = None
    canary: str = ""
    model: str = ""
    no_words: str = ""
    commit: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    to_answer: tuple[str, ...] = ()


def build_page(comparison: Comparison, folder: Path, about: SweepAbout = SweepAbout()) -> dict[str, Any]:
    """Everything that the documents in `folder` show. `tone`: good, bad or "" for the colour of the verdict;
    `headline`: the few lines a terminal shows."""
    digits, said, warned = Digits.of(comparison), wording.findings(comparison), wording.cautions(comparison)
    labels, threshold = wording.key_labels(comparison), comparison.yardstick.threshold
    names = tuple(labels[key.name] for key in comparison.study.keys)
    is_good = wording.is_tested(comparison) and not warned
    took = f", {duration(about.ended - about.started)}" if about.started and about.ended else ""
    first, titles = (*about.to_answer, said.verdict), [f"caution: {one.title}" for one in warned]
    return {
        **vars(said),
        "about": about,
        "headline": tuple(filter(None, (*first, *said.found, said.best, said.counts, *titles))),
        "metric": comparison.metric,
        "better": "; ".join(
            filter(None, (wording.BETTER[comparison.study.goal], comparison.study.metric_why))
        ),
        "tone": "good" if is_good else "" if any(point.value for point in comparison.points) else "bad",
        "cautions": warned,
        "span": "" if about.started is None else f"{time_text(about.started)}{took}",
        "varied": tuple(_key_row(effect, comparison, labels, digits) for effect in comparison.keys),
        "has_task_intervals": any(contrast.over_tasks for contrast in comparison.contrasts),
        "level_names": names if len(names) <= _MOST_LEVEL_COLUMNS else ("differs from the baseline in",),
        "points": _point_rows(comparison, digits),
        "threshold": digits.value(threshold) if threshold is not None else "",
        "cost_unit": cost_unit(comparison),
        "has_cost": any(point.cost_per_point is not None for point in comparison.points),
        "expected": tuple(_expected_row(each, labels) for each in comparison.expected),
        "runs": tuple(_run_row(run, digits, folder) for run in comparison.runs),
        "notes": wording.notes(comparison),
    }


# --- keys ---------------------------------------------------------------------------------------------------


def _key_row(effect: KeyEffect, comparison: Comparison, labels: Mapping[str, str], digits: Digits) -> Row:
    parts = ["matters" if effect.matters else "no detectable difference"]
    if effect.matters is None:
        found = {one.finding for one in effect.contrasts}
        parts = [f"{'confounded' if 'confounded' in found else 'not tested'} ({effect.why_not})"]
    if effect.p_adjusted is not None:
        parts.append(f"smallest adjusted {wording.p_text(effect.p_adjusted)}")
    parts += [f"what it does depends on {labels[other]}" for other in comparison.depends_on(effect.key)]
    rows = tuple(_contrast_row(contrast, digits) for contrast in effect.contrasts)
    return {"name": effect.key, "label": labels[effect.key], "verdict": ", ".join(parts), "rows": rows}


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
        "effect": Digits(2).difference(contrast.effect),
        "finding": contrast.finding,
        "detectable": DASH if contrast.detectable is None else f"±{digits.value(contrast.detectable)}",
        "needed": DASH if needed is None else str(needed) if needed < 1000 else "> 999",
        "remark": "; ".join(filter(None, (*remarks, contrast.beside and f"differs too: {contrast.beside}"))),
    }


def _expected_row(each: Expected, labels: Mapping[str, str]) -> Row:
    one = each.expectation
    effect = "no difference" if one.effect == "none" else one.effect
    what = f"{labels.get(one.key, one.key)} {level_text(one.level)}: {effect}"
    return {"what": what, "why": one.why, "verdict": each.verdict}


# --- points -------------------------------------------------------------------------------------------------


def cost_unit(comparison: Comparison) -> str:
    """`hours`, or `GPU hours`."""
    return "hours" if comparison.study.cost_unit == "run" else f"{comparison.study.cost_unit} hours"


def _point_rows(comparison: Comparison, digits: Digits) -> tuple[Row, ...]:
    """All points, the better mean first (the higher, where no goal is known); those without a value last."""
    study, best = comparison.study, wording.best_points(comparison)
    sign, best_mark = SIGN[study.goal] or 1, "lowest mean" if study.goal == "min" else "highest mean"
    labels, shorts = wording.point_labels(comparison), wording.short_names(comparison)
    changed = {run.run.point for run in comparison.runs if run.by_person and run.value is not None}
    rows = []
    for point in sorted(
        comparison.points, key=lambda one: (one.value is None, -sign * one.value.mean if one.value else 0.0)
    ):
        name, value, steps = point.point.name, point.value, point.steps_to_threshold
        levels = tuple(level_text(point.point.levels[key.name]) for key in study.keys)
        mean_steps = DASH if steps is None else number_text(round(steps.mean), "count")
        marks = {
            "baseline": point.point.is_baseline,
            best_mark: name in best,
            "single seed": point.is_single_seed,
            "no run counts": value is None,
            "changed by a person": name in changed,
        }
        rows.append(
            {
                "name": name,
                "short": shorts[name],
                "label": labels[name],
                "levels": levels if len(levels) <= _MOST_LEVEL_COLUMNS else (labels[name],),
                "seeds": f"{value.n if value else 0} of {point.planned}",
                "mean": digits.value(value.mean if value else None),
                "interval": digits.of_mean(value),
                "sd": digits.value(value.sd if value else None),
                "area": digits.value(point.area.mean if point.area else None),
                "to_threshold": f"{mean_steps} ({point.reached_threshold} of {value.n})" if value else DASH,
                "hours": _hours(None if point.cost is None else point.cost / study.cost_units),
                "cost": DASH if point.cost_per_point is None else f"{point.cost_per_point:.3g}",
                "marks": tuple(mark for mark, is_so in marks.items() if is_so),
            }
        )
    return tuple(rows)


def _hours(hours: float | None) -> str:
    return duration(None if hours is None else hours * 3600)


# --- runs --------------------------------------------------------------------------------------------------


def _run_row(run: RunResult, digits: Digits, folder: Path) -> Row:
    """One run, with the link from a page in `folder` to its own report, "" where there is none."""
    page = run.run.folder / "report.html"
    why_not = run.why_not if run.value is None else ""
    attempts = f"{run.attempts} attempts" if run.attempts > 1 else ""
    return {
        "name": run.run.name,
        "seed": DASH if run.run.seed is None else str(run.run.seed),
        "outcome": _OUTCOMES.get(run.outcome, run.outcome.replace("_", " ")),
        "value": "" if run.value is None else f"{digits.value(run.value)}{'†' if run.code_changed else ''}",
        "source": str(run.source) if run.source else "",
        "step": DASH if run.last_step is None else number_text(run.last_step, "count"),
        "hours": _hours(run.hours),
        "href": quote(os.path.relpath(page, folder)) if page.is_file() else "",
        "remarks": "; ".join(filter(None, (why_not, *run.deviations, attempts))),
    }


# --- for programs -------------------------------------------------------------------------------------------


def to_json(comparison: Comparison, root: Path | None = None) -> dict[str, Any]:
    """The comparison as JSON data; a point with a single seed says so itself."""
    data: dict[str, Any] = {"schema": _SCHEMA, **asdict(comparison)}
    data["is_single_seed"] = comparison.is_single_seed
    for point, of in zip(data["points"], comparison.points, strict=True):
        point["is_single_seed"] = of.is_single_seed
    for planned in (*(run["run"] for run in data["runs"]), *data["study"]["runs"]):
        if root is not None and planned["folder"].is_relative_to(root):
            planned["folder"] = planned["folder"].relative_to(root)
    return dict(plain(data))


def points_csv(comparison: Comparison) -> str:
    """One row per run, with its point's levels: what a spreadsheet or another program goes on with. Numbers
    with all their digits; nothing for what is not known."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for number, row in enumerate(_rows(comparison)):
        names, values = zip(*row, strict=True)
        writer.writerows([names, values] if number == 0 else [values])
    return stream.getvalue()


def _rows(comparison: Comparison) -> Iterator[list[tuple[str, Any]]]:
    points = {point.point.name: point for point in comparison.points}
    for result in comparison.runs:
        of, source = points[result.run.point], result.source
        yield [
            ("point", of.point.name),
            ("is_baseline", as_text(of.point.is_baseline)),
            *((key.name, as_text(of.point.levels[key.name])) for key in comparison.study.keys),
            ("seeds_that_count", of.value.n if of.value is not None else 0),
            ("run", result.run.name),
            ("seed", result.run.seed),
            *((name, getattr(result, name)) for name in ("outcome", "value", "why_not", "last_step")),
            *((name, getattr(result, name)) for name in ("attempts", "hours", "area", "steps_to_threshold")),
            ("source", source),
            ("source_key", source and source.key),
            ("deviations", "; ".join(result.deviations)),
        ]
