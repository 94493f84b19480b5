"""The evidence of one run: its facts, metrics and attempts, as a narrative may cite them.

A change of a validation metric is the paired difference over the tasks in both validations, as in `facts`;
two single measurements are never called a difference that was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.journal import Entry
from harness.results import deviations, task_statistics
from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.narrative.evidence import Citable, CitationError, Sentence, lookup, unknown
from harness.results.narrative.findings import (
    AttemptFinding,
    BestFinding,
    ChangeFinding,
    CompareFinding,
    FailureFinding,
    Finding,
    Place,
    ValueFinding,
)
from harness.results.recompute import check_facts
from harness.results.types import AttemptSummary, Fact, Record, RunSummary
from harness.wording import number_text

_HIGHER_IS_BETTER = ("task_pass_rate@", "unbiased_pass@", "mean_reward")
"""Columns of the validation table whose direction is known."""


@dataclass(frozen=True)
class RunEvidence:
    """What is known of a run. `facts`: without those that are withheld."""

    record: Record
    facts: Mapping[str, Fact]
    summary: RunSummary
    citable: Mapping[str, Citable] = field(init=False)
    metrics: Mapping[str, Mapping[int, Fact]] = field(init=False)

    def __post_init__(self) -> None:
        shown = {name: fact for name, fact in self.facts.items() if not fact.withheld}
        metrics: dict[str, dict[int, Fact]] = {}
        for fact in shown.values():
            if (at := _metric_and_step(fact)) is not None:
                metrics.setdefault(at[0], {})[at[1]] = fact
        by_step = {key: dict(sorted(steps.items())) for key, steps in metrics.items()}
        names = [Citable(f"attempt/{item.number}", "", f"attempt {item.number}") for item in self.attempts]
        names += [Citable(f"metric/{key}", "", key) for key in by_step]
        facts = [_citable(fact) for fact in shown.values()]
        object.__setattr__(self, "facts", shown)
        object.__setattr__(self, "metrics", by_step)
        object.__setattr__(self, "citable", {item.id: item for item in (*facts, *names)})

    @property
    def attempts(self) -> tuple[AttemptSummary, ...]:
        return self.summary.attempts

    @property
    def due(self) -> tuple[Finding, ...]:
        failed = [item.number for item in self.attempts if _has_failed(item)]
        return tuple(FailureFinding(kind="failure", attempt=number) for number in failed)

    @property
    def cautions(self) -> tuple[Sentence, ...]:
        changes = [change for item in self.attempts for change in item.changes]
        code = [change.what for change in changes if change.kind == "code"]
        found = [Sentence("one_seed")]
        if changes:
            found.append(Sentence("deviations", {"changes": deviations.sentence(tuple(changes))}))
        if code:
            found.append(Sentence("code_changed", {"files": ", ".join(dict.fromkeys(code))}))
        return tuple(found)

    def resolve(self, finding: Finding) -> Sentence:
        """The finding looked up. Raises CitationError."""
        if isinstance(finding, ValueFinding):
            return Sentence("value", {"fact": lookup(finding.fact, self._numbers, "fact")})
        if isinstance(finding, ChangeFinding):
            steps = self._steps(finding.metric)
            ends = {_place(finding.from_, steps, finding.metric), _place(finding.to, steps, finding.metric)}
            if len(ends) < 2:
                raise CitationError(f"from and to are the same step of {finding.metric}; cite it as a value")
            return self._between(finding.metric, steps[min(ends)], steps[max(ends)])
        if isinstance(finding, BestFinding):
            return self._best(finding.metric)
        if isinstance(finding, CompareFinding):
            return self._compared(finding)
        if isinstance(finding, AttemptFinding | FailureFinding):
            attempts = {str(item.number): item for item in self.attempts}
            attempt = lookup(str(finding.attempt), attempts, "attempt")
            if isinstance(finding, FailureFinding) and not _has_failed(attempt):
                raise CitationError(f"attempt {attempt.number} did not fail; cite it with the kind attempt")
            return self._attempt(finding.kind, attempt)
        raise CitationError(
            f"{finding.kind} is for sweeps; of one run cite value, change, best, compare, attempt or failure"
        )

    @property
    def _numbers(self) -> dict[str, Citable]:
        return {name: item for name, item in self.citable.items() if name in self.facts}

    def _steps(self, metric: str) -> Mapping[int, Fact]:
        return lookup(metric, self.metrics, "metric")

    def _best(self, metric: str) -> Sentence:
        steps = self._steps(metric)
        if not metric.removeprefix("val/").startswith(_HIGHER_IS_BETTER) or not metric.startswith("val/"):
            raise CitationError(
                f"which direction is better for {metric} is not known; cite the values of "
                f"metric/{metric}/lowest or metric/{metric}/highest"
            )
        step = max(steps, key=lambda at: steps[at].value)
        values = {"metric": metric, "fact": _citable(steps[step]), "step": step, "count": len(steps)}
        return Sentence("best", {**values, "is_last": step == max(steps)})

    def _compared(self, finding: CompareFinding) -> Sentence:
        one, other = (lookup(name, self._numbers, "fact") for name in (finding.a, finding.b))
        if one.measure != other.measure:
            raise CitationError(
                f"{one.id} and {other.id} do not measure the same, so they cannot be compared: "
                "cite each as a value"
            )
        places = [at for item in (one, other) if (at := _metric_and_step(self.facts[item.id])) is not None]
        if len({step for _, step in places}) == 2:
            metric, steps = places[0][0], self.metrics[places[0][0]]
            return self._between(metric, *(steps[step] for _, step in sorted(places)))
        return Sentence("compare", {"a": one, "b": other, "direction": _direction(one.value, other.value)})

    def _between(self, metric: str, earlier: Fact, later: Fact) -> Sentence:
        """Two measurements of one metric, the earlier first."""
        steps = [at[1] for fact in (earlier, later) if (at := _metric_and_step(fact)) is not None]
        values: dict[str, Any] = {
            "metric": metric,
            "earlier": _citable(earlier),
            "later": _citable(later),
            "steps": steps,
        }
        by_step = {item.step: item.tasks for item in self.record.evaluations}
        tasks = [by_step.get(step, ()) for step in steps]
        if earlier.recipe == "task_mean" and all(tasks) and steps[0] != steps[1]:
            pairs = task_statistics.paired(tasks[0], tasks[1], earlier.measure)
            bounds = (-1.0, 1.0) if earlier.unit == "rate" else None
            interval = task_statistics.mean_interval(pairs, bounds) if len(pairs) else None
            if interval is not None:
                found = "rose" if interval.low > 0 else "fell" if interval.high < 0 else "undetected"
                difference = f"{number_text(float(pairs.mean()), 'difference')} {interval.text}"
                values |= {"found": found, "difference": difference, "n": len(pairs)}
                return Sentence("change", values)
        return Sentence("change", {**values, "found": _direction(later.value, earlier.value)})

    def _attempt(self, kind: str, attempt: AttemptSummary) -> Sentence:
        facts = {
            name: fact.text
            for name in ("duration", "last_step", "status")
            if (fact := self.facts.get(f"attempt/{attempt.number}/{name}")) is not None
        }
        cause = attempt.diagnosis.cause.strip().rstrip(".") if attempt.diagnosis else ""
        values = {"number": attempt.number, "reason": attempt.reason, "cause": cause, "facts": facts}
        changes = deviations.sentence(attempt.changes) if attempt.changes else ""
        return Sentence(kind, {**values, "changes": changes, "repair": (attempt.repair or "").rstrip(".")})


def evidence_of_run(result_dir: Path, entries: list[Entry]) -> RunEvidence:
    """The evidence of a run whose results were collected, from its raw files and journal."""
    from harness.results.summary import run_summary

    record = collect(result_dir)
    facts = build_facts(record)
    wrong = check_facts(result_dir, facts.values())
    kept = {name: fact for name, fact in facts.items() if name not in wrong}
    return RunEvidence(record, kept, run_summary(entries))


def _citable(fact: Fact) -> Citable:
    shown = f"{fact.text} {fact.interval.text}" if fact.interval else fact.text
    at = f", {fact.note}" if fact.id.startswith("metric/") and fact.note else ""
    return Citable(fact.id, f"{fact.label}{at}", shown, fact.value, _measure(fact.id))


def _measure(name: str) -> str:
    """What a fact measures: the column of a validation, the metric, or what is told of an attempt."""
    room, _, rest = name.partition("/")
    if room in ("val", "attempt"):
        return f"{room}/{rest.partition('/')[2]}"
    if room == "metric" or "/" in rest:
        return f"metric/{rest.rpartition('/')[0]}"
    return f"{room}/{rest}" if rest == "pass_rate_change" else f"{room}/{rest.rpartition('_')[0]}"


def _metric_and_step(fact: Fact) -> tuple[str, int] | None:
    """The metric and the step that a fact is of; None for facts of no one step."""
    room, _, rest = fact.id.partition("/")
    if room == "val":
        step, _, column = rest.partition("/")
        return f"val/{column}", int(step)
    if room == "metric" and fact.note.startswith("step "):
        return rest.rpartition("/")[0], int(fact.note.removeprefix("step "))
    return None


def _place(place: Place, steps: Mapping[int, Fact], metric: str) -> int:
    if isinstance(place, str):
        return min(steps) if place == "first" else max(steps)
    if place not in steps:
        raise unknown(place, steps, f"measurement of {metric} among the facts at step")
    return place


def _direction(value: float | None, other: float | None) -> str:
    """`higher`, `lower` or `equal`: how one number stands to another; "" where that cannot be said."""
    if value is None or other is None or value != value or other != other:
        return ""
    return "higher" if value > other else "lower" if value < other else "equal"


def _has_failed(attempt: AttemptSummary) -> bool:
    """True if the attempt's end was diagnosed: ends as planned or wished for are not."""
    return bool(attempt.diagnosis)
