"""Where rows stand: at what they print, never at an invented step."""

from __future__ import annotations

from monitors.metrics.axis import Axis, positions
from monitors.metrics.row import Row


def test_steps_are_the_axis() -> None:
    assert positions([Row(10, {"loss": 1.0}), Row(20, {"loss": 0.5})]) == ("step", [10.0, 20.0])


def test_epochs_are_the_axis_where_no_step_is_printed() -> None:
    rows = [
        Row(None, {"loss": 1.0}, 0.04),
        Row(None, {"loss": 0.5}, 0.08),
        Row(None, {"eval_loss": 0.5}, 0.08),
    ]
    assert positions(rows) == ("epoch", [0.04, 0.08, 0.08])


def test_row_numbers_are_said_to_be_such() -> None:
    assert positions([Row(None, {"loss": 1.0}), Row(None, {"loss": 0.5})]) == ("row", [1.0, 2.0])


def test_counter_that_starts_again_in_each_epoch_goes_on() -> None:
    rows = [Row(step, {"loss": 1.0}, epoch, 600) for epoch in (1.0, 2.0, 3.0) for step in (100, 600)]
    assert positions(rows) == ("step", [100, 600, 700, 1200, 1300, 1800])


def test_counter_without_an_end_goes_on_from_its_highest() -> None:
    rows = [Row(step, {"loss": 1.0}, epoch) for epoch in (0.0, 1.0) for step in (0, 10, 20)]
    assert positions(rows)[1] == [0, 10, 20, 20, 30, 40]


def test_last_step_of_each_epoch_is_the_epoch() -> None:
    rows = [Row(32, {"loss": 1.0}, float(epoch), 32) for epoch in (1, 2, 3)]
    assert positions(rows) == ("epoch", [1.0, 2.0, 3.0])


def test_validation_with_a_counter_of_its_own_stands_where_the_training_is() -> None:
    rows = [Row(90, {"loss": 1.0}), Row(10, {"loss": 2.0}, None, 97, "test"), Row(100, {"loss": 0.5})]
    assert positions(rows) == ("step", [90.0, 90.0, 100.0])


def test_steps_that_start_over_without_an_epoch_are_no_axis() -> None:
    rows = [Row(step, {"loss": 1.0}) for _ in range(3) for step in (1, 2)]
    assert positions(rows) == ("row", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def test_streaming_gives_the_same_places() -> None:
    rows = [Row(step, {"loss": 1.0}, epoch, 4) for epoch in (1.0, 2.0) for step in (1, 2, 3, 4)]
    axis = Axis()
    assert ("step", [axis.place(row) for row in rows]) == positions(rows)


def test_a_bar_that_is_set_back_before_it_names_the_next_epoch_stays_where_it_is() -> None:
    places = [(2, 0.0), (32, 0.0), (0, 0.0), (1, 1.0), (32, 1.0), (0, 1.0), (1, 2.0)]
    rows = [Row(step, {"loss": 1.0}, epoch, 32) for step, epoch in places]
    assert positions(rows) == ("step", [2, 32, 32, 33, 64, 64, 65])


def test_epochs_that_start_again_are_no_axis() -> None:
    rows = [Row(None, {"val_acc": 0.5}, float(epoch)) for _ in range(5) for epoch in (1, 2, 3)]
    assert positions(rows) == ("row", [float(number) for number in range(1, 16)])
