"""Figures: well-formed, in both colour schemes, with exactly the raw data beside them."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from harness.results.charts import MOST_SHOWN, Chart, Line, Panel, shown
from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.figures import draw_figures
from tests.harness.results.journals import retried_run, successful_run
from tests.harness.results.synthetic import attempt


def draw(result_dir: Path) -> tuple[dict[str, str], list[str]]:
    record = collect(result_dir)
    figures, missing = draw_figures(record, build_facts(record))
    return {figure.name: (result_dir / figure.files[0]).read_text() for figure in figures}, missing


def lines_of(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["panels"][0]["lines"])


def test_a_full_run_has_every_figure_twice_and_validations_with_intervals(tmp_path: Path) -> None:
    successful_run(tmp_path, tasks=30)
    figures, missing = draw(tmp_path)
    names = ["validation", "reward", "kl", "loss", "entropy", "response_length", "throughput"]
    assert list(figures) == names and missing == []
    for name in names:
        svg = ElementTree.parse(tmp_path / "figures" / f"{name}.svg").getroot()
        assert svg.get("role") == "img" and svg[0].tag.endswith("title") and svg[0].text
        svg = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert "prefers-color-scheme:dark" in svg and "var(--fig-ink" in svg
    line, other = lines_of(tmp_path / "figures/validation.json")
    assert (line["label"], other["label"]) == ("task_pass_rate@1", "unbiased_pass@4")
    rows = (tmp_path / "attempts/01/trainer/validation.jsonl").read_text().splitlines()
    first = np.array([json.loads(row)["successes"] for row in rows[:30]], dtype=float)
    assert line["low"][0] < line["y"][0] == first.mean() < line["high"][0]


def test_the_data_is_the_raw_data_with_its_place(tmp_path: Path) -> None:
    retried_run(tmp_path)
    assert "attempt 2" in draw(tmp_path)[0]["reward"], "the place where it takes over is marked"
    (line,) = lines_of(tmp_path / "figures/reward.json")
    assert line["label"] == "critic/rewards/mean" and line["x"] == list(range(1, 91))
    assert line["attempts"] == [1] * 40 + [2] * 50
    columns = (line[name] for name in ("x", "y", "attempts", "lines"))
    for step, value, number, place in zip(*columns, strict=True):
        file = tmp_path / f"attempts/{number:02d}/metrics.jsonl"
        raw = json.loads(file.read_text().splitlines()[place - 1])
        assert (raw["step"], raw["values"]["critic/rewards/mean"]) == (step, value)


def test_missing_and_dead_metrics_are_left_out_and_said(tmp_path: Path) -> None:
    attempt(tmp_path).metrics(
        [(at, {"critic/rewards/mean": float("nan"), "loss": 1.0 / at}) for at in (1, 2)]
    )
    figures, missing = draw(tmp_path)
    assert list(figures) == ["metric_01_loss"]
    assert len(missing) == 1 and "Training reward, KL to the start model, Throughput" in missing[0]


def test_metrics_that_say_what_they_measure_are_drawn_before_speeds_and_counters(tmp_path: Path) -> None:
    row = {"fps": 9.0, "time_elapsed": 1.0, "iterations": 1.0, "explained_variance": 0.1, "ep_rew_mean": 21.0}
    attempt(tmp_path).metrics([(1, row), (2, row)])
    record = collect(tmp_path)
    figures, _ = draw_figures(record, build_facts(record), leading="ep_rew_mean")
    assert [figure.title for figure in figures][:2] == ["ep_rew_mean", "explained_variance"]


def test_names_of_files_come_from_us(tmp_path: Path) -> None:
    attempt(tmp_path).metrics(
        [(1, {"../../etc/$x$ <b>": 1.0, "": 2.0}), (2, {"../../etc/$x$ <b>": 3.0, "": 2.5})]
    )
    figures, _ = draw(tmp_path)
    assert list(figures) == ["metric_01_etc_x_b", "metric_02"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempts", "figures"]


def chart_of(values: list[float]) -> Chart:
    line = Line("loss", tuple(range(len(values))), tuple(values), sources=("here",) * len(values))
    return Chart("loss", "Loss", "", "metric", "step", "", (Panel(lines=(line,)),))


def test_a_long_line_is_shown_by_its_extremes_and_keeps_what_is_not_finite() -> None:
    values = np.random.default_rng(0).normal(size=50_000)
    values[[7, 30_001, 49_999]] = 90.0, -90.0, 3.0
    values[20_000:21_000] = np.nan
    (line,) = shown(chart_of(values.tolist())).panels[0].lines
    kept = dict(zip(line.x, line.y, strict=True))
    assert len(line.x) < 1.5 * MOST_SHOWN and line.sources == ()
    assert (kept[7], kept[30_001], kept[49_999]) == (90, -90, 3) and kept[0] == pytest.approx(values[0], 1e-5)
    dead = [x for x, y in kept.items() if np.isnan(y)]
    assert min(dead) == 20_000 and max(dead) < 21_000 and len(dead) == 10


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([0.5, 2.0, 0.1], ""),
        ([2.0, 1.0, 8e305, float("nan")], "log"),
        ([-0.01, 0.02, 0.0, 1e10], "asinh"),
        ([0.0, 0.0], ""),
    ],
)
def test_absurd_values_do_not_flatten_the_curve(values: list[float], scale: str, tmp_path: Path) -> None:
    assert shown(chart_of(values)).panels[0].scale == scale
    attempt(tmp_path).metrics([(step, {"loss": value}) for step, value in enumerate(values)])
    ElementTree.fromstring(draw(tmp_path)[0]["metric_01_loss"].encode())


def test_the_picture_marks_where_values_are_no_numbers(tmp_path: Path) -> None:
    values = [1.0, 0.5, float("nan"), float("inf"), 0.25]
    attempt(tmp_path).metrics([(step, {"loss": value}) for step, value in enumerate(values)])
    assert draw(tmp_path)[0]["metric_01_loss"].count(">NaN<") == 1
