"""Figures of a run: which metrics are drawn, and the files each figure leaves (SVG, PNG, CSV of its data).

In: the `Record` and the facts (for intervals). Out: `Figure`s, and for known metrics that the run does not
have, why there is no figure. Drawing itself is in `drawing`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.atomic_write import write_atomically
from harness.results import drawing
from harness.results.facts import KL_KEYS, REWARD_KEYS, THROUGHPUT_KEYS, first_of, foreign_metrics
from harness.results.text import clean
from harness.results.types import Evaluation, Fact, Figure, Record, Series

MAX_FOREIGN = 12  # figures for metrics we have no name for
_ENTROPY_KEYS = ("actor/entropy", "actor/entropy_loss", "entropy", "train/entropy")
_LENGTH_KEYS = ("response_length/mean", "completions/mean_length", "completion_length")


@dataclass(frozen=True)
class _Known:
    name: str
    title: str
    keys: tuple[str, ...]
    is_expected: bool  # its absence is worth a line in the report


_KNOWN = (
    _Known("reward", "Training reward", REWARD_KEYS, True),
    _Known("kl", "KL to the start model", KL_KEYS, True),
    _Known("loss", "Policy loss", ("actor/pg_loss",), False),
    _Known("entropy", "Entropy", _ENTROPY_KEYS, False),
    _Known("response_length", "Response length (tokens)", _LENGTH_KEYS, False),
    _Known("throughput", "Throughput (tokens per second)", THROUGHPUT_KEYS, True),
)


def draw_figures(record: Record, facts: Mapping[str, Fact]) -> tuple[list[Figure], list[str]]:
    """Draw everything there is to draw into `<result_dir>/figures/`; returns figures and what is missing."""
    folder = record.result_dir / "figures"
    folder.mkdir(exist_ok=True)
    figures: list[Figure] = []
    left_out: list[str] = []
    validation = _draw_validation(record, facts, folder)
    if validation is not None:
        figures.append(validation)
    drawn: set[str] = set()
    for known in _KNOWN:
        series = first_of(record, known.keys)
        figure = _draw_series(series, known.name, known.title, folder) if series is not None else None
        if series is not None and figure is not None:
            drawn.add(series.key)
            figures.append(figure)
        elif known.is_expected:
            left_out.append(known.title)
    foreign = [series for series in foreign_metrics(record) if series.key not in drawn]
    figures += _draw_foreign(foreign, folder)
    missing = [f"figures left out because no metric holds them: {', '.join(left_out)}"] if left_out else []
    if len(foreign) > MAX_FOREIGN:
        missing.append(f"figures of {len(foreign) - MAX_FOREIGN} more metrics: only {MAX_FOREIGN} are drawn")
    remove_others(folder, figures)
    return figures, missing


def _draw_foreign(foreign: Iterable[Series], folder: Path) -> list[Figure]:
    figures = []
    for number, series in enumerate(list(foreign)[:MAX_FOREIGN], start=1):
        slug = re.sub(r"[^a-z0-9]+", "_", series.key.lower()).strip("_")[:40]
        figure = _draw_series(series, f"metric_{number:02d}_{slug}".rstrip("_"), series.key, folder)
        if figure is not None:
            figures.append(figure)
    return figures


def _draw_series(series: Series, name: str, title: str, folder: Path) -> Figure | None:
    picture = drawing.line(series, name)
    if picture is None:
        return None
    rows = (
        (step, repr(value), attempt, f"{source.file}:{source.line}")
        for step, value, attempt, source in zip(
            series.steps.tolist(),
            series.values.tolist(),
            series.attempts.tolist(),
            (series.source(index) for index in range(len(series.steps))),
            strict=True,
        )
    )
    key = clean(series.key)
    table = csv_text(("step", key, "attempt", "source"), rows)
    caption = key if series.key != title else ""
    return save(Figure(name, clean(title), caption, picture.svg, ()), picture.png, table, folder)


def _draw_validation(record: Record, facts: Mapping[str, Fact], folder: Path) -> Figure | None:
    columns = _rate_columns(record.evaluations, facts)
    if not columns:
        return None
    curves = {
        column: [
            (evaluation.step, evaluation.attempt, fact)
            for evaluation in record.evaluations
            if (fact := facts.get(f"val/{evaluation.step}/{column}")) is not None and not fact.withheld
        ]
        for column in columns
    }
    picture = drawing.validation(curves)
    if picture is None:
        return None
    rows = (
        (
            step,
            column,
            repr(fact.value),
            fact.interval.low if fact.interval else "",
            fact.interval.high if fact.interval else "",
            attempt,
            fact.place,
        )
        for column, points in curves.items()
        for step, attempt, fact in points
    )
    table = csv_text(("step", "rate", "value", "low_95", "high_95", "attempt", "source"), rows)
    has_intervals = any(fact.interval for points in curves.values() for _, _, fact in points)
    caption = "Mean over tasks" + (" with 95 % intervals over tasks; one seed" if has_intervals else "")
    return save(
        Figure("validation", "Validation pass rates", caption, picture.svg, ()), picture.png, table, folder
    )


def _rate_columns(evaluations: Iterable[Evaluation], facts: Mapping[str, Fact]) -> list[str]:
    """pass@1 and, of the unbiased pass@k, the smallest and the largest k."""
    steps = [evaluation.step for evaluation in evaluations]
    there = [
        column
        for column in ("task_pass_rate@1", *(f"unbiased_pass@{k}" for k in (2, 4, 8, 16, 32, 64)))
        if any(f"val/{step}/{column}" in facts for step in steps)
    ]
    return list(dict.fromkeys([*there[:1], *there[-1:]]))


def csv_text(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A table as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def save(figure: Figure, png: bytes, table: str, folder: Path) -> Figure:
    """Write a figure's SVG, PNG and CSV into `folder`; the figure with the names of these files."""
    files = []
    for suffix, content in ((".svg", drawing.standalone(figure.svg)), (".png", png), (".csv", table)):
        write_atomically(folder / f"{figure.name}{suffix}", content)
        files.append(f"figures/{figure.name}{suffix}")
    return Figure(figure.name, figure.title, figure.caption, figure.svg, tuple(files))


def remove_others(folder: Path, figures: Iterable[Figure]) -> None:
    """Take away figures of an earlier report that this one does not have."""
    kept = {Path(file).name for figure in figures for file in figure.files}
    for path in folder.iterdir():
        if path.suffix in (".svg", ".png", ".csv") and path.name not in kept:
            path.unlink()
