"""Writes `plan/<run>/blueprint.md` and `config.yaml` for every run of a sweep.

In: the plan, the blueprint, the frozen code. Out: the files. Each appears whole or not at all, and all of
them can be written again: what a kill in the middle has left is replaced.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.atomic_write import write_atomically
from harness.config import edit as config_edit
from harness.config.edit import Scalar
from harness.sweep import snapshot
from harness.sweep.folder import SweepFolder
from harness.sweep.types import SweepError, SweepPlan, SweepRun
from harness.sweep.varying import checking, settings
from harness.sweep.varying.composing import Base, compose
from harness.sweep.varying.current_values import config_text, leaves

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

MOST_ASKED = 4
"""Configs that the trainer is shown before the start: about a second each."""

AskTrainer = Callable[["Blueprint"], "Blueprint"]
"""The blueprint with the trainer's objections to its config added, as `harness.blueprint.check_trainer`."""


def write_runs(
    plan: SweepPlan,
    blueprint: "Blueprint",
    folder: SweepFolder,
    codebase: Path,
    ask: AskTrainer | None = None,
) -> None:
    """Write every run's blueprint and config, and those of the canary. `codebase`: the code they all run,
    absolute. Can be repeated. Raises SweepError for a plan that cannot be carried out."""
    base = _base(blueprint, folder, codebase)
    checking.check(plan, blueprint, base.config)
    for run in settings.all_runs(plan):
        composed = compose(plan, run, base, folder)
        folder.run_blueprint(run.name).parent.mkdir(parents=True, exist_ok=True)
        if composed.config is not None:
            write_atomically(folder.run_config(run.name), composed.config, mode=0o600)
        write_atomically(folder.run_blueprint(run.name), composed.blueprint)
    if blueprint.launch_command is None:
        _ask_trainer(plan, folder, ask)


def _base(blueprint: "Blueprint", folder: SweepFolder, codebase: Path) -> Base:
    """What all runs are made from; absolute paths to code point into the frozen copy."""
    config = config_text(blueprint)
    if codebase == blueprint.codebase_dir:
        return Base(blueprint, config, codebase)
    taken = snapshot.load(folder)
    if config is not None:
        moved = {
            key: place
            for key, value in leaves(config).items()
            if isinstance(value, str) and (place := snapshot.moved(taken, blueprint, value)) is not None
        }
        try:
            config = config_edit.edit(config, moved)
        except config_edit.ConfigEditError as error:
            raise SweepError(
                f"the config names the author's own code, and {error}: write it relative"
            ) from error
    return Base(blueprint, config, codebase, lambda text: snapshot.relocated(folder, taken, blueprint, text))


def _ask_trainer(plan: SweepPlan, folder: SweepFolder, ask: AskTrainer | None) -> None:
    """Refuse what the trainer would refuse, before the first run does. As few configs as hold every level are
    asked about, and no more than MOST_ASKED."""
    from dataclasses import replace

    from harness.blueprint import check_trainer, read

    for run in _telling(plan):
        written = replace(read(folder.run_blueprint(run.name)), launch_command=None)
        answered = (ask or check_trainer)(written)
        refused = [problem for problem in answered.problems if problem.severity == "error"]
        if refused:
            said = "; ".join(f"{problem.message} — {problem.fix}" for problem in refused)
            raise SweepError(f"the trainer refuses the config of run {run.name}: {said}")


def _telling(plan: SweepPlan) -> list[SweepRun]:
    """The runs whose configs together show the most levels."""
    left = {run.name: (run, set(settings.of_run(plan, run).items())) for run in settings.all_runs(plan)}
    seen: set[tuple[str, Scalar]] = set()
    chosen: list[SweepRun] = []
    while left and len(chosen) < MOST_ASKED:
        name = max(left, key=lambda each: len(_without_seed(plan, left[each][1]) - seen))
        run, shown = left.pop(name)
        if chosen and not _without_seed(plan, shown) - seen:
            break
        chosen.append(run)
        seen |= shown
    return chosen


def _without_seed(plan: SweepPlan, shown: set[tuple[str, Scalar]]) -> set[tuple[str, Scalar]]:
    return {(key, value) for key, value in shown if key != plan.seed_key}
