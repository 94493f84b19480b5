"""Frozen dataclasses to JSON values and back, by the annotations of their fields.

In: a value, or JSON and the type it is to become. Out: JSON values, or the typed value; a `MisfitError` names
the field that does not fit. Decoders are built when a class is first met, so starting up costs nothing.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Decoder = Callable[[Any], Any]


class MisfitError(ValueError):
    """JSON that is not what the type says."""


def encode(value: Any) -> Any:
    """The value as JSON values: a dataclass becomes an object with all its fields."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(encode(item) for item in value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def decode(kind: type[T], value: Any) -> T:
    """The typed value that `encode` made this JSON of. Raises MisfitError."""
    wanted: Any = kind
    result: T = _decoder(wanted)(value)
    return result


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _decoder(kind: Any) -> Decoder:
    """What turns JSON into this type."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda value: value
    if origin is Literal:
        return _checked(lambda value: value in args, lambda value: value, " or ".join(map(repr, args)))
    if origin in (Union, types.UnionType):
        return _union(tuple(_decoder(arg) for arg in args), kind)
    if origin in (tuple, list, frozenset):
        return _sequence(origin, args)
    if origin is not None and issubclass(origin, Mapping):
        key, item = map(_decoder, args)
        made = lambda value: {key(name): item(each) for name, each in value.items()}  # noqa: E731
        return _checked(lambda value: isinstance(value, Mapping), made, "an object")
    if is_dataclass(kind):
        return _dataclass(kind)
    if hasattr(kind, "model_validate"):
        return lambda value: kind.model_validate(value)
    if issubclass(kind, Enum | Path):
        return _checked(lambda value: isinstance(value, str), kind, "a string")
    return _scalar(kind)


def _checked(fits: Callable[[Any], bool], made: Decoder, wanted: str) -> Decoder:
    def decoder(value: Any) -> Any:
        if not fits(value):
            raise MisfitError(f"{value!r:.80} is not {wanted}")
        return made(value)

    return decoder


def _scalar(kind: type) -> Decoder:
    if kind is float:
        fits: Callable[[Any], bool] = lambda value: type(value) in (int, float)  # noqa: E731
    else:
        fits = lambda value: type(value) is kind  # noqa: E731
    return _checked(fits, lambda value: value, f"of type {kind.__name__}")


def _union(members: tuple[Decoder, ...], kind: Any) -> Decoder:
    def decoder(value: Any) -> Any:
        for member in members:
            try:
                return member(value)
            except MisfitError as error:
                why = error
        raise why if len(members) == 2 and value is not None else MisfitError(f"{value!r:.80} is not {kind}")

    return decoder


def _sequence(origin: type, args: tuple[Any, ...]) -> Decoder:
    def decoder(value: Any) -> Any:
        if origin is tuple and args[-1] is not Ellipsis:
            if len(value) != len(args):
                raise MisfitError(f"{value!r:.80} has not {len(args)} items")
            return tuple(_decoder(arg)(item) for arg, item in zip(args, value, strict=True))
        each = _decoder(args[0])
        return origin(each(item) for item in value)

    return _checked(lambda value: isinstance(value, list | tuple), decoder, "a list")


def _dataclass(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    known = {field.name: _decoder(hints[field.name]) for field in fields(kind)}
    needed = {
        field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING
    }

    def decoder(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise MisfitError(f"{value!r:.80} is no {kind.__name__}")
        if unknown := sorted(value.keys() - known.keys()):
            raise MisfitError(f"{kind.__name__} has no field {', '.join(unknown)}")
        if missing := sorted(needed - value.keys()):
            raise MisfitError(f"{kind.__name__} lacks {', '.join(missing)}")
        made = {}
        for name, item in value.items():
            try:
                made[name] = known[name](item)
            except MisfitError as error:
                raise MisfitError(f"{kind.__name__}.{name}: {error}") from None
        return kind(**made)

    return decoder
