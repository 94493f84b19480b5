"""What the documents show, as plain data: the templates only lay it out.

In: record, facts, summary and the rest. Out: `View`, every string in it cleaned and redacted by `report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.pending_changes import Change
from harness.results.attempt_view import AttemptView, attempt_views, remark
from harness.results.changes import ConfigChange, config_changes
from harness.results.deviations import Deviation, deviations
from harness.results.facts import MAX_METRICS, ONE_SEED
from harness.results.types import (
    Discrepancy,
    EventNote,
    Fact,
    Record,
    RunSummary,
    describe_sources,
)
from harness.wording import duration, time_text

PAGE_VALIDATIONS = 40  # rows of the validation table on the page; the Markdown table has them all
_MAX_EVENTS = 100
_COUNTS = ("pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks")
_COLUMN_ORDER = (*_COUNTS, "task_pass_rate", "mean_reward", "std_reward")  # as the trainers' own table has it
_VERDICTS = {
    "succeeded": "Succeeded",
    "succeeded_with_changed_code": "Succeeded with code that a model changed",
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
    deviations: tuple[Deviation, ...]
    settings: tuple[Change, ...]  # chosen for a config that the blueprint does not name
    before_launch: tuple[tuple[str, str], ...]  # remarks before the first launch: time, text
    attempts: tuple[AttemptView, ...]
    changes: tuple[ConfigChange, ...]  # differences between the attempts' configs that are no deviation above
    events: tuple[tuple[str, str], ...]  # time, text
    methods: tuple[str, ...]
    config_text: str
    config_file: str
    missing: tuple[str, ...]
    discrepancies: tuple[Discrepancy, ...]
    seed_note: str

    @property
    def author(self) -> str:
        """Who wrote the narrative and a rendered config: the model, where one was asked."""
        return self.summary.llm.model if self.summary.llm else self.summary.policy

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
    deviating = deviations(summary.attempts, record.attempts)
    changes = _unexplained(config_changes(record.attempts), deviating)
    metrics = _metrics(facts)
    config = next((attempt for attempt in reversed(record.attempts) if attempt.config_text), None)
    finding = _finding(facts)
    return View(
        summary=summary,
        verdict=_VERDICTS.get(summary.outcome, summary.outcome or "Unfinished"),
        finding=finding,
        started=time_text(summary.started_at),
        ended=time_text(summary.ended_at),
        time_limit=duration(summary.max_time_s) if summary.max_time_s else "none",
        key_facts=tuple(fact for name, fact in facts.items() if name.startswith("key/")),
        columns=columns,
        validations=validations,
        page_validations=_thinned(validations),
        metrics=metrics,
        hidden_metrics=max(0, sum(not key.startswith("val/") for key in record.series) - MAX_METRICS),
        deviations=deviating,
        settings=tuple(change for attempt in summary.attempts for change in attempt.settings),
        before_launch=tuple(remark(note) for note in summary.remarks if note.attempt is None),
        attempts=attempt_views(record, facts, summary, deviating, changes),
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
    lines.append(_deviation_line(view))
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


def _deviation_line(view: View) -> str:
    found = [f"{deviation.change.what} (since attempt {deviation.attempt})" for deviation in view.deviations]
    if not found:
        return ""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"deviates from its blueprint in {', '.join(found[:3])}{more}"


def _unexplained(
    changes: tuple[ConfigChange, ...], deviating: tuple[Deviation, ...]
) -> tuple[ConfigChange, ...]:
    """Differences between the attempts' configs that are not told as deviations."""
    return tuple(
        change for change in changes if not any(deviation.explains(change) for deviation in deviating)
    )


def with_interval(fact: Fact) -> str:
    """`0.912 [0.889, 0.935]`, the interval being the 95 % one over tasks."""
    return f"{fact.text} {fact.interval.text}" if fact.interval and not fact.withheld else fact.text


def _event(event: EventNote) -> tuple[str, str]:
    kind = event.kind.replace("_", " ")
    where = f"attempt {event.attempt}, {kind}" if event.attempt is not None else kind
    return time_text(event.time), f"{where}: {event.text}" if event.text else where


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
