"""Figures of a run: which metrics are drawn, and why others are not.

In: the `Record`, the facts (for intervals) and the attempts' `resources.jsonl`. Out: the `Figure`s in
`<result_dir>/figures/`, each with its data, and what is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
from harness.results.raw import json_lines, number_in
from harness.results.text import clean, one_line
from harness.results.types import Fact, Figure, Record, Series, Source
from monitors.metrics.axis import AXIS_WORDS, whole
from monitors.metrics.names import kind_of

LEAST_MINUTES = 0.5  # of samples of the machine
MAX_FOREIGN = 12  # figures for metrics we have no name for
_ENTROPY_KEYS = ("actor/entropy", "actor/entropy_loss", "entropy", "train/entropy")
_LENGTH_KEYS = ("response_length/mean", "completions/mean_length", "completion_length")
_RATES = ("task_pass_rate@1", *(f"unbiased_pass@{k}" for k in (2, 4, 8, 16, 32, 64)))


_GIB = 1 << 30
_UNITS = {"CPU (100 per core)": "%", "Memory": "GiB", "GPU": "%", "GPU memory": "GiB"}
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
    foreign = [series for key, series in others.items() if key not in drawn and len(series.values) > 1]
    foreign.sort(key=lambda series: (series.key != leading, kind_of(series.key) is None))
    for number, series in enumerate(foreign[:MAX_FOREIGN], start=1):
        slug = re.sub(r"[^a-z0-9]+", "_", series.key.lower()).strip("_")[:40]
        if _is_drawable(series):
            name = f"metric_{number:02d}_{slug}".rstrip("_")
            maker = (one_line(series.key), partial(_metric, record, series, name, series.key))
            makers.insert(0 if series.key == leading else len(makers), maker)
    makers.append(("Machine", lambda: resource_chart(record, problems)))
    undrawn: list[str] = []
    figures = save_all(makers, undrawn, record.result_dir, into, draws)
    missing = [*problems, *undrawn]
    if left_out:
        missing.append(f"figures left out because no metric holds them: {', '.join(left_out)}")
    if len(foreign) > MAX_FOREIGN:
        missing.append(f"figures of {len(foreign) - MAX_FOREIGN} more metrics: only {MAX_FOREIGN} are drawn")
    return figures, missing


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


def resource_chart(record: Record, problems: list[str]) -> Chart | None:
    """What the machine was doing; None where the samples cover less than half a minute."""
    found: dict[tuple[str, str], list[tuple[float, float, int, str]]] = defaultdict(list)
    start: float | None = None
    for attempt in record.attempts:
        file = f"{attempt.folder}/resources.jsonl"
        for row in json_lines(record.result_dir / file, file, problems):
            time = number_in(row.data, "time")
            if time is None:
                continue
            start = time if start is None else start
            for name, value in _values(row.data):
                place = (round((time - start) / 60, 3), round(value, 3))
                found[name].append((*place, attempt.number, str(Source(file, row.line))))
    panels = [
        Panel(title, tuple(_line(label, found[of, label]) for of, label in found if of == title), y=unit)
        for title, unit in _UNITS.items()
    ]
    shown = tuple(
        panel for panel in panels if any(line.x[-1] - line.x[0] >= LEAST_MINUTES for line in panel.lines)
    )
    return Chart("machine", "Machine", "", "metric", "minutes", "", shown) if shown else None


def _line(label: str, points: list[tuple[float, float, int, str]]) -> Line:
    x, y, attempts, sources = zip(*points, strict=True)
    return Line(label, x, y, attempts=attempts, sources=sources)


def _values(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """Panel, label and value of each number of a sample. The CPU load of the first one, which is always 0,
    tells nothing."""
    gpus = [gpu for gpu in data.get("gpus") or () if isinstance(gpu, dict)]
    for panel, label, of, key, by in (
        ("CPU (100 per core)", "training", data, "cpu_percent", 1),
        ("Memory", "training", data, "rss_bytes", _GIB),
        ("Memory", "free on the machine", data, "mem_available_bytes", _GIB),
        *(("GPU", f"GPU {number}", gpu, "busy_percent", 1) for number, gpu in enumerate(gpus)),
        *(("GPU memory", f"GPU {number}", gpu, "memory_used_bytes", _GIB) for number, gpu in enumerate(gpus)),
    ):
        value = number_in(of, key)
        if value is not None and value == value and (key != "cpu_percent" or value > 0):
            yield (panel, label), value / by
