"""A comparison as JSON and as a table of its runs: what sweep.json and points.csv hold.

In: a `Comparison`. Out: plain data without NaN (null stands for it). Folders below `root` are written
relative to it, so that a moved folder still reads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.config.values import as_text
from harness.results.comparing.types import Comparison
from harness.results.manifest import plain

SCHEMA = 2


def to_json(comparison: Comparison, root: Path | None = None) -> dict[str, Any]:
    """The comparison as JSON data; a point with a single seed says so itself."""
    data: dict[str, Any] = {"schema": SCHEMA, **asdict(comparison)}
    data["is_single_seed"] = comparison.is_single_seed
    for point, of in zip(data["points"], comparison.points, strict=True):
        point["is_single_seed"] = of.is_single_seed
    for planned in (*(run["run"] for run in data["runs"]), *data["study"]["runs"]):
        if root is not None and planned["folder"].is_relative_to(root):
            planned["folder"] = planned["folder"].relative_to(root)
    return dict(plain(data))


def points_csv(comparison: Comparison) -> str:
    """One row per run, with its point's levels: what a spreadsheet or another program goes on with. Numbers
    with all their digits; nothing for what is not known."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for number, row in enumerate(_rows(comparison)):
        names, values = zip(*row, strict=True)
        writer.writerows([names, values] if number == 0 else [values])
    return stream.getvalue()


def _rows(comparison: Comparison) -> Iterator[list[tuple[str, Any]]]:
    """Column and value, run by run."""
    points = {point.point.name: point for point in comparison.points}
    for result in comparison.runs:
        of = points[result.run.point]
        yield [
            ("point", of.point.name),
            ("is_baseline", as_text(of.point.is_baseline)),
            *((key.name, as_text(of.point.levels[key.name])) for key in comparison.study.keys),
            ("seeds_that_count", of.value.n if of.value is not None else 0),
            ("run", result.run.name),
            ("seed", result.run.seed),
            *((name, getattr(result, name)) for name in ("outcome", "value", "why_not", "last_step")),
            *((name, getattr(result, name)) for name in ("attempts", "hours", "area", "steps_to_threshold")),
            ("source", result.source),
            ("source_key", result.source and result.source.key),
            ("deviations", "; ".join(result.deviations)),
        ]
