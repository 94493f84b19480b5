"""What the end of a process tells by itself, and samples of memory as evidence for a kill."""

import json
from pathlib import Path

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


def samples(folder: Path, *pairs: tuple[int, int]) -> Path:
    file = folder / "resources.jsonl"
    rows = (json.dumps({"rss_bytes": rss, "mem_available_bytes": free}) for rss, free in pairs)
    file.write_text("\n".join(rows) + "\n")
    return file


def test_a_last_sample_without_room_is_evidence(tmp_path: Path) -> None:
    found = ends.out_of_memory(samples(tmp_path, (10, 90), (98, 2)))
    assert found is not None and (found.line, found.file) == (2, "resources.jsonl")


def test_memory_that_was_given_back_is_none(tmp_path: Path) -> None:
    assert ends.out_of_memory(samples(tmp_path, (98, 2), (50, 50))) is None


def test_a_torn_last_line_is_passed_over_and_no_file_is_no_evidence(tmp_path: Path) -> None:
    file = samples(tmp_path, (98, 2))
    with file.open("a") as out:
        out.write('{"rss_by')
    found = ends.out_of_memory(file)
    assert found is not None and found.line == 1
    assert ends.out_of_memory(tmp_path / "none") is None
