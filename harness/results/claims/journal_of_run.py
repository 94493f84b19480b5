"""What the journal of a run and its configs add: counts, times, settings, and what has to be named.

In: the `Record` of a run, the summary of its journal. Out: `Number`s and `Duty`s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from harness.results.changes import flat
from harness.results.claims.naming import PASS_RATE, setting_words
from harness.results.claims.types import Duty, Number
from harness.results.types import AttemptSummary, Record, RunSummary

_FAILURE = (
    r"\b(?:fail|crash|error|abort|die[ds]|kill|out[\s-]of[\s-]memory|oom|exception|could not run|not run|"
    r"never (?:ran|finish|complet|got)|not (?:finish|complet)|exit(?:ed)? (?:with )?(?:status|code) [1-9]|"
    r"broke|incomplete|unfinished|interrupted)\w*",
)
_OUTCOMES = {
    "failed": ("the run failed", _FAILURE),
    "cannot_run": (
        "the run could not be started",
        (*_FAILURE, r"\bnever\b", r"\bcould not\b", r"\bcannot\b"),
    ),
    "timed_out": (
        "the run ended at its time limit",
        (
            r"\btime(?:d)?[\s-]*(?:limit|out|budget)",
            r"\btimed out",
            r"\bdeadline",
            r"\bout of time",
            r"\blimit\b",
            r"\bcut (?:off|short)",
        ),
    ),
    "stopped_early": ("the run was stopped early", (r"\bstopp?ed\b", r"\bearly\b", r"\bpruned\b")),
    "cancelled": ("the run was cancelled", (r"\bcancel", r"\bstopped\b", r"\binterrupted\b")),
}
_REPAIRED = (
    r"\battempts?\b",
    r"\brepair",
    r"\bfix(?:ed|es)\b",
    r"\brestart",
    r"\bretr(?:y|ied)",
    r"\b(?:second|first|two|three) (?:try|tries|launch)",
    *_FAILURE,
)


def counts(record: Record, summary: RunSummary, validations: int) -> Iterator[Number]:
    failed = sum(ended(attempt) == "failed" for attempt in summary.attempts)
    n = len(summary.attempts)
    rated = sorted({evaluation.step for evaluation in record.evaluations})
    gaps = {later - earlier for earlier, later in pairwise(rated)}
    counted: list[tuple[float, str, set[str]]] = [
        (n, "the number of attempts", {"attempt", "launch", "launches", "try", "tries"}),
        (failed, "the number of failed attempts", {"failure", "failed", "crash", "crashes", "attempt"}),
        (
            max(0, n - 1),
            "the number of repairs",
            {"repair", "restart", "retry", "retries", "restarted", "retried", "repaired"},
        ),
        (validations, "the number of validations", {"validation", "evaluation", "validated", "evaluated"}),
        *(
            (gap, "steps between validations", {"validation", "evaluation", "validated", "step"})
            for gap in gaps
        ),
        (1, "the number of seeds", {"seed"}),
        (1, "the number of runs", {"run", "experiment"}),
        (len(record.series), "the number of metrics", {"metric"}),
    ]
    if summary.llm is not None:
        counted += [
            (summary.llm.calls, "the number of calls to the model", {"call"}),
            (summary.llm.input_tokens, "input tokens", {"token", "input"}),
            (summary.llm.output_tokens, "output tokens", {"token", "output"}),
        ]
    for value, label, nouns in counted:
        yield Number(float(value), "count", label, "journal.jsonl", nouns=frozenset(nouns))


def times(summary: RunSummary) -> Iterator[Number]:
    if summary.max_time_s is not None:
        yield Number(summary.max_time_s, "seconds", "the time limit", "journal.jsonl")
    if summary.started_at is not None and summary.ended_at is not None:
        yield Number(
            summary.ended_at - summary.started_at, "seconds", "the time from start to end", "journal.jsonl"
        )


_OPTION = re.compile(
    r"(?:^|\s)(?P<key>--?[A-Za-z][\w.\-]*|[A-Za-z][\w.]*(?==))(?:=|\s+)(?P<value>-?\d*\.?\d+(?:[eE]-?\d+)?)(?=\s|$)"
)


def settings_of(record: Record, summary: RunSummary) -> Iterator[Number]:
    for option in _OPTION.finditer(summary.command):
        key = option["key"].lstrip("-")
        yield Number(float(option["value"]), "setting", key, "journal.jsonl", nouns=setting_words(key))
    for attempt in record.attempts:
        for key, value in (flat(attempt.config_text) or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                label, place = f"{key} in attempt {attempt.number}", f"{attempt.folder}/config.yaml"
                yield Number(float(value), "setting", label, place, nouns=setting_words(key))
    for told in summary.attempts:
        for change in (*told.changes, *told.settings):
            for value in (change.old, change.new):
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield Number(
                        float(value),
                        "setting",
                        f"{change.what} in attempt {told.number}",
                        "journal.jsonl",
                        nouns=setting_words(change.what),
                    )


def exchanged(summary: RunSummary) -> Iterator[tuple[float, float]]:
    """Old and new value of each setting that was changed to a number from another."""
    for change in (change for told in summary.attempts for change in (*told.changes, *told.settings)):
        if isinstance(change.old, int | float) and isinstance(change.new, int | float):
            yield float(change.old), float(change.new)


def ended(attempt: AttemptSummary) -> str:
    return "ok" if attempt.status == 0 and attempt.diagnosis is None else "failed"


def quoted(summary: RunSummary) -> Iterator[str]:
    yield from (summary.purpose, summary.reason, summary.command)
    for attempt in summary.attempts:
        diagnosis = attempt.diagnosis or {}
        yield str(diagnosis.get("cause", ""))
        for line in (*(diagnosis.get("evidence") or ()), *(diagnosis.get("last_lines") or ())):
            if isinstance(line, Mapping):
                yield str(line.get("text", ""))


def duties(record: Record, summary: RunSummary) -> Iterator[Duty]:
    if summary.outcome in _OUTCOMES:
        yield Duty(*_OUTCOMES[summary.outcome])
    failed = [attempt for attempt in summary.attempts if ended(attempt) == "failed"]
    if len(summary.attempts) > 1 and failed:
        names = " and ".join(f"attempt {attempt.number}" for attempt in failed[:3])
        yield Duty(f"{names} failed and the run was repaired", _REPAIRED)
    if (
        not record.evaluations
        and PASS_RATE not in record.series
        and not any("val" in key for key in record.series)
    ):
        yield Duty("there are no validation results", (r"\bvalidat", r"\bevaluat", r"\bheld[\s-]out"))
