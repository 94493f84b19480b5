"""The experiment that is proposed after a run or a sweep: `next/` in its folder, which a person starts.

In: a result folder. Out: `NextStep`, as `next/proposal.json` holds it; None where there is none. After a run
without one, more seeds of the same, where it is known what sets the seed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.atomic_write import write_json
from harness.blueprint.types import Blueprint
from harness.command import plain, read_or_empty
from harness.config import flatten
from harness.config.training import TrainingConfig

PILOT_SEEDS = 3
"""How often a run is repeated to see what the seed alone changes, while nothing is known of that."""
FOLDER = "next"
_FILE = "proposal.json"


@dataclass(frozen=True)
class NextStep:
    """`command`: what starts it; `question`: what it shall answer; `why`: the reason; `author`: the model
    that proposed it, "" where the numbers alone decided it."""

    command: str
    question: str
    why: str
    author: str = ""

    @classmethod
    def of(cls, result_dir: Path) -> NextStep | None:
        """What was proposed in this folder."""
        with suppress(OSError, ValueError, TypeError):
            step = cls(**json.loads((result_dir / FOLDER / _FILE).read_text(encoding="utf-8")))
            return step if all(isinstance(value, str) for value in vars(step).values()) else None
        return None

    def write(self, folder: Path) -> None:
        """Keep it in `next/`, which is there."""
        write_json(folder / _FILE, asdict(self), mode=0o600)


def more_seeds(plan: Blueprint, config: Path, metric: str) -> NextStep | None:
    """The same with more seeds, as one run says nothing about others; `config`: that of the run."""
    training = TrainingConfig.of_attempt(config)
    words = ["harness", "sweep", str(plan.path), "--seeds", str(PILOT_SEEDS)]
    if not training.is_ajet:
        found = set(_seeds(plan, training))
        if len(found) != 1:
            return None
        words += ["--seed-key", *found]
    why = f"one seed says nothing about others; {PILOT_SEEDS} show how much the seed alone changes {metric}"
    return NextStep(shlex.join([*words, "--metric", metric]), "", why)


def _seeds(plan: Blueprint, training: TrainingConfig) -> Iterator[str]:
    """What is named as the seed, as the key of a sweep."""
    for setting in read_or_empty(plan.launch_command or "").settings:
        if setting.kind != "variable" and _is_seed(plain(setting.name)):
            yield setting.name
    yield from filter(_is_seed, flatten(training.data))


def _is_seed(key: str) -> bool:
    return key.rpartition(".")[2] in ("seed", "random_seed")
