"""Carries out one experiment on a bench: writes it, runs `harness run` to its end, and reads what became of
it."""

import resource
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from harness import journal
from harness.attempt import Diagnosis
from harness.journal.events import Diagnosed
from tests.e2e.bench import Bench
from tests.faults.lab.run import put
from tests.faults.lab.whole.experiments import values_of
from tests.faults.lab.whole.types import Experiment
from tests.faults.lab.whole.world import World

PATIENCE_S = 300.0
OPEN_FILES = 512


@dataclass(frozen=True)
class Story:
    """What became of an experiment.

    `status`: exit status of `harness run`. `flag`: the finish.flag, empty where there is none, as when the
    plan itself was refused. `configs`: the plain values of each attempt's config. `variables`: those that
    repairs have set. `diagnoses`: one per attempt that failed.
    """

    status: int
    output: str
    flag: Mapping[str, Any]
    configs: tuple[Mapping[str, Any], ...]
    variables: frozenset[str]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def changed(self) -> frozenset[str]:
        """The config keys in which the last attempt differs from the first."""
        if not self.configs:
            return frozenset()
        first, last = self.configs[0], self.configs[-1]
        return frozenset(key for key in {*first, *last} if first.get(key) != last.get(key))


def carry_out(experiment: Experiment, bench: Bench) -> Story:
    """Run it to its end."""
    with ExitStack() as at_end:
        values = values_of(experiment, World(bench, at_end))
        _write(experiment, bench, values)
        variables = {name: text.format(**values) for name, text in experiment.environment.items()}
        variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
        arguments = ("run", str(bench.blueprint), *experiment.arguments)
        life = bench.start(*arguments, env=variables, prepare=few_open_files)
        status, output = life.end(PATIENCE_S), life.output
    if not (bench.result_dir / "finish.flag").exists():
        return Story(status, output, {}, (), frozenset(), ())
    entries = journal.read(bench.result_dir / "journal.jsonl")
    return Story(
        status,
        output,
        bench.flag,
        tuple(_plain(path) for path in sorted(bench.result_dir.glob("attempts/*/config.yaml"))),
        frozenset(bench.state.environment),
        tuple(diagnosed.diagnosis for diagnosed in journal.events_of(entries, Diagnosed)),
    )


def _write(experiment: Experiment, bench: Bench, values: Mapping[str, str]) -> None:
    put(f"trainings/{experiment.program}", bench.codebase / "train.py")
    for shared in ("trainings/settled.py", "programs/training.py", "programs/ranks.py"):
        put(shared, bench.codebase / Path(shared).name)
    bench.script("config.yaml", experiment.config.format(**values))
    more = experiment.more
    if "config.yaml" in experiment.command:
        more += f"\n## [exp_yaml_path]\n{bench.codebase / 'config.yaml'}\n"
    if "python" in values:
        more += f"\n## [exp_venv_exe]\n{values['python']}\n"
    bench.plan(
        experiment.command.format(**values),
        purpose="see whether it is mended",
        max_time=experiment.max_time,
        first_step=experiment.first_step,
        more=more,
    )


def few_open_files() -> None:
    """Let this process open only few files, unless somebody raises the limit."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _plain(path: Path) -> dict[str, Any]:
    """The values of a config by dotted key."""
    found: dict[str, Any] = {}

    def walk(value: Any, above: str) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(below, f"{above}{key}.")
        else:
            found[above[:-1]] = value

    walk(YAML(typ="safe", pure=True).load(path.read_text()), "")
    return found
