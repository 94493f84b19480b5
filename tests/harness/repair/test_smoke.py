"""What a smoke run tells of the whole training."""

import pytest

from harness.repair.smoke import Pace


@pytest.mark.parametrize(
    ("rows", "total", "whole_s"),
    [
        ([(130.0, 1), (132.0, 2)], 100, 30.0 + 99 * 2.0),
        ([(130.0, 10), (130.0, 10), (150.0, 20)], 100, 30.0 + 90 * 2.0),
        ([(130.0, 1)], 100, None),
        ([(130.0, 1), (132.0, 2)], None, None),
        ([], 100, None),
    ],
    ids=["a slow start is counted once", "rows of every tenth step", "one row", "no end is known", "no row"],
)
def test_a_training_takes_its_start_and_its_steps(
    rows: list[tuple[float, float]], total: float | None, whole_s: float | None
) -> None:
    pace = Pace(began=100.0)
    for now, place in rows:
        pace.note(now, place)
    assert pace.whole_s(total) == whole_s
