"""Figures of a comparison: their data, bands that scipy agrees with, labels that do not overlap."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from harness.results.charts import MOST_LABELLED, Chart, Line, Mark, Panel, labelled, shown
from harness.results.comparing.types import Comparison, Curve, Key
from harness.results.drawing import draw
from harness.results.drawing_style import colour_variables
from harness.results.sweeps.figures import MOST_STEPS, as_number, band, common, groups
from harness.results.sweeps.figures import draw_figures as draw_all
from harness.results.types import Figure
from tests.harness.results.comparisons import KL, LR, OPTIMIZER, REPEAT, comparison

Panels = dict[str, list[dict[str, Any]]]
Grid = tuple[Path, Comparison, list[Figure], Panels]


def draw_figures(made: Comparison, folder: Path) -> list[Figure]:
    """The figures, none of which is left out."""
    left_out: list[str] = []
    figures = draw_all(made, folder, left_out)
    assert not left_out
    return figures


def panels(figures: list[Figure], folder: Path) -> Panels:
    """Figure to its panels, as its JSON has them."""
    return {figure.name: json.loads((folder / figure.files[-1]).read_text())["panels"] for figure in figures}


def line(panel: dict[str, Any], label: str) -> dict[str, Any]:
    return next(one for one in panel["lines"] if one["label"] == label)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    folder, made = tmp_path_factory.mktemp("grid"), comparison((KL, REPEAT), 3)
    figures = draw_figures(made, folder)
    return folder, made, figures, panels(figures, folder)


def test_every_figure_is_there_in_both_colour_schemes(grid: Grid) -> None:
    tmp_path, _, figures, _ = grid
    assert [figure.name for figure in figures] == ["curves", "levels", "quality"]
    known = {declared.partition(":")[0] for declared in colour_variables(is_dark=True).split("; ")}
    for figure in figures:
        ElementTree.parse(tmp_path / figure.files[0])
        svg = (tmp_path / figure.files[0]).read_text()
        used = {part.partition(",")[0] for part in svg.split("var(")[1:]}
        assert used <= known and len(used) > 3


def test_bands_are_t_intervals_over_seeds_and_levels_stand_where_the_contrasts_put_them(grid: Grid) -> None:
    _, made, _, data = grid
    values = [run.curve.values[5] for run in made.runs if run.run.point == made.points[0].point.name]
    baseline = line(data["curves"][0], "baseline")
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert baseline["x"][5] == 100 and baseline["y"][5] == pytest.approx(np.mean(values))
    assert (baseline["low"][5], baseline["high"][5]) == pytest.approx((interval.low, interval.high))
    assert [ys[5] for _, ys in baseline["runs"]] == values
    base, level = data["levels"][1]["marks"]
    contrast = made.keys[1].contrasts[0]
    assert contrast.difference is not None and contrast.low is not None
    assert level["y"] - base["y"] == pytest.approx(contrast.difference)
    assert level["low"] - base["y"] == pytest.approx(contrast.low)
    assert "low" not in base and base["is_special"]
    assert len(base["runs"]) + len(level["runs"]) == 18


def test_two_seeds_have_their_range_and_one_has_nothing() -> None:
    low, high = band(np.array([[1.0, 5.0], [3.0, 4.0]]))
    assert low is not None and high is not None
    assert (low.tolist(), high.tolist()) == ([1.0, 4.0], [3.0, 5.0])
    assert band(np.array([[1.0, 2.0]])) == (None, None)


def test_curves_are_averaged_where_all_have_a_value() -> None:
    steps, values = common([Curve((0, 10, 20), (0.0, 1.0, 2.0)), Curve((0, 20, 30), (2.0, 4.0, 9.0))])
    assert (steps.tolist(), values.tolist()) == ([0, 20], [[0, 2], [2, 4]])
    steps, values = common([Curve((0, 10), (0.0, 1.0)), Curve((5, 15), (1.0, 3.0))])
    assert (steps.tolist(), values.tolist()) == ([5, 10], [[0.5, 1.0], [1.0, 2.0]])


def test_a_long_curve_keeps_its_mean_and_a_bounded_number_of_steps() -> None:
    series = np.random.default_rng(0).normal(size=5 * MOST_STEPS)
    steps, values = common([Curve(tuple(range(len(series))), tuple(series.tolist()))])
    assert values.shape == (1, MOST_STEPS)
    assert (values.mean(), steps.mean()) == pytest.approx((series.mean(), (len(series) - 1) / 2))


def test_the_front_is_what_no_other_point_beats(grid: Grid) -> None:
    marks = grid[3]["quality"][0]["marks"]
    for mark in marks:
        beaten = any(one["x"] <= mark["x"] and one["y"] >= mark["y"] and one is not mark for one in marks)
        assert mark.get("is_special", False) == (not beaten)


def test_many_points_become_one_panel_per_key(tmp_path: Path) -> None:
    made = comparison((REPEAT, LR), 1)
    curves = panels(draw_figures(made, tmp_path), tmp_path)["curves"]
    assert [panel["title"] for panel in curves] == ["num_repeat", "lr"]
    names = {point.point.name for point in made.points if point.point.levels[REPEAT.name] == 8}
    values = [run.curve.values[-1] for run in made.runs if run.run.point in names]
    eight = line(curves[0], "8")
    assert (eight["x"][-1], eight["y"][-1]) == (240, pytest.approx(np.mean(values)))
    assert (eight["low"][-1], eight["high"][-1]) == pytest.approx((min(values), max(values)))
    random = replace(made, keys=(replace(made.keys[0], key="point"),))
    assert [figure.name for figure in draw_figures(random, tmp_path)] == ["curves", "quality"]


def test_one_key_at_a_time_keeps_the_seeds_bands(tmp_path: Path) -> None:
    made = comparison((KL, REPEAT, OPTIMIZER, LR), 3, one_at_a_time=True)
    curves = panels(draw_figures(made, tmp_path), tmp_path)["curves"]
    muon = made.keys[2].contrasts[0].points[0]
    values = [run.curve.values[-1] for run in made.runs if (run.run.point,) == muon]
    assert [ys[-1] for _, ys in line(curves[2], "muon")["runs"]] == values


def test_levels_that_are_equal_but_not_the_same_keep_their_own_points() -> None:
    made = comparison((Key("a", ("x", "y", "z"), "x"),), 2)
    levels = (1, "1", True)
    pairs = zip(made.study.points, levels, strict=True)
    points = tuple(replace(one, levels={"a": level}) for one, level in pairs)
    sides = zip(made.keys[0].contrasts, levels[1:], strict=True)
    contrasts = tuple(replace(one, level=level, baseline=1) for one, level in sides)
    key, effect = Key("a", levels, 1), replace(made.keys[0], contrasts=contrasts)
    study = replace(made.study, keys=(key,), points=points)
    found = groups(effect, key, replace(made, study=study, keys=(effect,)))
    assert [repr(level) for level, *_ in found] == [repr(level) for level in levels]
    assert [names for _, names, _ in found] == [(one.name,) for one in points]


def test_values_that_are_no_numbers_are_left_out_and_old_figures_go(tmp_path: Path) -> None:
    made = comparison((REPEAT,), 1)
    draw_figures(made, tmp_path)
    nan = Curve((0, 1), (float("nan"), float("inf")))
    empty = replace(made, runs=tuple(replace(run, curve=nan, hours=None) for run in made.runs))
    empty = replace(empty, points=tuple(replace(point, cost=None) for point in empty.points))
    assert [figure.name for figure in draw_figures(empty, tmp_path)] == ["levels"]
    assert sorted(path.stem for path in (tmp_path / "figures").iterdir()) == ["levels"] * 2


def test_of_many_lines_the_baseline_and_the_best_have_labels() -> None:
    ends = range(MOST_LABELLED + 4)
    lines = [Line(str(end), (0.0,), (float(end),), is_baseline=end == 3) for end in ends]
    assert [line.label for line in labelled(lines, is_max=True)] == ["3", "11", "10", "9", "8"]
    assert [line.label for line in labelled(lines, is_max=False)] == ["3", "0", "1", "2", "4"]


@pytest.mark.parametrize(
    ("level", "number"),
    [(1, 1.0), ("1e-4", 1e-4), (True, None), (None, None), ("adamw", None), ("inf", None), (0.5, 0.5)],
)
def test_levels_that_are_numbers(level: str | float | None, number: float | None) -> None:
    assert as_number(level) == number


@pytest.mark.parametrize(
    ("levels", "scale"),
    [
        ((0.003, 0.01, 0.03), "log"),
        ((8, 16, 32), "log"),
        ((1e-4, 1e-3), "log"),
        ((1, 2, 3, 4), ""),
        ((0, 0.01, 0.1), ""),
        ((4, 8), ""),
        (("a", "b", "c"), ""),
    ],
)
def test_levels_that_are_spaced_as_logarithms_stand_on_such_an_axis(levels: Any, scale: str) -> None:
    marks = tuple(Mark(str(level), as_number(level), 0.5) for level in levels)
    chart = Chart("levels", "", "", "levels", "", "loss", (Panel(marks=marks),))
    assert shown(chart).panels[0].x_scale == scale
    assert draw(shown(chart)).startswith("<?xml")


def test_a_band_reaches_no_further_than_what_was_measured(tmp_path: Path) -> None:
    made = comparison((REPEAT,), 3)
    wild = replace(made.runs[0], curve=replace(made.runs[0].curve, values=(9.0,) * 13))
    made = replace(made, runs=(wild, *made.runs[1:]))
    every = [value for run in made.runs for value in run.curve.values]
    lines = panels(draw_figures(made, tmp_path), tmp_path)["curves"][0]["lines"]
    assert max(max(one["high"]) for one in lines) == 9.0
    assert min(min(one["low"]) for one in lines) == min(every)


def test_quality_is_not_drawn_against_times_that_differ_by_nothing(tmp_path: Path) -> None:
    made = comparison((REPEAT,), 3)
    for first, more in ((2.0, 0.1), (0.0001, 0.0002)):
        points = tuple(replace(point, cost=first + more * at) for at, point in enumerate(made.points))
        figures = draw_figures(replace(made, points=points), tmp_path)
        assert [figure.name for figure in figures] == ["curves", "levels"]
    unknown = replace(made, study=replace(made.study, goal=None), best=None)
    assert "quality" not in [figure.name for figure in draw_figures(unknown, tmp_path)]
