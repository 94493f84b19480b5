"""What differs between the points of a sweep beside what is varied.

`check` looks at what was written before anything runs, and refuses; `warnings` says what follows from varying
a key, as a reviewer would; `afterwards` (in `drift`) tells from the finished runs' own files what came to
differ while they ran.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.command import is_output
from harness.command import read as read_command
from harness.sweep.drift import afterwards
from harness.sweep.folder import CANARY, SweepFolder
from harness.sweep.types import SweepError, SweepPlan, SweepRun
from harness.sweep.values import as_text, kind_of, means_same
from harness.sweep.varying import command_line, composing, settings
from harness.sweep.varying.current_values import leaves

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

__all__ = ["afterwards", "check", "warnings"]

_SAME = (
    *("codebase_dir", "venv_exe", "max_time_s", "first_step_s", "metrics", "protected_keys", "code_changes"),
    *("prepare_command", "cleanup_command", "host", "notes"),
)
"""What must be the same in the blueprints of all runs."""

_ANY = "VARIED"
_CONSEQUENCES = {
    "effective batch": (
        "changes how many samples a step uses: with equal steps the points see different amounts of data, "
        "with equal epochs they make different numbers of updates"
    ),
    "amount of training": (
        "changes how long a run trains: the points differ in compute, and so do learning-rate schedules that "
        "end with the training"
    ),
    "validation": "changes how the result is measured: values of different points may not mean the same",
    "prompt or response length": (
        "changes what a step costs and what is cut off: equal steps are not equal compute"
    ),
    "model": "changes what a step costs: equal steps are not equal compute",
    "data": "changes the data: make sure that all points are validated on the same tasks",
}
"""What a reviewer would ask about a varied key, by what the key is about."""


@dataclass(frozen=True)
class _Written:
    """One run as it was written. `command`: with everything that belongs to this run alone taken out."""

    run: SweepRun
    blueprint: "Blueprint"
    config: Mapping[str, object]
    command: str


# --- before: what was written -------------------------------------------------------------------------------


def check(plan: SweepPlan, folder: SweepFolder) -> None:
    """Refuse runs that differ in anything but the varied keys, the seed, and names and paths of their own, or
    that do not hold what the plan gives them. Raises SweepError that names the point, the key and both
    values."""
    first: _Written | None = None
    for run in settings.all_runs(plan):
        written = _read(plan, folder, run)
        _check_levels(plan, written)
        if run.name == CANARY:
            continue
        first = first or written
        for what, one, other in _differences(plan, first, written):
            raise SweepError(
                f"points {first.run.point} and {run.point} differ in {what}, which is not varied: {one} in "
                f"run {first.run.name}, {other} in run {run.name}; vary it, or give it one value with `set`"
            )


def _read(plan: SweepPlan, folder: SweepFolder, run: SweepRun) -> _Written:
    from harness.blueprint import read

    path, config = folder.run_blueprint(run.name), folder.run_config(run.name)
    blueprint = read(path)
    broken = [problem for problem in blueprint.problems if problem.severity == "error"]
    if broken:
        raise SweepError(f"{path}:{broken[0].line}: {broken[0].message}; {broken[0].fix}")
    if blueprint.result_dir != folder.result_dir(run.name):
        raise SweepError(
            f"{path} sends its results to {blueprint.result_dir}, not to {folder.result_dir(run.name)}"
        )
    if blueprint.yaml_path not in (None, config):
        raise SweepError(f"{path} names the config {blueprint.yaml_path}, not its own, {config}")
    found = leaves(config.read_text(encoding="utf-8")) if blueprint.yaml_path is not None else {}
    command = (blueprint.launch_command or "").replace(composing.quoted(config), "CONFIG")
    for key in settings.varied_keys(plan):
        command = _without(command, key) if command else ""
    return _Written(run, blueprint, found, command)


def _without(command: str, key: str) -> str:
    """The command with the value of one flag or variable taken out."""
    if kind_of(key) == "arg":
        return command_line.set_flag(command, settings.bare(key), _ANY)
    return command_line.set_variable(command, settings.bare(key), _ANY) if kind_of(key) == "env" else command


def _check_levels(plan: SweepPlan, written: _Written) -> None:
    """Refuse a run that does not hold what the plan gives it."""
    command = written.blueprint.launch_command or ""
    for key, wanted in settings.of_run(plan, written.run).items():
        found = _value(key, command, written.config)
        if not means_same(found, wanted) and not (found is None and wanted is None):
            raise SweepError(
                f"run {written.run.name} has {key} = {found}, and the plan gives it {as_text(wanted)}: the "
                "sweep's folder was changed; start the sweep anew"
            )


def _value(key: str, command: str, config: Mapping[str, object]) -> object:
    name = settings.bare(key)
    if kind_of(key) == "config":
        return config.get(name)
    read: Callable[[str, str], str | None] = (
        command_line.flag_value if kind_of(key) == "arg" else command_line.variable_value
    )
    return read(command, name)


def _differences(plan: SweepPlan, one: _Written, other: _Written) -> Iterator[tuple[str, object, object]]:
    """(what, value in one, value in the other) of everything that may not differ."""
    for name in _SAME:
        first, second = getattr(one.blueprint, name), getattr(other.blueprint, name)
        if first != second:
            yield f"the blueprint's {name}", first, second
    varied = set(settings.varied_keys(plan))
    for key in dict.fromkeys((*one.config, *other.config)):
        if key not in varied and one.config.get(key) != other.config.get(key):
            yield f"the config's {key}", one.config.get(key, "absent"), other.config.get(key, "absent")
    if one.command != other.command:
        words = [[*text.split(), ""] for text in (one.command, other.command)]
        pairs = (pair for pair in zip(*words, strict=False) if pair[0] != pair[1])
        yield "the launch command", *next(pairs, (one.command, other.command))


# --- before: what a reviewer would ask ----------------------------------------------------------------------


def warnings(plan: SweepPlan, folder: SweepFolder) -> tuple[str, ...]:
    """What follows from varying these keys, one sentence each; () where nothing does. Reads the first run."""
    written = _read(plan, folder, plan.runs[0])
    is_ajet = any(name.startswith("ajet.") for name in written.config)
    asked = [
        f"{key.name} {_CONSEQUENCES[kind]}"
        for key in plan.keys
        if (kind := settings.is_about(key.name)) in _CONSEQUENCES
    ]
    return (*asked, *(() if is_ajet else _shared_outputs(plan, written)))


def _shared_outputs(plan: SweepPlan, written: _Written) -> Iterator[str]:
    """Folders that all runs would write to."""
    given = read_command(written.command).values
    named: dict[str, Any] = {**written.config, **{_plain(key): value for key, value in given.items()}}
    varied = set(map(_plain, settings.varied_keys(plan)))
    for key, value in named.items():
        if is_output(key) and _is_shared_place(key, value) and key not in varied:
            yield (
                f"{key} is {value} in all runs: they overwrite each other's files there, and one that looks "
                'for checkpoints goes on from another\'s; give it as "$HARNESS_ATTEMPT_DIR/…" in the launch '
                "command, which is a folder of each run's own"
            )


def _plain(key: str) -> str:
    return settings.bare(key).lstrip("-+").replace("-", "_")


def _is_shared_place(key: str, value: object) -> bool:
    """Whether a value is a place that runs would share; a mere word is one only where the name says so
    (`output_dir`, not `log`)."""
    if not isinstance(value, str) or "$" in value or value.startswith("/dev/"):
        return False
    is_folder = re.search(r"(dir|directory|path|folder|root)$", key, re.IGNORECASE) is not None
    return "/" in value or (is_folder and value not in ("", "true", "false", "null", "None"))
