"""Keys of a config that a launch command sets, which holds against it: their values as a config types them,
and their edits where they stand."""

from collections.abc import Mapping
from typing import Any

from harness.command.launch_command import bare, read, read_or_empty
from harness.command.settings import is_same, plain
from harness.command.shell import CommandError
from harness.config import edit as config_edit
from harness.config.values import Scalar, as_text


def values_of(command: str) -> dict[str, Any]:
    """What flags and overrides set, by the key as a config spells it."""
    found = [each for each in read_or_empty(command).settings if each.kind != "variable" and each.is_literal]
    return {plain(bare(each.name)): _typed(each.value) for each in found}


def _typed(text: str) -> Any:
    """A word of a command as a config types it; the word itself where it is no YAML."""
    try:
        return config_edit.read(f"value: {text}\n")["value"]
    except config_edit.ConfigEditError:
        return text


def overlaid(values: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Flat values of a config as the training gets them: with those of the command."""
    together = dict(values)
    for name, value in values_of(command).items():
        together[next((key for key in values if is_same(key, name)), name)] = value
    return together


def with_values(command: str, changes: Mapping[str, Scalar]) -> str:
    """The command with these keys set to other values, each where it stands; a flag (`--x`) that is not there
    is added. Raises CommandError, also for any other key that the command does not set."""
    edited = read(command) if changes else read_or_empty(command)
    for key, value in changes.items():
        place = edited.setting_of(key)
        if place is None and key.startswith("-"):
            edited = edited.with_setting(f"arg:{key}", as_text(value))
            continue
        if place is None:
            raise CommandError(f"the launch command does not set {key}")
        is_pythonic = place.value in ("True", "False") and isinstance(value, bool)
        edited = edited.with_setting(place.name, str(value) if is_pythonic else as_text(value))
    return edited.text
