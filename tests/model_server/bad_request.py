"""How the rules object to a request: `BadRequest`, and the checks that both protocols share."""

import re
from collections.abc import Collection
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadRequest(Exception):  # noqa: N818  (the protocols' own word)
    """What the real server would answer: a status and the message of its error body."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def require(holds: Any, message: str, status: int = 400) -> None:
    """Raise BadRequest unless `holds`."""
    if not holds:
        raise BadRequest(message, status)


def whole_number(value: Any) -> bool:
    """Whether it is an integer; JSON's `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def number_within(value: Any, low: float, high: float) -> bool:
    """Whether it is a number of this range; JSON's `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def object_with(
    value: Any, required: Collection[str], optional: Collection[str], where: str
) -> dict[str, Any]:
    """`value`, when it is an object that has all required keys and none besides the optional ones."""
    require(isinstance(value, dict), f"{where}: Input should be an object")
    prefix = f"{where}." if where else ""
    for key in required:
        require(key in value, f"{prefix}{key}: Field required")
    for key in value:
        require(key in required or key in optional, f"{prefix}{key}: Extra inputs are not permitted")
    return dict(value)


def list_of(value: Any, where: str) -> list[Any]:
    """`value`, when it is a list with something in it."""
    require(isinstance(value, list), f"{where}: Input should be a valid list")
    require(value, f"{where}: List should have at least 1 item after validation, not 0")
    return list(value)
