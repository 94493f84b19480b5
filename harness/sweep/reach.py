"""Keys that would be varied in vain: nothing reads them, or something else holds against them.

In: the plan and its blueprint, before anything is written. Out: nothing, or a SweepError that says what to
vary instead.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from harness import launching
from harness.command import check_reaches, is_same, plain, read
from harness.experiment import plan_of
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import leaves, refused_command
from harness.sweep.values import bare, kind_of

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_READS_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|getopts")
_PASSED_ON = ("verl.", "trinity.")
"""Parts of an `ajet:` config that other programs read, whose keys only they know."""


def check_keys(plan: SweepPlan, blueprint: Blueprint, config: str | None) -> None:
    """Refuse a plan with a key that would change nothing. `config`: the text the runs are made from. Raises
    SweepError."""
    keys = dict.fromkeys((*plan.varied_keys, *plan.settings, *plan.canary))
    with refused_command():
        for key in keys:
            _check_command_key(key, blueprint)
        in_config = [key for key in keys if kind_of(key) == "config"]
        if in_config:
            _check_config_keys(in_config, blueprint, config)


def _check_command_key(key: str, blueprint: Blueprint) -> None:
    """Refuse a flag or variable that would not arrive at the training."""
    command = blueprint.launch_command
    if kind_of(key) == "env":
        check_reaches(command or "", bare(key), blueprint.codebase_dir)
    if kind_of(key) != "arg":
        return
    if command is None:
        raise SweepError(
            f"{key}: the blueprint has no launch command, so there are no flags; what the bundled trainer is "
            "to do stands in its config: vary a config key, as ajet.trainer_common.optim.lr"
        )
    script = read(command).script_given(key)
    path = blueprint.codebase_dir / script if script is not None else None
    if path is None or not path.is_file():
        return
    if not _READS_ARGUMENTS.search(path.read_text(encoding="utf-8", errors="replace")):
        raise SweepError(
            f'{key}: {script} would be given {bare(key)} and reads no arguments; write "$@" behind the '
            "command in it that trains"
        )


def _check_config_keys(keys: list[str], blueprint: Blueprint, config: str | None) -> None:
    given = _given_by(blueprint.launch_command or "")
    if config is None:
        raise SweepError(
            f"{keys[0]}: the blueprint names no config, so there is no such key; name the config under "
            "[exp_yaml_path], or vary a flag of the command as arg:--NAME"
        )
    if not launching.uses_config(plan_of(blueprint)):
        raise SweepError(
            f"{keys[0]}: the launch command does not name the config {blueprint.yaml_path}, so a run's own "
            "copy of it would not be read; write its path into the command, or vary a flag as arg:--NAME"
        )
    known = leaves(config)
    for key in keys:
        if (name := next((name for name in given if _sets(name, key)), None)) is not None:
            raise SweepError(
                f"{key}: the launch command sets it itself (`{name}`), which holds against the config; vary "
                f"arg:{name} instead"
            )
        if key not in known and not any(other.startswith(f"{key}.") for other in known):
            _refuse_unknown(key, known)


def _given_by(command: str) -> tuple[str, ...]:
    """Flags and overrides of the launch command as they are written there, and those in variables that hold
    arguments (`ARGS="--lr 1"`)."""
    values = read(command).values
    held = [read(f"program {value}").values for name, value in values.items() if kind_of(name) == "env"]
    return tuple(bare(name) for one in (values, *held) for name in one if kind_of(name) == "arg")


def _sets(name: str, key: str) -> bool:
    """True if a flag or override of the command gives the config's key, or a section that holds it."""
    if re.fullmatch("-[A-Za-z]", name):
        return False  # what a single letter means, only the program knows
    names = (plain(name.lstrip("-")), plain(name.lstrip("-")).removeprefix("no_"))
    return any(is_same(key, one) or plain(key).startswith(f"{one}.") for one in names)


def _refuse_unknown(key: str, known: dict[str, object]) -> None:
    """Refuse a key that the config does not have, unless the trainer is known to have a default for it."""
    from harness.config import keys as config_keys

    is_ajet = any(name.startswith("ajet.") for name in known)
    if is_ajet and key.startswith(_PASSED_ON):
        return
    if is_ajet and key.startswith("ajet."):
        if config_keys.meaning((key,), is_ajet=True).role != "unknown":
            return
        meant = config_keys.nearest_own_key(key)
        close = [meant] if meant else []
    else:
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.5) or [
            name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]
        ]
    hint = f"did you mean {close[0]}?" if close else "write it there with its present value if it is read"
    raise SweepError(f"{key}: the config has no such key, so nothing may read it; {hint}")
