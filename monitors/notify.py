"""Tells asyncio code that a file or folder changed, once per request, without threads or polling (inotify).

Requests are one-shot: a log that grows a thousand times a second costs nothing until somebody asks again.
All waiters of one event loop share one inotify descriptor, of which a user may have few. Where there is no
inotify, or its limit is reached, the file is looked at every `POLL_S`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_MOVE_SELF, IN_DELETE_SELF = 0x2, 0x80, 0x100, 0x800, 0x400
IN_ONESHOT = 0x80000000
CHANGES = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONESHOT
EVENT_HEAD = struct.Struct("iIII")
POLL_S = 1.0

_shared: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Notifier] = weakref.WeakKeyDictionary()


class Notifier:
    """One inotify descriptor and who waits for what through it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: dict[int, set[Callable[[], None]]] = {}
        self._polled: dict[int, tuple[Path, object, Callable[[], None]]] = {}
        self._polls = 0
        self._timer: asyncio.TimerHandle | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    @classmethod
    def shared(cls) -> Notifier:
        """Return the running event loop's notifier."""
        loop = asyncio.get_running_loop()
        if loop not in _shared:
            _shared[loop] = cls(loop)
        return _shared[loop]

    def ask(self, path: Path, callback: Callable[[], None]) -> int:
        """Call `callback` once when `path`, or else its nearest existing folder, changes; return a ticket."""
        while not path.exists() and path != path.parent:
            path = path.parent
        ticket = -1
        if self._fd >= 0:
            ticket = self._libc.inotify_add_watch(self._fd, os.fsencode(path), CHANGES)
        if ticket < 0:
            self._polls += 1
            self._polled[-self._polls] = path, _state(path), callback
            self._poll_later()
            return -self._polls
        loop = self._loop()
        if not self._waiting and loop:
            loop.add_reader(self._fd, self._read)
        self._waiting.setdefault(ticket, set()).add(callback)
        return int(ticket)

    def forget(self, ticket: int, callback: Callable[[], None]) -> None:
        """Withdraw a request; the last one lets go of the event loop."""
        if ticket < 0:
            self._polled.pop(ticket, None)
            return
        callbacks = self._waiting.get(ticket, set())
        callbacks.discard(callback)
        if not callbacks and self._waiting.pop(ticket, None) is not None:
            self._libc.inotify_rm_watch(self._fd, ticket)
        self._rest_if_idle()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            ticket, _mask, _cookie, length = EVENT_HEAD.unpack_from(data, offset)
            offset += EVENT_HEAD.size + length
            for callback in self._waiting.pop(ticket, set()):
                callback()
        self._rest_if_idle()

    def _poll_later(self) -> None:
        loop = self._loop()
        if self._polled and self._timer is None and loop:
            self._timer = loop.call_later(POLL_S, self._poll)

    def _poll(self) -> None:
        for ticket, (path, before, callback) in list(self._polled.items()):
            if _state(path) != before:
                del self._polled[ticket]
                callback()
        self._timer = None
        self._poll_later()

    def _rest_if_idle(self) -> None:
        loop = self._loop()
        if not self._waiting and loop:
            loop.remove_reader(self._fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _state(path: Path) -> tuple[int, int, int] | None:
    """What differs as soon as a file was written to or replaced, or something was made in a folder."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
