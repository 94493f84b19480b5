"""Tells asyncio code that a file or folder changed, once per request, without threads or polling (inotify).

Requests are one-shot: a log that grows a thousand times a second costs nothing until somebody asks again.
All waiters of one event loop share one inotify descriptor, of which a user may have few. Where there is no
inotify, or its limit is reached, `notify_portable` takes over.
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

from monitors.notify_portable import PortableNotifier

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_MOVE_SELF, IN_DELETE_SELF = 0x2, 0x80, 0x100, 0x800, 0x400
IN_ONESHOT = 0x80000000
CHANGES = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONESHOT
EVENT_HEAD = struct.Struct("iIII")

_shared: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Notifier] = weakref.WeakKeyDictionary()


class Notifier:
    """One inotify descriptor and who waits for what through it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: dict[int, set[Callable[[], None]]] = {}
        self._portable: PortableNotifier | None = None
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
            self._portable = self._portable or PortableNotifier(self._loop)
            return self._portable.ask(path, callback)
        loop = self._loop()
        if not self._waiting and loop:
            loop.add_reader(self._fd, self._read)
        self._waiting.setdefault(ticket, set()).add(callback)
        return int(ticket)

    def forget(self, ticket: int, callback: Callable[[], None]) -> None:
        """Withdraw a request; the last one lets go of the event loop."""
        if ticket < 0 and self._portable:
            self._portable.forget(ticket)
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

    def _rest_if_idle(self) -> None:
        loop = self._loop()
        if not self._waiting and loop:
            loop.remove_reader(self._fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        if self._portable:
            self._portable.close()
