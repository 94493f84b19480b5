"""What the documents show, as plain data: the templates only lay it out.

In: record, facts, summary and the rest. Out: `View`, every string in it cleaned and redacted by `report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from harness.results.changes import Change, config_changes
from harness.results.evidence import CitedLine, cited_lines
from harness.results.facts import MAX_METRICS, ONE_SEED
from harness.results.types import (
    AttemptSummary,
    Discrepancy,
    EventNote,
    Fact,
    Record,
    RunSummary,
    describe_sources,
    format_duration,
)

PAGE_VALIDATIONS = 40  # rows of the validation table on the page; the Markdown table has them all
_MAX_EVENTS = 100
_COUNTS = ("pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks")
_COLUMN_ORDER = (*_COUNTS, "task_pass_rate", "mean_reward", "std_reward")  # as the trainers' own table has it
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
_VERDICTS = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "cannot_run": "Could not run",
    "timed_out": "Ended at its time limit",
    "stopped_early": "Stopped early",
    "cancelled": "Cancelled",
    "running": "Still running",
}


@dataclass(frozen=True)
class ValidationRow:
    """One validation: a cell per column of the table, None where the number is not known."""

    step: int
    attempt: int
    cells: tuple[Fact | None, ...]
    place: str

    @property
    def interval(self) -> str:
        """The interval of `task_pass_rate@1`, or a dash."""
        rate = next((fact for fact in self.cells if fact and "/task_pass_rate@1" in fact.id), None)
        return rate.interval.text if rate and rate.interval and not rate.withheld else "—"


@dataclass(frozen=True)
class MetricRow:
    """One metric: first, last, lowest, highest value, and the first one that is not a finite number."""

    key: str
    first: Fact
    last: Fact
    lowest: Fact | None
    highest: Fact | None
    first_not_finite: Fact | None


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
    changes: tuple[Change, ...]
    other_changed_keys: tuple[str, ...]  # changed on purpose, without a readable before and after
    came_of_it: str


@dataclass(frozen=True)
class View:
    """Everything the documents show."""

    summary: RunSummary
    verdict: str
    finding: str
    started: str
    ended: str
    time_limit: str
    key_facts: tuple[Fact, ...]
    columns: tuple[str, ...]
    validations: tuple[ValidationRow, ...]
    page_validations: tuple[ValidationRow, ...]
    metrics: tuple[MetricRow, ...]
    hidden_metrics: int
    attempts: tuple[AttemptView, ...]
    changes: tuple[Change, ...]
    events: tuple[tuple[str, str], ...]  # time, text
    methods: tuple[str, ...]
    config_text: str
    config_file: str
    missing: tuple[str, ...]
    discrepancies: tuple[Discrepancy, ...]
    seed_note: str

    @property
    def shown_facts(self) -> tuple[Fact, ...]:
        """Every fact on the page, in its order."""
        shown = [*self.key_facts]
        shown += [fact for row in self.page_validations for fact in row.cells if fact]
        shown += [fact for attempt in self.attempts for fact in attempt.facts.values() if fact]
        for row in self.metrics:
            shown += [fact for fact in (row.first, row.last, row.lowest, row.highest) if fact]
        return tuple(shown)


def build_view(
    record: Record,
    facts: Mapping[str, Fact],
    summary: RunSummary,
    missing: tuple[str, ...],
    discrepancies: tuple[Discrepancy, ...],
) -> View:
    """Arrange everything for the documents."""
    columns, validations = _validations(record, facts)
    changes = config_changes(record.attempts)
    metrics = _metrics(facts)
    config = next((attempt for attempt in reversed(record.attempts) if attempt.config_text), None)
    finding = _finding(facts)
    return View(
        summary=summary,
        verdict=_VERDICTS.get(summary.outcome, summary.outcome or "Unfinished"),
        finding=finding,
        started=format_time(summary.started_at),
        ended=format_time(summary.ended_at),
        time_limit=format_duration(summary.max_time_s) if summary.max_time_s else "none",
        key_facts=tuple(fact for name, fact in facts.items() if name.startswith("key/")),
        columns=columns,
        validations=validations,
        page_validations=_thinned(validations),
        metrics=metrics,
        hidden_metrics=max(0, sum(not key.startswith("val/") for key in record.series) - MAX_METRICS),
        attempts=_attempts(record, facts, summary, changes),
        changes=changes,
        events=tuple(_event(event) for event in summary.events[:_MAX_EVENTS]),
        methods=tuple(sorted({fact.interval.method for fact in facts.values() if fact.interval})),
        config_text=(config.config_text or "") if config else "",
        config_file=f"{config.folder}/config.yaml" if config else "",
        missing=missing,
        discrepancies=discrepancies,
        seed_note=ONE_SEED,
    )


def headline(view: View, facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """The few lines a terminal shows at the end of a run."""
    lines = [f"{view.verdict}: {view.summary.reason}" if view.summary.reason else view.verdict]
    start, end, change = (facts.get(f"key/pass_rate_{name}") for name in ("start", "end", "change"))
    if start and end:
        lines.append(f"pass rate {with_interval(start)} → {with_interval(end)}")
    elif end:
        lines.append(f"pass rate {with_interval(end)}")
    if change:
        lines.append(f"change {with_interval(change)}, {change.note}")
    first, recent = facts.get("key/reward_first"), facts.get("key/reward_recent")
    if first and recent:
        lines.append(f"training reward {first.text} → {recent.text} ({recent.recipe} of the last rows)")
    lines.append(_extent(view, facts))
    return tuple(line for line in lines if line)


def with_interval(fact: Fact) -> str:
    """`0.912 [0.889, 0.935]`, the interval being the 95 % one over tasks."""
    return f"{fact.text} {fact.interval.text}" if fact.interval and not fact.withheld else fact.text


def format_time(seconds: float | None) -> str:
    """`2026-11-21 14:02:11 UTC`, or a dash."""
    if seconds is None:
        return "—"
    try:
        return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "—"


def _event(event: EventNote) -> tuple[str, str]:
    kind = event.kind.replace("_", " ")
    where = f"attempt {event.attempt}, {kind}" if event.attempt is not None else kind
    return format_time(event.time), f"{where}: {event.text}" if event.text else where


def _extent(view: View, facts: Mapping[str, Fact]) -> str:
    parts = []
    steps, wall = facts.get("key/steps"), facts.get("key/wall_time")
    if steps:
        parts.append(f"{steps.text} steps")
    count = len(view.attempts)
    parts.append(f"{count} attempt" + ("" if count == 1 else "s"))
    if wall:
        parts.append(wall.text)
    return ", ".join(parts)


def _finding_without_pairs(facts: Mapping[str, Fact]) -> str:
    """Where every task changed by the same amount there is no paired interval; the ends may still tell."""
    start, end = (facts[name].interval for name in ("key/pass_rate_start", "key/pass_rate_end"))
    if start and end and (start.high < end.low or end.high < start.low):
        went = "rose" if start.high < end.low else "fell"
        return f"The task pass rate {went}; the 95 % intervals of the two validations are disjoint."
    return "Whether the task pass rate changed cannot be told from these tasks."


def _finding(facts: Mapping[str, Fact]) -> str:
    """What the validations say, in one careful sentence."""
    change = facts.get("key/pass_rate_change")
    if change is None or change.withheld:
        return ""
    interval = change.interval
    if interval is None:
        return _finding_without_pairs(facts)
    if interval.low > 0:
        return "The task pass rate rose; the 95 % interval of the change excludes zero."
    if interval.high < 0:
        return "The task pass rate fell; the 95 % interval of the change excludes zero."
    return "The 95 % interval of the change of the task pass rate includes zero: no change is shown."


def _validations(
    record: Record, facts: Mapping[str, Fact]
) -> tuple[tuple[str, ...], tuple[ValidationRow, ...]]:
    there: dict[str, None] = {}
    by_step: dict[int, dict[str, Fact]] = {}
    for name, fact in facts.items():
        if name.startswith("val/"):
            _, step, column = name.split("/", 2)
            by_step.setdefault(int(step), {})[column] = fact
            there[column] = None
    columns = sorted(there, key=_place_in_table)
    rows = []
    for evaluation in record.evaluations:
        cells = by_step.get(evaluation.step, {})
        places = {fact.place: None for fact in cells.values()}
        place = describe_sources((evaluation.source,)) if evaluation.source else ", ".join(list(places)[:2])
        rows.append(ValidationRow(evaluation.step, evaluation.attempt, tuple(map(cells.get, columns)), place))
    return tuple(columns), tuple(rows)


def _place_in_table(column: str) -> int:
    name = column.partition("@")[0]
    return _COLUMN_ORDER.index(name) if name in _COLUMN_ORDER else len(_COLUMN_ORDER)


def _thinned(rows: tuple[ValidationRow, ...]) -> tuple[ValidationRow, ...]:
    """At most `PAGE_VALIDATIONS` rows, evenly spaced, first and last among them."""
    if len(rows) <= PAGE_VALIDATIONS:
        return rows
    last = len(rows) - 1
    return tuple(rows[round(index * last / (PAGE_VALIDATIONS - 1))] for index in range(PAGE_VALIDATIONS))


def _metrics(facts: Mapping[str, Fact]) -> tuple[MetricRow, ...]:
    rows = []
    for name, first in facts.items():
        if name.startswith("metric/") and name.endswith("/first"):
            stem = name.removesuffix("/first")
            found = {
                place: facts.get(f"{stem}/{place}") for place in ("lowest", "highest", "first_not_finite")
            }
            rows.append(MetricRow(stem.removeprefix("metric/"), first, facts[f"{stem}/last"], **found))
    return tuple(rows)


def _attempts(
    record: Record, facts: Mapping[str, Fact], summary: RunSummary, changes: tuple[Change, ...]
) -> tuple[AttemptView, ...]:
    told = {attempt.number: attempt for attempt in summary.attempts}
    read = {attempt.number: attempt for attempt in record.attempts}
    views = []
    numbers = sorted({*told, *read})
    for number in numbers:
        attempt = told.get(number, AttemptSummary(number))
        following = next((told[later] for later in numbers if later > number and later in told), None)
        exit_record = (read[number].exit if number in read else None) or {}
        views.append(_attempt_view(record, facts, attempt, exit_record, changes, following, summary))
    return tuple(views)


def _attempt_view(
    record: Record,
    facts: Mapping[str, Fact],
    attempt: AttemptSummary,
    exit_record: Mapping[str, Any],
    changes: tuple[Change, ...],
    following: AttemptSummary | None,
    summary: RunSummary,
) -> AttemptView:
    diagnosis = attempt.diagnosis or {}
    own_changes = tuple(change for change in changes if change.attempt == attempt.number)
    last = cited_lines(record.result_dir, attempt.number, diagnosis.get("last_lines"))
    shown = [line.text for line in last if line.is_found]
    return AttemptView(
        number=attempt.number,
        session=attempt.session,
        why_started=attempt.why_started,
        started=format_time(attempt.started_at),
        reason=attempt.reason or str(exit_record.get("reason") or "unknown"),
        facts={name: facts.get(f"attempt/{attempt.number}/{name}") for name in _ATTEMPT_FACTS},
        family=str(diagnosis.get("family") or ""),
        cause=str(diagnosis.get("cause") or ""),
        evidence=cited_lines(record.result_dir, attempt.number, diagnosis.get("evidence")),
        last_lines="\n".join(shown),
        last_lines_place=f"{last[0].file}:{last[0].line}–{last[-1].line}" if shown else "",
        repair=attempt.repair or "",
        changes=own_changes,
        other_changed_keys=tuple(set(attempt.changed_keys) - {change.key for change in own_changes}),
        came_of_it=_came_of_it(following, summary),
    )


def _came_of_it(following: AttemptSummary | None, summary: RunSummary) -> str:
    if following is None:
        return f"The run ended: {summary.outcome}" + (f" ({summary.reason})" if summary.reason else "")
    status = "" if following.status is None else f", status {following.status}"
    return f"Attempt {following.number} followed; it ended: {following.reason or 'unknown'}{status}"
