"""What time it is and how to wait, as a value that tests can replace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Protocol


class Clock(Protocol):
    """Time for code that waits. `time` is in epoch seconds."""

    def time(self) -> float: ...

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Return when `event` is set, at the latest after `seconds`."""
        ...


class SystemClock:
    """The machine's own time."""

    def time(self) -> float:
        return time.time()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), max(0.0, seconds))
