"""What the end of a process itself tells: its exit status or signal, or why it was stopped.

In: the supervisor's exit record, and why we stopped it, if we did. Out: an `End` whose `is_final` says
whether the log is asked at all. The samples of the attempt's resources say why it was killed.
"""

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from harness.attempt import AttemptEnd
from harness.diagnosis.types import UNKNOWN, Evidence

KILLED = "killed"
"""The signature of a SIGKILL that nothing explains."""
AFTER_AN_ERROR = "after the error in line"
_NOT_FINITE = re.compile(r"\b(?:nan|inf)\b|not finite|non-finite|diverge", re.IGNORECASE)
_FROM_SHELL = 128
SHARE_USED = 0.95
"""Of the memory that the training had or could have had: above it, SIGKILL came from the lack of it."""
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)


@dataclass(frozen=True)
class End:
    """What an end means. `is_final`: nothing in the log could tell more; otherwise a cause found there goes
    before."""

    family: str
    signature: str | None
    cause: str
    transient: bool = False
    is_final: bool = False
    remedies: tuple[str, ...] = ()


KILLED_WITHOUT_MEMORY = End(
    "host_oom",
    "killed_without_memory_left",
    "The training was killed by SIGKILL when its processes held nearly all memory of the machine.",
    remedies=("fewer_loader_workers", "fewer_env_workers", "lower_swap_space"),
)


def read(ended: AttemptEnd | None, stop_reason: str | None = None, stop_detail: str = "") -> End:
    """What the end (None: nothing is known of it) and our own stop tell."""
    if stop_reason is not None:
        return _stopped(stop_reason, stop_detail)
    if ended is None:
        return End(UNKNOWN, None, "")
    reason, status = ended.reason, ended.status
    if reason == "lost":
        how = ended.detail or "no exit record"
        text = f"The machine or the supervisor went down with the training ({how})."
        return End("worker_died_opaque", "supervisor_lost", text, transient=True, is_final=True)
    if ended.shortfall:
        text = f"The training failed although it seemed to end well: {ended.shortfall}."
        return End(ended.shortfall_family, "incomplete", text)
    if reason == "deadline":
        text = "The time limit of the experiment was reached."
        return End("time_limit", "deadline", text, is_final=True)
    if reason == "prepare_failed":
        status = ended.prepare_status
        text = f"The prepare command ended with status {status}; the training was not started."
        return End("config_error", "prepare_failed", text)
    if reason == "could_not_start":
        return End("path_not_found", "could_not_start", "The launch command could not be started.")
    return _of_signal(ended.signal, status)


def _stopped(reason: str, detail: str) -> End:
    """An end that we made ourselves: what was seen before it is the cause, unless the log tells it."""
    if reason != "fatal_error":
        text = f"The harness stopped the attempt: {reason}."
        return End("hang_no_output", reason, text, is_final=reason != "first_step_timeout")
    text = f"The harness stopped the attempt because it could not recover: {detail or 'no reason was kept'}."
    if _NOT_FINITE.search(detail) and AFTER_AN_ERROR not in detail:
        return End("numerics_nan", "values_not_finite", text, is_final=True)
    return End("hang_no_output", "no_output", text, is_final=AFTER_AN_ERROR not in detail)


def _of_signal(number: int | None, status: int | None) -> End:
    """The signal that ended the process; a shell gives it as 128 + its number, Python as its negative.

    One that was recorded may have no name (real-time signals); a status above 128 is a signal only where that
    has a name, as programs end with statuses of their own."""
    known = set(signal.Signals)
    if number is None and status is not None:
        number = -status if status < 0 else status - _FROM_SHELL if status - _FROM_SHELL in known else None
    if number is None:
        return _of_status(status)
    if number not in known:
        return End(UNKNOWN, None, f"It was killed by signal {number}.")
    name = signal.Signals(number).name
    text = f"The training was killed by {name}."
    if number in (signal.SIGTERM, signal.SIGHUP):
        text = f"The training was ended from outside by {name}, as at a pre-emption or a shutdown."
        return End("worker_died_opaque", "terminated_from_outside", text, transient=True)
    if number == signal.SIGINT:
        return End("user_interrupt", "interrupted", f"The training was interrupted by {name}.")
    if number in _CRASHES:
        return End("native_crash", "killed_by_signal", text, remedies=("fault_handler",))
    if number in (signal.SIGXCPU, signal.SIGXFSZ):
        return End("os_limit", "limit_signal", f"The training went over a limit of the system ({name}).")
    if number == signal.SIGKILL:
        return End("worker_died_opaque", KILLED, text, transient=True)
    return End(UNKNOWN, None, text)


def _of_status(status: int | None) -> End:
    if status == 127:
        text = "The command or a program in it was not found (127)."
        return End("path_not_found", "command_not_found", text)
    if status == 126:
        return End("permission", "not_executable", "The command could not be executed (126).")
    return End(UNKNOWN, None, f"The training ended with status {status} and printed no traceback.")


def out_of_memory(resources: Path) -> Evidence | None:
    """The last sample, where the training's processes held nearly all memory that the machine had left to
    give: whoever is killed after that was most probably killed for it."""
    try:
        lines = resources.read_bytes().splitlines()
    except OSError:
        return None
    for number, line in reversed(list(enumerate(lines, start=1))):
        try:
            sample = json.loads(line)
            rss, available = int(sample["rss_bytes"]), int(sample["mem_available_bytes"])
        except (ValueError, TypeError, KeyError):
            continue
        if rss + available > 0 and rss / (rss + available) >= SHARE_USED:
            return Evidence(resources.name, number, line.decode(errors="replace"))
        return None
    return None
