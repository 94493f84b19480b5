"""What a watch looks for: the events it can tell, and the rules with their limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from monitors.metrics import MetricPatterns, Row

EventKind = Literal[
    "first_step", "first_step_timeout", "error_line", "nan", "hang", "plateau", "disk_low", "metric"
]
ERROR_START = re.compile(
    r"(?:\([^)]*\)\s*)?(?:"
    r"Traceback \(most recent call last\)"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)"
    r"|(?:\[[^\]]*\]\s*)*(?:FATAL|CRITICAL)\b"
    r"|Segmentation fault|Killed$|Fatal Python error|terminate called after"
    r")"
)
ERROR_ANYWHERE = re.compile(r"CUDA out of memory|No space left on device|NCCL (?:error|WARN)")
VALIDATION_NAME = re.compile(r"^(?:val|eval|test|validation)(?:[-_/]|$)")
REWARD_NAME = re.compile(r"^(?:critic/)?(?:rewards?|score)(?:/mean)?$|^train/reward$")
PASS_RATE_NAME = re.compile(
    r"^(?:val|eval|test|validation)\b.*(?:task_pass_rate@1|/acc/mean@1|/reward/mean@1|accuracy|mean_reward)$"
)
MUST_BE_FINITE = re.compile(r"loss|grad_norm|reward|kl|entropy")


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

    @property
    def wakes(self) -> bool:
        """Say whether a waiter returns for it; metric rows only add up."""
        return self.kind != "metric"


@dataclass(frozen=True)
class WatchRules:
    """The limits of a watch; None switches a rule off.

    `expects_kl`: only a row with a KL loss proves the first step. `first_step_timeout_s`: counted from the
    start. `hang_s`: no output and no row for so long. `plateau_evaluations`: so many validations in a row
    that are no more than `plateau_delta` better than the best before them. `disk_low_bytes`: free space on
    the attempt's disk. `ignored_errors`: regular expressions of error lines that mean nothing.
    """

    expects_kl: bool = False
    patterns: MetricPatterns = field(default_factory=MetricPatterns)
    first_step_timeout_s: float | None = 1200.0
    hang_s: float | None = 1800.0
    plateau_evaluations: int | None = 5
    plateau_delta: float = 0.01
    disk_low_bytes: int | None = 1 << 30
    ignored_errors: tuple[str, ...] = ()


def is_error(text: str) -> bool:
    """Say whether a line of a log reports a failure."""
    return bool(ERROR_START.match(text) or ERROR_ANYWHERE.search(text))


def is_validation(row: Row) -> bool:
    """Say whether a row holds validation results only."""
    return all(VALIDATION_NAME.match(name) or name in ("epoch", "step") for name in row.values)


def proves_first_step(row: Row, rules: WatchRules) -> bool:
    """Say whether a row proves that training steps succeed."""
    if rules.patterns.first_step is not None:
        return False
    if rules.expects_kl:
        return any("kl_loss" in name for name in row.values)
    return not is_validation(row)


def plateau(scores: list[float], evaluations: int, delta: float) -> bool:
    """Say whether the last `evaluations` scores brought nothing: their best is within `delta` of the best
    before."""
    before, last = scores[:-evaluations], scores[-evaluations:]
    return bool(before) and len(last) == evaluations and max(last) <= max(before) + delta
