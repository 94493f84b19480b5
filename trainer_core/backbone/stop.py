"""Ending between two phases of a step when the operating system asks for it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopRequested(Exception):  # noqa: N818  (a request, not an error)
    """Raised at a safe point after SIGTERM or SIGINT."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class StopSignals:
    """Within its `with` block SIGTERM and SIGINT wait for the next safe point; a second one acts at once."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def safe_point(self) -> None:
        """Raise StopRequested when a signal has come."""
        if self._received is not None:
            raise StopRequested(self._received)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
