"""Comparisons made by hand, with numbers of a known origin and no other module's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

from harness.results.comparing.types import (
    Comparison,
    Contrast,
    Curve,
    Estimate,
    Expectation,
    Expected,
    Finding,
    Key,
    KeyEffect,
    PlannedRun,
    Point,
    PointResult,
    RunResult,
    Study,
)
from harness.results.types import Source

METRIC = "val/task_pass_rate@1"
STEPS = tuple(range(0, 241, 20))
KL = Key("ajet.rollout.kl_loss_coef", (0.001, 0.01, 0.1), 0.001)
REPEAT = Key("ajet.rollout.num_repeat", (4, 8), 4)
LR = Key("arg:--lr", ("1e-6", "3e-6", "1e-5", "3e-5", "1e-4"), "1e-6")
OPTIMIZER = Key("ajet.trainer.optimizer", ("adamw", "muon"), "adamw")


def estimate(values: list[float]) -> Estimate | None:
    if not values:
        return None
    if len(values) < 2:
        return Estimate(len(values), values[0])
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * sd / len(values) ** 0.5
    return Estimate(len(values), mean, sd, mean - half, mean + half)


def study(keys: tuple[Key, ...], seeds: int, root: Path, one_at_a_time: bool = False) -> Study:
    """All combinations of the keys' levels, or the baseline and every other level alone."""
    baseline = tuple(key.baseline for key in keys)
    combinations = [
        levels
        for levels in product(*(key.levels for key in keys))
        if not one_at_a_time or sum(a != b for a, b in zip(levels, baseline, strict=True)) <= 1
    ]
    combinations.sort(key=lambda levels: levels != baseline)
    points = []
    for number, levels in enumerate(combinations, start=1):
        tail = "-".join(f"{key.short}-{level}" for key, level in zip(keys, levels, strict=True))
        named = dict(zip((key.name for key in keys), levels, strict=True))
        points.append(Point(f"p{number:02d}-{tail}"[:60], named, levels == baseline))
    runs = tuple(
        PlannedRun(f"{point.name}-s{seed}", point.name, seed, root / f"{point.name}-s{seed}")
        for seed in range(seeds)
        for point in points
    )
    return Study(
        "kl_and_repeats",
        "Does the KL weight or the number of repeats matter?",
        keys,
        tuple(points),
        runs,
        metric=METRIC,
        design="one-at-a-time" if one_at_a_time else "grid",
        seed_key="ajet.trainer_common.seed",
    )


def result(run: PlannedRun, value: float, hours: float, random: np.random.Generator) -> RunResult:
    """A run whose curve climbs to its value."""
    climb = 1 - np.exp(-np.array(STEPS) / 70)
    curve = 0.22 + (value - 0.22) * climb / climb[-1] + random.normal(0, 0.008, len(STEPS))
    curve[-1] = value
    return RunResult(
        run,
        "succeeded",
        "exit status 0",
        value,
        source=Source("attempts/01/trainer/validation.jsonl", 769, 832, "step 240"),
        curve=Curve(STEPS, tuple(curve.tolist())),
        last_step=240,
        hours=hours,
        attempts=1,
        area=float(curve.mean()),
        steps_to_threshold=next((s for s, v in zip(STEPS, curve, strict=True) if v >= 0.6), None),
    )


def comparison(
    keys: tuple[Key, ...] = (KL,),
    seeds: int = 3,
    root: Path = Path("/nowhere"),
    effect: float = 0.12,
    one_at_a_time: bool = False,
    lost: tuple[int, ...] = (),
) -> Comparison:
    """Every key but the last makes no difference; each level of the last is `effect` above the one before.
    `lost`: the numbers of the runs that failed."""
    made, random = study(keys, seeds, root, one_at_a_time), np.random.default_rng(1)
    points = {point.name: point for point in made.points}
    runs = []
    for number, run in enumerate(made.runs):
        levels = points[run.point].levels
        place = keys[-1].levels.index(levels[keys[-1].name])
        value = 0.6 + effect * place / max(1, len(keys[-1].levels) - 1) + float(random.normal(0, 0.02))
        each = result(run, value, 2.0 + 0.4 * place + float(random.normal(0, 0.05)), random)
        if number in lost:
            each = RunResult(
                run, "failed", "CUDA out of memory", None, "failed: CUDA out of memory", attempts=2
            )
        runs.append(each)
    return concluded(made, tuple(runs))


def concluded(made: Study, runs: tuple[RunResult, ...]) -> Comparison:
    points = tuple(_point(point, made, runs) for point in made.points)
    effects = tuple(_effect(key, made, points, runs) for key in made.keys)
    valued = [point for point in points if point.value is not None]
    best = max(valued, key=lambda point: point.value.mean if point.value else 0.0) if valued else None
    return Comparison(
        made,
        METRIC,
        runs,
        points,
        effects,
        0.62,
        best.point.name if best else None,
        expected=(
            Expected(
                Expectation(made.keys[-1].name, made.keys[-1].levels[-1], "higher", "more exploration"),
                "held",
                "the difference is higher, and the adjusted p is below 0.05",
            ),
        ),
        missing=tuple(f"{run.run.name}: {run.why_not}" for run in runs if run.value is None),
        notes=("A run's value is its last validation, never its best one.",),
    )


def _values(names: tuple[str, ...], runs: tuple[RunResult, ...]) -> list[float]:
    return [run.value for run in runs if run.run.point in names and run.value is not None]


def _point(point: Point, made: Study, runs: tuple[RunResult, ...]) -> PointResult:
    mine = [run for run in runs if run.run.point == point.name and run.value is not None]
    reached = [float(run.steps_to_threshold) for run in mine if run.steps_to_threshold is not None]
    hours = [run.hours for run in mine if run.hours is not None]
    return PointResult(
        point,
        estimate(_values((point.name,), runs)),
        sum(run.point == point.name for run in made.runs),
        estimate([run.area for run in mine if run.area is not None]),
        estimate(reached),
        len(reached),
        float(np.mean(hours)) if hours else None,
        float(np.mean(hours)) / 38 if hours else None,
    )


def _effect(key: Key, made: Study, points: tuple[PointResult, ...], runs: tuple[RunResult, ...]) -> KeyEffect:
    def with_level(level: object) -> tuple[str, ...]:
        others = {each.name: each.baseline for each in made.keys if each.name != key.name}
        return tuple(
            point.point.name
            for point in points
            if point.point.levels[key.name] == level
            and (made.design == "grid" or all(point.point.levels[name] == of for name, of in others.items()))
        )

    contrasts = []
    for level in key.levels:
        if level == key.baseline:
            continue
        sides = with_level(level), with_level(key.baseline)
        a, b = (_values(side, runs) for side in sides)
        contrast = Contrast(key.name, level, key.baseline, "not tested", n=(len(a), len(b)), points=sides)
        if len(a) < 2 or len(b) < 2:
            contrasts.append(replace(contrast, why_not="one seed on a side"))
            continue
        test = stats.ttest_ind(a, b)
        interval, difference = test.confidence_interval(), float(np.mean(a) - np.mean(b))
        finding: Finding = "no detectable difference"
        if test.pvalue < 0.025:
            finding = "higher" if difference > 0 else "lower"
        sd = float(np.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2))
        contrasts.append(
            replace(
                contrast,
                finding=finding,
                difference=difference,
                low=float(interval.low),
                high=float(interval.high),
                p=float(test.pvalue),
                p_adjusted=min(1.0, 2 * float(test.pvalue)),
                degrees=float(test.df),
                effect=difference / sd,
                detectable=3.07 * sd,
                seeds_needed=max(2, int(16 * (sd / difference) ** 2)),
                method="t test on the means of the cells, variance pooled over all cells",
            )
        )
    tested = any(contrast.finding != "not tested" for contrast in contrasts)
    matters = any(contrast.finding in ("higher", "lower") for contrast in contrasts)
    if not tested:
        return KeyEffect(key.name, None, contrasts=tuple(contrasts), why_not="one seed per point")
    p = min(contrast.p_adjusted for contrast in contrasts if contrast.p_adjusted is not None)
    return KeyEffect(key.name, matters, p, p, 0.8 if matters else 0.02, tuple(contrasts))
