"""What a blueprint has now for a key: in its config, in its launch command, or in the environment.

In: the blueprint and a key as a person writes it. Out: the value, typed as the config types it, or the text
of the command; `UNSET` where there is none.
"""

import os
from typing import TYPE_CHECKING

from harness.sweep.types import SweepError
from harness.sweep.values import UNSET, kind_of
from harness.sweep.varying import command_line
from harness.sweep.varying.settings import bare

if TYPE_CHECKING:
    from harness.blueprint import Blueprint


def current(blueprint: "Blueprint", key: str) -> object:
    """The value that the blueprint has now for this key, `UNSET` where it names none.

    Raises SweepError where the launch command does not show it clearly.
    """
    kind, name, command = kind_of(key), bare(key), blueprint.launch_command or ""
    if kind == "arg":
        found = command_line.flag_value(command, name)
        return UNSET if found is None else found
    if kind == "env":
        found = command_line.variable_value(command, name)
        return os.environ.get(name, UNSET) if found is None else found
    return leaves(config_text(blueprint) or "").get(name, UNSET)


def config_text(blueprint: "Blueprint") -> str | None:
    """The config that the runs are made from: the blueprint's own, or the one that would be rendered; None
    where a command runs without one. Raises SweepError."""
    from harness.blueprint.scaffold import render_config

    if blueprint.yaml_path is None:
        return render_config(blueprint.name, {}) if blueprint.launch_command is None else None
    try:
        return blueprint.yaml_path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"the config {blueprint.yaml_path} cannot be read: {error}") from error


def leaves(text: str) -> dict[str, object]:
    """The values of a config by dotted key. Raises SweepError for text that is no YAML."""
    from harness.config import edit as config_edit

    try:
        return dict(config_edit.leaves(text))
    except config_edit.ConfigEditError as error:
        raise SweepError(
            "the config is no YAML that can be read: `harness check BLUEPRINT` says where"
        ) from error
