"""What a person may ask of a sweep: the schema of `sweep.yaml`, which the command line fills, too.

In: plain data. Out: `SweepSpec`, checked as far as it can be without the blueprint; `harness.sweep.design`
does the rest. Problems are pydantic's, at their place; `harness.sweep.spec` makes sentences of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, field_validator
from pydantic_core.core_schema import ValidationInfo

from harness.blueprint import durations
from harness.config.edit import Scalar
from harness.results.comparing.types import Goal
from harness.sweep.spec_parts import Each, Expect, KeyName, Section, Varied, typed
from harness.sweep.types import Design
from harness.sweep.values import did_you_mean, is_same, value_problem

DEFAULT_SAMPLES = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class SweepSpec(Section):
    """A whole `sweep.yaml`."""

    blueprint: Annotated[Path, Strict(False)] = Field(
        description="The blueprint that is varied; a relative path starts at the folder of this file."
    )
    name: str = Field(
        default="", description="Name of the sweep and its folder. Left out: the blueprint's, with `-sweep`."
    )
    question: str = Field(default="", description="What the sweep shall answer, in a sentence.")
    vary: dict[KeyName, Varied] = Field(
        description="Keys and their values: `key: [v1, v2]`, or `key: {values: [v1, v2], baseline: v1}`. A "
        "key is a config key with its dots, `arg:--flag` of the command, or `env:NAME`."
    )
    design: Design = Field(
        default="grid",
        description="`grid`: all combinations; `one-at-a-time`: the baseline, and every other value alone; "
        "`random`: some of the grid.",
    )
    samples: int | None = Field(
        default=None,
        ge=2,
        description="Points of a `random` design, the baseline among them; 10 if left out.",
    )
    design_seed: int = Field(default=0, ge=0, description="Decides which points a `random` design draws.")
    seeds: int | list[int] = Field(
        default=1,
        description="Runs per point, each with another seed: a number of them, counted from the blueprint's "
        "own seed, or a list. With one, nothing can be said about other seeds.",
    )
    seed_key: KeyName | None = Field(
        default=None,
        description="Where the seed stands, as a key of `vary`. Left out: `ajet.trainer_common.seed` where "
        "the config has `ajet:`.",
    )
    set: dict[KeyName, Scalar] = Field(
        default={}, description="Settings that differ from the blueprint in all points alike."
    )
    metric: str = Field(
        default="",
        description="What is compared, as in metrics.jsonl, with `val/` for validations. Left out: "
        "`val/task_pass_rate@1` where the bundled trainer validates, else chosen afterwards, and marked so.",
    )
    goal: Goal = Field(default="max", description="`max` or `min`: which way is better.")
    threshold: float | None = Field(
        default=None,
        description="Value of the metric whose first reaching is timed. Left out: the baseline's mean at its "
        "end.",
    )
    parallel: int | None = Field(
        default=None, ge=1, description="Runs at once. Left out: as many as the GPUs allow, else one."
    )
    budget: str | None = Field(
        default=None,
        description="Wall-clock time for all of it, as `12h`. When it is used up no run is started any more. "
        "Left out: no limit.",
    )
    canary: dict[KeyName, Scalar] | Literal[False] | None = Field(
        default=None,
        description="Settings of the short run that must pass before the rest starts; false: none, the first "
        "run is watched until its first step. Left out: two steps, for a config with `ajet:`.",
    )
    expect: list[Expect] = Field(default=[], description="What is expected, before anything runs.")
    each: Each = Field(default=Each(), description="What every run gets of the machine.")

    @property
    def budget_s(self) -> float | None:
        return None if self.budget is None else durations.single(self.budget)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if name and not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a folder; use letters, digits, `-`, `_` and `.`")
        return name

    @field_validator("question", "metric")
    @classmethod
    def _one_line(cls, text: str) -> str:
        text = " ".join(text.split())
        if not text.isprintable():
            raise ValueError("holds characters that cannot be seen")
        return text

    @field_validator("vary", mode="before")
    @classmethod
    def _vary(cls, vary: Any) -> Any:
        if not isinstance(vary, dict) or not vary:
            raise ValueError("nothing to vary; name a key with two or more values")
        return {key: _levels(key, levels) for key, levels in vary.items()}

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
        if len(set(given)) < len(given):
            raise ValueError("a seed stands there twice; the same seed gives no new information")
        return seeds

    @field_validator("seed_key")
    @classmethod
    def _seed_key(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key is not None and key in info.data.get("vary", {}):
            raise ValueError(f"{key} is varied; give its values as seeds instead")
        return key

    @field_validator("set", "canary", mode="before")
    @classmethod
    def _settings(cls, settings: Any) -> Any:
        for key, value in settings.items() if isinstance(settings, dict) else ():
            if problem := value_problem(value):
                raise ValueError(f"{key}: {problem}")
        if isinstance(settings, dict):
            return {key: typed(key, value) for key, value in settings.items()}
        if settings is not None and settings is not False:
            raise ValueError(f"{settings!r} is no mapping of keys to values")
        return settings

    @field_validator("set")
    @classmethod
    def _set(cls, settings: dict[str, Scalar], info: ValidationInfo) -> dict[str, Scalar]:
        for key in settings:
            if key in info.data.get("vary", {}):
                raise ValueError(f"{key} is varied and set; leave it out of one of them")
            if key == info.data.get("seed_key"):
                raise ValueError(f"{key} is where the seed goes; write `seeds: [{settings[key]}]` instead")
        return settings

    @field_validator("budget", mode="before")
    @classmethod
    def _budget(cls, budget: Any) -> Any:
        if budget is not None and durations.single(str(budget)) is None:
            raise ValueError(f"{budget!r} is no length of time; write it with its unit, as `12h` or `90 min`")
        return budget

    @field_validator("expect")
    @classmethod
    def _expect(cls, expected: list[Expect], info: ValidationInfo) -> list[Expect]:
        vary: Mapping[str, Varied] = info.data.get("vary", {})
        for number, item in enumerate(expected):
            if vary and item.key not in vary:
                raise ValueError(f"{item.key} is not varied{did_you_mean(item.key, vary)}")
            if vary and not any(is_same(item.level, value) for value in vary[item.key].values):
                raise ValueError(f"{item.level!r} is none of the values of {item.key}")
            if any(item.key == other.key and is_same(item.level, other.level) for other in expected[:number]):
                raise ValueError(f"{item.key} = {item.level!r} stands there twice")
        return expected

    @field_validator("each")
    @classmethod
    def _each(cls, each: Each, info: ValidationInfo) -> Each:
        used = {*info.data.get("vary", {}), *info.data.get("set", {}), info.data.get("seed_key")}
        for name in each.ports:
            if f"env:{name}" in used:
                raise ValueError(f"{name} gets a port of its own in every run and cannot be set as well")
        return each


def _levels(key: object, levels: Any) -> Any:
    """`[v1, v2]` as `{values: [v1, v2]}`; what is no text is made one where the key wants texts."""
    made = dict(levels) if isinstance(levels, dict) else {"values": levels}
    if isinstance(made.get("values"), list):
        made["values"] = [typed(key, value) for value in made["values"]]
    if "baseline" in made:
        made["baseline"] = typed(key, made["baseline"])
    return made
