"""The parts of a report that it can do without: one that cannot be made is left out, and said so.

In: what makes a part. Out: the part, and the names of those that are left out. A number that nobody thought
of, or a damaged file, then costs a figure and not the report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Part = TypeVar("Part")


def made(what: str, make: Callable[[], Part], left_out: list[str], verb: str = "made") -> Part | None:
    """The part; None, and a sentence in `left_out`, where making it fails, whatever it raises but OSError: a
    disk that takes no report takes none of its parts."""
    try:
        return make()
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001, whatever the raw files hold
        why = " ".join(f"{type(error).__name__}: {error}".split())
        left_out.append(f"{what} could not be {verb}: {why[:300]}")
        return None
