"""What the end of a process says without its log: its exit status or signal, or why it was stopped."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.attempt import KILLED, AttemptEnd, reason_text
from harness.diagnosis.types import UNKNOWN, Cause, Evidence

NOT_FINITE = "values_not_finite"
DEADLINE = "deadline"
SHARE_USED = 0.95
"""Of the memory that the training had or could have had: above it, SIGKILL came from the lack of it."""
LIKELY, OPAQUE = 0.6, 0.4
"""How sure the end alone makes, of its own kind and of a process that somebody ended who does not say why."""
_FROM_SHELL = 128


@dataclass(frozen=True)
class End(Cause):
    """What an end means. `is_final`: nothing in the log could say more; otherwise a cause found there goes
    before. `succeeded`: whether the command did, None where its end is not known. `confidence`: as the only
    thing that is known."""

    is_final: bool = False
    confidence: float = LIKELY
    succeeded: bool | None = False


KILLED_WITHOUT_MEMORY = End(
    "host_oom",
    "killed_without_memory_left",
    "The training was killed by SIGKILL when its processes held nearly all memory of the machine.",
    remedies=("fewer_loader_workers", "fewer_env_workers", "lower_swap_space"),
)
_OUTSIDE = End(
    "worker_died_opaque",
    "terminated_from_outside",
    "The training was ended from outside by {}, as at a pre-emption or a shutdown.",
    transient=True,
    confidence=OPAQUE,
)
_CRASH = End(
    "native_crash", "killed_by_signal", "The training was killed by {}.", remedies=("fault_handler",)
)
_KILLED = replace(_OUTSIDE, signature=KILLED, cause="The training was killed by {}.")
_LIMIT = End("os_limit", "limit_signal", "The training went over a limit of the system ({}).")
_SIGNALS: Mapping[int, End] = {
    signal.SIGTERM: _OUTSIDE,
    signal.SIGHUP: _OUTSIDE,
    signal.SIGINT: End("user_interrupt", "interrupted", "The training was interrupted by {}."),
    signal.SIGKILL: _KILLED,
    signal.SIGXCPU: _LIMIT,
    signal.SIGXFSZ: _LIMIT,
    **dict.fromkeys(
        (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP), _CRASH
    ),
}
_ANY_SIGNAL = End(UNKNOWN, None, "The training was killed by {}.")
_STATUSES: Mapping[int, End] = {
    127: End("path_not_found", "command_not_found", "The command or a program in it was not found (127)."),
    124: End("time_limit", "timeout_command", "`timeout` ended the command at its limit (124)."),
    126: End("permission", "not_executable", "The command could not be executed (126)."),
}


def read(ended: AttemptEnd | None, stop_reason: str | None = None, stop_detail: str = "") -> End:
    """What the end (None: nothing is known of it) and our own stop say."""
    if ended is None:
        return End(UNKNOWN, None, "", succeeded=None)
    if stop_reason is not None:
        return _stopped(ended, stop_reason, stop_detail)
    if ended.reason == "lost":
        how = ended.detail or "no exit record"
        text = f"The machine or the supervisor went down with the training ({how})."
        return End("worker_died_opaque", "supervisor_lost", text, transient=True, is_final=True)
    if ended.reason == "not_started":
        text = f"The line that starts the training was never run: {ended.detail}."
        return End("hang_no_output", "never_run", text, is_final=True)
    if ended.shortfall:
        text = f"The training failed although it seemed to end well: {ended.shortfall}."
        return End(ended.shortfall_family, "incomplete", text)
    if ended.reason == "deadline":
        return End("time_limit", DEADLINE, "The time limit of the experiment was reached.", is_final=True)
    if ended.reason == "prepare_failed":
        text = f"The prepare command ended with status {ended.prepare_status}; the training was not started."
        return End("config_error", "prepare_failed", text)
    if ended.reason == "could_not_start":
        return End("path_not_found", "could_not_start", "The launch command could not be started.")
    return _of_signal(ended.signal, ended.status)


def _stopped(ended: AttemptEnd, reason: str, detail: str) -> End:
    """An end that we made ourselves: what was seen before it is the cause, unless the log may say more."""
    if reason != "fatal_error":
        text = f"The harness stopped the attempt: {reason_text(reason)}."
        return End("hang_no_output", reason, text, is_final=reason != "first_step_timeout")
    text = f"The harness stopped the attempt because it could not recover: {detail or 'no reason was kept'}."
    if ended.sign == "not_finite":
        said = f"{detail[:1].upper()}{detail[1:]}" or "Its values were not finite"
        text = f"{said}. The harness stopped the attempt, as no run comes back from that."
        return End("numerics_nan", NOT_FINITE, text, is_final=True)
    return End("hang_no_output", "no_output", text, is_final=ended.sign == "silence")


def _of_signal(number: int | None, status: int | None) -> End:
    """The signal that ended the process; a shell gives it as 128 + its number, Python as its negative.

    One that was recorded may have no name (real-time signals); a status above 128 is a signal only where that
    has a name, as programs end with statuses of their own."""
    known = set(signal.Signals)
    if number is None and status is not None:
        number = -status if status < 0 else status - _FROM_SHELL if status - _FROM_SHELL in known else None
    if number in known:
        end = _SIGNALS.get(number, _ANY_SIGNAL)
        return replace(end, cause=end.cause.format(signal.Signals(number).name))
    if number is not None:
        return End(UNKNOWN, None, f"It was killed by signal {number}.")
    if status == 0:
        return End(UNKNOWN, None, "The command ended with status 0", succeeded=True)
    text = f"The training ended with status {status} and printed no traceback."
    return _STATUSES.get(-1 if status is None else status, End(UNKNOWN, None, text))


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
