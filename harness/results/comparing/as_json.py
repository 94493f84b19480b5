"""A comparison as JSON and as a table of its runs: what sweep.json and points.csv hold.

In: a `Comparison`. Out: plain data without NaN (null stands for it, "inf" for an infinity of a curve), and
back again. Folders below `root` are written relative to it, so that a moved folder still reads.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.results.comparing.types import Comparison, RunResult
from harness.wording import value_text

SCHEMA = 1


def to_json(comparison: Comparison, root: Path | None = None) -> dict[str, Any]:
    """The comparison as JSON data; points with a single seed say so themselves."""
    data: dict[str, Any] = {"schema": SCHEMA, **TypeAdapter(Comparison).dump_python(comparison)}
    data["is_single_seed"] = comparison.is_single_seed
    data["study"]["runs"] = [{**run, "folder": _shown(run["folder"], root)} for run in data["study"]["runs"]]
    for run in data["runs"]:
        run["run"]["folder"] = _shown(run["run"]["folder"], root)
        run["curve"]["values"] = [_number(value) for value in run["curve"]["values"]]
    for data_of, point in zip(data["points"], comparison.points, strict=True):
        data_of["is_single_seed"] = point.is_single_seed
    return dict(_plain(data))


def from_json(data: Mapping[str, Any], root: Path | None = None) -> Comparison:
    """The inverse of `to_json`, also after a trip through JSON text. Raises ValueError for other data."""
    if data.get("schema") != SCHEMA:
        raise ValueError(f"schema {data.get('schema')!r}: this version reads schema {SCHEMA}")
    runs = [
        {**run, "curve": {**run["curve"], "values": [_float(v) for v in run["curve"]["values"]]}}
        for run in data["runs"]
    ]
    found: Comparison = TypeAdapter(Comparison).validate_python({**data, "runs": runs})
    if root is None:
        return found
    planned = tuple(replace(run, folder=root / run.folder) for run in found.study.runs)
    results = tuple(replace(one, run=replace(one.run, folder=root / one.run.folder)) for one in found.runs)
    return replace(found, study=replace(found.study, runs=planned), runs=results)


def _shown(folder: Path, root: Path | None) -> str:
    return str(folder.relative_to(root) if root is not None and folder.is_relative_to(root) else folder)


def _number(value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _float(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _plain(node: Any) -> Any:
    """Tuples as lists, and null for NaN."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, tuple | list):
        return [_plain(item) for item in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node


# --- the table ----------------------------------------------------------------------------------------------


def points_csv(comparison: Comparison) -> str:
    """One row per run, with its point's levels: what a spreadsheet or another program goes on with."""
    stream = io.StringIO()
    keys = [key.name for key in comparison.study.keys]
    points = {point.point.name: point for point in comparison.points}
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["point", "is_baseline", *keys, "seeds_that_count", *_COLUMNS])
    for result in comparison.runs:
        point = points[result.run.point]
        levels = [value_text(point.point.levels[key]) for key in keys]
        count = point.value.n if point.value is not None else 0
        row = [point.point.name, str(point.point.is_baseline).lower(), *levels, count]
        writer.writerow([*row, *(_cell(value) for value in _row(result))])
    return stream.getvalue()


_COLUMNS = (
    *("run", "seed", "outcome", "value", "why_not", "last_step", "attempts", "hours", "area"),
    *("steps_to_threshold", "seconds_to_threshold", "source", "source_key", "deviations"),
)


def _row(result: RunResult) -> tuple[Any, ...]:
    return (
        *(result.run.name, result.run.seed, result.outcome, result.value, result.why_not),
        *(result.last_step, result.attempts, result.hours, result.area),
        *(result.steps_to_threshold, result.seconds_to_threshold),
        *(str(result.source or ""), result.source.key if result.source else ""),
        "; ".join(result.deviations),
    )


def _cell(value: Any) -> str:
    """Numbers with all their digits; nothing for what is not known."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
