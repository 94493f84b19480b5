"""The config that AgentJet's own client sends: all defaults of AgentJet and of verl, and among them what the
user has set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_core.config.keys import all_keys
from trainer_core.config.load import as_yaml
from trainer_core.config.yaml_source import read_yaml

_MARKS = {"hydra", "defaults", "actor_rollout_ref"}
"""Sections that such a config has, and that nobody writes together."""
_SHARED = ("ajet.trainer_common.checkpoint_base_dir", "./saved_checkpoints")
"""A default of AgentJet; it has a folder for each experiment below it, and here it would be one for all."""


def as_ours(text: str) -> tuple[str, list[str]]:
    """Such a config with the keys that the trainer has, and the other keys; any other config as it is.

    Raises:
        ConfigError: it is not YAML.
    """
    tree = read_yaml(text, "the config").tree
    if not isinstance(tree, dict) or not tree.keys() >= _MARKS:
        return text, []
    left_out: list[str] = []
    return as_yaml(_known(tree, "", left_out)), left_out


def warnings_of(left_out: Sequence[str]) -> list[str]:
    """That keys were left out: first those below `ajet.`, where a user may have mistyped one."""
    ours = [path for path in left_out if path.startswith("ajet.")]
    others = [path for path in left_out if path not in ours]
    told = {
        "not a key of this trainer, and left out": ours,
        "other sections of a config of AgentJet's are left out": others,
    }
    return [f"{what}: {', '.join(paths)}" for what, paths in told.items() if paths]


def _known(tree: Mapping[str, Any], prefix: str, left_out: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        key = all_keys().get(path)
        if key is None:
            left_out.append(path)
        elif key.is_section and isinstance(value, dict):
            found[name] = _known(value, f"{path}.", left_out)
        elif (value is not None or "null" in key.type) and (path, value) != _SHARED:
            found[name] = value  # else it is not set
    return found
