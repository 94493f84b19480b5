"""Figures of a run: which metrics are drawn, and why others are not.

In: the `Record` and the facts (for intervals). Out: the `Figure`s in `<result_dir>/figures/`, each with its
data, and what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from harness.results.charts import Chart, Line, Maker, Panel, save_all
from harness.results.facts import (
    KL_KEYS,
    REWARD_KEYS,
    THROUGHPUT_KEYS,
    evaluation_id,
    first_of,
    foreign_metrics,
    is_reinforcement,
)
from harness.results.leading import PASS_RATE
from harness.results.parts import Parts
from harness.results.resources import resource_chart
from harness.results.text import clean, one_line
from harness.results.types import Fact, Figure, Record, Series
from monitors.metrics.axis import AXIS_WORDS, whole
from monitors.metrics.names import kind_of

MAX_FOREIGN = 12  # figures for metrics we have no name for
_ENTROPY_KEYS = ("actor/entropy", "actor/entropy_loss", "entropy", "train/entropy")
_LENGTH_KEYS = ("response_length/mean", "completions/mean_length", "completion_length")
_RATES = ("task_pass_rate@1", *(f"unbiased_pass@{k}" for k in (2, 4, 8, 16, 32, 64)))


_KNOWN = (  # name of the figure, title, metrics, and whether its absence is worth a line in the report
    ("reward", "Training reward", REWARD_KEYS, True),
    ("kl", "KL to the start model", KL_KEYS, True),
    ("loss", "Policy loss", ("actor/pg_loss",), False),
    ("entropy", "Entropy", _ENTROPY_KEYS, False),
    ("response_length", "Response length (tokens)", _LENGTH_KEYS, False),
    ("throughput", "Throughput (tokens per second)", THROUGHPUT_KEYS, True),
)


def draw_figures(
    record: Record,
    facts: Mapping[str, Fact],
    into: Path | None = None,
    leading: str | None = None,
    draws: bool = True,
) -> tuple[list[Figure], list[str]]:
    """Draw everything there is to draw, the leading metric first, then those whose names say what they
    measure; the figures, and what is missing.

    `into`, `draws`: as `save_all`."""
    problems: list[str] = []
    left_out: list[str] = []
    drawn: set[str] = set()
    makers: list[Maker] = [("Validation pass rates", lambda: _validation(record, facts))]
    for name, title, keys, is_expected in _KNOWN:
        series = first_of(record, keys)
        if series is not None and _is_drawable(series):
            drawn.add(series.key)
            makers.append((title, partial(_metric, record, series, name, title)))
        elif is_expected and is_reinforcement(record):
            left_out.append(title)
    others = {one.key: one for one in foreign_metrics(record)}
    if leading is not None and leading != PASS_RATE and leading in record.series:
        others[leading] = record.series[leading]
    foreign = [series for key, series in others.items() if key not in drawn and _is_course(series)]
    foreign.sort(key=lambda series: (series.key != leading, kind_of(series.key) is None))
    for number, series in enumerate(foreign[:MAX_FOREIGN], start=1):
        slug = re.sub(r"[^a-z0-9]+", "_", series.key.lower()).strip("_")[:40]
        if _is_drawable(series):
            name = f"metric_{number:02d}_{slug}".rstrip("_")
            maker = (one_line(series.key), partial(_metric, record, series, name, series.key))
            makers.insert(0 if series.key == leading else len(makers), maker)
    makers.append(("Machine", lambda: resource_chart(record, problems)))
    parts = Parts()
    figures = save_all(makers, parts, record.result_dir, into, draws)
    missing = [*problems, *parts.left_out]
    if left_out:
        missing.append(f"figures left out because no metric holds them: {', '.join(left_out)}")
    if len(foreign) > MAX_FOREIGN:
        missing.append(f"figures of {len(foreign) - MAX_FOREIGN} more metrics: only {MAX_FOREIGN} are drawn")
    return figures, missing


def _is_course(series: Series) -> bool:
    return len(series.values) > 1


def _is_drawable(series: Series) -> bool:
    return bool(np.isfinite(series.values).any())


def _metric(record: Record, series: Series, name: str, title: str) -> Chart:
    key = clean(series.key)
    places = series.positions
    is_whole = bool((places == np.floor(places)).all() and np.abs(places).max() < 2**53)
    x = places.astype(np.int64) if is_whole else places
    line = Line(key, x, series.values, attempts=series.attempts, lines=series.lines)
    caption = key if series.key != title else ""
    return Chart(name, clean(title), caption, "metric", AXIS_WORDS[record.axis], "", (Panel(lines=(line,)),))


def _validation(record: Record, facts: Mapping[str, Fact]) -> Chart | None:
    """pass@1 and, of the unbiased pass@k, the one with the largest k."""
    lines = [line for column in _RATES if (line := _rate(column, record, facts)) is not None]
    if not lines:
        return None
    caption = "Mean over tasks"
    if any(low is not None for line in lines for low in line.low):
        caption += " with 95 % intervals over tasks; one seed"
    panels = (Panel(lines=tuple(lines[:1] + lines[1:][-1:])),)
    axis = AXIS_WORDS[record.axis]
    return Chart("validation", "Validation pass rates", caption, "validation", axis, "", panels)


def _rate(column: str, record: Record, facts: Mapping[str, Fact]) -> Line | None:
    points = [
        (evaluation, fact)
        for evaluation in record.evaluations
        if (fact := facts.get(evaluation_id(evaluation, column))) is not None and not fact.withheld
    ]
    if not points:
        return None
    return Line(
        label=column,
        x=tuple(whole(evaluation.position) for evaluation, _ in points),
        y=tuple(fact.value for _, fact in points),
        low=tuple(fact.interval.low if fact.interval else None for _, fact in points),
        high=tuple(fact.interval.high if fact.interval else None for _, fact in points),
        attempts=tuple(evaluation.attempt for evaluation, _ in points),
        sources=tuple(fact.place for _, fact in points),
    )
