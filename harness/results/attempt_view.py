"""What the documents show of each attempt, from the journal and from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.pending_changes import Change
from harness.results.changes import ConfigChange
from harness.results.deviations import Deviation
from harness.results.evidence import CitedLine, cited_lines
from harness.results.types import AttemptSummary, EventNote, Fact, Record, RunSummary
from harness.wording import time_text

_ATTEMPT_FACTS = (
    "status",
    "signal",
    "prepare_status",
    "cleanup_status",
    "duration",
    "rows",
    "first_step",
    "last_step",
)


@dataclass(frozen=True)
class AttemptView:
    """One attempt, from the journal and from its folder."""

    number: int
    session: str
    why_started: str
    started: str
    reason: str
    facts: Mapping[str, Fact | None]  # by the names in _ATTEMPT_FACTS
    family: str
    cause: str
    evidence: tuple[CitedLine, ...]
    last_lines: str
    last_lines_place: str
    repair: str
    settings: tuple[Change, ...]  # chosen for a config that the blueprint does not name
    deviations: tuple[Deviation, ...] = ()
    changes: tuple[ConfigChange, ...] = ()  # in its config since the attempt before, and no deviation
    remarks: tuple[tuple[str, str], ...] = ()  # time, text
    came_of_it: str = ""


def attempt_views(
    record: Record,
    facts: Mapping[str, Fact],
    summary: RunSummary,
    deviating: tuple[Deviation, ...],
    changes: tuple[ConfigChange, ...],
) -> tuple[AttemptView, ...]:
    """Every attempt that the journal or a folder knows of, in order."""
    told = {attempt.number: attempt for attempt in summary.attempts}
    read = {attempt.number: attempt for attempt in record.attempts}
    views = []
    numbers = sorted({*told, *read})
    for number in numbers:
        following = next((told[later] for later in numbers if later > number and later in told), None)
        exit_record = (read[number].exit if number in read else None) or {}
        view = _attempt_view(record, facts, told.get(number, AttemptSummary(number)), exit_record)
        views.append(
            replace(
                view,
                deviations=tuple(deviation for deviation in deviating if deviation.attempt == number),
                changes=tuple(change for change in changes if change.attempt == number),
                remarks=tuple(remark(note) for note in summary.remarks if note.attempt == number),
                came_of_it=_came_of_it(following, summary),
            )
        )
    return tuple(views)


def remark(note: EventNote) -> tuple[str, str]:
    """Time and text of a note or a refusal, as the story tells it."""
    kind = "noted by the policy, unchecked" if note.kind == "note" else note.kind
    return time_text(note.time), f"{kind}: {note.text}"


def _attempt_view(
    record: Record, facts: Mapping[str, Fact], attempt: AttemptSummary, exit_record: Mapping[str, Any]
) -> AttemptView:
    diagnosis = attempt.diagnosis or {}
    last = cited_lines(record.result_dir, attempt.number, diagnosis.get("last_lines"))
    shown = [line.text for line in last if line.is_found]
    return AttemptView(
        number=attempt.number,
        session=attempt.session,
        why_started=attempt.why_started,
        started=time_text(attempt.started_at),
        reason=attempt.reason or str(exit_record.get("reason") or "unknown"),
        facts={name: facts.get(f"attempt/{attempt.number}/{name}") for name in _ATTEMPT_FACTS},
        family=str(diagnosis.get("family") or ""),
        cause=str(diagnosis.get("cause") or ""),
        evidence=cited_lines(record.result_dir, attempt.number, diagnosis.get("evidence")),
        last_lines="\n".join(shown),
        last_lines_place=f"{last[0].file}:{last[0].line}–{last[-1].line}" if shown else "",
        repair=attempt.repair or "",
        settings=attempt.settings,
    )


def _came_of_it(following: AttemptSummary | None, summary: RunSummary) -> str:
    if following is None:
        return f"The run ended: {summary.outcome}" + (f" ({summary.reason})" if summary.reason else "")
    status = "" if following.status is None else f", status {following.status}"
    return f"Attempt {following.number} followed; it ended: {following.reason or 'unknown'}{status}"
