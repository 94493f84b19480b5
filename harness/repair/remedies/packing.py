"""True if a training puts several sequences into one row.

Flash attention keeps them apart; with any other implementation they attend to each other, so the
attention may not be changed then.
"""

from collections.abc import Mapping

from harness.command import is_off, is_same, read_or_empty
from harness.config.keys import parameter

_OF_VERL = "actor_rollout_ref.model.use_remove_padding"


def packs(values: Mapping[str, object], command: str) -> bool:
    """`values`: of the config, by dotted key; what the command gives holds against them. verl packs unless it
    is told not to."""
    given = read_or_empty(command).plain
    switches: dict[str, object] = {key: value for key, value in values.items() if _is_switch(key)}
    for name in filter(_is_switch, given):
        switches = {key: value for key, value in switches.items() if not is_same(key, name)}
        switches[name] = given[name]
    if any(not is_off(value) for value in switches.values()):
        return True
    is_verl = any("actor_rollout_ref" in key.split(".") for key in (*given, *values))
    return is_verl and not any(key.endswith(_OF_VERL) for key in switches)


def _is_switch(key: str) -> bool:
    return parameter("packing").is_at(key)
