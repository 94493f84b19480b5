"""A comparison that is computed from its runs, and a script of somebody's own with several metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Curve, Key, RunResult
from harness.results.types import AttemptSummary, RunSummary
from tests.harness.results import comparisons as made
from tests.harness.results.claims.run_worlds import begin
from tests.harness.results.synthetic import START, attempt, summary

DECAY = Key("optim.weight_decay", (0.0, 0.01, 0.05), 0.0)
BATCH = Key("data.train_batch_size", (16, 48), 16)
VALUES = (
    (24.1, 24.6, 23.8),
    (24.4, None, 24.2),
    (21.0, 20.5, 21.6),
    (20.9, 21.3, 21.1),
    (24.9, 24.0, 24.5),
    (None, 24.3, None),
)


def decay() -> Comparison:
    """Weight decay 0 (baseline), 0.01, 0.05 x batch size 16 (baseline), 48: perplexity, lower is better,
    three seeds. Weight decay 0.01 is lower; p02-s1 ended with a full disk, p06-s0
    and p06-s2 were never started."""
    study = made.study((DECAY, BATCH), 3, Path("/nowhere"), False)
    runs = tuple(run for point in study.points for run in study.runs if run.point == point.name)
    study = replace(
        study, name="decay", question="", runs=runs, metric="perplexity", goal="min", threshold=22.0
    )
    results = []
    for number, planned in enumerate(runs):
        value = VALUES[number // 3][number % 3]
        hours = 0.5 if (number // 3) % 2 == 0 else 0.8
        if value is not None:
            curve = Curve((0, 100, 200, 300), (80.0, value + 12, value + 3, value))
            told = RunResult(
                planned, "succeeded", "exit status 0", value, curve=curve, last_step=300, hours=hours
            )
            results.append(replace(told, attempts=1))
        elif number // 3 == 5:
            why = "never started: the budget was used up"
            results.append(RunResult(planned, "never started", "the budget was used up", None, why))
        else:
            why = "failed: no space left on the disk (last step 140)"
            results.append(
                RunResult(planned, "failed", "no space left", None, why, attempts=1, last_step=140)
            )
    return compare_results(study, results)


def script(folder: Path) -> RunSummary:
    """500 steps in 40 minutes, clean: train_loss 4.00 to 0.50, eval_loss 4.10 to 1.60, lowest at step 300
    (1.20),
    eval_f1 0.20 to 0.66, highest at step 400 (0.68)."""
    begin(folder)
    train, held_out = (4.0, 2.5, 1.6, 1.0, 0.7, 0.5), (4.1, 2.7, 1.9, 1.2, 1.35, 1.6)
    score = (0.2, 0.41, 0.55, 0.64, 0.68, 0.66)
    rows = [
        (100 * at, {"train_loss": a, "eval_loss": b, "eval_f1": c})
        for at, (a, b, c) in enumerate(zip(train, held_out, score, strict=True))
    ]
    attempt(folder).exit(0, seconds=2400.0).metrics(rows, origin="console")
    return summary(
        name="tagger",
        purpose="Train a tagger.",
        command="python tag.py --lr=2e-4 --batch-size 24 --warmup-steps 50 --epochs 8",
        reason="exit status 0",
        ended_at=START + 2403,
        max_time_s=7200.0,
        attempts=(AttemptSummary(1, "t-01", START, START + 2403, "exited", 0, "first attempt"),),
    )
