"""What is known of one attempt after its end: how it ended, why, and what can be done about it.

These are values, made by the rooms that find them out (`monitors` and `agent` the end, `diagnosis` the cause,
`repair` the remedies) and kept in the journal.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.redaction import redact
from monitors.rules import FatalSign

Scalar = str | int | float | bool | None
Role = Literal["root", "cascade", "symptom"]
RemedyKind = Literal["config", "environment", "limit", "wait", "resume", "install", "free", "advice"]
UNKNOWN = "unknown"
NOTHING_FAILED = "nothing_failed"
KILLED = "killed"
"""The signature of a SIGKILL that nothing explains."""
SURE_ENOUGH = 0.5
_LOST = {
    "disk full": ", as the disk was full",
    "file size limit": ", as files may not be larger here",
    "log limit": ", as it had grown to the largest log that is kept",
}
_REASONS = {
    "signalled": "killed by a signal",
    "deadline": "ended at its deadline",
    "prepare_failed": "its prepare command failed",
    "could_not_start": "could not start",
    "first_step_timeout": "no first step was seen in the time that it had",
    "fatal_error": "it could not recover",
    "plateau": "its validations had been flat",
    "person": "a person asked for it",
}


def reason_text(reason: str) -> str:
    """Why an attempt ended, or why it was stopped, in words."""
    return _REASONS.get(reason, reason.replace("_", " "))


def log_lost(count: float | None, why: str) -> str:
    """What is not in a log, in words; "" for nothing. `why`: of the exit record, "" where it does not say."""
    because = _LOST.get(why, f" ({why})" if why else "")
    return f"{int(count)} bytes of its log were lost{because}" if count else ""


@dataclass(frozen=True)
class AttemptEnd:
    """The supervisor's exit record, and what the attempt achieved. Times are seconds since the epoch.

    `reason`: exited | signalled | deadline | stopped | prepare_failed | could_not_start, or "lost" where no
    exit record was left, "not_started" where its shell never ran it; `detail` then says how. `status`: as a
    shell gives it, None if the command never ran. `rows`, `last_step`: of its metrics (where no step is
    named, the last epoch or row number); `reached`: the same in words, "" before the first row. `shortfall`:
    what it still owes although it exited cleanly, None for nothing, and the family of failures that this
    belongs to. `complete`: it did all that it owed. `sign`: of the fatal error for which it was stopped, ""
    where there was none. `metrics_from`: the file that its rows were taken from, and its format; "" where
    that was the log. `log_lost_why`: disk full | file size limit | log limit | an error's own words, ""
    where it is not known. `evaluate_ran`: what the evaluation unpickled that may have run code of a
    changed training.
    """

    reason: str = ""
    status: int | None = None
    signal: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    prepare_status: int | None = None
    evaluate_status: int | None = None
    cleanup_status: int | None = None
    log_lost_bytes: int = 0
    log_lost_why: str = ""
    error: str | None = None
    detail: str = ""
    rows: int = 0
    last_step: int | None = None
    reached: str = ""
    shortfall: str | None = None
    shortfall_family: str = "silent_bad_metrics"
    complete: bool = False
    sign: FatalSign = ""
    metrics_from: str = ""
    evaluate_ran: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The reason, in words."""
        return reason_text(self.reason)


@dataclass(frozen=True)
class Evidence:
    """A line of a file in the attempt's folder; `line` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class OtherFinding:
    """Something else that was found: what followed from the cause, or another one that is less likely."""

    family: str
    signature: str | None
    cause: str
    line: int
    role: Role = "root"


@dataclass(frozen=True)
class Undo:
    """How a remedy is taken back: keys to set and keys to take out, variables as they were (None: not set),
    and the same in words."""

    words: str = ""
    edits: Mapping[str, Scalar] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Remedy:
    """One thing that can be done about a failure.

    `change`: for people, such as `actor_rollout_ref.rollout.gpu_memory_utilization: 0.6 → 0.5`; without a
    config, what to change in general. `side_effect`: on what the experiment means ("none: …"). `edits`:
    dotted keys with their new values, set after the keys of `remove` were taken out. The values are empty
    where the remedy is only described. `by_hand`: what a person types or writes to do it, "" where `change`
    says it all.
    """

    name: str
    kind: RemedyKind
    change: str
    why: str
    side_effect: str = ""
    undo: Undo = field(default_factory=Undo)
    edits: Mapping[str, Scalar] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    package: str = ""
    wait_s: float = 0.0
    by_hand: str = ""

    @classmethod
    def advice(cls, change: str, why: str = "", by_hand: str = "") -> "Remedy":
        """What only a person can do."""
        return cls("advise", "advice", change, why, by_hand=by_hand)

    @property
    def sentence(self) -> str:
        """What to do, with the exact command or edit."""
        return f"{self.change.rstrip('.')}: `{self.by_hand}`" if self.by_hand else self.change

    @property
    def told(self) -> str:
        """The same; of an installation, why the run has not made it."""
        return f"{self.sentence} ({self.why.rstrip('.')})" if self.kind == "install" else self.sentence


@dataclass(frozen=True)
class Cause:
    """What ended a training. `signature` is None when the failure is not a known one. `wait_s`: before a
    restart that changes nothing. `captures`: what the log measured, such as `{"tried_gib": "1.02"}`.
    `remedies`: names from the signature, in order."""

    family: str
    signature: str | None
    cause: str
    transient: bool = False
    wait_s: float = 0.0
    captures: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis(Cause):
    """Why a training ended, or (found before a launch) would end. `confidence`: the share of diagnoses like
    this one that were right (0 to 1). `only_nominated`: known by its kind alone. `repairs`: what the remedies
    come to in this run, in the order in which they are to be tried. `what_to_do`: the same for a person, with
    what a run may not do by itself. `by`: the language model that named family and cause, "" for none;
    `failure`: then what makes another one the same failure, whatever it is called."""

    evidence: tuple[Evidence, ...] = ()
    last_lines: tuple[Evidence, ...] = ()
    confidence: float = 0.0
    only_nominated: bool = False
    also: tuple[OtherFinding, ...] = ()
    repairs: tuple[Remedy, ...] = ()
    what_to_do: tuple[Remedy, ...] = ()
    by: str = ""
    failure: str = ""

    @property
    def is_open(self) -> bool:
        """True if the program knows no cause, only its kind, or is not sure: a language model may name it."""
        return self.family == UNKNOWN or not self.is_sure or bool(self.by)

    @property
    def is_sure(self) -> bool:
        """True if it is sure enough for something to be changed; never so where the cause is only known by
        its kind, however likely that is."""
        return not self.only_nominated and self.confidence >= SURE_ENOUGH


_VARYING = re.compile(
    r"0x[0-9a-fA-F]+|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?:/[\w.@-]+)+|\d+(?:\.\d+)?"
)
_NAME = re.compile(r"(?!0x[0-9a-fA-F]+$|(?=.*\d)[0-9a-fA-F]{6,}$)[A-Za-z0-9_]{1,40}")
"""A short word in quotes says what failed, as in `KeyError: 'reward'`; anything longer is an example."""


def failure_of(diagnosis: Diagnosis | None) -> str:
    """What makes two failures the same one: the signature, else the cause with what varies, and secrets, left
    out; "" for none."""
    if diagnosis is None:
        return ""
    return diagnosis.failure or diagnosis.signature or _VARYING.sub(_general, redact(diagnosis.cause))[:200]


def _general(match: re.Match[str]) -> str:
    quoted = match["single"] or match["double"] or ""
    return re.sub(r"\d+", "…", match.group()) if _NAME.fullmatch(quoted) else "…"
