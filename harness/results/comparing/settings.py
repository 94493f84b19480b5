"""What a run was told to do: its config and its launch command as settings by name.

In: a run's files. Out: `Settings`, named as a sweep names its keys (a dotted config key, `arg:--flag`,
`env:NAME`). What differs by nature between two runs is left out: their own folders, their names, where they
write. Seeds stand apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.command import is_output, read_or_empty
from harness.config.edit import Scalar
from harness.results.changes import NOT_SET, flat
from harness.results.comparing.runs import RunFiles

COMMAND = "launch command"
_NAMES = frozenset(("experiment_name", "project_name", "run_name", "exp_name"))
_CACHE = re.compile(r"cache([_-]?(dir|path|folder|root))?")
_SEED = re.compile(r"(?:.*_)?seed(?:_everything)?|pythonhashseed")  # num_seed_examples is none


@dataclass(frozen=True)
class Settings:
    """`values`: name to value; `seeds`: those that are seeds, the likeliest one first; `named`: values that
    are the run's own name."""

    values: Mapping[str, Scalar]
    seeds: Mapping[str, Scalar]
    named: Collection[str] = ()

    @property
    def seed(self) -> int | None:
        """The first seed that is a whole number."""
        return next((seed for seed in map(_whole, self.seeds.values()) if seed is not None), None)


def settings_of(files: RunFiles, seed_keys: Collection[str] = ()) -> Settings:
    """The settings of a run's first attempt. Seeds are those that a plan calls so (`seed_keys`), and those
    whose name says it."""
    attempts = files.record.attempts
    config = flat(attempts[0].config_text) if attempts else None
    own = {files.run.folder.name, files.summary.name} - {""}
    found: dict[str, Scalar] = {}
    for name, value in (*(config or {}).items(), *_of_command(files.summary.command)):
        last = re.split(r"[.:]", name)[-1].lstrip("-").lower()
        is_by_nature = last in _NAMES or is_output(name) or _CACHE.fullmatch(last)
        if not is_by_nature:
            found[name] = _without_own_folder(value, files.run.folder)
    seeds = [name for name, value in found.items() if name in seed_keys or _is_seed(name, value)]
    seeds.sort(key=lambda name: (name not in seed_keys, _last(name) != "seed"))
    values = {name: value for name, value in found.items() if name not in seeds}
    named = [name for name, value in values.items() if value in own]
    return Settings(values, {name: found[name] for name in seeds}, named)


def _is_seed(name: str, value: Scalar) -> bool:
    return _SEED.fullmatch(_last(name)) is not None and str(value).lower() not in ("true", "false")


def with_one_seed(settings: Sequence[Settings]) -> list[Settings]:
    """The same, but seeds that do not vary together with the first one that does are settings like any
    other: nobody can say which of them makes a run another seed of its point."""
    names = seed_names(settings)
    apart = {name for name in names[1:] if not _vary_together(names[0], name, settings)}
    return [
        Settings(
            {**one.values, **{name: value for name, value in one.seeds.items() if name in apart}},
            {name: one.seeds[name] for name in names if name in one.seeds and name not in apart},
            one.named,
        )
        for one in settings
    ]


def _vary_together(one: str, other: str, settings: Sequence[Settings]) -> bool:
    """Whether, among the runs that have both, two runs agree in both or in neither."""
    pairs = {
        (_typed(each.seeds[one]), _typed(each.seeds[other]))
        for each in settings
        if one in each.seeds and other in each.seeds
    }
    return len({first for first, _ in pairs}) == len({second for _, second in pairs}) == len(pairs)


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


def _last(name: str) -> str:
    """The last part of a name, as snake_case: `seed` of `arg:--seed`, `data_seed` of `arg:--dataSeed`."""
    last = re.split(r"[.:/]", name)[-1].lstrip("-").replace("-", "_")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).lower()


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
    given = read_or_empty(command)
    yield from given.values.items()
    yield COMMAND, given.rest
