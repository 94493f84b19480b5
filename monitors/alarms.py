"""Sets an asyncio event when a process ends or a file changes; lets go of everything when its block ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from monitors.clock import SystemClock
from monitors.notify import Notifier

LOOK_AGAIN_S = 30.0


class Alarms:
    """Alarms of one wait, all on the same event. Use as a context manager; cancellation leaks nothing."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event
        self._loop = asyncio.get_running_loop()
        self._pidfds: dict[int, int] = {}
        self._tickets: dict[Path, int] = {}
        self._notifier = Notifier.shared()

    def on_process_end(self, pid: int) -> None:
        """Ring when `pid` ends (at once if it has). Without pidfds only the caller's slow check can tell."""
        if pid in self._pidfds or not hasattr(os, "pidfd_open"):
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._event.set()
            return
        self._pidfds[pid] = descriptor
        self._loop.add_reader(descriptor, self._process_ended, pid)

    def on_change(self, path: Path) -> None:
        """Ring at the next change of `path`; must be asked again after each ring."""
        if path in self._tickets:
            self._notifier.forget(self._tickets.pop(path), self._event.set)
        self._tickets[path] = self._notifier.ask(path, self._event.set)

    def _process_ended(self, pid: int) -> None:
        self._event.set()
        self._close(pid)

    def _close(self, pid: int) -> None:
        descriptor = self._pidfds.pop(pid)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def __enter__(self) -> Alarms:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in list(self._pidfds):
            self._close(pid)
        for ticket in self._tickets.values():
            self._notifier.forget(ticket, self._event.set)


async def until(is_so: Callable[[], bool], *paths: Path) -> None:
    """Wait until it is so; looked at whenever one of the files changes, and now and then for what changes no
    file. Cancelling is safe."""
    changed = asyncio.Event()
    with Alarms(changed) as alarms:
        while True:
            changed.clear()
            for path in paths:
                alarms.on_change(path)
            if is_so():
                return
            await SystemClock().wait(changed, LOOK_AGAIN_S)
