"""Keys that would be varied in vain: nobody reads them, or something else holds against them (for variables:
`reaching`).

In: the plan and its blueprint, before anything is written. Out: nothing, or a SweepError that says what to
vary instead.
"""

import difflib
import re
from typing import TYPE_CHECKING

from harness import launching
from harness.command import CommandError, is_same, plain, read
from harness.experiment import plan_of
from harness.sweep.types import SweepError, SweepPlan
from harness.sweep.values import kind_of
from harness.sweep.varying import command_line
from harness.sweep.varying.current_values import leaves
from harness.sweep.varying.settings import bare, varied_keys

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_READS_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|getopts")
_PASSED_ON = ("verl.", "trinity.")
"""Parts of an `ajet:` config that other programs read, whose keys only they know."""


def check(plan: SweepPlan, blueprint: "Blueprint", config: str | None) -> None:
    """Refuse a plan with a key that would change nothing. `config`: the text the runs are made from. Raises
    SweepError."""
    keys = dict.fromkeys((*varied_keys(plan), *plan.settings, *plan.canary))
    flags = [key for key in keys if kind_of(key) == "arg"]
    if flags and blueprint.launch_command is None:
        raise SweepError(
            f"{flags[0]}: the blueprint has no launch command, so there are no flags; what the bundled "
            "trainer is to do stands in its config: vary a config key, as ajet.trainer_common.optim.lr"
        )
    for key in flags:
        _refuse_deaf_script(key, blueprint)
    for key in keys:
        if kind_of(key) == "env":
            command_line.refuse_unheard(blueprint.launch_command or "", bare(key), blueprint.codebase_dir)
    in_config = [key for key in keys if kind_of(key) == "config"]
    if in_config:
        _check_config_keys(in_config, blueprint, config)


def _refuse_deaf_script(key: str, blueprint: "Blueprint") -> None:
    """Refuse a flag that would be given to a shell script which reads no arguments."""
    flag = bare(key)
    script = command_line.script_given(blueprint.launch_command or "", flag)
    path = blueprint.codebase_dir / script if script is not None else None
    if path is None or not path.is_file():
        return
    if not _READS_ARGUMENTS.search(path.read_text(encoding="utf-8", errors="replace")):
        raise SweepError(
            f'{key}: {script} would be given {flag} and reads no arguments; write "$@" behind the command in '
            "it that trains"
        )


def _check_config_keys(keys: list[str], blueprint: "Blueprint", config: str | None) -> None:
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
    arguments (`ARGS="--lr 1"`). Raises SweepError."""
    try:
        values = read(command).values
        held = [read(f"program {value}").values for name, value in values.items() if kind_of(name) == "env"]
    except CommandError as error:
        raise SweepError(str(error)) from error
    return tuple(bare(name) for one in (values, *held) for name in one if kind_of(name) == "arg")


def _sets(name: str, key: str) -> bool:
    """Whether a flag or override of the command gives the config's key, or a section that holds it."""
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
    raise SweepError(f"{key}: the config has no such key, and nobody might read it; {hint}")
