"""What may be asked of a sweep: the one schema of `sweep.yaml`, command line and a model's proposal.

A key is a dotted config key, `arg:--flag` of the launch command, or `env:NAME`. A config's values are typed
as YAML 1.2 types them; those of `arg:` and `env:` are the exact text that was written.

In: plain data. Out: `SweepSpec`, checked as far as it can be without the blueprint; `design` does the rest.
Problems are pydantic's, at their place; `spec_text` reads and writes the texts and makes sentences of them.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from harness.blueprint import durations
from harness.command.launch_command import bare
from harness.config import as_text, same_value
from harness.config.edit import Scalar
from harness.repair.remedies.situation import gib
from harness.results.comparing.types import Goal
from harness.sweep.plan import Design
from harness.templating import yaml_scalar
from harness.wording import did_you_mean
from monitors.launch import is_secret_name

Kind = Literal["config", "arg", "env"]
_CONFIG_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ARGUMENT = re.compile(r"--?[A-Za-z][\w.-]*|\+{0,2}[A-Za-z_][\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_HARNESS = (
    "ajet.experiment_dir",
    "ajet.trainer_common.val_print_to_markdown_file_path",
    "ajet.trainer_common.checkpoint_base_dir",
)


def kind_of(key: str) -> Kind:
    """Where the key stands: in the config, the command, or the environment."""
    return "arg" if key.startswith("arg:") else "env" if key.startswith("env:") else "config"


def checked_key(key: str) -> str:
    """The key. Raises ValueError where nothing can be set by it, with what to write instead."""
    kind, name, why = kind_of(key), bare(key), ""
    if kind == "arg":
        if not _ARGUMENT.fullmatch(name):
            why = f"{key!r} names no flag; write arg:--lr, arg:-n or arg:a.b"
    elif kind == "env":
        if not _VARIABLE.fullmatch(name):
            why = f"{key!r} names no environment variable; write env:NAME"
        elif name == "CUDA_VISIBLE_DEVICES":
            why = f"{key} is what keeps runs apart; say how many GPUs a run gets with each.gpus"
        elif is_secret_name(name):
            why = f"{key} looks like a secret, and its values would stand in every report; export it instead"
    elif ":" in key:
        why = f"{key!r}: there is no such kind of key; write arg:--flag, env:NAME or a config key"
    elif key.startswith(("-", "+")):
        why = f"{key!r} is no config key; a flag of the command is written arg:{key}"
    elif not _CONFIG_KEY.fullmatch(key):
        why = f"{key!r} is no config key; write it with dots, as ajet.trainer_common.optim.lr"
    elif key in _SET_BY_HARNESS:
        why = f"{key} is set anew for every launch, so that runs do not write into each other; leave it out"
    if why:
        raise ValueError(why)
    return key


def checked_value(value: Any) -> Any:
    """The value. Raises ValueError for what cannot be one."""
    why = ""
    if isinstance(value, list | dict):
        why = (
            f"{value!r} is a list or mapping, and only single values can be set: name a key inside it, or "
            "put quotes around it where it is a text"
        )
    elif not isinstance(value, str | int | float | None):
        why = f"{value} is read as a {type(value).__name__}; put quotes around it"
    elif isinstance(value, float) and not math.isfinite(value):
        why = f"{yaml_scalar(value)} is no finite number"
    elif isinstance(value, str) and not value.isprintable():
        why = f"{value!r} holds characters that cannot be seen"
    if why:
        raise ValueError(why)
    return value


DEFAULT_SAMPLES = 10
LEAST_MEMORY = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _typed(key: object, value: Any) -> Any:
    is_text = isinstance(key, str) and kind_of(key) != "config"
    return as_text(value) if is_text and isinstance(value, Scalar) else value


def _settings(settings: Any) -> dict[Any, Any]:
    if not isinstance(settings, dict):
        raise ValueError(f"{settings!r} is no mapping of keys to values")
    return {key: _typed(key, value) for key, value in settings.items()}


def _levels(vary: Any) -> Any:
    """`key: [v1, v2]` as `key: {values: [v1, v2]}`."""
    if not isinstance(vary, dict):
        raise ValueError("this is no mapping of keys to their values")
    given = {key: each if isinstance(each, dict | Varied) else {"values": each} for key, each in vary.items()}
    for key, levels in given.items():
        if isinstance(levels, dict):
            texts = {name: _typed(key, value) for name, value in levels.items()}
            if isinstance(levels.get("values"), list):
                texts["values"] = [_typed(key, value) for value in levels["values"]]
            given[key] = texts
    return given


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    if not text.isprintable():
        raise ValueError("holds characters that cannot be seen")
    return text


KeyName = Annotated[
    str,
    AfterValidator(checked_key),
    Field(description="A config key with its dots, `arg:--flag` of the launch command, or `env:NAME`."),
]
Value = Annotated[Scalar, BeforeValidator(checked_value)]
Settings = Annotated[dict[KeyName, Value], BeforeValidator(_settings)]
Line = Annotated[str, AfterValidator(_one_line)]


class Section(BaseModel):
    """Unknown fields are refused, values not converted, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Varied(Section):
    """The levels of one key."""

    values: list[Value]
    """Two or more values."""
    baseline: Value = None
    """The value that the others are compared with. Left out: the blueprint's own if it is among the values,
    else the first."""

    @field_validator("values")
    @classmethod
    def _values(cls, values: list[Scalar]) -> list[Scalar]:
        if len(values) < 2:
            count = f"{len(values)} value{'s' * (not values)}"
            raise ValueError(f"{count}, so nothing is varied; give two or more")
        for number, value in enumerate(values):
            if any(same_value(value, other) for other in values[:number]):
                raise ValueError(f"the value {value!r} stands there twice")
        return values

    @field_validator("baseline")
    @classmethod
    def _baseline(cls, baseline: Scalar, info: ValidationInfo) -> Scalar:
        values = info.data.get("values", [])
        if values and not any(same_value(baseline, value) for value in values):
            raise ValueError(f"{baseline!r} is not among the values; add it there")
        return baseline

    @property
    def has_baseline(self) -> bool:
        return "baseline" in self.model_fields_set


class Expect(Section):
    """What is expected of one level of one key, written down before anything runs."""

    key: str
    """A key of `vary`, as it stands there."""
    level: Value
    """One of its values, other than the baseline."""
    effect: Literal["higher", "lower", "none"]
    """Whether the metric itself is higher or lower than at the baseline, whatever the goal is."""
    why: str = ""
    """The reason, in a sentence."""

    @model_validator(mode="before")
    @classmethod
    def _level(cls, data: Any) -> Any:
        has_level = isinstance(data, dict) and "level" in data
        return {**data, "level": _typed(data.get("key"), data["level"])} if has_level else data


class Each(Section):
    """What every run gets of the machine, for itself alone."""

    gpus: int | None = Field(default=None, ge=0)
    """GPUs. Left out: what the config asks for, else one where the machine has any."""
    cpus: float | None = Field(default=None, gt=0)
    """Cores. Left out: an equal share."""
    memory: str | None = None
    """Main memory to set aside, as `4 GB`. Left out: an equal share."""
    ports: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]] = ["MASTER_PORT"]
    """Environment variables that each get a port of their own."""
    share_gpus: bool = False
    """GPUs that others use are good enough."""

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, memory: Any) -> Any:
        if memory is not None and (gib(str(memory)) or 0) * 2**30 < LEAST_MEMORY:
            raise ValueError(f"{memory!r} is no amount of memory; write it as `4 GB`")
        return memory

    @property
    def memory_bytes(self) -> int | None:
        return int((gib(self.memory) or 0) * 2**30) if self.memory is not None else None


class Ablation(Section):
    """What is varied, how often it is run, what is expected: what a model may propose of a sweep."""

    vary: Annotated[dict[KeyName, Varied], BeforeValidator(_levels)]
    """Keys and their values: `key: [v1, v2]`, or `key: {values: [v1, v2], baseline: v1}`. A key is a config
    key with its dots, `arg:--flag` of the command, or `env:NAME`. `{}` runs the blueprint as it is with
    several seeds."""
    design: Design = "grid"
    """`grid`: all combinations; `one-at-a-time`: the baseline, and every other value alone; `random`: some
    of the grid."""
    samples: int | None = Field(default=None, ge=2)
    """Points of a `random` design, the baseline among them; 10 if left out."""
    seeds: int | list[int] = Field(default=1, validate_default=True)
    """Runs per point, each with another seed: a number of them, counted from the blueprint's own seed, or a
    list. With one, nothing can be said about other seeds."""
    set: Settings = {}
    """Settings that differ from the blueprint in all points alike."""
    seed_key: KeyName | None = None
    """Where the seed stands, as a key of `vary`, such as `arg:--seed`. Left out: `ajet.trainer_common.seed`
    where the config has `ajet:`; a command of one's own has no seeds then."""
    metric: Line = ""
    """What is compared, as in metrics.jsonl, with `val/` for validations. Left out: what the blueprint names
    in `[exp_metrics]`; `val/task_pass_rate@1` where the bundled trainer validates; else the one that the
    purpose speaks of, as the first run that ends names it."""
    goal: Goal | None = None
    """`max` or `min`: which way is better. Left out: as the blueprint says, else as the metric's name."""
    expect: list[Expect] = []
    """What is expected, before anything runs: `{key: arg:--lr, level: 0.01, effect: higher, why: a reason}`
    for each value but the baseline."""

    @field_validator("samples")
    @classmethod
    def _samples(cls, samples: int | None, info: ValidationInfo) -> int | None:
        if samples is not None and info.data.get("design", "random") != "random":
            raise ValueError(f"means something for `design: random` only, not for {info.data['design']}")
        return samples

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, seeds: Any) -> Any:
        given = seeds if isinstance(seeds, list) else [seeds]
        if not given or any(type(seed) is not int or seed < 0 for seed in given) or seeds == 0:
            raise ValueError(f"{seeds!r}: write how many (3), or the seeds themselves ([0, 1, 2])")
        if len({*given}) < len(given):
            raise ValueError("a seed stands there twice; the same seed gives no new information")
        return seeds

    @field_validator("seeds")
    @classmethod
    def _is_several(cls, seeds: int | list[int], info: ValidationInfo) -> int | list[int]:
        if info.data.get("vary") == {} and (seeds == 1 or (isinstance(seeds, list) and len(seeds) == 1)):
            raise ValueError("nothing to vary: name a key with two or more values, or give two or more seeds")
        return seeds

    @field_validator("set")
    @classmethod
    def _set(cls, settings: dict[str, Scalar], info: ValidationInfo) -> dict[str, Scalar]:
        if both := settings.keys() & info.data.get("vary", {}):
            raise ValueError(f"{', '.join(both)} is varied and set; leave it out of one of them")
        return settings

    @field_validator("seed_key")
    @classmethod
    def _seed_key(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key is not None and (key in info.data.get("vary", {}) or key in info.data.get("set", {})):
            raise ValueError(f"{key} is varied or set; give its values as seeds instead: `seeds: [0, 1]`")
        return key

    @field_validator("expect")
    @classmethod
    def _expect(cls, expected: list[Expect], info: ValidationInfo) -> list[Expect]:
        vary: Mapping[str, Varied] = info.data.get("vary", {})
        for item in expected if vary else ():
            if item.key not in vary:
                raise ValueError(f"{item.key} is not varied{did_you_mean(item.key, vary)}")
            if not any(same_value(item.level, value) for value in vary[item.key].values):
                raise ValueError(f"{item.level!r} is none of the values of {item.key}")
            if sum(item.key == other.key and same_value(item.level, other.level) for other in expected) > 1:
                raise ValueError(f"{item.key} = {item.level!r} stands there twice")
        return expected


class SweepSpec(Ablation):
    """A whole `sweep.yaml`."""

    blueprint: Annotated[Path, Strict(False)]
    """The blueprint that is varied; a relative path starts at the folder of this file."""
    name: str = ""
    """Name of the sweep and its folder. Left out: the blueprint's, with `-sweep`."""
    question: Line = ""
    """What the sweep shall answer, in a sentence."""
    design_seed: int = Field(default=0, ge=0)
    """Decides which points a `random` design draws."""
    threshold: float | None = None
    """Value of the metric whose first reaching is timed. Left out: the baseline's mean at its end."""
    parallel: int | None = Field(default=None, ge=1)
    """Runs at once. Left out: as many as the GPUs allow, else one."""
    budget: str | None = None
    """Wall-clock time for all of it, as `12h`. When it is used up no run is started any more. Left out: no
    limit."""
    canary: Settings | None = None
    """Settings of the short run that must pass before the rest starts; false: none, the first run is
    watched until its first step. Left out: two steps, for a config with `ajet:`."""
    each: Each = Each()
    """What every run gets of the machine."""

    @property
    def budget_s(self) -> float | None:
        return None if self.budget is None else durations.single(self.budget)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if name and not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a folder; use letters, digits, `-`, `_` and `.`")
        return name

    @field_validator("budget", mode="before")
    @classmethod
    def _budget(cls, budget: Any) -> Any:
        if budget is not None and durations.single(str(budget)) is None:
            raise ValueError(f"{budget!r} is no length of time; write it with its unit, as `12h` or `90 min`")
        return budget

    @field_validator("canary", mode="before")
    @classmethod
    def _canary(cls, settings: Any) -> Any:
        return {} if settings is False else settings

    @field_validator("each")
    @classmethod
    def _each(cls, each: Each, info: ValidationInfo) -> Each:
        used = {*info.data.get("vary", {}), *info.data.get("set", {}), info.data.get("seed_key")}
        for name in each.ports:
            if f"env:{name}" in used:
                raise ValueError(f"{name} gets a port of its own in every run and cannot be set as well")
        return each
