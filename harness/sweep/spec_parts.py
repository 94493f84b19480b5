"""Sections of a `sweep.yaml`: the levels of a key, an expectation, what every run gets of the machine.

In: plain data, checked by pydantic. Out: parts of a `SweepSpec` (`harness.sweep.spec_schema`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from harness.config.edit import Scalar
from harness.sweep.values import (
    UNSET,
    as_text,
    is_same,
    key_problem,
    kind_of,
    values_problem,
)

_LEAST_MEMORY = 1 << 20


def _checked_key(key: str) -> str:
    if problem := key_problem(key):
        raise ValueError(problem)
    return key


KeyName = Annotated[str, AfterValidator(_checked_key)]


class Section(BaseModel):
    """Unknown fields are refused, values not converted, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Varied(Section):
    """The levels of one key."""

    values: list[Scalar] = Field(description="Two or more values.")
    baseline: Scalar = Field(
        default=None,
        description="The value that the others are compared with. Left out: the blueprint's own if it is "
        "among the values, else the first.",
    )

    @field_validator("values", mode="before")
    @classmethod
    def _values(cls, values: Any) -> Any:
        if not isinstance(values, list):
            raise ValueError(f"{values!r} is no list of values; write [v1, v2]")
        if problem := values_problem(values):
            raise ValueError(problem)
        return values

    @field_validator("baseline", mode="before")
    @classmethod
    def _baseline(cls, baseline: Any, info: ValidationInfo) -> Any:
        values = info.data.get("values", [])
        if values and not any(is_same(baseline, value) for value in values):
            raise ValueError(
                f"{baseline!r} is not among the values {', '.join(map(repr, values))}; add it there"
            )
        return baseline

    @property
    def stated_baseline(self) -> object:
        """The baseline that was written; UNSET where none was."""
        return self.baseline if "baseline" in self.model_fields_set else UNSET


class Expect(Section):
    """What is expected of one level of one key, written down before anything runs."""

    key: str = Field(description="A key of `vary`.")
    level: Scalar = Field(description="One of its values, other than the baseline.")
    effect: Literal["higher", "lower", "none"] = Field(description="Of the metric, against the baseline.")
    why: str = Field(default="", description="The reason, in a sentence.")

    @model_validator(mode="before")
    @classmethod
    def _level(cls, data: Any) -> Any:
        if isinstance(data, dict) and "level" in data:
            return {**data, "level": typed(data.get("key"), data["level"])}
        return data


class Each(Section):
    """What every run gets of the machine, for itself alone."""

    gpus: int | None = Field(
        default=None,
        ge=0,
        description="GPUs. Left out: what the config asks for, else one where the machine has any.",
    )
    cpus: float | None = Field(default=None, gt=0, description="Cores. Left out: an equal share.")
    memory: str | None = Field(
        default=None, description="Main memory to set aside, as `4 GB`. Left out: an equal share."
    )
    ports: list[str] = Field(
        default=["MASTER_PORT"],
        description="Environment variables that each get a port of their own.",
    )
    share_gpus: bool = Field(default=False, description="GPUs that others use are good enough.")

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, memory: Any) -> Any:
        if memory is not None and memory_bytes(str(memory)) is None:
            raise ValueError(f"{memory!r} is no amount of memory; write it as `4 GB`")
        return memory

    @field_validator("ports")
    @classmethod
    def _ports(cls, ports: list[str]) -> list[str]:
        for name in ports:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name of an environment variable; write it as MASTER_PORT")
        if len(set(ports)) < len(ports):
            raise ValueError("a name stands there twice")
        return ports


def memory_bytes(text: str) -> int | None:
    """`4 GB` or `512 MiB` in bytes; None for what is no such amount."""
    from harness.repair.remedies.sizes import gib

    found = gib(text)
    amount = int(found * 2**30) if found is not None else 0
    return amount if amount >= _LEAST_MEMORY else None


def typed(key: object, value: Any) -> Any:
    """The value; as a text where the key wants texts."""
    is_text = isinstance(key, str) and kind_of(key) != "config"
    return as_text(value) if is_text and isinstance(value, Scalar) else value
