"""Result folders of finished runs, made by hand: a config, metrics, validations, the end."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tests.harness.results.journals import Story
from tests.harness.results.synthetic import attempt, draw_successes, training_rows

CONFIG = """\
ajet:
  experiment_name: {name}
  kl_loss_coef: {kl}
  lr: {lr}
  output_dir: {folder}/out
  model: {{path: {model}}}
  trainer_common: {{seed: {seed}}}
"""


def begun(folder: Path, **plan: Any) -> Story:
    return Story(sha256(str(folder).encode()).hexdigest()[:12]).created(**plan)


def finish(folder: Path, outcome: str = "succeeded", reason: str = "attempt 1 ran to its end") -> None:
    (folder / "finish.flag").write_text(json.dumps({"outcome": outcome, "reason": reason}))


def trained(
    folder: Path,
    *,
    seed: int = 0,
    kl: float = 0.01,
    lr: float = 1e-6,
    model: str = "/models/tiny",
    steps: Sequence[int] = range(1, 41),
    rates: Mapping[int, float] | None = None,
    outcome: str = "succeeded",
    reason: str = "attempt 1 ran to its end",
) -> Path:
    """A run of the bundled trainer; `rates`: step of a validation to its pass rate."""
    rng = np.random.default_rng(seed + round(1e4 * kl))
    folder.mkdir(parents=True, exist_ok=True)
    text = CONFIG.format(name=folder.name, folder=folder, kl=kl, lr=lr, model=model, seed=seed)
    made = attempt(folder).exit(seconds=7200.0).config(text).metrics(training_rows(rng, steps))
    wanted = {0: 0.3, 40: 0.7} if rates is None else rates
    made.validations({step: draw_successes(rng, rate, 32, 4) for step, rate in wanted.items()})
    begun(folder, name=folder.name).write(folder)
    finish(folder, outcome, reason)
    return folder


def foreign(folder: Path, command: str, rows: Sequence[tuple[int, Mapping[str, float]]], **plan: Any) -> Path:
    """A run of somebody's own script: console rows, no config."""
    folder.mkdir(parents=True, exist_ok=True)
    attempt(folder).exit(seconds=60.0).metrics(rows, origin="console")
    begun(folder, launch_command=command, **plan).write(folder)
    finish(folder)
    return folder


def evaluated(folder: Path, **values: float) -> Path:
    """A run whose evaluation after the training measured this."""
    first = folder / "attempts" / "01"
    ended = json.loads((first / "exit.json").read_text())
    (first / "exit.json").write_text(json.dumps({**ended, "evaluate_status": 0}))
    row = {"step": 1, "values": values, "source": {"file": "evaluation.log", "line": 1}}
    (first / "evaluation.jsonl").write_text(json.dumps(row) + "\n")
    return folder
