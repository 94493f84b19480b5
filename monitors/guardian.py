"""The supervisor's parent: sleeps, and takes over if the supervisor is killed.

It adopts what a dead supervisor leaves, so that whatever the attempt has started stays below it and can be
found by its pid alone; at the attempt's deadline it ends all that. It leaves as soon as the supervisor says
that it is done, or nothing is left. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from monitors.attempt_processes import end, remove_group
from monitors.processes import children, family, uptime

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 60.0


@dataclass(frozen=True)
class Charge:
    """What to guard. `deadline`: uptime after which everything is ended, None for never. `group`: the
    attempt's control group, if there is one; it is removed at the end."""

    attempt_id: str
    deadline: float | None
    grace_s: float
    group: Path | None


class DeadlineError(Exception):
    """The time of an attempt without a supervisor is over."""


def adopt_orphans() -> None:
    """Become the parent of every process below whose own parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fork_guarded(charge: Charge) -> int:
    """Let this process be the guardian of a new one, in which alone this returns: with the descriptor for
    `dismiss`. The caller decides whether the guardian adopts orphans."""
    os.setsid()
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        return writer
    try:
        _guard(charge, reader)
    finally:
        os._exit(0)


def dismiss(guardian: int) -> None:
    """Tell the guardian that the supervisor has ended everything itself."""
    with contextlib.suppress(OSError):
        os.write(guardian, b".")


def _guard(charge: Charge, reader: int) -> None:
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(signum, signal.SIG_IGN)
    _let_go_of_everything_but(reader)
    is_dismissed = bool(os.read(3, 1))  # or else the supervisor is dead
    _outlive(charge, None if is_dismissed else charge.deadline)
    remove_group(charge.group)


def _let_go_of_everything_but(reader: int) -> None:
    """Hold no terminal, log, socket or folder, so that nobody waits for us; `reader` becomes descriptor 3."""
    os.dup2(reader, 3)
    os.closerange(4, 256)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    os.chdir("/")


def _outlive(charge: Charge, deadline: float | None) -> None:
    """Wait until all children have ended, those adopted too, and see to it at the deadline. The alarm rings
    again and again, because it does not count while the machine sleeps."""

    def look(*_: object) -> None:
        if deadline is not None and uptime() >= deadline:
            raise DeadlineError

    def find() -> set[int]:
        _reap()
        return family(charge.attempt_id, children(os.getpid()))

    try:
        if deadline is not None:
            signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, max(0.0, deadline - uptime()) + 0.01, LOOK_S)
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return
    except DeadlineError:
        signal.setitimer(signal.ITIMER_REAL, 0)
        end(find, charge.grace_s, time.sleep)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
