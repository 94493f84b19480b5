"""Figures: well-formed, in both colour schemes, with exactly the raw data beside them."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.figures import draw_figures
from tests.harness.results.journals import retried_run, successful_run
from tests.harness.results.synthetic import attempt


def draw(result_dir: Path) -> tuple[dict[str, str], list[str]]:
    record = collect(result_dir)
    figures, missing = draw_figures(record, build_facts(record))
    return {figure.name: figure.svg for figure in figures}, missing


def lines_of(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["panels"][0]["lines"])


def test_a_full_run_has_every_figure_three_times_and_validations_with_intervals(tmp_path: Path) -> None:
    successful_run(tmp_path, tasks=30)
    figures, missing = draw(tmp_path)
    names = ["validation", "reward", "kl", "loss", "entropy", "response_length", "throughput"]
    assert list(figures) == names and missing == []
    for name in names:
        ElementTree.parse(tmp_path / "figures" / f"{name}.svg")
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        svg = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert "prefers-color-scheme:dark" in svg and "var(--fig-ink" in svg
        assert "#0102" not in svg
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
    for step, value, source in zip(line["x"], line["y"], line["sources"], strict=True):
        file, _, number = source.partition(":")
        raw = json.loads((tmp_path / file).read_text().splitlines()[int(number) - 1])
        assert (raw["step"], raw["values"]["critic/rewards/mean"]) == (step, value)


def test_missing_and_dead_metrics_are_left_out_and_said(tmp_path: Path) -> None:
    attempt(tmp_path).metrics([(1, {"critic/rewards/mean": float("nan"), "loss": 1.0})])
    figures, missing = draw(tmp_path)
    assert list(figures) == ["metric_01_loss"]
    assert len(missing) == 1 and "Training reward, KL to the start model, Throughput" in missing[0]


def test_names_of_files_come_from_us(tmp_path: Path) -> None:
    attempt(tmp_path).metrics([(1, {"../../etc/$x$ <b>": 1.0, "": 2.0}), (2, {"../../etc/$x$ <b>": 3.0})])
    figures, _ = draw(tmp_path)
    assert list(figures) == ["metric_01_etc_x_b", "metric_02"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempts", "figures"]
