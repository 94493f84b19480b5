"""Runs with numbers made by hand, so that what is true of them can be written down.

Nothing here comes from the checker: a reader can follow each number of the corpus to the line that makes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.pending_changes import Change
from harness.results.types import AttemptSummary, RunSummary
from tests.harness.results.synthetic import START, attempt, summary


def outcomes(full: int, half: int, tasks: int = 40) -> dict[str, list[bool]]:
    """Four episodes of each task: `full` tasks solved in all, the next `half` in every other one."""
    made = {}
    for index in range(tasks):
        made[f"t{index:02d}"] = [True] * 4 if index < full else [index < full + half, False] * 2
    return made


def begin(folder: Path) -> None:
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
    begin(folder)
    config = "ajet:\n  algorithm:\n    lr: 1e-6\n    kl_loss_coef: 0.02\n"
    config += "  rollout:\n    num_repeat: 8\n  seed: 0\n"
    made = attempt(folder).exit().config(config).metrics(_rows(range(1, 121)))
    made.validations({0: outcomes(8, 6), 40: outcomes(20, 8), 80: outcomes(32, 6), 120: outcomes(32, 4)})
    return summary()


def repaired(folder: Path) -> RunSummary:
    """Attempt 1 dies of memory in step 20 after 10 minutes, attempt 2 makes all 60 steps in 30 minutes with
    two engines instead of four. Pass rate 0.300 to 0.750."""
    begin(folder)
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
    begin(folder)
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
    begin(folder)
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


def collapsed(folder: Path) -> RunSummary:
    """Ends by itself after 80 steps, but the policy breaks: pass rate 0.400, 0.700, 0.150 at steps 0, 40, 80.
    Reward rises by 0.01 a step from 0.20 to 0.60 at step 40, then falls by 0.0125 a step to 0.10; gradient
    norm 0.5 until step 40, then up by 0.1 a step to 4.5; KL 0.002 a step, to 0.16. 15 minutes in all."""
    begin(folder)
    config = "ajet:\n  data:\n    train_batch_size: 32\n  algorithm:\n    lr: 5e-5\n"
    config += "  rollout:\n    temperature: 0.9\n    max_response_length: 1024\n"
    rows = [
        (
            step,
            {
                "critic/rewards/mean": round(0.2 + 0.01 * min(step, 40) - 0.0125 * max(step - 40, 0), 6),
                "actor/grad_norm": round(0.5 + 0.1 * max(step - 40, 0), 6),
                "actor/kl_loss": round(0.002 * step, 6),
            },
        )
        for step in range(1, 81)
    ]
    made = attempt(folder).exit(seconds=900.0).config(config).metrics(rows)
    made.validations({0: outcomes(16, 0), 40: outcomes(28, 0), 80: outcomes(6, 0)})
    told = (AttemptSummary(1, "s", START + 3, START + 903, "exited", 0, "first"),)
    return summary(attempts=told, ended_at=START + 910, max_time_s=3600.0)


RUNS: Mapping[str, Callable[[Path], RunSummary]] = {
    "sorting": sorting,
    "repaired": repaired,
    "flat": flat,
    "foreign": foreign,
    "collapsed": collapsed,
}
