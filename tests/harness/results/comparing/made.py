"""Studies and run results made by hand: numbers per point in, what `compare_results` takes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.config.edit import Scalar
from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Curve, Key, PlannedRun, Point, RunResult, Study
from harness.results.types import TaskResult

METRIC = "val/task_pass_rate@1"
KL, LR = "ajet.kl_loss_coef", "ajet.lr"

Levels = tuple[Scalar, ...]
Values = dict[tuple, list[float]]
"""Levels to the values of their seeds."""


def grid(
    values: Mapping[tuple[Scalar, ...], Sequence[float]], **changes: Any
) -> tuple[Study, list[RunResult]]:
    """A study of `KL` (and `LR`, where there are two levels each): levels to the values of the seeds 0, 1, …
    The first point is the baseline."""
    names = (KL, LR)[: len(next(iter(values)))]
    columns = [tuple(dict.fromkeys(levels[at] for levels in values)) for at in range(len(names))]
    keys = tuple(Key(name, column, column[0]) for name, column in zip(names, columns, strict=True))
    points, results = [], []
    for number, (levels, seeds) in enumerate(values.items(), start=1):
        name = f"p{number:02d}"
        points.append(Point(name, dict(zip(names, levels, strict=True)), number == 1))
        results += [result(f"{name}-s{seed}", name, seed, value) for seed, value in enumerate(seeds)]
    study = Study(
        *("s", "Does it matter?", keys, tuple(points), tuple(one.run for one in results)),
        metric=METRIC,
        design="grid",
    )
    return replace(study, **changes), results


def result(name: str, point: str, seed: int, value: float | None, **changes: Any) -> RunResult:
    run = PlannedRun(name, point, seed, Path("/sweep") / name)
    curve = Curve((0, 10, 20), (0.2, 0.3, value if value is not None else 0.4))
    made = RunResult(run, "succeeded", "", value, curve=curve, last_step=20, hours=2.0, attempts=1)
    return replace(made, **changes)


def tasks(rates: Mapping[str, float], tries: int = 4) -> tuple[TaskResult, ...]:
    """Tasks with these pass rates."""
    found = []
    for name, rate in rates.items():
        successes = tuple(at < round(rate * tries) for at in range(tries))
        found.append(TaskResult(name, tuple(map(float, successes)), successes))
    return tuple(found)


def combinations(one: Levels, other: Levels) -> list[tuple[Scalar, ...]]:
    return list(product(one, other))


def compared(values: Values, **changes: object) -> Comparison:
    return compare_results(*grid(values, **changes))


def drawn(seed: int, kls: int = 3, lrs: int = 4, n: int = 3, effect: float = 0.05) -> Values:
    rng = np.random.default_rng(seed)
    return {
        (kl, lr): [float(0.5 + effect * kl + rng.normal(0, 0.03)) for _ in range(n)]
        for kl, lr in combinations(tuple(range(kls)), tuple(range(lrs)))
    }


def table(values: Values) -> pd.DataFrame:
    rows = [(kl, lr, value) for (kl, lr), seeds in values.items() for value in seeds]
    return pd.DataFrame(rows, columns=["kl", "lr", "y"])
