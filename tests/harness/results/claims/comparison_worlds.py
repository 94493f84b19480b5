"""Comparisons with numbers made by hand, so that what is true of them can be written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.results.comparing.types import (
    Comparison,
    Contrast,
    Estimate,
    Key,
    KeyEffect,
    PlannedRun,
    Point,
    PointResult,
    RunResult,
    Study,
)

RATE = "val/task_pass_rate@1"
LR = "ajet.algorithm.lr"
KL = "ajet.algorithm.kl_loss_coef"
REPEAT = "ajet.rollout.num_repeat"


def _study(key: Key, seeds: tuple[int, ...], question: str) -> Study:
    points, runs = [], []
    for number, level in enumerate(key.levels, start=1):
        name = f"p{number:02d}-{key.short}-{level}"
        points.append(Point(name, {key.name: level}, level == key.baseline))
        runs += [PlannedRun(f"{name}-s{seed}", name, seed, Path(f"{name}-s{seed}")) for seed in seeds]
    return Study("sweep", question, (key,), tuple(points), tuple(runs), RATE, "max", "grid", 0.8)


def rates() -> Comparison:
    """Learning rates 1e-6 (baseline), 1e-5, 1e-4 with three seeds each: means 0.612, 0.871, 0.655. 1e-5 is
    higher by 0.259 [0.198, 0.320]; for 1e-4 no difference is detectable; seed 1 of 1e-4 failed."""
    key = Key(LR, (1e-6, 1e-5, 1e-4), 1e-6)
    study = _study(key, (0, 1, 2), "Which learning rate sorts best?")
    values = {
        (0, 0): 0.600,
        (0, 1): 0.610,
        (0, 2): 0.626,
        (1, 0): 0.850,
        (1, 1): 0.875,
        (1, 2): 0.888,
        (2, 0): 0.640,
        (2, 2): 0.670,
    }
    runs = []
    for index, planned in enumerate(study.runs):
        value = values.get((index // 3, index % 3))
        why = "" if value is not None else "CUDA out of memory"
        runs.append(
            RunResult(
                planned,
                "succeeded" if value is not None else "failed",
                why,
                value,
                why,
                hours=0.5,
                last_step=200,
                attempts=1,
            )
        )
    estimates = (
        Estimate(3, 0.612, 0.0131, 0.579, 0.645),
        Estimate(3, 0.871, 0.0193, 0.823, 0.919),
        Estimate(2, 0.655, 0.0212, 0.464, 0.846),
    )
    points = tuple(
        PointResult(point, estimate, 3, cost=0.5, reached_threshold=reached)
        for point, estimate, reached in zip(study.points, estimates, (0, 3, 0), strict=True)
    )
    names = tuple(point.name for point in study.points)
    better = Contrast(
        LR,
        1e-5,
        1e-6,
        "higher",
        0.259,
        0.198,
        0.320,
        0.0004,
        0.0008,
        5.0,
        12.6,
        0.071,
        2,
        (3, 3),
        points=((names[1],), (names[0],)),
    )
    open_ = Contrast(
        LR,
        1e-4,
        1e-6,
        "no detectable difference",
        0.043,
        -0.112,
        0.198,
        0.35,
        0.35,
        5.0,
        1.9,
        0.17,
        14,
        (2, 3),
        points=((names[2],), (names[0],)),
    )
    effect = KeyEffect(LR, True, 0.0006, 0.0006, 0.94, (better, open_))
    return Comparison(
        study,
        RATE,
        tuple(runs),
        points,
        (effect,),
        0.8,
        names[1],
        missing=("p03-lr-0.0001-s1: CUDA out of memory",),
    )


def single() -> Comparison:
    """A KL coefficient of 0 against 0.02 (baseline), one seed each: 0.700 against 0.640, not tested."""
    key = Key(KL, (0.02, 0.0), 0.02)
    study = _study(key, (0,), "Does the KL loss matter?")
    runs = tuple(
        RunResult(planned, "succeeded", "", value, hours=1.5, last_step=100, attempts=1)
        for planned, value in zip(study.runs, (0.640, 0.700), strict=True)
    )
    points = tuple(
        PointResult(point, Estimate(1, value), 1)
        for point, value in zip(study.points, (0.640, 0.700), strict=True)
    )
    names = tuple(point.name for point in study.points)
    contrast = Contrast(
        KL,
        0.0,
        0.02,
        "not tested",
        0.06,
        n=(1, 1),
        over_tasks=(-0.021, 0.141, 64),
        points=((names[1],), (names[0],)),
        why_not="one seed on either side",
    )
    return Comparison(
        study,
        RATE,
        runs,
        points,
        (KeyEffect(KL, None, contrasts=(contrast,), why_not="one seed on either side"),),
        None,
        names[1],
    )


def pairs() -> Comparison:
    """One at a time around lr 1e-6 with num_repeat 8, five seeds each, every run finished: means 0.720
    (baseline), 0.660 with lr 3e-6 (lower by 0.060), 0.705 with num_repeat 4 (not distinguishable)."""
    rates, repeats = Key(LR, (1e-6, 3e-6), 1e-6), Key(REPEAT, (4, 8), 8)
    points = (
        Point("p01-baseline", {LR: 1e-6, REPEAT: 8}, True),
        Point("p02-lr-3e-06", {LR: 3e-6, REPEAT: 8}),
        Point("p03-num_repeat-4", {LR: 1e-6, REPEAT: 4}),
    )
    planned = tuple(
        PlannedRun(f"{point.name}-s{seed}", point.name, seed, Path(f"{point.name}-s{seed}"))
        for point in points
        for seed in range(5)
    )
    study = Study(
        "tuning",
        "Do a higher learning rate or fewer repeats change the pass rate?",
        (rates, repeats),
        points,
        planned,
        RATE,
        "max",
        "one-at-a-time",
    )
    values = (0.700, 0.710, 0.720, 0.730, 0.740)
    values += (0.640, 0.650, 0.660, 0.670, 0.680)
    values += (0.685, 0.695, 0.705, 0.715, 0.725)
    runs = tuple(
        RunResult(run, "succeeded", "", value, hours=2.0, last_step=150, attempts=1)
        for run, value in zip(planned, values, strict=True)
    )
    estimates = (
        Estimate(5, 0.720, 0.0158, 0.700, 0.740),
        Estimate(5, 0.660, 0.0158, 0.640, 0.680),
        Estimate(5, 0.705, 0.0158, 0.685, 0.725),
    )
    results = tuple(
        PointResult(point, estimate, 5, cost=2.0) for point, estimate in zip(points, estimates, strict=True)
    )
    base, lower, fewer = ((point.name,) for point in points)
    worse = Contrast(
        LR,
        3e-6,
        1e-6,
        "lower",
        -0.060,
        -0.083,
        -0.037,
        0.0003,
        0.0006,
        8.0,
        -3.43,
        0.032,
        3,
        (5, 5),
        points=(lower, base),
    )
    same = Contrast(
        REPEAT,
        4,
        8,
        "no detectable difference",
        -0.015,
        -0.038,
        0.008,
        0.17,
        0.17,
        8.0,
        -0.86,
        0.032,
        19,
        (5, 5),
        points=(fewer, base),
    )
    effects = (
        KeyEffect(LR, True, 0.0003, 0.0006, 0.82, (worse,)),
        KeyEffect(REPEAT, False, 0.17, 0.17, 0.22, (same,)),
    )
    return Comparison(study, RATE, runs, results, effects, None, "p01-baseline")


COMPARISONS: Mapping[str, Callable[[], Comparison]] = {"rates": rates, "single": single, "pairs": pairs}
