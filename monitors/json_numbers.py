"""NaN and infinities in JSON, which has no such numbers: words, which `metrics.row.number_of` reads back."""

import math
from collections.abc import Mapping
from typing import Any


def worded(value: Any) -> Any:
    """The value with "NaN", "Infinity" and "-Infinity" for floats that are no numbers, in dicts and lists
    too."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _word(value)
    if isinstance(value, Mapping):
        return {key: worded(item) for key, item in value.items()}
    return [worded(item) for item in value] if isinstance(value, list | tuple) else value


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
