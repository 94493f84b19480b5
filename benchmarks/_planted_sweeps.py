"""Sweeps whose truth is known: simulated results, compared by the harness, judged by what was planted.

One key of two matters, at one of its levels, by the difference that three seeds a point find with 80 % power
when it is the only comparison; everything else changes nothing. `tally` runs many such sweeps through
`compare_results` and counts false findings, power and coverage, and what two hasty readers of the same
numbers would claim: one who looks at one seed, and one who lets the best of seeds win; both call a difference
of more than 0.01.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind

from harness.results import stats
from harness.results.compare import compare_results
from harness.results.comparing.types import (
    Comparison,
    Contrast,
    Curve,
    Key,
    PlannedRun,
    Point,
    RunResult,
    Study,
)

SEEDS = 3
HASTY = 0.01
SD = 0.03
TASKS, CEILING, SPREAD = 256, 0.96, 0.5
MATTERS, NULL = "a", "b"

Noise = Callable[[np.random.Generator, float, int], np.ndarray]
"""A point's runs: of this mean (0 the baseline's), so many."""


@dataclass(frozen=True)
class Tally:
    """Counts over `sweeps`. `false_findings`: sweeps in which any contrast without a difference was found to
    have one, or two keys to interact; `false_keys`: in which the key that does nothing was said to matter.
    `alone`, `found`: planted differences with p < 0.05 before, and found after Holm's correction;
    `calculated`: the power that the first should have if no run is lost. `covered` of `intervals`: 95 %
    intervals that hold the true difference. `one_seed`, `best_seed`: sweeps in which the hasty readers
    claimed a difference where there is none."""

    sweeps: int
    false_findings: int
    false_keys: int
    alone: int
    found: int
    calculated: float
    covered: int
    intervals: int
    one_seed: int
    best_seed: int


@dataclass(frozen=True)
class Truth:
    """A design with its noise. `difference`: planted, at the last level of the key that matters; `lost`: the
    share of runs that fail, whatever they would have come to."""

    study: Study
    noise: Noise
    difference: float
    lost: float = 0.0


# --- noise --------------------------------------------------------------------------------------------------


def normal(rng: np.random.Generator, mean: float, n: int) -> np.ndarray:
    """Seeds that scatter alike everywhere."""
    return 0.5 + mean + rng.normal(0, SD, n)


def heteroscedastic(rng: np.random.Generator, mean: float, n: int) -> np.ndarray:
    """Points that scatter differently: standard deviations up to four times apart, of the same mean
    square."""
    ratio = rng.uniform(0.4, 1.6)
    return 0.5 + mean + rng.normal(0, SD * ratio / np.sqrt(1.12), n)


def near_ceiling(rng: np.random.Generator, mean: float, n: int) -> np.ndarray:
    """Pass rates of 256 tasks close to 1, whose logits scatter between seeds."""
    rate = CEILING + mean
    logit = np.log(rate / (1 - rate)) + rng.normal(0, SPREAD, n)
    return rng.binomial(TASKS, 1 / (1 + np.exp(-logit))) / TASKS


NOISES: dict[str, tuple[Noise, int, float]] = {  # the direction of the difference; the share of lost runs
    "normal": (normal, 1, 0.0),
    "unequal scatter": (heteroscedastic, 1, 0.0),
    "rates near 1": (near_ceiling, -1, 0.0),
    "unequal scatter, one run in six lost": (heteroscedastic, 1, 1 / 6),
}


# --- designs ------------------------------------------------------------------------------------------------


def grid_study() -> Study:
    """Three levels by four."""
    return _study("grid", 3, 4, list(product(range(3), range(4))))


def one_at_a_time_study() -> Study:
    """A baseline, five other levels of one key and six of the other."""
    places = [(0, 0), *((level, 0) for level in range(1, 6)), *((0, level) for level in range(1, 7))]
    return _study("one-at-a-time", 6, 7, places)


DESIGNS = {"grid 3 × 4": grid_study, "one at a time, 12 points": one_at_a_time_study}


def _study(design: str, ones: int, others: int, places: list[tuple[int, int]]) -> Study:
    keys = (Key(MATTERS, tuple(range(ones)), 0), Key(NULL, tuple(range(others)), 0))
    points = tuple(Point(f"a{a}b{b}", {MATTERS: a, NULL: b}, a == b == 0) for a, b in places)
    runs = tuple(
        PlannedRun(f"{point.name}-s{seed}", point.name, seed, Path(point.name))
        for point in points
        for seed in range(SEEDS)
    )
    return Study("planted", "", keys, points, runs, metric="val/task_pass_rate@1", design=design)


def planted(design: str, noise: str) -> Truth:
    """The design with a difference that it finds with 80 % power."""
    study, (draw, direction, lost) = DESIGNS[design](), NOISES[noise]
    cells = 2 * sum(point.levels[MATTERS] == 0 for point in study.points) if study.design == "grid" else 2
    scatter = float(draw(np.random.default_rng(0), 0.0, 200_000).std()) if noise == "rates near 1" else SD
    ratio = stats.planned_ratio(cells, SEEDS)
    difference = direction * ratio * scatter * float(np.sqrt(4 / (cells * SEEDS)))
    return Truth(study, draw, difference, lost)


# --- pairs of points that do not differ --------------------------------------------------------------------


PAIRS = ((3, 3), (5, 5), (8, 8), (3, 8), (8, 3))
RATIOS = (1.0, 2.0, 4.0)


def false_of_pairs(n: int, m: int, ratio: float, pairs: int) -> tuple[int, int]:
    """Of so many pairs of points with the same mean, `n` and `m` runs, the second scattering `ratio` times as
    much as the first: how many `stats.contrast` calls different at 5 %, and how many a pooled test does."""
    rng = np.random.default_rng(n * 100 + m)
    ones, others = rng.normal(0.5, SD, (pairs, n)), rng.normal(0.5, SD * ratio, (pairs, m))
    tested = (stats.contrast(pair, np.array([1.0, -1.0])) for pair in zip(ones, others, strict=True))
    found = sum(one is not None and one.p < stats.ALPHA for one in tested)
    return found, int((ttest_ind(ones, others, axis=1).pvalue < stats.ALPHA).sum())


# --- many sweeps --------------------------------------------------------------------------------------------


def tally(truth: Truth, sweeps: int, seed: int = 0) -> Tally:
    """Simulate, compare and count."""
    rng = np.random.default_rng(seed)
    base = float(truth.noise(np.random.default_rng(1), 0.0, 400_000).mean())
    shifted = float(truth.noise(np.random.default_rng(1), truth.difference, 400_000).mean())
    effect = shifted - base if truth.noise is near_ceiling else truth.difference
    last = truth.study.keys[0].levels[-1]
    counts = Tally(sweeps, 0, 0, 0, 0, stats.POWER, 0, 0, 0, 0)
    for _ in range(sweeps):
        values = {point.name: _draw(truth, rng, point, last) for point in truth.study.points}
        counts = _add(counts, compared(truth.study, values), values, effect, last)
    return counts


def compared(study: Study, values: dict[str, np.ndarray]) -> Comparison:
    """The comparison of a study whose runs came to these values; NaN for runs that failed."""
    results = [
        RunResult(run, "failed", "", None, "failed")
        if np.isnan(value)
        else RunResult(run, "succeeded", "", value, curve=Curve((0, 10), (0.2, value)), hours=1.0)
        for run in study.runs
        for value in [float(values[run.point][run.seed or 0])]
    ]
    return compare_results(study, results)


def _draw(truth: Truth, rng: np.random.Generator, point: Point, last: object) -> np.ndarray:
    values = truth.noise(rng, truth.difference if point.levels[MATTERS] == last else 0.0, SEEDS)
    return np.where(rng.random(SEEDS) < truth.lost, np.nan, values) if truth.lost else values


def _add(
    counts: Tally, comparison: Comparison, values: dict[str, np.ndarray], effect: float, last: object
) -> Tally:
    contrasts = [contrast for key in comparison.keys for contrast in key.contrasts]
    (real,) = (one for one in contrasts if one.key == MATTERS and one.level == last)
    null = [one for one in contrasts if one is not real]
    is_null_key_said = next(key for key in comparison.keys if key.key == NULL).matters
    true = {id(one): effect if one is real else 0.0 for one in contrasts}
    tested = [one for one in contrasts if one.low is not None and one.high is not None]
    baseline = values["a0b0"]
    points = [values[f"a0b{one.level}"] for one in null if one.key == NULL]
    return replace(
        counts,
        false_findings=counts.false_findings
        + (any(map(_is_found, null)) or any(pair.matters for pair in comparison.interactions)),
        false_keys=counts.false_keys + bool(is_null_key_said),
        alone=counts.alone + (real.p is not None and real.p < stats.ALPHA),
        found=counts.found + _is_found(real),
        covered=counts.covered + sum((one.low or 0) <= true[id(one)] <= (one.high or 0) for one in tested),
        intervals=counts.intervals + len(tested),
        one_seed=counts.one_seed + any(abs(point[0] - baseline[0]) > HASTY for point in points),
        best_seed=counts.best_seed + any(abs(_best(point) - _best(baseline)) > HASTY for point in points),
    )


def _best(values: np.ndarray) -> float:
    return float(np.fmax.reduce(values))  # of those that are no NaN


def _is_found(contrast: Contrast) -> bool:
    return contrast.finding in ("higher", "lower")
