"""The whole experiments from `experiments.yaml`: what each is, and what it meets."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.state import Outcome
from tests.faults.lab.whole.types import Experiment, Values
from tests.faults.lab.whole.world import World

SCIENCE = "seed: 7\nlearning_rate: 1.0e-5\nmax_steps: 6\n"
ROWS = '{"question": "2+2", "answer": "4"}\n' * 4

WORLDS: Mapping[str, Callable[[World], Any]] = {
    "taken_port": lambda world: {"port": str(world.taken_port())},
    "port_taken_at_launch": lambda world: {"port": str(world.port_taken_at_launch())},
    "overloaded": lambda world: {"url": world.judge(200, 200, 503)},
    "too_many": lambda world: {"url": world.judge(200, 200, 429)},
    "hangs_up": lambda world: {"url": world.judge(200, 200, 0)},
    "out_of_rights": lambda world: {"url": world.judge(200, 200, *[401] * 40)},
    "killed": lambda world: world.killer(signal.SIGKILL, "step:3 -"),
    "terminated": lambda world: world.killer(signal.SIGTERM, "step:3 -"),
    "small_disk": lambda world: {"disk": str(world.small_disk("outputs", 4))},
    "wheels": lambda world: {
        "python": str(world.environment()),
        "wheels": str(world.wheel("einops", "0.8.1")),
    },
    "own_environment": lambda world: {"python": str(world.environment())},
    "data": lambda world: (world.bench.codebase / "train.jsonl").write_text(ROWS) and {},
    "few_processes": lambda world: {"group": str(world.process_group(40))},
}


def values_of(experiment: Experiment, world: World) -> Values:
    """Prepare what the experiment meets; the texts that its config, command and variables name."""
    return (WORLDS[experiment.world](world) if experiment.world else {}) or {}


def _experiment(entry: dict[str, Any]) -> Experiment:
    science = SCIENCE
    for old, new in entry.pop("instead", {}).items():
        science = science.replace(old, new)
    config = science + entry.pop("config", "")
    sets = {name: frozenset(entry.pop(name, ())) for name in ("edits", "variables")}
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    outcome = Outcome(entry.pop("outcome", Outcome.FAILED))
    return Experiment(**{**entry, **sets, **lists}, config=config, outcome=outcome)


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
REPAIRED, MENDED_BEFORE, HOPELESS, FORESEEN = (
    tuple(map(_experiment, _TABLE[part])) for part in ("repaired", "mended_before", "hopeless", "foreseen")
)
