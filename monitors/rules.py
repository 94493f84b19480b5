"""What a watch looks for: the events it can tell, and the rules with their limits."""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from monitors.metrics import MetricPatterns, Row
from monitors.metrics.names import is_validation as is_validation_name

AlarmKind = Literal[
    "nan",  # several rows; a watch tells the first value at once
    "nan_gradients",
    "divergence",
    "reward_stuck",
    "reward_collapse",
    "no_signal",
    "entropy_collapse",
    "kl_explosion",
    "gradient_spikes",
    "all_clipped",
    "length_at_cap",
    "evaluation_fails",
    "slow_steps",
    "stall",
    "disk_fills",
    "memory_fills",
]
EventKind = (
    Literal["first_step", "first_step_timeout", "error_line", "hang", "plateau", "disk_low", "folder_gone"]
    | Literal["two_values"]  # of one metric at one place
    | AlarmKind
)
FatalSign = Literal["", "not_finite", "silence", "after_error"]
"""What shows that a run cannot come to a good end; an error that a silence follows is `after_error`."""
ERROR_START = re.compile(
    r"(?:\([^)]*\)\s*)?(?:"
    r"Traceback \(most recent call last\)"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)"
    r"|(?:\[[^\]]*\]\s*)*(?:FATAL|CRITICAL)\b"
    r"|Segmentation fault|Killed$|Fatal Python error|terminate called after"
    r")"
)
ERROR_ANYWHERE = re.compile(r"CUDA out of memory|No space left on device|NCCL (?:error|WARN)")
ERROR_WORDS = (  # without one of them no line is an error
    *(b"Traceback (most", b"Error", b"Exception", b"Interrupt", b"Exit", b"FATAL", b"CRITICAL"),
    *(b"Segmentation fault", b"Killed", b"Fatal Python error", b"terminate called after"),
    *(b"CUDA out of memory", b"No space left on device", b"NCCL error", b"NCCL WARN"),
)
OF_ANY_ROW = re.compile(r"^(?:timing_s|perf)/|^(?:epoch|step)$")
REWARD_NAME = re.compile(r"^(?:critic/)?(?:rewards?|score)(?:/mean)?$|^train/reward$")
PASS_RATE_NAME = re.compile(
    r"^(?:val|eval|test|validation)\b.*(?:task_pass_rate@1|/acc/mean@1|/reward/mean@1|accuracy|mean_reward)$"
)
MUST_BE_FINITE = re.compile(r"loss|grad_norm|reward|kl|entropy")
GRADIENT_NAME = re.compile(r"grad(?:ient)?_norm")

HANG_S = 1800.0
HANG_FACTOR = 10.0
SILENT_AFTER_ERROR_S = 600.0
PLATEAU_EVALUATIONS = 5
PLATEAU_DELTA = 0.01
DISK_LOW_BYTES = 1 << 30


class MetricSource(Enum):
    """Where an attempt's rows come from; never both, so no row is counted twice."""

    TRAINER = "trainer/metrics.jsonl"  # the bundled trainer's own file
    CONSOLE = "pane.log"  # lines of the terminal, for any other command


@dataclass(frozen=True)
class Event:
    """Something worth knowing. `time`: epoch s when it was noticed; `line_number`: physical line of pane.log
    (or of the metric source, for rows)."""

    kind: EventKind
    time: float
    text: str
    step: int | None = None
    line_number: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchRules:
    """What a plan says of its training.

    `expects_kl`: only a row with a KL loss proves the first step. `first_step_timeout_s`: counted from the
    start.
    """

    expects_kl: bool = False
    patterns: MetricPatterns = field(default_factory=MetricPatterns)
    first_step_timeout_s: float = 1200.0


@dataclass(frozen=True)
class Health:
    """What shows that a running attempt may be stopped before its time; every sentence names its evidence.

    `fatal`: why it cannot come to a good end, empty for a healthy run and for one that has recovered.
    `plateau`: why its validations count as flat, None while they do not. `second_half`: whether half of its
    steps, or of its time where they are not known, is over. `sign`: the kind of what is fatal.
    """

    fatal: tuple[str, ...] = ()
    plateau: str | None = None
    second_half: bool = False
    sign: FatalSign = ""


def is_error(text: str) -> bool:
    """Say whether a line of a log reports a failure."""
    return bool(ERROR_START.match(text) or ERROR_ANYWHERE.search(text))


def is_validation(row: Row) -> bool:
    """Say whether a row holds validation results only; how long they took does not count."""
    told = [name for name in row.values if not OF_ANY_ROW.match(name)]
    return bool(row.split) or (bool(told) and all(map(is_validation_name, told)))


def proves_first_step(row: Row, rules: WatchRules) -> bool:
    """Say whether a row proves that training steps succeed."""
    if rules.patterns.first_step is not None:
        return False
    if rules.expects_kl:
        return any("kl_loss" in name for name in row.values)
    return not is_validation(row)


def plateau(scores: list[float]) -> bool:
    """Say whether the last `PLATEAU_EVALUATIONS` scores brought nothing: their best is within `PLATEAU_DELTA`
    of the best before."""
    before, last = scores[:-PLATEAU_EVALUATIONS], scores[-PLATEAU_EVALUATIONS:]
    return bool(before) and max(last) <= max(before) + PLATEAU_DELTA


def is_hang(silent_s: float, longest_silence_s: float) -> bool:
    """Say whether a silence is beyond the limit and far beyond everything this run has done before."""
    return silent_s > max(HANG_S, HANG_FACTOR * longest_silence_s)


def is_dead_after_error(silent_s: float, longest_silence_s: float) -> bool:
    """Say whether the silence after an error is its end: one used to longer silences may only be waiting."""
    return silent_s > max(SILENT_AFTER_ERROR_S, longest_silence_s)


def in_second_half(
    step: int | None, total_steps: int | None, launched_at: float, deadline_at: float, now: float
) -> bool:
    """Say whether half of the steps are done; where their number is not known, whether half of the time from
    launch to deadline is over."""
    if total_steps:
        return step is not None and 2 * step >= total_steps
    return 2 * (now - launched_at) >= deadline_at - launched_at
