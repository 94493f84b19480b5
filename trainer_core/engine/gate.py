"""The gate before a server of models: requests go through and are counted, until it is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Gate:
    """Who asks and who closes it may be in different threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._closed: Future[None] | None = None
        self.inside = 0
        """Requests under way."""

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Be counted as under way, once it is open."""
        while True:
            with self._changed:
                closed = self._closed
                if closed is None:
                    self.inside += 1
                    break
            await asyncio.shield(asyncio.wrap_future(closed))  # who gives up leaves the others waiting
        try:
            yield
        finally:
            with self._changed:
                self.inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Hold back the rest."""
        with self._changed:
            self._closed = self._closed or Future()

    def wait(self) -> None:
        """Block until nothing is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self.inside)

    def open(self) -> None:
        """Let through those that wait."""
        with self._changed:
            closed, self._closed = self._closed, None
        if closed is not None:
            closed.set_result(None)
