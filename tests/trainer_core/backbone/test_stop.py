"""Signals wait for a safe point; a second one does not."""

import os
import signal
from collections.abc import Iterator

import pytest

from trainer_core.backbone.stop import StopRequested, StopSignals


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """Python's own handler, also where the tests were started in the background, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_raised_at_the_next_safe_point(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignals() as stop:
        stop.safe_point()
        os.kill(os.getpid(), number)
        with pytest.raises(StopRequested, match=number.name) as request:
            stop.safe_point()
        assert request.value.signal_number == number
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_acts_at_once() -> None:
    with StopSignals():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
