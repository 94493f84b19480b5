"""The evidence of one run: its facts, metrics and attempts, as a narrative may cite them.

A change of a validation metric is the paired difference over the tasks in both validations, as in `facts`;
two single measurements are never called a difference that was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.attempt import AttemptEnd
from harness.journal import Entry
from harness.results import deviations, task_statistics
from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.leading import best_of
from harness.results.narrative.evidence import Citable, CitationError, Evidence, Sentence, lookup
from harness.results.narrative.findings import (
    AttemptFinding,
    BestFinding,
    ChangeFinding,
    CompareFinding,
    Place,
)
from harness.results.result import leading_of, name_of
from harness.results.run import RunStory
from harness.results.types import Fact, Record
from harness.wording import number_text
from monitors.metrics.names import direction

_AT = re.compile(r"(?:step|epoch|row number) (\S+)")
_OF_ATTEMPT = ("duration", "last_step", "status")


class RunEvidence(Evidence):
    """What is known of a run; facts that are withheld are not."""

    kinds = ("change", "best", "compare", "attempt", "failure")

    def __init__(self, record: Record, facts: Mapping[str, Fact], run: RunStory) -> None:
        self._record, self._run = record, run
        self._leading = leading_of(record, run.state.blueprint)
        self._facts = {name: fact for name, fact in facts.items() if not fact.withheld}
        self._metrics: dict[str, dict[float, Fact]] = {}
        for fact in self._facts.values():
            if (at := self._measured(fact)) is not None:
                self._metrics.setdefault(at[0], {})[at[1]] = fact
        names = [(f"attempt/{item.number}", f"attempt {item.number}") for item in run.attempts]
        names += [(f"metric/{key}", key) for key in self._metrics]
        super().__init__(
            (*map(_citable, self._facts.values()), *(Citable(id, "", name) for id, name in names))
        )
        failed = [item.number for item in run.attempts if item.diagnosis]
        self.due = tuple(AttemptFinding(kind="failure", attempt=number) for number in failed)
        changes = [change for item in run.attempts for change in deviations.deviating(item.draft)]
        files = dict.fromkeys(change.what for change in changes if change.kind == "code")
        self.cautions = (
            Sentence("one_seed"),
            *([Sentence("deviations", {"changes": deviations.sentence(changes)})] if changes else []),
            *([Sentence("code_changed", {"files": ", ".join(files)})] if files else []),
        )

    def _change(self, finding: ChangeFinding) -> Sentence:
        steps = lookup(finding.metric, self._metrics, "metric")
        ends = {_place(place, steps, finding.metric) for place in (finding.from_, finding.to)}
        if len(ends) < 2:
            raise CitationError(f"from and to are the same step of {finding.metric}; cite it as a value")
        return self._between(finding.metric, min(ends), max(ends))

    def _best(self, finding: BestFinding) -> Sentence:
        metric = finding.metric
        steps = lookup(metric, self._metrics, "metric")
        led = self._leading
        goal = led.goal if led is not None and led.name == metric else direction(metric)
        if goal is None:
            raise CitationError(
                f"which direction is better for {metric} is not known; cite the values of "
                f"metric/{metric}/lowest or metric/{metric}/highest"
            )
        order = sorted(steps)
        best = best_of([steps[at].value for at in order], goal)
        step = order[best or 0]
        values = {"metric": metric, "fact": _citable(steps[step]), "at": self._record.at(step)}
        more = {"count": len(steps), "word": "highest" if goal == "max" else "lowest"}
        return Sentence("best", {**values, **more, "is_last": step == order[-1]})

    def _compare(self, finding: CompareFinding) -> Sentence:
        one, other = self.number(finding.a), self.number(finding.b)
        if one.measure != other.measure:
            raise CitationError(
                f"{one.id} and {other.id} do not measure the same, so they cannot be compared: "
                "cite each as a value"
            )
        places = [at for item in (one, other) if (at := self._measured(self._facts[item.id])) is not None]
        if len({step for _, step in places}) == 2:
            (metric, earlier), (_, later) = sorted(places)
            return self._between(metric, earlier, later)
        return Sentence("compare", {"a": one, "b": other, "direction": _direction(one.value, other.value)})

    def _between(self, metric: str, *steps: float) -> Sentence:
        """Two measurements of one metric, the earlier first."""
        earlier, later = (self._metrics[metric][step] for step in steps)
        values: dict[str, Any] = {"metric": metric, "at": tuple(map(self._record.at, steps))}
        values |= {"earlier": _citable(earlier), "later": _citable(later)}
        by_step = {item.position: item.tasks for item in self._record.evaluations}
        before, after = (by_step.get(step, ()) for step in steps)
        if earlier.recipe == "task_mean" and before and after:
            pairs = task_statistics.paired(before, after, earlier.measure)
            bounds = (-1.0, 1.0) if earlier.unit == "rate" else None
            interval = task_statistics.mean_interval(pairs, bounds) if len(pairs) else None
            if interval is not None:
                found = "rose" if interval.low > 0 else "fell" if interval.high < 0 else "undetected"
                difference = f"{number_text(float(pairs.mean()), 'difference')} {interval.text}"
                return Sentence(
                    "change", {**values, "found": found, "difference": difference, "n": len(pairs)}
                )
        return Sentence("change", {**values, "found": _direction(later.value, earlier.value)})

    def _measured(self, fact: Fact) -> tuple[str, float] | None:
        """The metric and the position that a fact is of; None for facts of no one position."""
        room, _, rest = fact.id.partition("/")
        if room == "val":
            position, _, column = rest.partition("/")
            return name_of(self._record, column), float(position)
        if room == "metric" and (at := _AT.fullmatch(fact.note)):
            return rest.rpartition("/")[0], float(at[1])
        return None

    def _attempt(self, finding: AttemptFinding) -> Sentence:
        attempt = lookup(finding.attempt, {item.number: item for item in self._run.attempts}, "attempt")
        number, found = attempt.number, attempt.diagnosis
        if finding.kind == "failure" and not found:
            raise CitationError(f"attempt {number} did not fail; cite it with the kind attempt")
        facts = {name: self._facts.get(f"attempt/{number}/{name}") for name in _OF_ATTEMPT}
        values = {
            "number": number,
            "reason": (attempt.ended or AttemptEnd()).in_words,
            "cause": found.cause.strip().rstrip(".") if found else "",
            "facts": {name: fact.text for name, fact in facts.items() if fact is not None},
            "changes": deviations.sentence(deviations.deviating(attempt.draft)),
            "repair": self._run.repair_after(number).rstrip("."),
        }
        return Sentence(finding.kind, values)

    _failure = _attempt


def evidence_of_run(result_dir: Path, entries: Sequence[Entry]) -> RunEvidence:
    """The evidence of a run whose results were collected, from its raw files and journal."""
    record = collect(result_dir)
    run = RunStory.of(entries)
    return RunEvidence(record, build_facts(record, run.state.blueprint), run)


def _citable(fact: Fact) -> Citable:
    at = f", {fact.note}" if fact.id.startswith("metric/") and fact.note else ""
    n = fact.interval.n if fact.interval is not None else None
    return Citable(fact.id, f"{fact.label}{at}", fact.with_interval, fact.value, _measure(fact.id), n)


def _measure(name: str) -> str:
    """What a fact measures: the column of a validation, the metric, or what is told of an attempt."""
    room, _, rest = name.partition("/")
    if room == "evaluation":
        return name
    if room in ("val", "attempt"):
        return f"{room}/{rest.partition('/')[2]}"
    if room == "metric" or "/" in rest:
        return f"metric/{rest.rpartition('/')[0]}"
    return f"{room}/{rest}" if rest == "pass_rate_change" else f"{room}/{rest.rpartition('_')[0]}"


def _place(place: Place, steps: Mapping[float, Fact], metric: str) -> float:
    if isinstance(place, str):
        return min(steps) if place == "first" else max(steps)
    known = {step: step for step in sorted(steps)}
    return lookup(place, known, f"measurement of {metric} among the facts at")


def _direction(value: float | None, other: float | None) -> str:
    """`higher`, `lower` or `equal`: how one number stands to another; "" where that cannot be said."""
    if value is None or other is None or value != value or other != other:
        return ""
    return "higher" if value > other else "lower" if value < other else "equal"
