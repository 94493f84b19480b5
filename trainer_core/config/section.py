"""What every section of the schema has in common, and the number types its fields use."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A mapping of the config: unknown keys are refused, values not converted, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )


def _list_as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
DecayPair = Annotated[tuple[Decay, Decay], BeforeValidator(_list_as_tuple)]
StepInterval = Annotated[int, Field(ge=-1)]
TopK = Annotated[int, Field(ge=-1)]
