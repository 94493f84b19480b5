"""Comparisons of simulated runs whose differences are known."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

from harness.results.compare import compare_results
from harness.results.comparing.types import (
    Comparison,
    Curve,
    Expectation,
    Key,
    PlannedRun,
    RunResult,
    Study,
)
from harness.results.types import Source
from tests.harness.results.comparing.made import study_of

STEPS = tuple(range(0, 241, 20))
KL = Key("ajet.rollout.kl_loss_coef", (0.001, 0.01, 0.1), 0.001)
REPEAT = Key("ajet.rollout.num_repeat", (4, 8), 4)
LR = Key("arg:--lr", ("1e-6", "3e-6", "1e-5", "3e-5", "1e-4"), "1e-6")
OPTIMIZER = Key("ajet.trainer.optimizer", ("adamw", "muon"), "adamw")


def study(keys: tuple[Key, ...], seeds: int, root: Path, one_at_a_time: bool = False) -> Study:
    """All combinations of the keys' levels, or the baseline and every other level alone."""
    baseline = tuple(key.baseline for key in keys)
    places = [
        levels
        for levels in product(*(key.levels for key in keys))
        if not one_at_a_time or sum(a != b for a, b in zip(levels, baseline, strict=True)) <= 1
    ]
    places.sort(key=lambda levels: levels != baseline)
    return study_of(
        *(keys, dict.fromkeys(places, seeds), root),
        design="one-at-a-time" if one_at_a_time else "grid",
        expectations=(Expectation(keys[-1].name, keys[-1].levels[-1], "higher", "more exploration"),),
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
    return compare_results(made, runs)
