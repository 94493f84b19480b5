"""Metric rows: all of a short log, thinned out in a long one, those that are not finite anywhere."""

import math
from pathlib import Path

import pytest

from harness.diagnosis.reading.rows import MOST_NOT_FINITE, MOST_ROWS
from tests.harness.diagnosis.reading.reading_text import log_of


def row(step: int, loss: float | str = 0.5) -> str:
    return f"step:{step} - actor/loss:{loss} - actor/lr:0.1\n"


def test_all_rows_of_a_short_log_with_their_lines(tmp_path: Path) -> None:
    text = "INFO start\n" + "".join(row(step) + "INFO between\n" for step in range(1, 50))
    rows = log_of(tmp_path, text).rows
    assert [(seen.line.number, seen.row.step) for seen in rows] == [(2 * step, step) for step in range(1, 50)]


def test_printed_dicts_are_rows(tmp_path: Path) -> None:
    text = "\r\n".join(f"{{'loss': {index}.5, 'epoch': 0.1}}" for index in range(6))
    assert [seen.row.values["loss"] for seen in log_of(tmp_path, text).rows] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


@pytest.mark.parametrize("block_bytes", [1 << 14, 1 << 23])
def test_rows_of_a_long_log_are_thinned_out_evenly(tmp_path: Path, block_bytes: int) -> None:
    count = 10 * MOST_ROWS
    log = log_of(tmp_path, "".join(row(step) for step in range(count)), block_bytes=block_bytes)
    steps = [seen.row.step for seen in log.rows if seen.row.step is not None]
    assert MOST_ROWS / 8 < len(steps) <= MOST_ROWS + 20
    assert steps == sorted(steps)
    assert [seen.line.number for seen in log.rows] == [step + 1 for step in steps]
    for part in range(10):
        assert sum(part * MOST_ROWS <= step < (part + 1) * MOST_ROWS for step in steps) > len(steps) / 30


def test_rows_that_are_not_finite_are_found_among_very_many(tmp_path: Path) -> None:
    rows = [row(step) for step in range(40_000)]
    rows[23_457] = row(23_457, "nan")
    read = log_of(tmp_path, "".join(rows), block_bytes=1 << 15).rows
    odd = [(one.line.number, one.row.step) for one in read if math.isnan(one.row.values["actor/loss"])]
    assert odd == [(23_458, 23_457)]


def test_of_very_many_rows_that_are_not_finite_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    count = 20_000
    rows = [row(0), *(row(step, "inf") for step in range(1, count))]
    log = log_of(tmp_path, "".join(rows), block_bytes=1 << 15)
    infinite = [seen.row.step for seen in log.rows if math.isinf(seen.row.values["actor/loss"])]
    assert (infinite[0], infinite[-1]) == (1, count - 1)
    assert len(infinite) <= MOST_ROWS + MOST_NOT_FINITE + 20
    assert log.faults == ()
