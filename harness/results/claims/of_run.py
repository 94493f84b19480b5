"""What may be said of one run.

In: its `Record`, its checked facts, the summary of its journal. Out: `Evidence`. Withheld facts are none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from harness.results.claims.journal_of_run import counts, duties, ended, exchanged, quoted, settings_of, times
from harness.results.claims.naming import PASS_RATE, goal_of, metric_terms, setting_names
from harness.results.claims.types import Change, Evidence, Number, Term, Unit
from harness.results.comparing.types import Curve
from harness.results.facts import KL_KEYS, REWARD_KEYS, first_of
from harness.results.types import Fact, Record, RunSummary, Series


def evidence_of_run(record: Record, facts: Mapping[str, Fact], summary: RunSummary) -> Evidence:
    """Everything a text about this run may say."""
    shown = {name: fact for name, fact in facts.items() if not fact.withheld}
    series = {key: one for key, one in record.series.items() if np.isfinite(one.values).any()}
    validations = _validation_curves(shown)
    curves = {**{key: _curve(one) for key, one in series.items()}, **validations}
    steps = [step for curve in curves.values() for step in curve.steps]
    settings = tuple(settings_of(record, summary))
    keys = {number.label.partition(" in ")[0] for number in settings}
    return Evidence(
        numbers=(
            *_fact_numbers(shown, validations),
            *_episodes(shown),
            *_series_numbers(series, validations),
            *counts(record, summary, len(record.evaluations)),
            *times(summary),
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
        quoted=tuple(quoted(summary)),
        outcome=summary.outcome,
        attempts={attempt.number: ended(attempt) for attempt in summary.attempts},
        causes=tuple(
            str((attempt.diagnosis or {}).get("cause", ""))
            for attempt in summary.attempts
            if attempt.diagnosis
        ),
        exchanged=tuple(exchanged(summary)),
        last_step=max(steps, default=None),
        has_nan=any(not np.isfinite(one.values).all() for one in record.series.values()),
        duties=tuple(duties(record, summary)),
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


def _episodes(facts: Mapping[str, Fact]) -> Iterator[Number]:
    """How many episodes of each validation passed, and how many there were."""
    steps = sorted(int(name.split("/")[1]) for name in facts if re.fullmatch(r"val/\d+/total_tasks", name))
    for step in steps:
        tasks, tries, rate = (
            facts.get(f"val/{step}/{name}") for name in ("total_tasks", "pass_n", "task_pass_rate@1")
        )
        if tasks is None or tries is None or rate is None:
            continue
        nouns = frozenset({"episode", "attempt", "rollout", "trial"})
        when = frozenset(name for name, end in (("first", steps[0]), ("last", steps[-1])) if step == end)
        all_of_them = tasks.value * tries.value
        for value, words, metric in (
            (all_of_them, "episodes", "val/total_episodes"),
            (round(all_of_them * rate.value), "passed episodes", "val/passed_episodes"),
        ):
            yield Number(
                value, "count", f"{words} at step {step}", rate.place, metric, (step,), when, nouns=nouns
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


# --- words --------------------------------------------------------------------------------------------------
