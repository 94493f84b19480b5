"""How far a lost attempt came, as far as its rows tell."""

import pytest

from harness.resume_status import _reached


@pytest.mark.parametrize(
    ("places", "came_to"),
    [
        ([(None, 1.0), (None, 2.5)], 2),
        ([(3, None), (7, None)], 7),
        ([(None, None), (None, None), (None, None)], 3),
        ([], None),
    ],
)
def test_rows_without_a_step_tell_an_epoch_or_their_number(
    places: list[tuple[int | None, float | None]], came_to: int | None
) -> None:
    assert (
        _reached([{"step": step, "epoch": epoch, "values": {"loss": 1.0}} for step, epoch in places])
        == came_to
    )
