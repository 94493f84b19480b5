"""Frozen dataclasses to JSON values and back, by the annotations of their fields.

Pydantic does both; it is imported when it is first needed, so that starting up costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class MisfitError(ValueError):
    """JSON that is not what the type says."""


def encode(value: Any) -> Any:
    """The value as JSON values: a dataclass becomes an object with all its fields."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, inf_nan_mode="constants", fallback=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def decode(kind: type[T], value: Any) -> T:
    """The typed value that `encode` made this JSON of; fields that the type does not have are left out, or an
    error where it forbids them (`__pydantic_config__`). Raises MisfitError."""
    from pydantic import ValidationError

    try:
        wanted: Any = kind
        made: T = _adapter(wanted).validate_python(value)
        return made
    except ValidationError as error:
        problems = ((error.title, *each["loc"], each["msg"]) for each in error.errors())
        raise MisfitError("; ".join(": ".join(map(str, each)) for each in problems)) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
