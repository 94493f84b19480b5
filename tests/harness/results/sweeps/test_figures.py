"""Figures of a comparison: their data, bands that scipy agrees with, labels that do not overlap."""

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.results.comparing.types import Comparison, Curve, Key
from harness.results.drawing import colour_variables
from harness.results.sweeps.curves import MOST_STEPS, band, common, groups
from harness.results.sweeps.drawing import MOST_LABELLED, labelled, spread
from harness.results.sweeps.figures import draw_figures
from harness.results.sweeps.series import Line
from harness.results.types import Figure
from tests.harness.results.comparisons import KL, LR, OPTIMIZER, REPEAT, comparison

Rows = list[dict[str, str]]
Grid = tuple[Path, Comparison, list[Figure], dict[str, Rows]]


def drawn(folder: Path, made: Comparison) -> dict[str, Rows]:
    """Each figure's data as its CSV has it."""
    return {figure.name: rows(folder / figure.files[-1]) for figure in draw_figures(made, folder)}


def rows(file: Path) -> Rows:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """A grid of six points: its folder, figures and their data."""
    folder, made = tmp_path_factory.mktemp("grid"), comparison((KL, REPEAT), 3)
    figures = draw_figures(made, folder)
    return folder, made, figures, {figure.name: rows(folder / figure.files[-1]) for figure in figures}


def test_every_figure_is_there_in_both_colour_schemes(grid: Grid) -> None:
    tmp_path, _, figures, _ = grid
    assert [figure.name for figure in figures] == ["curves", "sensitivity", "quality"]
    known = {declared.partition(":")[0] for declared in colour_variables(is_dark=True).split("; ")}
    for figure in figures:
        ElementTree.parse(tmp_path / figure.files[0])
        assert (tmp_path / figure.files[1]).read_bytes().startswith(b"\x89PNG")
        used = {part.partition(",")[0] for part in figure.svg.split("var(")[1:]}
        assert used <= known and "#0102" not in figure.svg


def test_bands_are_t_intervals_over_seeds(grid: Grid) -> None:
    _, made, _, data = grid
    rows = data["curves"]
    values = [run.curve.values[5] for run in made.runs if run.run.point == made.points[0].point.name]
    mean = next(row for row in rows if (row["line"], row["kind"], row["step"]) == ("baseline", "mean", "100"))
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert float(mean["value"]) == pytest.approx(np.mean(values))
    assert (float(mean["low"]), float(mean["high"])) == pytest.approx((interval.low, interval.high))
    runs = [row for row in rows if row["line"] == "baseline" and row["kind"] == "run"]
    assert [float(row["value"]) for row in runs if row["step"] == "100"] == values


def test_two_seeds_have_their_range_and_one_has_nothing() -> None:
    low, high = band(np.array([[1.0, 5.0], [3.0, 4.0]]))
    assert low is not None and high is not None
    assert (low.tolist(), high.tolist()) == ([1.0, 4.0], [3.0, 5.0])
    assert band(np.array([[1.0, 2.0]])) == (None, None)


def test_the_band_of_a_rate_ends_where_rates_end() -> None:
    low, high = band(np.array([[0.9], [1.0], [1.0]]), (0.0, 1.0))
    assert low is not None and high is not None and low[0] < 0.9 and high[0] == 1.0


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


def test_levels_stand_where_the_contrasts_put_them(grid: Grid) -> None:
    _, made, _, data = grid
    rows = [row for row in data["sensitivity"] if row["key"] == REPEAT.name]
    contrast = made.keys[1].contrasts[0]
    base, level = (row for row in rows if row["kind"] == "mean")
    assert contrast.difference is not None and contrast.low is not None
    assert float(level["value"]) - float(base["value"]) == pytest.approx(contrast.difference)
    assert float(level["low"]) - float(base["value"]) == pytest.approx(contrast.low)
    assert (base["low"], base["high"]) == ("", "")
    assert sum(row["kind"] == "run" for row in rows) == 18


def test_the_front_is_what_no_other_point_beats(grid: Grid) -> None:
    rows = grid[3]["quality"]
    for row in rows:
        beaten = any(
            float(other["hours"]) <= float(row["hours"])
            and float(other["value"]) >= float(row["value"])
            and other is not row
            for other in rows
        )
        assert row["on_front"] == str(not beaten)


def test_many_points_become_one_panel_per_key(tmp_path: Path) -> None:
    made = comparison((REPEAT, LR), 1)
    rows = drawn(tmp_path, made)["curves"]
    assert {row["panel"] for row in rows} == {"num_repeat", "lr"}
    names = {point.point.name for point in made.points if point.point.levels[REPEAT.name] == 8}
    values = [run.curve.values[-1] for run in made.runs if run.run.point in names]
    last = next(row for row in rows if (row["panel"], row["line"], row["step"]) == ("num_repeat", "8", "240"))
    assert float(last["value"]) == pytest.approx(np.mean(values))
    assert (float(last["low"]), float(last["high"])) == pytest.approx((min(values), max(values)))


def test_one_key_at_a_time_keeps_the_seeds_bands(tmp_path: Path) -> None:
    made = comparison((KL, REPEAT, OPTIMIZER, LR), 3, one_at_a_time=True)
    rows = drawn(tmp_path, made)["curves"]
    muon = made.keys[2].contrasts[0].points[0]
    assert len(muon) == 1
    values = [run.curve.values[-1] for run in made.runs if run.run.point == muon[0]]
    last = [row for row in rows if (row["panel"], row["line"], row["step"]) == ("optimizer", "muon", "240")]
    assert [float(row["value"]) for row in last if row["kind"] == "run"] == values


def test_levels_that_are_equal_but_not_the_same_keep_their_own_points() -> None:
    made = comparison((Key("a", ("x", "y", "z"), "x"),), 2)
    levels = (1, 1.0, True)
    named = tuple(
        replace(one, point=replace(one.point, levels={"a": level}))
        for one, level in zip(made.points, levels, strict=True)
    )
    effect = replace(
        made.keys[0],
        contrasts=tuple(
            replace(one, level=level, baseline=1)
            for one, level in zip(made.keys[0].contrasts, levels[1:], strict=True)
        ),
    )
    study = replace(made.study, keys=(Key("a", levels, 1),))
    found = groups(effect, replace(made, study=study, points=named, keys=(effect,)))
    assert [(repr(level), points) for level, points in found] == [
        (repr(level), (one.point.name,)) for level, one in zip(levels, named, strict=True)
    ]


def test_values_that_are_no_numbers_are_left_out_and_old_figures_go(tmp_path: Path) -> None:
    made = comparison((REPEAT,), 1)
    draw_figures(made, tmp_path)
    nan = Curve((0, 1), (float("nan"), float("inf")))
    empty = replace(made, runs=tuple(replace(run, curve=nan, hours=None) for run in made.runs))
    empty = replace(empty, points=tuple(replace(point, cost=None) for point in empty.points))
    assert list(drawn(tmp_path, empty)) == ["sensitivity"]
    assert sorted(path.stem for path in (tmp_path / "figures").iterdir()) == ["sensitivity"] * 3


def test_of_many_lines_the_baseline_and_the_best_have_labels() -> None:
    lines = [
        Line(str(end), np.array([0.0]), np.array([float(end)]), None, None, is_baseline=end == 3)
        for end in range(MOST_LABELLED + 4)
    ]
    assert [line.label for line in labelled(lines, is_max=True)] == ["3", "11", "10", "9", "8"]
    assert [line.label for line in labelled(lines, is_max=False)] == ["3", "0", "1", "2", "4"]


@given(st.lists(st.floats(-100, 100), max_size=30).map(sorted), st.floats(0.1, 5))
def test_labels_keep_their_order_and_distance(wanted: list[float], gap: float) -> None:
    places = spread(wanted, gap)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(places))
    assert len(places) == len(wanted)
    if all(b - a >= gap for a, b in pairwise(wanted)):
        assert places == pytest.approx(wanted)
    assert sum(places) == pytest.approx(sum(wanted), abs=1e-6)
