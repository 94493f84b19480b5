"""The clock of the harnesses in `mortal`, which a test can set while they run. Importing it puts it in the
place of `time.time`, before the product is imported, whose defaults then hold it."""

import time

_machine_time = time.time
_offset_s = 0.0


def set_by(seconds: float) -> None:
    """Set the clock of this process ahead, or back."""
    global _offset_s
    _offset_s += seconds


def _time() -> float:
    return _machine_time() + _offset_s


time.time = _time
