"""What a text about several runs has to name: every run that does not count.

In: a `Comparison`. Out: `Duty`s. A run is named by its name, long or short; by its point; or by a number that
it is one of: of all that are missing, of those of its point, of those that ended as it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.results.claims.counts_of_comparison import never_started
from harness.results.claims.number_words import in_words
from harness.results.claims.types import Duty
from harness.results.comparing.types import Comparison, PlannedRun

_BAD = (
    r"(?:fail|crash|missing|lost|loss|lack|without|(?:do|does|did|was|were|could)\s*(?:not|n't)|never|unfinished|"
    r"ran\s+out|out[\s-]of[\s-]memory|oom|died|dropped|absent|left\s+out|exclud|aborted|broke|gone)"
)
_NEVER = (
    r"(?:never|(?:not|n't)\s+(?:be\s+)?(?:start|run|begin|launch|reach)|unstarted|missing|left\s+out|absent|"
    r"budget)"
)


def duties(comparison: Comparison) -> Iterator[Duty]:
    results = {run.run.name: run for run in comparison.runs}
    study = comparison.study
    absent = [
        run
        for run in study.runs
        if (run.name in results and results[run.name].value is None)
        or (run.name not in results and run.name in study.not_run)
    ]
    never = [run for run in absent if run.name not in results or never_started(results[run.name])]
    done = len(study.runs) - len(absent)
    together = (
        _counted(len(absent), _BAD),
        rf"\b(?:{_number(done)}|only \w+)(?:\s+out)?\s+of\s+(?:the\s+|its\s+)?\w+(?:\s+\w+){{0,2}}\s+"
        r"(?:seeds?|runs?)",
        rf"\b(?:first|second|third|last|other|remaining|one) (?:run|seed|one)\b[^.]*\b{_BAD}",
    )
    for run in absent:
        alike = [one for one in absent if (one in never) == (run in never)]
        beside = [one for one in absent if one.point == run.point]
        left = sum(one.point == run.point for one in study.runs) - len(beside)
        patterns = (
            *_names(run),
            *together,
            _counted(len(alike), _NEVER if run in never else _BAD),
            *_of_point(run, len(beside), left, absent),
        )
        yield Duty(f"{run.name} failed or is missing", patterns)


def _number(count: int) -> str:
    return rf"(?:{count}|{'|'.join(in_words(count))})"


def _counted(count: int, bad: str) -> str:
    """ "two were never started", "missing are two runs"."""
    number = _number(count) if count > 1 else rf"(?:{_number(1)}|an?|another|single)"
    return rf"\b{number}\b[^.;]{{0,50}}\b{bad}|\b{bad}[^.;]{{0,30}}\b{number}\b"


def _names(run: PlannedRun) -> Iterator[str]:
    short = re.escape(run.point.partition("-")[0])
    yield re.escape(run.name)
    if run.seed is None:
        yield rf"\b{short}\b[^.]*\b{_BAD}"
        yield rf"\b{_BAD}[^.]*\b{short}\b"
        return
    seed = rf"(?:\bseeds?\s(?:[\d\s,]|and|or|&)*|\bs){run.seed}\b"
    yield rf"\b{short}\b[^.]*?{seed}"
    yield rf"{seed}[^.]*\b{short}\b"
    yield rf"{seed}[^.]*\b{_BAD}"
    yield rf"\b{_BAD}[^.]*{seed}"


def _of_point(run: PlannedRun, lost: int, left: int, absent: Sequence[PlannedRun]) -> Iterator[str]:
    """ "two runs of p06", "p06 rests on a single seed", "p02, which lost one"."""
    short = re.escape(run.point.partition("-")[0])
    kept = rf"(?:{_number(left)}|a|single)\b" if left == 1 else rf"{_number(left)}\b"
    yield rf"\b{_number(lost)}\b[^.;]{{0,30}}\b(?:of|in|at|for|from)\s+{short}\b"
    yield rf"\b{short}\b[^.;]{{0,80}}\b{_counted(lost, _BAD)}"
    few = r"\b(?:only|just|single|rests\s+on|has)\b"
    yield rf"\b{short}\b[^.;]{{0,60}}{few}[^.;]{{0,20}}{kept}[^.;]{{0,12}}\b(?:seed|run)"
