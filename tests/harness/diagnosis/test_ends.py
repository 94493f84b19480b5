"""What the end of a process tells by itself."""

import pytest

from harness.diagnosis import ends
from tests.harness.runs import end as as_end


@pytest.mark.parametrize(
    ("ended", "family"),
    [
        ({"reason": "lost", "status": None}, "worker_died_opaque"),
        ({"reason": "signalled", "status": 143, "signal": 15}, "worker_died_opaque"),
        ({"reason": "signalled", "status": 137, "signal": 9}, "worker_died_opaque"),
        ({"reason": "signalled", "status": 139, "signal": 11}, "native_crash"),
        ({"reason": "exited", "status": 134}, "native_crash"),
        ({"reason": "exited", "status": 130}, "user_interrupt"),
        ({"reason": "exited", "status": 127}, "path_not_found"),
        ({"reason": "exited", "status": 126}, "permission"),
        ({"reason": "exited", "status": 153}, "os_limit"),
        ({"reason": "exited", "status": 1}, "unknown"),
        ({"reason": "exited", "status": 255}, "unknown"),
        ({"reason": "deadline", "status": 143, "signal": 15}, "time_limit"),
        ({"reason": "could_not_start"}, "path_not_found"),
        ({"reason": "exited", "status": -9}, "worker_died_opaque"),
        ({"reason": "exited", "status": -11}, "native_crash"),
        ({"status": 0, "shortfall": "the loss is gone", "shortfall_family": "numerics_nan"}, "numerics_nan"),
        ({"reason": "exited", "status": 0, "shortfall": "without a single metric row"}, "silent_bad_metrics"),
        ({}, "unknown"),
    ],
)
def test_the_family_of_an_end(ended: dict, family: str) -> None:
    assert ends.read(as_end(ended)).family == family


def test_only_an_end_from_outside_is_transient() -> None:
    assert ends.read(as_end({"reason": "lost"})).transient
    assert ends.read(as_end({"reason": "signalled", "status": 143, "signal": 15})).transient
    assert ends.read(as_end({"reason": "signalled", "status": 137, "signal": 9})).transient
    assert not ends.read(as_end({"reason": "signalled", "status": 139, "signal": 11})).transient


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        ({"reason": "signalled", "status": 168, "signal": 40}, "killed by signal 40"),
        ({"reason": "exited", "status": -40}, "killed by signal 40"),
        ({"reason": "exited", "status": 168}, "status 168"),
        ({"reason": "exited", "status": 255}, "status 255"),
    ],
)
def test_a_signal_without_a_name_is_told_from_a_status(ended: dict, says: str) -> None:
    assert says in ends.read(as_end(ended)).cause


@pytest.mark.parametrize(
    ("reason", "sign", "family", "final"),
    [
        ("fatal_error", "not_finite", "numerics_nan", True),
        ("fatal_error", "after_error", "hang_no_output", False),
        ("fatal_error", "silence", "hang_no_output", True),
        ("fatal_error", "", "hang_no_output", False),
        ("first_step_timeout", "", "hang_no_output", False),
        ("person", "", "hang_no_output", True),
    ],
)
def test_what_we_stopped_ourselves(reason: str, sign: str, family: str, final: bool) -> None:
    end = ends.read(as_end({"reason": "stopped", "status": 143, "sign": sign}), reason, "why")
    assert (end.family, end.is_final) == (family, final)
