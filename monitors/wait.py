"""Waits for an attempt: returns the moment something happens, with the reason, and costs nothing until then.

The supervisor's end is announced by a pidfd, the pane's by another, growth of the log by inotify; tmux is
never polled. A slow check stands behind them for systems and file systems that announce nothing. A quiet log
is read the moment it grows, a busy one at a pace, a huge one in pieces between which the event loop goes on.

`python -m monitors.wait SESSION SECONDS` is for other agents: exit status 0 means the time is up and the
command still runs, 1 that it ended or the session is gone; a line says which.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from monitors.alarms import Alarms
from monitors.clock import Clock, SystemClock
from monitors.files import AttemptFiles, Exit
from monitors.processes import read_process
from monitors.tmux import Session, TmuxError

if TYPE_CHECKING:
    from monitors.watch import Event, Watch

BACKOFF = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0)
SAFETY_CHECK_S = 30.0
LOG_PACE_S = 0.25
BUSY_LOG_PACE_S = 1.0
BUSY_LOG_BYTES = 8192


class WakeReason(Enum):
    """Why a wait returned."""

    EXITED = "exited"  # the attempt ended; `Wake.exit` says how
    SESSION_GONE = "session_gone"  # the tmux session is gone, the training may go on; said once
    EVENT = "event"  # the watch found something; `Wake.events`
    DEADLINE = "deadline"  # the caller's deadline passed
    TICK = "tick"  # the interval is over and it still runs
    LOST = "lost"  # the supervisor died without recording an exit


@dataclass(frozen=True)
class Wake:
    """What a wait returned with. `waited_s`: seconds waited; `detail`: one sentence for people."""

    reason: WakeReason
    detail: str
    waited_s: float
    exit: Exit | None = None
    events: tuple[Event, ...] = ()


class Waiter:
    """Waits for one attempt; hundreds can wait side by side in one event loop.

    Events are told once: what one `wait` returned, the next does not return again.
    """

    def __init__(
        self,
        files: AttemptFiles,
        session: Session | None = None,
        *,
        watch: Watch | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._files = files
        self._session = session
        self._watch = watch
        self._clock: Clock = clock or SystemClock()
        self._intervals_waited = 0
        self._untold: list[Event] = []
        self._pane: tuple[int, int | None] | None = None
        self._next_session_look = 0.0
        self._session_gone_told = False

    async def wait(self, timeout: float | None = None, deadline: float | None = None) -> Wake:
        """Wait until something happens, `timeout` seconds at most (default: the next back-off interval).

        `deadline`: epoch seconds. An attempt that has not started yet is waited for. Cancelling is safe.
        """
        begun = self._clock.time()
        interval = BACKOFF[min(self._intervals_waited, len(BACKOFF) - 1)] if timeout is None else timeout
        event = asyncio.Event()
        log_is_quiet, next_log_look = True, begun
        self._next_session_look = begun
        with Alarms(event) as alarms:
            while True:
                now = self._clock.time()
                reads_log = self._watch is not None and not 0 < next_log_look - now <= BUSY_LOG_PACE_S
                event.clear()
                self._set_alarms(alarms, reads_log and log_is_quiet)
                already_read = self._bytes_read()
                if wake := await self._look(reads_log, begun, alarms):
                    return wake
                if deadline is not None and now >= deadline:
                    return self._wake(WakeReason.DEADLINE, "the deadline has passed", begun)
                if now - begun >= interval:
                    self._intervals_waited += timeout is None
                    return self._wake(WakeReason.TICK, "it still runs", begun)
                if reads_log:
                    was_quiet, grown = log_is_quiet, self._bytes_read() - already_read
                    log_is_quiet, next_log_look = not grown, now + (_pace(grown) if grown else 0.0)
                    if log_is_quiet and not was_quiet:
                        continue  # no alarm was set while it was busy
                ends = [begun + interval, now + SAFETY_CHECK_S]
                ends += [deadline] if deadline is not None else []
                ends += [next_log_look] if next_log_look > now else []
                ends += [look] if self._watch and (look := self._watch.next_look) and look > now else []
                await self._clock.wait(event, min(ends) - now)

    def _bytes_read(self) -> int:
        return self._watch.bytes_read if self._watch else 0

    def _set_alarms(self, alarms: Alarms, log: bool) -> None:
        """Arm everything that can happen next; what happened before is seen by the look that follows."""
        info = self._files.supervisor()
        if info is None:
            alarms.on_change(self._files.supervisor_file)
            alarms.on_change(self._files.exit_file)
        else:
            alarms.on_process_end(info.pid)
        if self._pane and not self._session_gone_told:
            alarms.on_process_end(self._pane[0])
        for path in self._watch.paths() if self._watch and log else ():
            alarms.on_change(path)

    async def _look(self, reads_log: bool, begun: float, alarms: Alarms) -> Wake | None:
        """Look at everything once, the most final first."""
        state = self._files.state()
        over = state in ("ended", "lost")
        if self._watch and (reads_log or over):
            await self._read_events(self._watch, final=over)
        if over:
            ending = self._files.exit()
            reason = WakeReason.EXITED if ending else WakeReason.LOST
            return self._wake(reason, describe(ending), begun, ending)
        if self._untold:
            return self._wake(WakeReason.EVENT, self._untold[0].text, begun)
        if await self._session_is_gone(alarms):
            gone = "the tmux session is gone"
            goes_on = "the command still runs" if state == "running" else "the command had not started"
            return self._wake(WakeReason.SESSION_GONE, f"{gone}; {goes_on}", begun)
        return None

    async def _read_events(self, watch: Watch, final: bool) -> None:
        """Take in all events there are, piece by piece; those of a wait that is cancelled are told by the
        next."""
        self._untold += watch.poll_piece(final)
        while not watch.at_end:
            await asyncio.sleep(0)
            self._untold += watch.poll_piece(final)

    async def _session_is_gone(self, alarms: Alarms) -> bool:
        """Ask tmux only when the pane's process is not there; tell a running attempt's loss once."""
        if self._session is None or self._session_gone_told:
            return False
        now = self._clock.time()
        if self._pane:
            entry = read_process(self._pane[0])
            if entry and entry.state not in "ZX" and entry.start_ticks == self._pane[1]:
                return False
        elif now < self._next_session_look:
            return False
        self._next_session_look = now + SAFETY_CHECK_S
        self._pane = await asyncio.to_thread(_pane_process, self._session)
        if self._pane:
            alarms.on_process_end(self._pane[0])
            return False
        if await asyncio.to_thread(self._session.exists) or self._is_starting():
            return False
        self._session_gone_told = self._files.supervisor() is not None
        return True

    def _is_starting(self) -> bool:
        return self._files.started.exists() and self._files.supervisor() is None

    def _wake(self, reason: WakeReason, detail: str, begun: float, exit: Exit | None = None) -> Wake:
        events, self._untold = tuple(self._untold), []
        return Wake(reason, detail, self._clock.time() - begun, exit, events)


def _pace(grown: int) -> float:
    """Return how long a log that has grown by so many bytes may go on unread."""
    return BUSY_LOG_PACE_S if grown >= BUSY_LOG_BYTES else LOG_PACE_S


def describe(ending: Exit | None) -> str:
    """Say in one sentence how an attempt ended."""
    if ending is None:
        return "lost: the supervisor died without recording how the command ended, exit status unknown"
    if ending.pid is None and ending.reason in ("deadline", "stopped"):
        why = "its deadline passed" if ending.reason == "deadline" else "it was stopped"
        return f"{why} before the command was started"
    status = "unknown" if ending.status is None else ending.status
    cause = {
        "exited": "the command ended",
        "signalled": f"the command was ended by signal {ending.signal}",
        "deadline": "the command was ended at its deadline",
        "stopped": "the command was stopped",
        "prepare_failed": f"prepare failed with status {ending.prepare_status}; the command was not run",
        "could_not_start": f"the command could not start ({ending.error})",
    }.get(ending.reason, ending.reason)
    return f"{cause}, exit status {status}"


def _pane_process(session: Session) -> tuple[int, int | None] | None:
    try:
        pid = session.pane_pid()
    except (TmuxError, ValueError, IndexError):
        return None
    entry = read_process(pid)
    return (pid, entry.start_ticks) if entry else None


if __name__ == "__main__":
    from monitors.wait_command import main

    sys.exit(main(sys.argv[1:]))
