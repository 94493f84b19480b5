"""What differs between the points of a sweep beside what is varied.

The runs are made from one blueprint by overrides, so they differ in nothing else when they start. `warnings`
says what follows from varying a key; `afterwards` says from the runs' recorded settings what came to differ
while they ran.
"""

from __future__ import annotations

from harness.command import is_output, read_or_empty
from harness.config import changed, keys
from harness.config.edit import ConfigEditError
from harness.config.reader import text_of
from harness.config.training import for_attempt
from harness.results.comparing import provenances
from harness.results.comparing.types import Differing
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import Base, leaves
from harness.sweep.run_files import run_end
from harness.sweep.values import bare
from harness.wording import listed

MOST_NAMED = 5
_CONSEQUENCES = {
    "effective batch": "changes how many samples a step uses: equal steps are not equal data",
    "amount of training": "changes how long a run trains: the points differ in compute, and so may schedules",
    "validation": "changes how the result is measured: values of different points may not mean the same",
    "prompt or response length": "changes what a step costs and what is cut off: equal steps are not equal "
    "compute",
    "model": "changes what a step costs: equal steps are not equal compute",
    "data": "changes the data: make sure that all points are validated on the same tasks",
}
"""What a reviewer would say about a varied key, by what the key is about."""


def warnings(plan: SweepPlan, base: Base) -> tuple[str, ...]:
    """What follows from varying these keys, one sentence each; and folders that all runs would write to."""
    kinds = {key.name: keys.about(key.name) for key in plan.keys}
    asked = [f"{key} {_CONSEQUENCES[kind]}" for key, kind in kinds.items() if kind in _CONSEQUENCES]
    settings = leaves(base.config) if base.config is not None else {}
    if any(name.startswith("ajet.") for name in settings):
        return tuple(asked)
    given = {**settings, **read_or_empty(base.blueprint.launch_command or "").values}
    shared = [
        f"{bare(key).lstrip('-')} is {value} in all runs, which may overwrite each other's files there: give "
        'it as "$HARNESS_ATTEMPT_DIR/…" in the launch command, a folder of each run\'s own'
        for key, value in given.items()
        if is_output(key) and isinstance(value, str) and "$" not in value and key not in plan.varied_keys
    ]
    return (*asked, *shared)


def afterwards(plan: SweepPlan, folder: SweepFolder) -> tuple[tuple[str, ...], tuple[Differing, ...]]:
    """What differs between the finished runs beside what is varied, in sentences; and the circumstances."""
    ended = {run.name: place for run in plan.runs if run_end(place := folder.result_dir(run.name))}
    found = [words for name in ended if (words := _repaired(folder, name))]
    return tuple(found), tuple(provenances.surroundings(provenances.records_of(ended)))


def _repaired(folder: SweepFolder, run: str) -> str:
    """In what the config of the run's last attempt is not the planned one; "" where it is. What a launch sets
    itself (where outputs go) is set alike in both first."""
    planned = folder.run_config(run)
    last = max(folder.result_dir(run).glob("attempts/[0-9]*/config.yaml"), default=None)
    if last is None or not planned.exists():
        return ""
    try:
        before, after = (leaves(for_attempt(text_of(path), last.parent)) for path in (planned, last))
    except (ConfigEditError, SweepError, OSError) as error:
        return f"run {run}: its last config cannot be compared with the planned one ({error})"
    differing = changed(before, after, "absent")
    shown = [f"{key} {old} → {new}" for key, (old, new) in differing.items()]
    if not shown:
        return ""
    return f"run {run} was repaired and ended with another config than planned: {listed(shown, MOST_NAMED)}"
