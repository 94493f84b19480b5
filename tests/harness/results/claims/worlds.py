"""Runs and comparisons with numbers made by hand, so that what is true of them can be written down.

Nothing here comes from the checker: a reader can follow each number of the corpus to the line that makes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.draft import Change
from harness.results.claims import Evidence, evidence_of_comparison, evidence_of_run
from harness.results.collect import collect
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
from harness.results.facts import build_facts
from harness.results.types import AttemptSummary, RunSummary
from tests.harness.results.synthetic import START, attempt, summary

RATE = "val/task_pass_rate@1"
LR = "ajet.algorithm.lr"
KL = "ajet.algorithm.kl_loss_coef"


def outcomes(full: int, half: int, tasks: int = 40) -> dict[str, list[bool]]:
    """Four episodes of each task: `full` tasks solved in all, the next `half` in every other one."""
    made = {}
    for index in range(tasks):
        made[f"t{index:02d}"] = [True] * 4 if index < full else [index < full + half, False] * 2
    return made


def _begin(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.jsonl").write_text(json.dumps({"seq": 1, "time": START, "kind": "created"}) + "\n")


def _rows(steps: range) -> list[tuple[int, dict[str, float]]]:
    return [
        (
            step,
            {
                "critic/rewards/mean": round(0.25 + 0.005 * step, 6),
                "actor/kl_loss": round(0.0005 * step, 6),
                "actor/entropy": round(1.5 - 0.01 * step, 6),
                "response_length/mean": round(6 + 0.01 * step, 6),
                "timing_s/step": 0.8,
            },
        )
        for step in steps
    ]


def sorting(folder: Path) -> RunSummary:
    """One clean attempt of 120 steps. Pass rate 0.275, 0.600, 0.875, 0.850 at steps 0, 40, 80, 120; change
    +0.575 with an interval that excludes zero; reward 0.255 to 0.850; KL 0.0005 to 0.06; entropy 1.49 to
    0.30."""
    _begin(folder)
    config = "ajet:\n  algorithm:\n    lr: 1e-6\n    kl_loss_coef: 0.02\n"
    config += "  rollout:\n    num_repeat: 8\n  seed: 0\n"
    made = attempt(folder).exit().config(config).metrics(_rows(range(1, 121)))
    made.validations({0: outcomes(8, 6), 40: outcomes(20, 8), 80: outcomes(32, 6), 120: outcomes(32, 4)})
    return summary()


def repaired(folder: Path) -> RunSummary:
    """Attempt 1 dies of memory in step 20 after 10 minutes, attempt 2 makes all 60 steps in 30 minutes with
    two engines instead of four. Pass rate 0.300 to 0.750."""
    _begin(folder)
    config = "ajet:\n  rollout:\n    n_vllm_engine: {}\n    num_repeat: 4\n"
    attempt(folder, 1).exit(1, seconds=600.0).config(config.format(4)).metrics(_rows(range(1, 21)))
    made = attempt(folder, 2).exit(0, seconds=1800.0).config(config.format(2)).metrics(_rows(range(1, 61)))
    made.validations({0: outcomes(12, 0), 60: outcomes(30, 0)})
    cause = {
        "cause": "CUDA out of memory while vLLM started.",
        "family": "memory",
        "evidence": [],
        "last_lines": [],
    }
    change = Change("config", "ajet.rollout.n_vllm_engine", 4, 2, "two engines fit")
    told = (
        AttemptSummary(1, "s-01", START, START + 600, "exited", 1, "first", cause, "started again"),
        AttemptSummary(2, "s-02", START + 700, START + 2500, "exited", 0, "less memory", changes=(change,)),
    )
    return summary(attempts=told, ended_at=START + 2500, max_time_s=7200.0)


def flat(folder: Path) -> RunSummary:
    """Ended at its time limit of 15 minutes after 50 of 200 steps. Pass rate 0.500 to 0.525, whose change has
    an interval that includes zero; KL ends at 0.025."""
    _begin(folder)
    made = (
        attempt(folder).exit(143, "deadline", seconds=900.0).config("ajet:\n  total_steps: 200\n  lr: 5e-7\n")
    )
    after = outcomes(18, 0) | {f"t{index:02d}": [True] * 4 for index in (30, 31, 32)}
    made.metrics(_rows(range(1, 51))).validations({0: outcomes(20, 0), 50: after})
    return summary(
        "timed_out",
        reason="the time limit was reached",
        attempts=(AttemptSummary(1, "s", START, START + 900, "deadline", 143),),
    )


def foreign(folder: Path) -> RunSummary:
    """Somebody's own training that dies at step 100 with a full disk: loss 2.0 to 0.4, accuracy 0.50 to
    0.90."""
    _begin(folder)
    rows = [
        (step, {"loss": round(2 - 0.016 * step, 6), "val_accuracy": round(0.5 + 0.004 * step, 6)})
        for step in range(0, 101, 10)
    ]
    attempt(folder).exit(1, seconds=4000.0).metrics(rows, origin="console")
    cause = {"cause": "The disk is full.", "family": "disk", "evidence": [], "last_lines": []}
    told = (AttemptSummary(1, "s", START, START + 4000, "exited", 1, "first", cause),)
    return summary(
        "failed",
        name="my_train",
        purpose="Train a small classifier for 3 epochs.",
        reason="the disk is full",
        command="python train.py --epochs 3",
        attempts=told,
    )


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


RUNS: Mapping[str, Callable[[Path], RunSummary]] = {
    "sorting": sorting,
    "repaired": repaired,
    "flat": flat,
    "foreign": foreign,
}
COMPARISONS: Mapping[str, Callable[[], Comparison]] = {"rates": rates, "single": single}


@cache
def evidence(world: str) -> Evidence:
    """What may be said of one of these worlds."""
    if world in COMPARISONS:
        return evidence_of_comparison(COMPARISONS[world]())
    with TemporaryDirectory() as folder:
        told = RUNS[world](Path(folder))
        record = collect(Path(folder))
        return evidence_of_run(record, build_facts(record), told)
