"""Keys that would be varied in vain: nothing reads them, or something else holds against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness import launching
from harness.command import check_reaches, read
from harness.config import keys as config_keys
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import leaves
from harness.sweep.values import bare, kind_of
from harness.wording import did_you_mean

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_READS_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|getopts")
_PASSED_ON = ("verl.", "trinity.")
"""Parts of an `ajet:` config that other programs read, whose keys only they know."""


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
