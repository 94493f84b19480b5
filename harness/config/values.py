"""Values of settings files: read as plain data, flattened, compared. One meaning of each for the whole
harness."""

from collections.abc import Mapping
from typing import Any, TypeVar

Scalar = str | int | float | bool | None
"""What stands at a key: text, number, switch or nothing."""

Key = TypeVar("Key")
NOTHING: Any = object()
"""Stands for a key that is absent, where None is a value."""


def flatten(tree: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys; lists and empty mappings stay values."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        dotted = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{dotted}.")
        else:
            flat[dotted] = value
    return flat


def changed(
    before: Mapping[Key, Any], after: Mapping[Key, Any], absent: Any = None
) -> dict[Key, tuple[Any, Any]]:
    """The keys whose value differs, each with the value before and after (`absent` where it has none)."""
    pairs = {key: (before.get(key, absent), after.get(key, absent)) for key in (*before, *after)}
    return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def same_value(one: object, other: object) -> bool:
    """True for equal numbers (`1`, `1.0`), else for equal values of one type: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and one == other


def same_meaning(one: object, other: object) -> bool:
    """True if two values mean the same, typed or as texts: `1e-4` and `0.0001`, true and `True`."""
    if same_value(one, other):
        return True
    first, second = as_text(one), as_text(other)
    try:
        return first == second or float(first) == float(second)
    except ValueError:
        return False


def as_text(value: object) -> str:
    """A value as YAML and command lines write it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
