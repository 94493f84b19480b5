"""Token ids as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

Ids = np.ndarray[Any, np.dtype[np.int32]]
"""[L]."""


def shared_beginning(left: Ids, right: Ids) -> int:
    """Length of the longest beginning that both have."""
    length = min(len(left), len(right))
    differ = left[:length] != right[:length]
    return int(differ.argmax()) if differ.any() else length
