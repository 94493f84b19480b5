"""Keys that would be varied in vain: nothing reads them, or something else holds against them; and what
follows from varying the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness import launching
from harness.command import check_reaches, is_output, read, read_or_empty
from harness.config import keys as config_keys
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import Base, leaves
from harness.sweep.values import bare, kind_of
from harness.wording import did_you_mean

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_READS_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|getopts")
_PASSED_ON = ("verl.", "trinity.")
"""Parts of an `ajet:` config that other programs read, whose keys only they know."""
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


def check_keys(plan: SweepPlan, blueprint: Blueprint, config: str | None) -> None:
    """Refuse a plan with a key that would change nothing. `config`: the text the runs are made from. Raises
    SweepError, CommandError."""
    for key in dict.fromkeys((*plan.varied_keys, *plan.settings, *plan.canary)):
        if kind_of(key) == "env":
            check_reaches(blueprint.launch_command or "", bare(key), blueprint.codebase_dir)
        elif kind_of(key) == "arg":
            _check_flag(key, blueprint)
        else:
            _check_config_key(key, blueprint, config)


def _check_flag(key: str, blueprint: Blueprint) -> None:
    """Refuse a flag that would not arrive at the training."""
    if blueprint.launch_command is None:
        raise SweepError(
            f"{key}: the blueprint has no launch command, so there are no flags; what the bundled trainer is "
            "to do stands in its config: vary a config key, as ajet.trainer_common.optim.lr"
        )
    script = read(blueprint.launch_command).script_given(key)
    path = blueprint.codebase_dir / script if script is not None else None
    if path is None or not path.is_file():
        return
    if not _READS_ARGUMENTS.search(path.read_text(encoding="utf-8", errors="replace")):
        raise SweepError(
            f'{key}: {script} would be given {bare(key)} and reads no arguments; write "$@" behind the '
            "command in it that trains"
        )


def _check_config_key(key: str, blueprint: Blueprint, config: str | None) -> None:
    if config is None:
        raise SweepError(
            f"{key}: the blueprint names no config, so there is no such key; name the config under "
            "[exp_yaml_path], or vary a flag of the command as arg:--NAME"
        )
    if not launching.uses_config(blueprint):
        raise SweepError(
            f"{key}: the launch command does not name the config {blueprint.yaml_path}, so a run's own "
            "copy of it would not be read; write its path into the command, or vary a flag as arg:--NAME"
        )
    command = read(blueprint.launch_command or "")
    held = [text for name, text in command.values.items() if kind_of(name) == "env"]  # ARGS="--lr 1"
    for given in (command, *(read(f"program {text}") for text in held)):
        if given.sets(key) is not None:
            found = given.setting_of(key)
            raise SweepError(
                f"{key}: the launch command sets it itself, which holds against the config; vary "
                f"{found.name if found else 'that flag as arg:--NAME'} instead"
            )
    known = leaves(config)
    if key not in known and not any(other.startswith(f"{key}.") for other in known):
        _refuse_unknown(key, known)


def _refuse_unknown(key: str, known: Mapping[str, object]) -> None:
    """Refuse a key that the config does not have, unless the trainer is known to have a default for it."""
    is_ajet = any(name.startswith("ajet.") for name in known)
    hint = did_you_mean(key, known)
    if is_ajet and key.startswith(_PASSED_ON):
        return
    if is_ajet and key.startswith("ajet."):
        if config_keys.meaning((key,), is_ajet=True).role != "unknown":
            return
        meant = config_keys.nearest_own_key(key)
        hint = f"; did you mean {meant}?" if meant else ""
    hint = hint or "; write it there with its present value if it is read"
    raise SweepError(f"{key}: the config has no such key, so nothing may read it{hint}")


def warnings(plan: SweepPlan, base: Base) -> tuple[str, ...]:
    """What follows from varying these keys, one sentence each; and folders that all runs would write to."""
    kinds = {key.name: config_keys.about(key.name) for key in plan.keys}
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
