"""What may be said of several runs that were compared.

In: a `Comparison`. Out: `Evidence`. Directions and effects are not derived here: the claims about them are
checked against the comparison's own findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite

from harness.results.claims.counts_of_comparison import counts
from harness.results.claims.duties_of_comparison import duties
from harness.results.claims.naming import goal_of, metric_terms, setting_words
from harness.results.claims.naming_points import AREA, COST, DETECTABLE, EFFECT, SD, SHARE, SPEED, P, terms
from harness.results.claims.types import Evidence, Number, Unit
from harness.results.comparing.metrics import cost_per
from harness.results.comparing.types import Comparison, Contrast, Curve, Estimate, PointResult, RunResult


def evidence_of_comparison(comparison: Comparison) -> Evidence:
    """Everything a text about this comparison may say."""
    study, metric = comparison.study, comparison.metric
    names = {*(point.name for point in study.points), *(run.name for run in study.runs), study.name}
    return Evidence(
        numbers=(
            *(number for point in comparison.points for number in _point(point, comparison)),
            *(number for run in comparison.runs for number in _run(run, metric)),
            *(
                number
                for key in comparison.keys
                for contrast in key.contrasts
                for number in _contrast(contrast, metric)
            ),
            *_effects(comparison),
            *counts(comparison),
            *_settings(comparison),
        ),
        terms=(*terms(comparison), *metric_terms([metric])),
        curves={},
        goals={metric: (1 if study.goal == "max" else -1), SPEED: -1, COST: -1, AREA: goal_of(metric) or 1},
        main=metric,
        quoted=(study.question, *comparison.missing, *comparison.notes, *comparison.confounds),
        names=tuple(sorted(filter(None, names), key=len, reverse=True)),
        duties=tuple(duties(comparison)),
        comparison=comparison,
        points=tuple(point.name for point in study.points),
        subjects=_subjects(comparison),
    )


# --- numbers ------------------------------------------------------------------------------------------------


def _estimate(
    estimate: Estimate | None, metric: str, unit: Unit, label: str, subject: str
) -> Iterator[Number]:
    if estimate is None or not isfinite(estimate.mean):
        return
    when = frozenset({"point"})
    yield Number(estimate.mean, unit, f"the mean {label}", "comparison", metric, when=when, subject=subject)
    if estimate.low is not None and estimate.high is not None:
        yield from _ends(estimate.low, estimate.high, unit, label, metric, subject)
    if estimate.sd is not None:
        yield Number(
            estimate.sd, unit, f"the standard deviation of {label}", "comparison", SD, subject=subject
        )
        yield Number(
            estimate.sd,
            unit,
            f"the standard deviation of {label}",
            "comparison",
            metric,
            subject=subject,
            end="half",
        )


def _ends(low: float, high: float, unit: Unit, label: str, metric: str, subject: str) -> Iterator[Number]:
    for end, value in (("low", low), ("high", high), ("half", (high - low) / 2)):
        name = f"the {'half width' if end == 'half' else f'{end} end'} of the interval of {label}"
        yield Number(value, unit, name, "comparison", metric, subject=subject, end=end)  # type: ignore[arg-type]


def _point(result: PointResult, comparison: Comparison) -> Iterator[Number]:
    name, metric = result.point.name, comparison.metric
    yield from _estimate(result.value, metric, _unit(metric), f"{metric} of {name}", name)
    yield from _estimate(result.area, AREA, "number", f"area of {name}", name)
    yield from _estimate(
        result.steps_to_threshold, SPEED, "number", f"steps to the threshold of {name}", name
    )
    for value, label in (
        (result.cost, "cost of a run"),
        (result.cost_per_point, f"cost per {cost_per(metric):g} of improvement"),
    ):
        if value is not None:
            yield Number(value, "number", f"{label} of {name}", "comparison", COST, subject=name)


def _unit(metric: str) -> Unit:
    return "rate" if re.search(r"rate|acc|pass", metric) else "number"


def _run(result: RunResult, metric: str) -> Iterator[Number]:
    name = result.run.name
    place = str(result.source) if result.source else name
    if result.value is not None:
        yield Number(
            result.value,
            _unit(metric),
            f"{metric} of {name}",
            place,
            metric,
            when=frozenset({"run"}),
            subject=name,
        )
    yield from _curve(result.curve, result, metric)
    if result.hours is not None:
        yield Number(result.hours * 3600, "seconds", f"duration of {name}", place, subject=name)
    if result.last_step is not None:
        yield Number(
            result.last_step, "count", f"last step of {name}", place, subject=name, nouns=frozenset({"step"})
        )
    if result.steps_to_threshold is not None:
        yield Number(
            result.steps_to_threshold,
            "number",
            f"steps to the threshold of {name}",
            place,
            SPEED,
            subject=name,
        )
    if result.attempts:
        yield Number(
            result.attempts, "count", f"attempts of {name}", place, subject=name, nouns=frozenset({"attempt"})
        )


def _curve(curve: Curve, result: RunResult, metric: str) -> Iterator[Number]:
    for step, value in list(zip(curve.steps, curve.values, strict=True))[:200]:
        label = f"{metric} of {result.run.name} at step {step}"
        yield Number(
            value, _unit(metric), label, result.run.name, metric, steps=(step,), subject=result.run.name
        )


def subject_of(contrast: Contrast) -> str:
    """What the numbers of a contrast belong to."""
    return f"{contrast.key}={contrast.level}"


def _contrast(contrast: Contrast, metric: str) -> Iterator[Number]:
    subject = subject_of(contrast)
    label = f"{contrast.key} {contrast.level} against {contrast.baseline}"
    if contrast.difference is not None:
        yield Number(
            contrast.difference,
            "difference",
            f"the difference of {label}",
            "comparison",
            metric,
            subject=subject,
        )
    if contrast.low is not None and contrast.high is not None:
        yield from _ends(
            contrast.low, contrast.high, "difference", f"the difference of {label}", metric, subject
        )
    if contrast.over_tasks is not None:
        yield from _ends(
            contrast.over_tasks[0],
            contrast.over_tasks[1],
            "difference",
            f"the difference over tasks of {label}",
            metric,
            subject,
        )
        yield Number(
            contrast.over_tasks[2],
            "count",
            f"tasks compared for {label}",
            "comparison",
            subject=subject,
            nouns=frozenset({"task"}),
        )
    for value, name in (
        (contrast.p, P),
        (contrast.p_adjusted, P),
        (contrast.effect, EFFECT),
        (contrast.detectable, DETECTABLE),
    ):
        if value is not None:
            unit: Unit = "difference" if name == DETECTABLE else "number"
            yield Number(value, unit, f"{name} of {label}", "comparison", name, subject=subject)
    if contrast.seeds_needed is not None:
        nouns = frozenset({"seed", "needed"})
        yield Number(
            contrast.seeds_needed,
            "count",
            f"seeds needed for {label}",
            "comparison",
            subject=subject,
            nouns=nouns,
        )


def _effects(comparison: Comparison) -> Iterator[Number]:
    for key in comparison.keys:
        for value, name in ((key.p, P), (key.p_adjusted, P), (key.share, SHARE)):
            if value is not None:
                yield Number(
                    value, "number", f"{name} of {key.key}", "comparison", name, subject=f"key {key.key}"
                )
    if comparison.threshold is not None:
        yield Number(
            comparison.threshold, "number", "the threshold", "comparison", nouns=frozenset({"threshold"})
        )


def _settings(comparison: Comparison) -> Iterator[Number]:
    """Levels and seeds may be named wherever their key is, or the word."""
    for key in comparison.study.keys:
        for level in key.levels:
            if isinstance(level, int | float) and not isinstance(level, bool):
                yield Number(float(level), "setting", key.name, nouns=setting_words(key.name))
    for seed in sorted({run.seed for run in comparison.study.runs if run.seed is not None}):
        yield Number(float(seed), "setting", "seed", nouns=frozenset({"seed"}))
    hours = sum(run.hours for run in comparison.runs if run.hours is not None)
    yield Number(hours * comparison.study.cost_units, "number", "cost of all runs", "comparison", COST)


# --- names --------------------------------------------------------------------------------------------------


def _subjects(comparison: Comparison) -> dict[str, frozenset[str]]:
    study = comparison.study
    runs_of: dict[str, set[str]] = {}
    for run in study.runs:
        runs_of.setdefault(run.point, set()).add(run.name)
    found: dict[str, set[str]] = {
        point.name: {point.name, *runs_of.get(point.name, ())} for point in study.points
    }
    for run in study.runs:
        found.setdefault(run.name, {run.name})
        found.setdefault(f"seed={run.seed}", set()).add(run.name)
    for key in study.keys:
        for level in key.levels:
            points = [point.name for point in study.points if point.levels.get(key.name) == level]
            found[f"{key.name}={level}"] = {
                f"{key.name}={level}",
                f"key {key.name}",
                *(one for name in points for one in found[name]),
            }
    base = [point.name for point in study.points if point.is_baseline]
    found["baseline"] = {one for name in base for one in found[name]}
    found["best"] = set(found.get(comparison.best or "", ()))
    return {name: frozenset(names) for name, names in found.items()}
