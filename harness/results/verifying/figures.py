"""The tables behind the figures, row by row against the raw files.

In: the figures that result.json names, the facts that were found to be right, and the raw files. Out: what
differs. A row of a curve is read again at the line it names, and no row of the metric may be missing; a row
of the validation figure must be the fact of that name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.results.sources import SourceError, SourceReader, same_number
from harness.results.text import clean
from harness.results.types import Discrepancy, Fact, Record, Series, Source
from harness.results.verifying.schema import LARGEST_BYTES, RecordedFigure
from harness.results.verifying.types import Checked, found

Rows = list[list[str]]
_VALIDATION = ["step", "rate", "value", "low_95", "high_95", "attempt", "source"]
_PLACE = re.compile(r"(attempts/\d+/metrics\.jsonl):([1-9]\d{0,11})")


class _UnreadableTableError(Exception):
    """The table is not one of ours; the message says why."""


def check_figures(
    record: Record, figures: Iterable[RecordedFigure], facts: Mapping[str, Fact], fingerprinted: set[str]
) -> Checked:
    """Each figure is there whole, and its table holds the numbers that the raw files hold."""
    wrong: list[Discrepancy] = []
    tables: dict[str, Rows] = {}
    count = 0
    for figure in figures:
        count += 1
        kinds = sorted(Path(name).suffix for name in figure.files)
        if kinds != [".csv", ".png", ".svg"]:
            wrong += found(
                [(figure.title[:80], "a figure is an SVG, a PNG and a CSV; one of them is missing")]
            )
        wrong += found(
            (name, "result.json has no fingerprint of this file")
            for name in figure.files
            if name not in fingerprinted
        )
        for name in figure.files:
            if name.endswith(".csv") and name in fingerprinted:
                try:
                    tables[name] = _table(record.result_dir / name)
                except _UnreadableTableError as error:
                    wrong += found([(name, str(error))])
    reader = SourceReader(record.result_dir)
    by_key = {clean(key): series for key, series in record.series.items()}
    reader.fetch(_sources(tables.values(), by_key))
    numbers = 0
    for name, rows in tables.items():
        is_validation = rows[0] == _VALIDATION
        why = _validation(rows, facts) if is_validation else _curve(rows, by_key, reader)
        wrong += found([(name, why)] if why else [])
        numbers += (3 if is_validation else 1) * (len(rows) - 1)
    return Checked(tuple(wrong), numbers=numbers, figures=count)


def _table(path: Path) -> Rows:
    """The rows of a CSV, the header first."""
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST_BYTES:
            raise _UnreadableTableError("this is no table that the harness writes")
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise _UnreadableTableError(f"it cannot be read as a table: {error}") from error
    header = rows[0] if rows else []
    is_curve = len(header) == 4 and (header[0], *header[2:]) == ("step", "attempt", "source")
    if not (is_curve or header == _VALIDATION) or any(len(row) != len(header) for row in rows):
        raise _UnreadableTableError("this is no table that the harness writes")
    return rows


def _sources(tables: Iterable[Rows], by_key: Mapping[str, Series]) -> Iterable[Source]:
    for rows in tables:
        series = by_key.get(rows[0][1]) if rows[0] != _VALIDATION else None
        if series is not None:
            yield from (series.source(index) for index in range(len(series.steps)))


def _curve(rows: Rows, by_key: Mapping[str, Series], reader: SourceReader) -> str:
    """Why the rows are not the metric as the raw files have it; "" when they are."""
    key = rows[0][1]
    series = by_key.get(key)
    if series is None:
        return f"no raw file has a metric {key[:80]!r}"
    if len(rows) - 1 != len(series.steps):
        return f"it has {len(rows) - 1:,} rows, the raw files give {len(series.steps):,}"
    for index, (step, value, attempt, place) in enumerate(rows[1:]):
        source = series.source(index)
        known = [str(series.steps[index]), str(series.attempts[index]), str(source)]
        if [step, attempt, place] != known or not _PLACE.fullmatch(place):
            said = f"row {index + 2} is of step {step[:20]} at {place[:80]}"
            return f"{said}; the raw files give step {known[0]} at {source}"
        try:
            again = reader.number(source)
        except SourceError as error:
            return f"row {index + 2}: {error}"
        if not _is(value, again):
            return f"row {index + 2} says {value[:40]}, {source} gives {again!r}"
    return ""


def _validation(rows: Rows, facts: Mapping[str, Fact]) -> str:
    """Why the rows are not the facts they stand for; "" when they are."""
    rates = {rate for _, rate, *_ in rows[1:]}
    for rate in sorted(rates):
        wanted = {f"val/{step}/{rate}" for step, of, *_ in rows[1:] if of == rate}
        known = {name for name in facts if re.fullmatch(rf"val/\d+/{re.escape(rate)}", name)}
        if wanted != known:
            odd = ", ".join(sorted(name[:80] for name in wanted ^ known)[:3])
            return f"its rows and the numbers of the report are not of the same validations: {odd}"
    for number, (step, rate, value, low, high, _, place) in enumerate(rows[1:], start=2):
        fact = facts[f"val/{step}/{rate}"]
        ends = (fact.interval.low, fact.interval.high) if fact.interval else (None, None)
        if not _is(value, fact.value) or place != fact.place:
            said = f"row {number} says {value[:40]} ({place[:80]})"
            return f"{said}, the raw files give {fact.value!r} ({fact.place})"
        for shown, again in zip((low, high), ends, strict=True):
            if (shown == "") != (again is None) or (again is not None and not _is(shown, again)):
                return f"row {number}: the interval is [{low[:20]}, {high[:20]}], the raw files give {ends}"
    return ""


def _is(shown: str, again: float) -> bool:
    try:
        return same_number(float(shown), again)
    except ValueError:
        return False
