"""What time it is and how to wait, as a value that tests can replace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from monitors.processes import steady_time


class Clock(Protocol):
    """Time for code that waits. `time` is in epoch seconds."""

    def time(self) -> float: ...

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Return when `event` is set, at the latest after `seconds`."""
        ...


class SystemClock:
    """The machine's own time, steady while this process lives, or `count`ed from elsewhere."""

    def __init__(self, count: Callable[[], float] = steady_time) -> None:
        self.time = count

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes together with the event.
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting}, timeout=max(0.0, seconds))
        finally:
            waiting.cancel()
