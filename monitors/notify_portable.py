"""Changes of files by way of watchdog, for systems without inotify (macOS) and where its limits are reached.

It reads every event in a thread of its own, which costs more than one-shot inotify (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

POLL_S = 1.0


class PortableNotifier:
    """Calls back once per request, in the event loop."""

    def __init__(self, loop: weakref.ref[asyncio.AbstractEventLoop]) -> None:
        from watchdog.observers import Observer
        from watchdog.observers.polling import PollingObserver

        self._loop = loop
        self._lock = threading.Lock()
        self._asked: dict[int, tuple[Path, Callable[[], None]]] = {}
        self._tickets = 0
        self._folders: set[Path] = set()
        self._observer: Any = PollingObserver(timeout=POLL_S) if sys.platform == "linux" else Observer()
        self._observer.daemon = True
        self._observer.start()

    def ask(self, path: Path, callback: Callable[[], None]) -> int:
        """Call `callback` once when `path`, which exists, changes; return a ticket, a negative number."""
        folder = path if path.is_dir() else path.parent
        with self._lock:
            self._tickets -= 1
            self._asked[self._tickets] = (path, callback)
        if folder not in self._folders:
            self._folders.add(folder)
            self._observer.schedule(self, str(folder))
        return self._tickets

    def forget(self, ticket: int) -> None:
        """Withdraw a request."""
        with self._lock:
            self._asked.pop(ticket, None)

    def dispatch(self, event: Any) -> None:
        """What watchdog calls, in its own thread."""
        changed = {Path(event.src_path), Path(getattr(event, "dest_path", "") or event.src_path)}
        changed |= {path.parent for path in changed}  # a folder changes when something in it does
        with self._lock:
            due = [ticket for ticket, (path, _) in self._asked.items() if path in changed]
            callbacks = [self._asked.pop(ticket)[1] for ticket in due]
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            for callback in callbacks:
                loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        self._observer.stop()
