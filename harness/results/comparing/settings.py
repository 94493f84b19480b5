"""What a run was told to do: its config and its launch command as settings by name.

In: a run's files. Out: `Settings`, named as a sweep names its keys (a dotted config key, `arg:--flag`,
`env:NAME`). What differs by nature between two runs is left out: their own folders, their names, where they
write. Seeds stand apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config_edit import Scalar
from harness.launch_text.settings import Given, is_output, settings_in
from harness.launch_text.shell import ShellError
from harness.results.changes import NOT_SET, flat
from harness.results.comparing.runs import RunFiles

COMMAND = "launch command"
_NAMES = frozenset(("experiment_name", "project_name", "run_name", "exp_name"))
_CACHE = re.compile(r"cache([_-]?(dir|path|folder|root))?")


@dataclass(frozen=True)
class Settings:
    """`values`: name to value; `seeds`: those whose name says that they are one."""

    values: Mapping[str, Scalar]
    seeds: Mapping[str, Scalar]

    @property
    def seed(self) -> int | None:
        """The first seed that is a whole number."""
        return next((seed for seed in map(_whole, self.seeds.values()) if seed is not None), None)


def settings_of(files: RunFiles) -> Settings:
    """The settings of a run's first attempt."""
    attempts = files.record.attempts
    config = flat(attempts[0].config_text) if attempts else None
    own = {files.run.folder.name, files.summary.name}
    found: dict[str, Scalar] = {}
    for name, value in (*(config or {}).items(), *_of_command(files.summary.command)):
        last = re.split(r"[.:]", name)[-1].lstrip("-").lower()
        is_by_nature = last in _NAMES or is_output(name) or _CACHE.fullmatch(last)
        if not is_by_nature and value not in own:
            found[name] = _without_own_folder(value, files.run.folder)
    seeds = {name: value for name, value in found.items() if "seed" in re.split(r"[.:]", name)[-1].lower()}
    return Settings({name: value for name, value in found.items() if name not in seeds}, seeds)


def differing(settings: Sequence[Settings]) -> dict[str, tuple[Scalar, ...]]:
    """The settings whose values differ, seeds not among them: one value per run, `NOT_SET` where it has
    none."""
    names = dict.fromkeys(name for one in settings for name in one.values)
    columns = {name: tuple(one.values.get(name, NOT_SET) for one in settings) for name in names}
    return {name: column for name, column in columns.items() if len({_typed(v) for v in column}) > 1}


def seed_names(settings: Sequence[Settings]) -> list[str]:
    """Seeds that differ between the runs, else all of them."""
    names = list(dict.fromkeys(name for one in settings for name in one.seeds))
    return [name for name in names if len({_typed(one.seeds.get(name)) for one in settings}) > 1] or names


def is_path(values: Sequence[Scalar]) -> bool:
    """Whether these are places, where a model or data lies, rather than settings."""
    return any(isinstance(value, str) and "/" in value for value in values)


def _typed(value: Scalar) -> tuple[str, Scalar]:
    return type(value).__name__, value


def _whole(value: Scalar) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _without_own_folder(value: Scalar, folder: Path) -> Scalar:
    if not isinstance(value, str):
        return value
    for own in dict.fromkeys((str(folder), str(folder.absolute()), str(folder.resolve()))):
        value = value.replace(own, "…")
    return re.sub(r"attempts/\d{2,}", "attempts/…", value)


def _of_command(command: str) -> Iterator[tuple[str, Scalar]]:
    """Flags, overrides and variables of a launch command; what is left is the command itself."""
    try:
        given = settings_in(command)
    except ShellError:
        given = Given({}, command)
    yield from given.values.items()
    yield COMMAND, given.rest
