"""Comparisons of simulated runs whose differences are known."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Curve, Expectation, Key
from harness.results.types import Source
from tests.harness.results.comparing.made import result, study_of

STEPS = tuple(range(0, 241, 20))
KL = Key("ajet.rollout.kl_loss_coef", (0.001, 0.01, 0.1), 0.001)
REPEAT = Key("ajet.rollout.num_repeat", (4, 8), 4)
LR = Key("arg:--lr", ("1e-6", "3e-6", "1e-5", "3e-5", "1e-4"), "1e-6")
OPTIMIZER = Key("ajet.trainer.optimizer", ("adamw", "muon"), "adamw")
LOST = "CUDA out of memory"
SOURCE = Source("attempts/01/trainer/validation.jsonl", 769, 832, "step 240")


def comparison(
    keys: tuple[Key, ...] = (KL,),
    seeds: int = 3,
    root: Path = Path("/nowhere"),
    effect: float = 0.12,
    one_at_a_time: bool = False,
    lost: tuple[int, ...] = (),
) -> Comparison:
    """All combinations of the keys' levels, or the baseline and every other level alone. Every key but the
    last makes no difference; each level of the last is `effect` above the one before. `lost`: the numbers of
    the runs that failed."""
    baseline, last, random = tuple(key.baseline for key in keys), keys[-1], np.random.default_rng(1)
    places = sorted(product(*(key.levels for key in keys)), key=lambda levels: levels != baseline)
    if one_at_a_time:
        places = [place for place in places if sum(a != b for a, b in zip(place, baseline, strict=True)) <= 1]
    expected = (Expectation(last.name, last.levels[-1], "higher", "more exploration"),)
    design = "one-at-a-time" if one_at_a_time else "grid"
    more = {"design": design, "expectations": expected, "seed_key": "ajet.trainer_common.seed"}
    study = study_of(keys, dict.fromkeys(places, seeds), root, **more)
    points = {point.name: point for point in study.points}
    climb = 1 - np.exp(-np.array(STEPS) / 70)
    runs = []
    for number, run in enumerate(study.runs):
        place = last.levels.index(points[run.point].levels[last.name])
        value = 0.6 + effect * place / max(1, len(last.levels) - 1) + float(random.normal(0, 0.02))
        hours = 2.0 + 0.4 * place + float(random.normal(0, 0.05))
        curve = 0.22 + (value - 0.22) * climb / climb[-1] + random.normal(0, 0.008, len(STEPS))
        more = {"run": run, "source": SOURCE, "last_step": 240, "hours": hours}
        more["curve"] = Curve(STEPS, (*curve[:-1].tolist(), value))
        made = result(run.name, run.point, run.seed or 0, value, **more)
        if number in lost:
            made = replace(made, value=None, curve=Curve(), source=None, hours=None, attempts=2)
            made = replace(made, outcome="failed", reason=LOST, why_not=f"failed: {LOST}")
        runs.append(made)
    return compare_results(study, runs)
