"""A comparison as JSON and as a table of its runs: what sweep.json and points.csv hold.

In: a `Comparison`. Out: plain data without NaN (null stands for it). Folders below `root` are written
relative to it, so that a moved folder still reads.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.config.values import as_text
from harness.results.comparing.types import Comparison
from harness.results.manifest import plain

SCHEMA = 2
_COLUMNS = (
    *("run", "seed", "outcome", "value", "why_not", "last_step", "attempts", "hours", "area"),
    *("steps_to_threshold", "source", "source_key", "deviations"),
)


def to_json(comparison: Comparison, root: Path | None = None) -> dict[str, Any]:
    """The comparison as JSON data; a point with a single seed says so itself."""
    data: dict[str, Any] = {"schema": SCHEMA, **asdict(comparison)}
    data["is_single_seed"] = comparison.is_single_seed
    for point, of in zip(data["points"], comparison.points, strict=True):
        point["is_single_seed"] = of.is_single_seed
    for run in (*data["runs"], *data["study"]["runs"]):
        planned = run.get("run", run)
        folder = planned["folder"]
        if root is not None and folder.is_relative_to(root):
            planned["folder"] = folder.relative_to(root)
    return dict(plain(data))


def points_csv(comparison: Comparison) -> str:
    """One row per run, with its point's levels: what a spreadsheet or another program goes on with."""
    stream = io.StringIO()
    keys = [key.name for key in comparison.study.keys]
    points = {point.point.name: point for point in comparison.points}
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["point", "is_baseline", *keys, "seeds_that_count", *_COLUMNS])
    for result in comparison.runs:
        point = points[result.run.point]
        levels = [as_text(point.point.levels[key]) for key in keys]
        count = point.value.n if point.value is not None else 0
        known = {
            **vars(result),
            "run": result.run.name,
            "seed": result.run.seed,
            "source": str(result.source or ""),
            "source_key": result.source.key if result.source else "",
            "deviations": "; ".join(result.deviations),
        }
        row = [point.point.name, str(point.point.is_baseline).lower(), *levels, count]
        writer.writerow([*row, *(_cell(known[column]) for column in _COLUMNS)])
    return stream.getvalue()


def _cell(value: Any) -> str:
    """Numbers with all their digits; nothing for what is not known."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
