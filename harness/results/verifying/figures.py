"""The figures of a finished run: each is there whole, and its data is what the raw files hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.results.charts import SUFFIXES
from harness.results.figures import charts_of
from harness.results.raw import json_file
from harness.results.types import Discrepancy, Fact, Record
from harness.results.verifying.schema import RecordedFigure
from harness.results.verifying.types import Checked, found


def check_figures(
    record: Record, figures: Iterable[RecordedFigure], facts: Mapping[str, Fact], fingerprinted: set[str]
) -> Checked:
    """Each figure is there whole, and its data is that of the chart made again from the raw files."""
    wrong: list[Discrepancy] = []
    charts = {chart.name: chart for chart in charts_of(record, facts)[0]}
    figures = list(figures)
    for figure in figures:
        if sorted(Path(name).suffix for name in figure.files) != sorted(SUFFIXES):
            wrong += found([(figure.title[:80], "a figure is an SVG, a PNG and its data; one is missing")])
        missing = "result.json has no fingerprint of this file"
        wrong += found((name, missing) for name in figure.files if name not in fingerprinted)
        for name in figure.files:
            if name.endswith(".json") and name in fingerprinted:
                chart = charts.get(Path(name).stem)
                data = json_file(record.result_dir / name, name, [])
                if chart is None or data != chart.as_json():
                    wrong += found([(name, "its data is not what the raw files give")])
    return Checked(tuple(wrong), figures=len(figures))
