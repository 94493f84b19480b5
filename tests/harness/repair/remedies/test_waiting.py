"""Waits double, up to a quarter of an hour, and only for what passes."""

import pytest

from tests.harness.repair.remedies.samples import remedy, situation


@pytest.mark.parametrize(("times", "wait_s"), [(0, 30.0), (1, 60.0), (3, 240.0), (9, 900.0)])
def test_the_wait_grows(times: int, wait_s: float) -> None:
    tried = ("wait_and_retry",) * times
    found = remedy("wait_and_retry", situation(transient=True, wait_s=30.0, tried=tried))
    assert found is not None and found.wait_s == wait_s


def test_what_does_not_pass_is_not_waited_for() -> None:
    assert remedy("wait_and_retry", situation(wait_s=30.0)) is None
    assert remedy("resume_from_checkpoint", situation()) is None
