"""Frozen dataclasses to JSON values and back, by the annotations of their fields.

Pydantic checks what is read; it is imported when it is first needed, so that starting up costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class MisfitError(ValueError):
    """JSON that is not what the type says."""


def encode(value: Any) -> Any:
    """The value as JSON values: a dataclass becomes an object with all its fields; text stays as it is, with
    the halves of characters that undecodable names and logs bring, which pydantic's own encoder refuses."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item) for item in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


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
