"""What every section of the schema has in common, and the number types its fields use."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A mapping of the config: unknown keys are refused, values not converted, nothing changes later.

    `concerns`: what its keys are about, "" where the section above says it; `differing`: those that are about
    something else (see `concerns.py`).
    """

    concerns: ClassVar[str] = ""
    differing: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    def __init_subclass__(
        cls, concerns: str = "", but: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.concerns = concerns
        cls.differing = {name: concern for concern, names in (but or {}).items() for name in names.split()}

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, given: Any) -> Any:
        """A section with nothing (or only comments) below it has all defaults."""
        return _nothing_as_empty(given)


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """A key that may be left out. `limits`: `gt`, `ge`, `lt`, `le`, `min_length`."""
    return Field(default=default, description=meaning, **limits)


def section(make: Callable[[], Any], meaning: str) -> Any:
    """A section, list or mapping that may be left out; `make` gives its default."""
    return Field(default_factory=make, description=meaning)


def path_of(text: str) -> Path:
    """The path that a text means: `~` is the home folder, unless nobody is called so."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _nothing_as_empty(value: Any) -> Any:
    return {} if value is None else value


def _list_as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Empty = BeforeValidator(_nothing_as_empty)
OpenMapping = Annotated[dict[str, Any], Empty]
"""Of keys that are not looked at."""
Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
DecayPair = Annotated[tuple[Decay, Decay], BeforeValidator(_list_as_tuple)]
StepInterval = Annotated[int, Field(ge=-1)]
TopK = Annotated[int, Field(ge=-1)]
