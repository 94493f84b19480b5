"""Rows go into metrics.jsonl as strict JSON, and come out of it as they were, held as columns."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitors.metrics import Row
from monitors.metrics.axis import positions
from monitors.metrics_file import MetricsFile, MetricTable
from tests.monitors.metric_records import read_metrics

NUMBERS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 1e-320])
ROWS = st.builds(
    Row,
    st.none() | st.integers(-5, 40),
    st.dictionaries(st.sampled_from(["loss", "reward", "val/acc", "lr"]), NUMBERS),
    st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.none() | st.integers(1, 10),
    st.sampled_from(["", "", "test"]),
)


def told(rows: list[Row]) -> str:
    return repr([(row.step, row.named(), row.epoch, row.steps_per_epoch, row.split) for row in rows])


@given(rows=st.lists(ROWS, max_size=12))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    written = MetricsFile(path)
    for number, row in enumerate(rows, start=1):
        written.add(row, "pane.log", number, number)
    written.publish()
    written.close()
    assert len(read_metrics(path)) == len(rows)  # for any reader of JSON
    table = MetricTable.read(path)
    assert [line for line, _ in table.rows()] == list(range(1, len(rows) + 1)) == list(table.lines)
    assert told([row for _, row in table.rows()]) == told(rows)
    kind, places = table.placed()
    assert (kind, list(places)) == positions(row for _, row in table.rows())
    assert table.is_of_log == bool(rows)


def test_bare_numbers_and_words_are_the_same_and_damage_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        '{"step": 1, "values": {"loss": NaN, "reward": -Infinity}}',
        '{"step": 2, "values": {"loss": "NaN", "reward": "-Infinity"}}',
        "torn {",
        '{"step": 10.5, "values": {"loss": 1, "ok": true, "name": "x", "huge": ' + "1" * 400 + "}}",
        '{"step": NaN, "epoch": Infinity, "values": {"loss": "0.5"}}',
    ]
    path.write_text("\n".join(lines))
    rows = list(MetricTable.read(path).rows())
    assert [line for line, _ in rows] == [1, 2, 4, 5]
    assert repr(rows[0][1].values) == repr(rows[1][1].values) == "{'loss': nan, 'reward': -inf}"
    assert (rows[2][1].step, rows[2][1].values) == (None, {"loss": 1.0, "huge": math.inf})
    assert (rows[3][1].step, rows[3][1].epoch) == (None, None)
    assert MetricTable.read(tmp_path / "none").placed() == ("row", MetricTable().lines)


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        ([(1, None), (2, None), (10.5, None), (None, None), (11, None)], [1, 2, 2, 2, 11]),
        ([(3, None), (7, None)], [3, 7]),
        ([(None, 1.0), (None, 2.5)], [1.0, 2.5]),
        ([(None, None)] * 3, [1, 2, 3]),
    ],
)
def test_rows_stand_at_their_step_else_at_their_epoch_else_at_their_number(
    tmp_path: Path, rows: list[tuple[float | None, float | None]], places: list[float]
) -> None:
    """A step that is no whole number is none, and not the one after the last."""
    path = tmp_path / "metrics.jsonl"
    records = ({"step": step, "epoch": epoch, "values": {"loss": 1.0}} for step, epoch in rows)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert list(MetricTable.read(path).placed()[1]) == places
