"""What may be said of one run.

In: its `Record`, its checked facts, the summary of its journal. Out: `Evidence`. Withheld facts are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from harness.results.changes import flat
from harness.results.claims.naming import PASS_RATE, goal_of, metric_terms, setting_names, setting_words
from harness.results.claims.types import Change, Duty, Evidence, Number, Term, Unit
from harness.results.comparing.types import Curve
from harness.results.facts import KL_KEYS, REWARD_KEYS, first_of
from harness.results.types import AttemptSummary, Fact, Record, RunSummary, Series

_FAILURE = (
    r"\b(?:fail|crash|error|abort|died|killed|out of memory|oom|exception|could not run|not run|"
    r"never ran)\w*",
)
_OUTCOMES = {
    "failed": ("the run failed", _FAILURE),
    "cannot_run": (
        "the run could not be started",
        (*_FAILURE, r"\bnever\b", r"\bcould not\b", r"\bcannot\b"),
    ),
    "timed_out": (
        "the run ended at its time limit",
        (r"\btime(?:d)?[\s-]*(?:limit|out|budget)", r"\btimed out", r"\bdeadline", r"\bran out of time"),
    ),
    "stopped_early": ("the run was stopped early", (r"\bstopp?ed\b", r"\bearly\b", r"\bpruned\b")),
    "cancelled": ("the run was cancelled", (r"\bcancel", r"\bstopped\b", r"\binterrupted\b")),
}
_REPAIRED = (
    r"\battempts?\b",
    r"\brepair",
    r"\brestart",
    r"\bretr(?:y|ied)",
    r"\bsecond (?:try|launch)",
    r"\bcrash",
    r"\bfail",
)


def evidence_of_run(record: Record, facts: Mapping[str, Fact], summary: RunSummary) -> Evidence:
    """Everything a text about this run may say."""
    shown = {name: fact for name, fact in facts.items() if not fact.withheld}
    series = {key: one for key, one in record.series.items() if np.isfinite(one.values).any()}
    validations = _validation_curves(shown)
    curves = {**{key: _curve(one) for key, one in series.items()}, **validations}
    steps = [step for curve in curves.values() for step in curve.steps]
    settings = tuple(_settings(record, summary))
    keys = {number.label.partition(" in ")[0] for number in settings}
    return Evidence(
        numbers=(
            *_fact_numbers(shown, validations),
            *_series_numbers(series, validations),
            *_counts(record, summary, len(record.evaluations)),
            *_times(summary),
            *settings,
        ),
        terms=(
            *metric_terms(curves),
            *(Term(setting_names(key), frozenset({key}), "setting") for key in sorted(keys)),
        ),
        curves=curves,
        changes={**{key: _change(curve) for key, curve in curves.items()}, **_tested_change(shown)},
        goals={key: goal_of(key) for key in curves},
        main=_main(record, curves),
        quoted=tuple(_quoted(summary)),
        outcome=summary.outcome,
        attempts={attempt.number: _end(attempt) for attempt in summary.attempts},
        causes=tuple(
            str((attempt.diagnosis or {}).get("cause", ""))
            for attempt in summary.attempts
            if attempt.diagnosis
        ),
        last_step=max(steps, default=None),
        has_nan=any(not np.isfinite(one.values).all() for one in record.series.values()),
        duties=tuple(_duties(record, summary)),
    )


def evidence_of_folder(result_dir: Path) -> Evidence | None:
    """The same for a result folder whose report has not been written yet; None where it has no journal."""
    from harness import journal
    from harness.results.collect import collect
    from harness.results.facts import build_facts
    from harness.results.verify import check_facts
    from harness.summary import run_summary

    path = result_dir / "journal.jsonl"
    if not path.is_file():
        return None
    summary, record = run_summary(journal.read(path)), collect(result_dir)
    facts = build_facts(record)
    wrong = check_facts(result_dir, facts.values())
    return evidence_of_run(record, {name: fact for name, fact in facts.items() if name not in wrong}, summary)


# --- curves -------------------------------------------------------------------------------------------------


def _curve(series: Series) -> Curve:
    kept = np.isfinite(series.values)
    return Curve(tuple(map(int, series.steps[kept])), tuple(map(float, series.values[kept])))


def _validation_curves(facts: Mapping[str, Fact]) -> dict[str, Curve]:
    columns: dict[str, list[tuple[int, float]]] = {}
    for name, fact in facts.items():
        if name.startswith("val/") and math.isfinite(fact.value) and fact.unit != "count":
            _, step, column = name.split("/", 2)
            columns.setdefault(f"val/{column}", []).append((int(step), fact.value))
    return {
        key: Curve(tuple(step for step, _ in pairs), tuple(value for _, value in pairs))
        for key, pairs in ((key, sorted(pairs)) for key, pairs in columns.items())
    }


def _change(curve: Curve) -> Change:
    """First against last, each as the mean of a few rows where there are many."""
    few = min(10, max(1, len(curve.values) // 8))
    return Change(float(np.mean(curve.values[:few])), float(np.mean(curve.values[-few:])))


def _tested_change(facts: Mapping[str, Fact]) -> dict[str, Change]:
    start, end, change = (facts.get(f"key/pass_rate_{name}") for name in ("start", "end", "change"))
    if start is None or end is None or change is None:
        return {}
    interval = change.interval
    if interval is None and start.interval and end.interval:  # every task changed alike
        apart = start.interval.high < end.interval.low or end.interval.high < start.interval.low
        low, high = (change.value, change.value) if apart else (-1.0, 1.0)
        return {PASS_RATE: Change(start.value, end.value, low, high, is_tested=True)}
    if interval is None:
        return {PASS_RATE: Change(start.value, end.value, is_tested=True)}
    return {PASS_RATE: Change(start.value, end.value, interval.low, interval.high, is_tested=True)}


def _main(record: Record, curves: Mapping[str, Curve]) -> str:
    if PASS_RATE in curves:
        return PASS_RATE
    accuracy = next((key for key in curves if "acc" in key.lower()), "")
    reward = first_of(record, REWARD_KEYS)
    loss = next((key for key in curves if key.endswith("loss") and key not in KL_KEYS), "")
    return accuracy or (reward.key if reward else "") or loss


# --- numbers ------------------------------------------------------------------------------------------------


def _whens(curve: Curve, index: int) -> frozenset[str]:
    values = curve.values
    there = {
        "first": index == 0,
        "last": index == len(values) - 1,
        "highest": values[index] == max(values),
        "lowest": values[index] == min(values),
    }
    return frozenset(name for name, is_so in there.items() if is_so)


def _fact_numbers(facts: Mapping[str, Fact], validations: Mapping[str, Curve]) -> Iterator[Number]:
    for name, fact in facts.items():
        if not math.isfinite(fact.value):
            continue
        if name.startswith("val/"):
            _, text, column = name.split("/", 2)
            yield from _validation_number(fact, f"val/{column}", int(text), validations)
        elif name.startswith("attempt/"):
            yield _attempt_number(fact, int(name.split("/")[1]))
        elif name == "key/pass_rate_change":
            yield from _with_interval(fact, PASS_RATE, (), frozenset({"last", "change"}))
        elif name in ("key/reward_recent", "key/throughput"):
            yield Number(fact.value, "number", fact.label, fact.place, fact.note, when=frozenset({"recent"}))
        elif name == "key/wall_time":
            yield Number(fact.value, "seconds", fact.label, fact.place)
        elif name == "key/steps":
            yield Number(
                fact.value, "count", fact.label, fact.place, nouns=frozenset({"step", "update", "iteration"})
            )


def _validation_number(
    fact: Fact, metric: str, step: int, validations: Mapping[str, Curve]
) -> Iterator[Number]:
    curve = validations.get(metric)
    if curve is None:
        nouns = {
            "total_tasks": {"task", "problem", "question"},
            "pass_n": {"episode", "sample", "try", "tries"},
        }
        named = nouns.get(metric.removeprefix("val/"), {"task", "problem"})
        all_steps = sorted({one for rated in validations.values() for one in rated.steps} | {step})
        whens = {"first": step == all_steps[0], "last": step == all_steps[-1]}
        when = frozenset(name for name, is_so in whens.items() if is_so)
        yield Number(
            fact.value, "count", fact.label, fact.place, metric, (step,), when, nouns=frozenset(named)
        )
        return
    yield from _with_interval(fact, metric, (step,), _whens(curve, curve.steps.index(step)))


def _with_interval(fact: Fact, metric: str, steps: tuple[int, ...], when: frozenset[str]) -> Iterator[Number]:
    base = Number(fact.value, _unit(fact), fact.label, fact.place, metric, steps, when)
    yield base
    if fact.interval is not None:
        low, high = fact.interval.low, fact.interval.high
        for end, value in (("low", low), ("high", high), ("half", (high - low) / 2)):
            label = f"the {'half width' if end == 'half' else f'{end} end'} of the interval of {fact.label}"
            yield Number(value, base.unit, label, fact.place, metric, steps, when, end=end)  # type: ignore[arg-type]


def _unit(fact: Fact) -> Unit:
    return fact.unit


def _attempt_number(fact: Fact, attempt: int) -> Number:
    column = fact.id.rpartition("/")[2]
    if fact.unit == "seconds":
        return Number(fact.value, "seconds", fact.label, fact.place, attempt=attempt)
    nouns = {"rows": {"row"}, "first_step": {"step"}, "last_step": {"step", "update"}}.get(
        column, {column.partition("_")[0], "code", "exit"}
    )
    unit: Unit = "count" if fact.unit == "count" else "setting"
    return Number(fact.value, unit, fact.label, fact.place, attempt=attempt, nouns=frozenset(nouns))


def _series_numbers(series: Mapping[str, Series], validations: Mapping[str, Curve]) -> Iterator[Number]:
    """First, last, lowest and highest value of each metric; those between are looked up by their step."""
    for key, one in series.items():
        if key in validations:
            continue
        curve = _curve(one)
        at = {0, len(curve.values) - 1, int(np.argmin(curve.values)), int(np.argmax(curve.values))}
        for index in sorted(at):
            label = f"{key} at step {curve.steps[index]}"
            place = str(one.source(int(np.flatnonzero(np.isfinite(one.values))[index])))
            yield Number(
                curve.values[index], "number", label, place, key, (curve.steps[index],), _whens(curve, index)
            )


def _counts(record: Record, summary: RunSummary, validations: int) -> Iterator[Number]:
    failed = sum(_end(attempt) == "failed" for attempt in summary.attempts)
    n = len(summary.attempts)
    counted: list[tuple[float, str, set[str]]] = [
        (n, "the number of attempts", {"attempt", "launch", "launches", "try", "tries"}),
        (failed, "the number of failed attempts", {"failure", "failed", "crash", "crashes", "attempt"}),
        (max(0, n - 1), "the number of repairs", {"repair", "restart", "retry", "retries"}),
        (validations, "the number of validations", {"validation", "evaluation"}),
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


def _times(summary: RunSummary) -> Iterator[Number]:
    if summary.max_time_s is not None:
        yield Number(summary.max_time_s, "seconds", "the time limit", "journal.jsonl")
    if summary.started_at is not None and summary.ended_at is not None:
        yield Number(
            summary.ended_at - summary.started_at, "seconds", "the time from start to end", "journal.jsonl"
        )


def _settings(record: Record, summary: RunSummary) -> Iterator[Number]:
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


# --- words --------------------------------------------------------------------------------------------------


def _end(attempt: AttemptSummary) -> str:
    return "ok" if attempt.status == 0 and attempt.diagnosis is None else "failed"


def _quoted(summary: RunSummary) -> Iterator[str]:
    yield from (summary.purpose, summary.reason, summary.command)
    for attempt in summary.attempts:
        diagnosis = attempt.diagnosis or {}
        yield str(diagnosis.get("cause", ""))
        for line in (*(diagnosis.get("evidence") or ()), *(diagnosis.get("last_lines") or ())):
            if isinstance(line, Mapping):
                yield str(line.get("text", ""))


def _duties(record: Record, summary: RunSummary) -> Iterator[Duty]:
    if summary.outcome in _OUTCOMES:
        yield Duty(*_OUTCOMES[summary.outcome])
    failed = [attempt for attempt in summary.attempts if _end(attempt) == "failed"]
    if len(summary.attempts) > 1 and failed:
        names = " and ".join(f"attempt {attempt.number}" for attempt in failed[:3])
        yield Duty(f"{names} failed and the run was repaired", _REPAIRED)
    if (
        not record.evaluations
        and PASS_RATE not in record.series
        and not any("val" in key for key in record.series)
    ):
        yield Duty("there are no validation results", (r"\bvalidat", r"\bevaluat", r"\bheld[\s-]out"))
