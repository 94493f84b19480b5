"""Studies and run results made by hand: numbers per point in, what `compare_results` takes out."""

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


def study_of(keys: Sequence[Key], places: Mapping[Levels, int], root: Path, **changes: Any) -> Study:
    """A study of these combinations of levels, each with so many seeds; the first point is the baseline."""
    names = [key.name for key in keys]
    points = tuple(
        Point(f"p{number:02d}", dict(zip(names, levels, strict=True)), number == 1)
        for number, levels in enumerate(places, start=1)
    )
    runs = tuple(
        PlannedRun(f"{point.name}-s{seed}", point.name, seed, root / f"{point.name}-s{seed}")
        for point, seeds in zip(points, places.values(), strict=True)
        for seed in range(seeds)
    )
    made = Study("s", "Does it matter?", tuple(keys), points, runs, metric=METRIC, design="grid")
    return replace(made, **changes)


def grid(values: Mapping[Levels, Sequence[float]], **changes: Any) -> tuple[Study, list[RunResult]]:
    """A study of `KL`, and of `LR` where there are two levels each: levels to the values of the seeds."""
    names = (KL, LR)[: len(next(iter(values)))]
    columns = [tuple(dict.fromkeys(levels[at] for levels in values)) for at in range(len(names))]
    keys = [Key(name, column, column[0]) for name, column in zip(names, columns, strict=True)]
    study = study_of(keys, {levels: len(seeds) for levels, seeds in values.items()}, Path("/sweep"))
    flat = [value for seeds in values.values() for value in seeds]
    pairs = zip(study.runs, flat, strict=True)
    return replace(study, **changes), [result(r.name, r.point, r.seed or 0, value) for r, value in pairs]


def result(name: str, point: str, seed: int, value: float | None, **changes: Any) -> RunResult:
    run = PlannedRun(name, point, seed, Path("/sweep") / name)
    curve = Curve((0, 10, 20), (0.2, 0.3, value if value is not None else 0.4))
    made = RunResult(run, "succeeded", "", value, curve=curve, last_step=20, hours=2.0, attempts=1)
    return replace(made, **changes)


def tasks(rates: Mapping[str, float]) -> tuple[TaskResult, ...]:
    found = {name: tuple(at < round(rate * 4) for at in range(4)) for name, rate in rates.items()}
    return tuple(TaskResult(name, tuple(map(float, tried)), tried) for name, tried in found.items())


def compared(values: Values, **changes: object) -> Comparison:
    return compare_results(*grid(values, **changes))


def drawn(seed: int, kls: int = 3, lrs: int = 4) -> Values:
    rng = np.random.default_rng(seed)
    return {
        (kl, lr): [float(0.5 + 0.05 * kl + rng.normal(0, 0.03)) for _ in range(3)]
        for kl, lr in product(range(kls), range(lrs))
    }


def table(values: Values) -> pd.DataFrame:
    rows = [(kl, lr, value) for (kl, lr), seeds in values.items() for value in seeds]
    return pd.DataFrame(rows, columns=["kl", "lr", "y"])
