"""Which of many faults is the cause: candidates in the order of how likely each is the root.

Every reason is a number of points, added up: what kind of evidence it is, who printed it, what came before
and after it. The points are few and coarse on purpose; what they are worth was measured on labelled logs
(`benchmarks/diagnosis.py` prints the reliability table), from which the tables are rounded.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from harness.diagnosis.matching import Match
from harness.diagnosis.signatures.schema import Breadth
from harness.diagnosis.types import FAULTS, UNKNOWN, Cause, Fault, Level, Log, Role
from monitors.health import Alarm
from monitors.log_prefixes import said

BREADTHS: Mapping[Breadth, float] = {
    "specific": 3.0,
    "message": 2.0,
    "general": 1.5,
    "kind_of_message": 0.0,
    "last_resort": -0.5,
}
AT_MOST: Mapping[Breadth, float] = {
    "message": 0.55,
    "general": 0.55,
    "kind_of_message": 0.35,
    "last_resort": 0.4,
}
"""How sure what only knows the kind of a failure can make: it nominates a cause and changes nothing. Such
answers were right less often on logs that nobody had seen than the points of their circumstances say."""
ROLES: Mapping[Role, float] = {"root": 0.0, "symptom": -2.5, "cascade": -3.0}
LEVELS: Mapping[Level, float] = {"fatal": 1.5, "error": 0.75, "": 0.5, "warning": -2.0, "info": -2.5}
UNCAUGHT = 2.0
RAISED = 1.25
HANDLED = -4.5
DEGRADED = -1.5
EARLIEST = 1.0
FOLLOWS = -2.0
RECURS = -4.0
LATER_IN_CHAIN = -0.5
WENT_ON = -0.5
GOT_OVER = -4.0
"""A process that reports a step itself has got over what it printed before."""
CAME_TO_ITS_END = -6.0
"""So has, whatever it was, a training that says at its end that it is done, and a command that succeeded."""
FATAL_ALARM = 3.0
WORTHLESS_ALARM = 2.5
ALARM = 1.0
CONSEQUENCES = {
    "collective_timeout": -2.0,
    "peer_crash_cascade": -2.5,
    "worker_died_opaque": -2.0,
    "hang_no_output": -2.5,
    "network_interconnect": -0.5,
    "user_interrupt": -0.5,
}
"""Families that are often what others see of a failure: they are the cause only where nothing else is."""
WORTHLESS = ("silent_bad_metrics", "numerics_nan")
"""Families of what a success does not get over: it ended well, and its numbers mean nothing."""
EXPLAINS = {"gpu_hardware": 1.0, "time_limit": 1.0, "preempted": 1.0}
"""Families that explain what processes say: the kernel tells of broken hardware a little later, and the
scheduler of why it ended them."""
LAST_WORDS = 5
LONGEST_LAST = 1000
_DONE = re.compile(
    r"(?:\b(?:training|run|job|experiment|fine-?tuning)\b[^\n]{0,40}\b(?:finished|completed?|done|succeeded)\b"
    r"|\b(?:finished|completed) (?:the )?(?:training|run|job)\b)"
    r"(?![^\n]{0,40}\b(?:code|status|fail\w*|errors?)\b)"
    r"|'train_runtime': |`Trainer\.fit` stopped: `max_|\bsaved (?:the )?final (?:model|checkpoint)\b",
    re.IGNORECASE,
)
ADVICE = {
    "numerics_nan": ("advise: Look at what changed just before that step: learning rate, data, precision.",),
    "silent_bad_metrics": (
        "advise: Look at some responses and their rewards, and run the reward on them alone.",
    ),
}
"""What a person can do about metrics that no signature explains."""
INCIDENT_LINES = 400
OFTEN = 5
STEPS_BETWEEN = 3
LASTING = ("numerics_nan", "silent_bad_metrics", "hang_no_output", "resources_unschedulable")
"""Families that are reported again and again because they last, not because they are got over."""
OF_UNKNOWN = 0.4
_BY_STRENGTH = ((5.0, 0.95), (4.0, 0.92), (3.0, 0.88), (2.25, 0.78), (1.5, 0.65), (0.75, 0.45), (0.0, 0.3))
_BY_LEAD = ((2.0, 1.0), (1.0, 0.95))
TOSS_UP = 0.4
"""With a rival of another family less than a point behind, two of nine were right on logs nobody had seen."""
QUOTED = 0.45
"""How sure a line without an exception makes where another exception, from the author's own code, ends the
program below it: the line may quote a sample, a document or advice."""


@dataclass(frozen=True)
class Candidate(Cause):
    """One possible cause. `line`: where it begins; `points`: how likely it is the root, for comparison only;
    `strength`: how much speaks for that it happened at all, be it root or consequence.
    `evidence`: numbers of lines of the log, or of `file`."""

    line: int = 0
    points: float = 0.0
    strength: float = 0.0
    role: Role = "root"
    evidence: tuple[int, ...] = ()
    fault: Fault | None = None
    file: str = ""
    breadth: Breadth = "specific"

    @property
    def only_nominated(self) -> bool:
        """True if the failure is known by its kind alone."""
        return self.breadth in AT_MOST


class _Course:
    """What a log tells of the time before and after a line. `first_of`: where faults of a kind begin; `done`:
    the line in which the training says that it came to its end, 0 for none."""

    def __init__(self, log: Log) -> None:
        self._rows = log.rows
        self._lines = [seen.line.number for seen in log.rows]
        places = [seen.row.at for seen in log.rows]
        self._most_until = [*accumulate(places, max)]
        self._most_from = [*accumulate(reversed(places), max)][::-1]
        self.line_count = log.line_count
        self.done = _done_at(log)
        self.ends_in_trouble = log.ends_in_trouble
        raised = [fault for fault in log.faults if fault.type and fault.uncaught and not fault.handled]
        self.last_raised = raised[-1].line if raised else 0
        self.is_one_process = not any(fault.is_of_several_processes for fault in log.faults)
        self.first_of: dict[tuple[str, int, int], int] = {}
        for fault in sorted(log.faults, key=lambda each: each.line):
            self.first_of.setdefault(_kind(fault), fault.line)

    def rows_between(self, first: int, last: int) -> int:
        return max(0, bisect_left(self._lines, last) - bisect_right(self._lines, first))

    def rows_after(self, line: int) -> int:
        return len(self._lines) - bisect_right(self._lines, line)

    def goes_on_after(self, line: int) -> bool:
        """True if rows below it are further than those above."""
        before, after = bisect_left(self._lines, line), bisect_right(self._lines, line)
        is_between = before > 0 and after < len(self._lines)
        return is_between and self._most_from[after] > self._most_until[before - 1]

    @cached_property
    def last_row_of(self) -> Mapping[str, int]:
        """The line of the last row that each source printed."""
        return {said(seen.line.text).source: seen.line.number for seen in self._rows}


def rank(
    log: Log, matches: Sequence[Match], alarms: Iterable[Alarm] = (), succeeded: bool = False
) -> list[Candidate]:
    """All candidates, the most likely cause first. `succeeded`: the command is known to have."""
    matched, course = {id(match.fault) for match in matches}, _Course(log)
    found = [_of_match(match, course, succeeded) for match in matches]
    unmatched = (fault for fault in log.faults if fault.type and id(fault) not in matched)
    found += [_unexplained(fault, course, succeeded) for fault in unmatched]
    found += [of_alarm(alarm, log.rows_file) for alarm in alarms if not alarm.passed]
    found = _one_per_place(found)
    first = _begin(found)
    found = [replace(each, points=each.points + _by_order(each, first)) for each in found]
    return sorted(found, key=lambda each: (-each.points, each.line))


def confidence(candidates: Sequence[Candidate]) -> float:
    """How sure the first candidate is the cause, 0 to 1: by how much speaks for it, and how far it is ahead
    of the best one of another family. Of nothing known, how sure it is that nothing is."""
    if not candidates or candidates[0].family == UNKNOWN:
        return OF_UNKNOWN
    best = candidates[0]
    others = (each for each in candidates if each.family not in (best.family, UNKNOWN))
    rivals = [each.points for each in others if each.breadth != "kind_of_message"]
    lead = best.points - max(rivals, default=-10.0)
    by_strength = next((share for least, share in _BY_STRENGTH if best.strength >= least), 0.2)
    sure = by_strength * next((share for least, share in _BY_LEAD if lead >= least), TOSS_UP)
    most = min(AT_MOST.get(best.breadth, 1.0), QUOTED if _may_be_quoted(best, candidates) else 1.0)
    return round(min(sure, most), 2)


def _may_be_quoted(best: Candidate, candidates: Iterable[Candidate]) -> bool:
    """True if it is a line alone of no level, and the last uncaught exception below tells something else."""
    if best.fault is None or best.fault.type or best.fault.level:
        return False
    ends = [each for each in candidates if each.fault is not None and each.fault.uncaught]
    last = max(ends, key=lambda each: each.line, default=None)
    return last is not None and last.line > best.line and last.family not in (best.family, *CONSEQUENCES)


def _of_match(match: Match, course: _Course, succeeded: bool) -> Candidate:
    signature, family = match.signature, match.signature.family
    strength = BREADTHS[signature.breadth] + _circumstances(match.fault)
    strength += _what_followed(match.fault, course, family, succeeded) + EXPLAINS.get(family, 0.0)
    strength += DEGRADED if signature.severity == "degraded" else 0.0
    follows = CONSEQUENCES.get(family, 0.0) if signature.role == "root" else ROLES[signature.role]
    return Candidate(
        family,
        signature.id,
        match.cause,
        signature.transient,
        signature.wait_s,
        match.captures,
        signature.remedies,
        match.fault.line,
        strength + follows,
        strength,
        signature.role,
        match.evidence,
        match.fault,
        breadth=signature.breadth,
    )


def _unexplained(fault: Fault, course: _Course, succeeded: bool) -> Candidate:
    numbers = tuple(line.number for line in fault.lines[:8])
    points = _circumstances(fault) + _what_followed(fault, course, UNKNOWN, succeeded)
    cause = Candidate(UNKNOWN, None, f"The training raised {fault.said[0][:300]}", line=fault.line)
    return replace(cause, points=points, strength=points, evidence=numbers, fault=fault)


def of_alarm(alarm: Alarm, file: str) -> Candidate:
    """What metric rows show. `file`: in which they are numbered, "" for the log."""
    points = FATAL_ALARM if alarm.fatal else WORTHLESS_ALARM if alarm.worthless else ALARM
    return Candidate(
        alarm.family,
        alarm.kind,
        f"{alarm.text[:1].upper()}{alarm.text[1:]}",
        remedies=ADVICE.get(alarm.family, ()),
        line=alarm.lines[0] if alarm.lines else 0,
        points=points,
        strength=points,
        evidence=alarm.lines,
        file=file,
    )


def _circumstances(fault: Fault) -> float:
    """Points for how it was said, whatever it says."""
    points = LEVELS[fault.level]
    if fault.type:
        points = (UNCAUGHT if fault.uncaught and not fault.handled else RAISED) + min(0.0, points)
    points += HANDLED if fault.handled else 0.0
    return points + (LATER_IN_CHAIN if fault.depth else 0.0)


def _what_followed(fault: Fault, course: _Course, family: str, succeeded: bool) -> float:
    """Points for what came after it: its like again and again while steps were made, or only steps. A command
    that succeeded got over all but the exception or crash after which it did nothing more."""
    if fault.count >= OFTEN and family not in LASTING:
        first = course.first_of[_kind(fault)]
        spread = fault.last - first
        if course.rows_between(first, fault.last) >= STEPS_BETWEEN:
            return RECURS
        if spread > INCIDENT_LINES and spread > course.line_count / 10:
            return RECURS
    is_last_word = course.ends_in_trouble and course.done <= fault.last and not course.rows_after(fault.line)
    if (
        succeeded
        and family not in WORTHLESS
        and not (is_last_word and (fault.uncaught or fault.level == "fatal"))
    ):
        return CAME_TO_ITS_END
    if course.is_one_process and course.rows_between(fault.line, course.last_raised):
        return GOT_OVER
    if not course.goes_on_after(fault.line):
        return 0.0
    itself = bool(fault.source) and course.last_row_of.get(fault.source, 0) > fault.line
    return CAME_TO_ITS_END if course.done else GOT_OVER if itself else WENT_ON


def _kind(fault: Fault) -> tuple[str, int, int]:
    return fault.type, fault.count, fault.last


def seems_over(fault: Fault, log: Log) -> bool:
    """True if a fault is no more than a hint where the end of the command is not known: no error reaches into
    the last lines of the log, or the training says below it that it is done."""
    return not log.ends_in_trouble or _done_at(log) > fault.reaches


def reported_before(log: Log, best: Candidate, candidates: Iterable[Candidate]) -> Fault | None:
    """Of what others see of a failure, the first error above it of another process that no signature knows:
    the cause, in words of the author's own."""
    if best.fault is None or not best.fault.source or best.family not in CONSEQUENCES:
        return None
    known = {each.line for each in candidates if each.family != UNKNOWN}
    open_errors = (fault for fault in log.faults if fault.level in FAULTS and not fault.handled)
    others = (fault for fault in open_errors if fault.source != best.fault.source)
    return next((fault for fault in others if fault.line < best.line and fault.line not in known), None)


def says_done(log: Log) -> bool:
    """True if the training says at the end of its log that it came to its own."""
    return _done_at(log) > 0


def _done_at(log: Log) -> int:
    """The line in which it says so, 0 for none."""
    last = log.last[-LAST_WORDS:]
    return max((line.number for line in last if _DONE.search(line.text[:LONGEST_LAST])), default=0)


def _one_per_place(found: Sequence[Candidate]) -> list[Candidate]:
    """Of what stands in one line, and of one signature in one incident, only the best."""
    kept: dict[object, Candidate] = {}
    for each in sorted(found, key=lambda each: (-each.points, each.line)):
        kept.setdefault((each.file, each.line), each)
    return sorted(kept.values(), key=lambda each: each.line)


def _by_order(found: Candidate, first: Sequence[Candidate]) -> float:
    """Points for that an incident begins with it, or that it may follow from the exception with which one
    does."""
    if found in first:
        return EARLIEST
    may_follow = found.role == "root" and (found.family in CONSEQUENCES or found.family == "path_not_found")
    return (
        FOLLOWS if may_follow and any(each.line < found.line and _ends(each.fault) for each in first) else 0.0
    )


def _ends(fault: Fault | None) -> bool:
    """True for an exception and for what ended a process: without it there may be less to be found later."""
    return fault is not None and (bool(fault.type) or fault.level == "fatal")


def _begin(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that could be a cause and with which an incident begins."""
    first: list[Candidate] = []
    end = -INCIDENT_LINES
    for each in found:
        handled = each.fault is not None and each.fault.handled
        if each.role != "root" or each.points <= 0 or each.family in CONSEQUENCES or handled:
            continue
        if each.line - end > INCIDENT_LINES:
            first.append(each)
        end = each.line
    return first
