"""The machine over the time of a run, as its samples have it."""

import json
from dataclasses import replace
from pathlib import Path

from harness.results.collect import collect
from harness.results.figures import resource_chart
from tests.harness.results.synthetic import START, attempt

GIB = 1 << 30


def sampled(folder: Path, number: int, rows: list[dict[str, object]]) -> None:
    path = attempt(folder, number).folder / "resources.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"time": 17')


def sample(minute: float, cpu: float, **gpus: object) -> dict[str, object]:
    memory = {"rss_bytes": 2 * GIB, "mem_available_bytes": 6 * GIB, "disk_free_bytes": 1}
    return {"time": START + 60 * minute, "cpu_percent": cpu, **memory, "gpus": list(gpus.values())}


def test_cpu_memory_and_gpus_are_drawn_over_both_attempts(tmp_path: Path) -> None:
    gpu = {"index": 0, "name": "X", "busy_percent": 80.0, "memory_used_bytes": 3 * GIB}
    sampled(tmp_path, 1, [sample(0, 0.0, gpu=gpu), sample(1, 150.0, gpu=gpu)])
    sampled(tmp_path, 2, [sample(9, 0.0, gpu=gpu), sample(10, 90.0, gpu=gpu)])
    problems: list[str] = []
    chart = resource_chart(collect(tmp_path), problems)
    assert chart is not None and chart.x == "minutes"
    cpu, memory, busy, used = chart.panels
    assert [panel.y for panel in chart.panels] == ["%", "GiB", "%", "GiB"]
    (line,) = cpu.lines
    assert (line.x, line.y, line.attempts) == ((1, 10), (150, 90), (1, 2)), "a first sample holds no load"
    assert line.sources == ("attempts/01/resources.jsonl:2", "attempts/02/resources.jsonl:2")
    assert [(line.label, line.y[0]) for line in memory.lines] == [("training", 2), ("free on the machine", 6)]
    assert (busy.lines[0].label, busy.lines[0].y[0], used.lines[0].y[0]) == ("GPU 0", 80, 3)
    assert len(problems) == 2 and "resources.jsonl:3" in problems[0]


def test_a_single_sample_draws_nothing(tmp_path: Path) -> None:
    sampled(tmp_path, 1, [sample(0, 0.0)])
    assert resource_chart(collect(tmp_path), []) is None
    assert resource_chart(replace(collect(tmp_path), attempts=()), []) is None


def test_samples_of_a_few_seconds_draw_nothing(tmp_path: Path) -> None:
    """Whether a short run is sampled once or twice depends on when it is looked at."""
    sampled(tmp_path, 1, [sample(0, 0.0), sample(0.1, 50.0)])
    assert resource_chart(collect(tmp_path), []) is None
