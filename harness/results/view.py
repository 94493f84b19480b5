"""What the documents of a run show, as plain data: the templates only lay it out.

In: record, facts, summary and the rest. Out: `View`, every string in it cleaned and redacted by `report`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.results.deviations import ConfigChange, Deviation, config_changes, deviations
from harness.results.evidence import cited_lines
from harness.results.facts import MAX_METRICS, ONE_SEED
from harness.results.types import (
    AttemptSummary,
    Discrepancy,
    EventNote,
    Fact,
    Record,
    RunSummary,
    describe_sources,
)
from harness.wording import count_text, duration, listed, time_text

PAGE_VALIDATIONS = 40  # rows of the validation table on the page; the Markdown table has them all
CHANGED_CODE = "†"  # beside every number of a run whose code a model changed
_MAX_EVENTS = 100
_COUNTS = ("pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks")
_COLUMN_ORDER = (*_COUNTS, "task_pass_rate", "mean_reward", "std_reward")  # as the trainers' own table has it
_OF_ATTEMPT = (
    *("status", "signal", "prepare_status", "cleanup_status"),
    *("duration", "rows", "first_step", "last_step"),
)
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
    """One metric: first, last, lowest and highest value."""

    key: str
    first: Fact
    last: Fact
    lowest: Fact | None
    highest: Fact | None


def build_page(
    record: Record,
    facts: Mapping[str, Fact],
    summary: RunSummary,
    missing: tuple[str, ...],
    discrepancies: tuple[Discrepancy, ...],
) -> dict[str, Any]:
    """Everything that the documents show.

    `author`: who wrote the narrative and a rendered config; `settings`: chosen for a config that the
    blueprint does not name; `before_launch`, `events`: time and text; `changes`: differences between the
    attempts' configs that are no deviation; `mark`: stands beside every number of a run whose code a model
    changed, "" beside others; `headline`: the few lines that a terminal shows at the end of a run.
    """
    columns, validations = _validations(record, facts)
    deviating = deviations(summary.attempts, record.attempts)
    changes = tuple(
        change
        for change in config_changes(record.attempts)
        if not any(deviation.explains(change) for deviation in deviating)
    )
    code = tuple(deviation for deviation in deviating if deviation.change.kind == "code")
    config = next((attempt for attempt in reversed(record.attempts) if attempt.config_text), None)
    page = {
        "summary": summary,
        "author": summary.llm.model if summary.llm else summary.policy,
        "verdict": _VERDICTS.get(summary.outcome, summary.outcome or "Unfinished"),
        "finding": _finding(facts),
        "started": time_text(summary.started_at),
        "ended": time_text(summary.ended_at),
        "time_limit": duration(summary.max_time_s) if summary.max_time_s else "none",
        "key_facts": tuple(fact for name, fact in facts.items() if name.startswith("key/")),
        "columns": columns,
        "validations": validations,
        "page_validations": _thinned(validations),
        "metrics": tuple(_metrics(facts)),
        "hidden_metrics": max(0, sum(not key.startswith("val/") for key in record.series) - MAX_METRICS),
        "deviations": deviating,
        "code_changes": code,
        "mark": CHANGED_CODE if code else "",
        "settings": tuple(change for attempt in summary.attempts for change in attempt.settings),
        "before_launch": tuple(_remark(note) for note in summary.remarks if note.attempt is None),
        "attempts": tuple(_attempts(record, facts, summary, deviating, changes)),
        "changes": changes,
        "events": tuple(_event(event) for event in summary.events[:_MAX_EVENTS]),
        "methods": tuple(sorted({fact.interval.method for fact in facts.values() if fact.interval})),
        "config_text": (config.config_text or "") if config else "",
        "config_file": f"{config.folder}/config.yaml" if config else "",
        "missing": missing,
        "discrepancies": discrepancies,
        "seed_note": ONE_SEED,
    }
    return {**page, "headline": tuple(_headline(page, facts)), "shown_facts": _shown_facts(page)}


def _shown_facts(page: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Every fact on the page, in its order."""
    shown: list[Fact | None] = [*page["key_facts"]]
    shown += [fact for row in page["page_validations"] for fact in row.cells]
    shown += [fact for attempt in page["attempts"] for fact in attempt["facts"].values()]
    shown += [fact for row in page["metrics"] for fact in (row.first, row.last, row.lowest, row.highest)]
    return tuple(fact for fact in shown if fact)


def _headline(page: Mapping[str, Any], facts: Mapping[str, Fact]) -> Iterator[str]:
    reason, mark = page["summary"].reason, page["mark"]
    yield f"{page['verdict']}: {reason}" if reason else page["verdict"]
    if page["code_changes"]:
        files = listed(list(dict.fromkeys(one.change.what for one in page["code_changes"])), 3)
        yield f"code was changed by a model: {files}; every number ({mark}) is of the changed code"
    if page["deviations"]:
        what = [f"{one.change.what} (since attempt {one.attempt})" for one in page["deviations"]]
        yield f"deviates from its blueprint in {listed(what, 3)}"
    start, end, change = (facts.get(f"key/pass_rate_{name}") for name in ("start", "end", "change"))
    if end:
        rates = [f"{with_interval(fact)}{mark}" for fact in (start, end) if fact]
        yield f"pass rate {' → '.join(rates)}"
    if change:
        yield f"change {with_interval(change)}{mark}, {change.note}"
    first, recent = facts.get("key/reward_first"), facts.get("key/reward_recent")
    if first and recent:
        ends = f"{first.text}{mark} → {recent.text}{mark}"
        yield f"training reward {ends} ({recent.recipe} of the last rows)"
    steps, wall = facts.get("key/steps"), facts.get("key/wall_time")
    parts = [f"{steps.text} steps" if steps else "", count_text(len(page["attempts"]), "attempt")]
    yield ", ".join(part for part in (*parts, wall.text if wall else "") if part)


def with_interval(fact: Fact) -> str:
    """`0.912 [0.889, 0.935]`, the interval being the 95 % one over tasks."""
    return f"{fact.text} {fact.interval.text}" if fact.interval and not fact.withheld else fact.text


def _event(event: EventNote) -> tuple[str, str]:
    kind = event.kind.replace("_", " ")
    where = f"attempt {event.attempt}, {kind}" if event.attempt is not None else kind
    return time_text(event.time), f"{where}: {event.text}" if event.text else where


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


def _metrics(facts: Mapping[str, Fact]) -> Iterator[MetricRow]:
    for name, first in facts.items():
        if name.startswith("metric/") and name.endswith("/first"):
            stem = name.removesuffix("/first")
            lowest, highest = facts.get(f"{stem}/lowest"), facts.get(f"{stem}/highest")
            yield MetricRow(stem.removeprefix("metric/"), first, facts[f"{stem}/last"], lowest, highest)


# --- attempts -----------------------------------------------------------------------------------------------


def _attempts(
    record: Record,
    facts: Mapping[str, Fact],
    summary: RunSummary,
    deviating: tuple[Deviation, ...],
    changes: tuple[ConfigChange, ...],
) -> Iterator[Mapping[str, Any]]:
    """Every attempt that the journal or a folder knows of, in order: how it ended, what its diagnosis cites,
    `deviations` and `changes` that it started with, and what came of it."""
    known = {attempt.number: attempt for attempt in summary.attempts}
    exits = {attempt.number: attempt.exit or {} for attempt in record.attempts}
    for number in sorted({*known, *exits}):
        attempt = known.get(number, AttemptSummary(number))
        found = attempt.diagnosis
        last = cited_lines(record.result_dir, number, found.last_lines if found else ())
        shown = [line.text for line in last if line.is_found]
        yield {
            "number": number,
            "session": attempt.session,
            "why_started": attempt.why_started,
            "started": time_text(attempt.started_at),
            "reason": attempt.reason or str(exits.get(number, {}).get("reason") or "unknown"),
            "facts": {name: facts.get(f"attempt/{number}/{name}") for name in _OF_ATTEMPT},
            "family": found.family if found else "",
            "cause": found.cause if found else "",
            "evidence": cited_lines(record.result_dir, number, found.evidence if found else ()),
            "last_lines": "\n".join(shown),
            "last_lines_place": f"{last[0].file}:{last[0].line}–{last[-1].line}" if shown else "",
            "repair": attempt.repair or "",
            "settings": attempt.settings,
            "deviations": tuple(deviation for deviation in deviating if deviation.attempt == number),
            "changes": tuple(change for change in changes if change.attempt == number),
            "remarks": tuple(_remark(note) for note in summary.remarks if note.attempt == number),
            "came_of_it": _came_of_it(number, summary),
        }


def _remark(note: EventNote) -> tuple[str, str]:
    """Time and text of a note or a refusal."""
    kind = "noted by the policy, unchecked" if note.kind == "note" else note.kind
    return time_text(note.time), f"{kind}: {note.text}"


def _came_of_it(number: int, summary: RunSummary) -> str:
    following = next((attempt for attempt in summary.attempts if attempt.number > number), None)
    if following is None:
        return f"The run ended: {summary.outcome}" + (f" ({summary.reason})" if summary.reason else "")
    status = "" if following.status is None else f", status {following.status}"
    return f"Attempt {following.number} followed; it ended: {following.reason or 'unknown'}{status}"
