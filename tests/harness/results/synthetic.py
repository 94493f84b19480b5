"""Experiments made by hand: the raw files of a result folder in the common format, without any training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.attempt import Diagnosis, Evidence
from harness.results.types import AttemptSummary, RunSummary

START = 1_760_000_000.0


def summary(outcome: str = "succeeded", **changes: Any) -> RunSummary:
    """A run's summary with sensible words."""
    words: dict[str, Any] = {
        "name": "sort_digits",
        "purpose": "Does GRPO with a KL loss teach a tiny model to sort five digits?",
        "experiment_id": "7f3a12c4d5e6",
        "blueprint_path": "/home/ada/blueprints/quickstart/blueprint.md",
        "command": ".venv/bin/python -m trainer_core.cli --conf attempts/01/config.yaml",
        "outcome": outcome,
        "reason": "exit status 0, every requested validation is there",
        "started_at": START,
        "ended_at": START + 130,
        "max_time_s": 900.0,
        "policy": "playbook",
        "attempts": (AttemptSummary(1, "ajet_sort_digits-7f3a-01", START + 3, "exited", 0, "first"),),
    }
    return RunSummary(**{**words, **changes})


@dataclass
class Attempt:
    """One attempt's folder, filled piece by piece."""

    folder: Path
    rows: list[dict[str, Any]] = field(default_factory=list)

    def exit(self, status: int = 0, reason: str = "exited", seconds: float = 121.4) -> Attempt:
        record = {
            "attempt_id": "a",
            "reason": reason,
            "status": status,
            "signal": None,
            "started_at": START + 3,
            "ended_at": START + 3 + seconds,
            "prepare_status": None,
            "cleanup_status": None,
        }
        (self.folder / "exit.json").write_text(json.dumps(record, indent=1))
        return self

    def config(self, text: str) -> Attempt:
        (self.folder / "config.yaml").write_text(text)
        return self

    def pane(self, text: str) -> Attempt:
        (self.folder / "pane.log").write_text(text)
        return self

    def metrics(self, rows: Sequence[tuple[int, Mapping[str, float]]], origin: str = "trainer") -> Attempt:
        """metrics.jsonl and the file its rows are taken from: `trainer` or `console`."""
        lines, raw = [], []
        for number, (step, values) in enumerate(rows, start=1):
            if origin == "trainer":
                file = "trainer/metrics.jsonl"
                raw.append(json.dumps({"step": step, **values}))
            else:
                file = "pane.log"
                raw.append(
                    f"step:{step} - " + " - ".join(f"{key}:{value!r}" for key, value in values.items())
                )
            source = {"file": file, "line": number}
            lines.append(json.dumps({"step": step, "values": dict(values), "source": source}))
        (self.folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (self.folder / file).write_text("".join(f"{line}\n" for line in raw))
        return self

    def validations(self, results: Mapping[int, Mapping[str, Sequence[bool]]]) -> Attempt:
        """trainer/validation.jsonl from {step: {task: successes}}."""
        with (self.folder / "trainer" / "validation.jsonl").open("w") as file:
            for step, tasks in results.items():
                for task, successes in tasks.items():
                    rewards = [float(success) for success in successes]
                    line = {"step": step, "task_id": task, "rewards": rewards, "successes": list(successes)}
                    file.write(json.dumps(line) + "\n")
        return self


def attempt(result_dir: Path, number: int = 1) -> Attempt:
    """A new attempt folder."""
    folder = result_dir / "attempts" / f"{number:02d}"
    (folder / "trainer").mkdir(parents=True)
    return Attempt(folder)


def draw_successes(rng: np.random.Generator, rate: float, tasks: int, tries: int) -> dict[str, list[bool]]:
    """Successes of every task; tasks differ in how hard they are."""
    difficulty = rng.beta(4 * rate + 0.05, 4 * (1 - rate) + 0.05, size=tasks)
    return {
        f"task-{index:04d}": (rng.random(tries) < chance).tolist() for index, chance in enumerate(difficulty)
    }


def training_rows(rng: np.random.Generator, steps: Sequence[int]) -> list[tuple[int, dict[str, float]]]:
    """Rows as the bundled trainer writes them, reward going up."""
    rows = []
    for step in steps:
        reward = 0.25 + 0.65 * (1 - np.exp(-step / 40))
        rows.append(
            (
                step,
                {
                    "actor/kl_loss": float(0.0005 * step * rng.uniform(0.8, 1.2)),
                    "actor/pg_loss": float(rng.normal(0, 0.02)),
                    "actor/entropy": float(1.5 * np.exp(-step / 100) * rng.uniform(0.9, 1.1)),
                    "critic/rewards/mean": float(np.clip(rng.normal(reward, 0.04), 0, 1)),
                    "response_length/mean": float(rng.normal(6, 0.1)),
                    "timing_s/step": float(rng.uniform(0.6, 0.9)),
                    "perf/throughput": float(rng.normal(2600, 120)),
                },
            )
        )
    return rows


def successful_run(result_dir: Path, tasks: int = 256, tries: int = 4) -> RunSummary:
    """A run like the quickstart: 120 steps, validation before training and every 40 steps."""
    rng = np.random.default_rng(7)
    result_dir.mkdir(parents=True, exist_ok=True)
    (result_dir / "blueprint.md").write_text("## [exp_purpose]\nsort digits\n")
    (result_dir / "journal.jsonl").write_text(json.dumps({"seq": 1, "time": START, "kind": "created"}) + "\n")
    made = (
        attempt(result_dir)
        .exit()
        .config("ajet:\n  algorithm:\n    lr: 1e-6\n  trainer_common:\n    seed: 0\n")
    )
    made.metrics(training_rows(rng, range(1, 121)))
    rates = {0: 0.28, 40: 0.66, 80: 0.84, 120: 0.91}
    made.validations({step: draw_successes(rng, rate, tasks, tries) for step, rate in rates.items()})
    return summary()


def retried_run(result_dir: Path) -> RunSummary:
    """Two attempts: the first dies in step 60, the second goes on from step 41 with another setting."""
    rng = np.random.default_rng(8)
    text = (
        "loading\n" * 80 + "Traceback (most recent call last):\n" + '  File "train.py", line 9, in <module>\n'
    )
    text += "\x1b[31mConnectionResetError: [Errno 104] peer\x1b[0m\n"
    config = "ajet:\n  rollout:\n    timeout: {}\n  key: attempts/0{}/trainer\n"
    for number, steps in ((1, range(1, 61)), (2, range(41, 91))):
        made = (
            attempt(result_dir, number)
            .exit(1, seconds=60 + number)
            .config(config.format(number * 30, number))
        )
        made.metrics(training_rows(rng, steps)).pane(text)
    (result_dir / "attempts/01/trainer/validation.jsonl").write_text("")
    evidence = (Evidence("pane.log", 83, "ConnectionResetError: [Errno 104] peer"),)
    last = tuple(Evidence("pane.log", line, text.splitlines()[line - 1]) for line in (81, 82))
    cause = "The connection to the reward server was reset."
    diagnosis = Diagnosis("network", None, cause, evidence=evidence, last_lines=last)
    told = [
        AttemptSummary(1, "ajet_x-01", START, "exited", 1, "first", diagnosis, "started again"),
        AttemptSummary(2, "ajet_x-02", START + 70, "exited", 1, "the failure may pass", diagnosis),
    ]
    return summary("failed", reason="the same failure came back", attempts=tuple(told))


def foreign_run(result_dir: Path) -> RunSummary:
    """Somebody's own train.py: loss and accuracy from console lines, no config, no validation files."""
    rng = np.random.default_rng(9)
    rows = [
        (
            step,
            {
                "loss": float(2 * np.exp(-step / 50)),
                "val_accuracy": float(1 - np.exp(-step / 60)),
                "lr": 3e-4,
            },
        )
        for step in range(0, 200, 5)
    ]
    made = attempt(result_dir).exit(0, seconds=4000 + float(rng.random()))
    made.metrics(rows, origin="console")
    return summary(name="my_train", purpose="Train a small classifier.", command="python train.py --epochs 3")
