"""CPU, memory and GPUs over the time of a run, as sampled while it was watched.

In: the attempts' `resources.jsonl`. Out: a `Chart` with a panel for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from harness.results.charts import Chart, Line, Panel
from harness.results.raw import json_lines, number_in
from harness.results.types import Record, Source

LEAST_MINUTES = 0.5
_GIB = 1 << 30
_UNITS = {"CPU (100 per core)": "%", "Memory": "GiB", "GPU": "%", "GPU memory": "GiB"}


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
