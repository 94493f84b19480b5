"""What the end of a process tells by itself, and samples of memory as evidence for a kill."""

import json
from pathlib import Path

import pytest

from harness.diagnosis import diagnose, ends
from monitors.files import AttemptFiles
from tests.harness.runs import end as as_end


@pytest.mark.parametrize(
    ("ended", "family", "says"),
    [
        ({"reason": "lost", "status": None, "detail": "it was restarted"}, "worker_died_opaque", "restarted"),
        ({"reason": "signalled", "status": 143, "signal": 15}, "worker_died_opaque", "from outside"),
        ({"reason": "signalled", "status": 137, "signal": 9}, "worker_died_opaque", "SIGKILL"),
        ({"reason": "signalled", "status": 139, "signal": 11}, "native_crash", "SIGSEGV"),
        ({"reason": "signalled", "status": 168, "signal": 40}, "unknown", "killed by signal 40"),
        ({"reason": "exited", "status": -40}, "unknown", "killed by signal 40"),
        ({"reason": "exited", "status": 168}, "unknown", "status 168"),
        ({"reason": "exited", "status": 134}, "native_crash", "SIGABRT"),
        ({"reason": "exited", "status": 130}, "user_interrupt", "SIGINT"),
        ({"reason": "exited", "status": 127}, "path_not_found", "127"),
        ({"reason": "exited", "status": 126}, "permission", "126"),
        ({"reason": "exited", "status": 153}, "os_limit", "SIGXFSZ"),
        ({"reason": "exited", "status": 1}, "unknown", "status 1 "),
        ({"reason": "exited", "status": 255}, "unknown", "status 255"),
        ({"reason": "exited", "status": -9}, "worker_died_opaque", "SIGKILL"),
        ({"reason": "exited", "status": -11}, "native_crash", "SIGSEGV"),
        ({"reason": "deadline", "status": 143, "signal": 15}, "time_limit", "time limit"),
        ({"reason": "could_not_start"}, "path_not_found", "could not be started"),
        ({"reason": "prepare_failed", "status": None, "prepare_status": 3}, "config_error", "status 3"),
        (
            {"status": 0, "shortfall": "gone", "shortfall_family": "numerics_nan"},
            "numerics_nan",
            "",
        ),
        ({"status": 0, "shortfall": "it exited with no rows"}, "silent_bad_metrics", "no rows"),
        ({}, "unknown", ""),
    ],
)
def test_what_an_end_means(tmp_path: Path, ended: dict, family: str, says: str) -> None:
    """Only what came from outside passes by itself; a log without a failure says no more."""
    (tmp_path / "pane.log").write_text("all is well\n")
    for found in (ends.read(as_end(ended)), diagnose(AttemptFiles(tmp_path), as_end(ended))):
        assert (found.family, found.transient) == (family, family == "worker_died_opaque")
        assert says in found.cause


@pytest.mark.parametrize("rows", [2, 40])
def test_d3_a_time_limit_reached_with_nan_says_nan(tmp_path: Path, rows: int) -> None:
    """Also with too few rows of it to end the run before."""
    lines = [f"step={step} loss={0.5 if step < 9 else 'nan'}\n" for step in range(1, 9 + rows)]
    (tmp_path / "pane.log").write_text("".join(lines))
    found = diagnose(AttemptFiles(tmp_path), as_end({"reason": "deadline", "status": 143, "signal": 15}))
    assert (found.family, found.signature) == ("numerics_nan", "values_not_finite")
    assert "loss is NaN at step 9" in found.cause and "time limit" in found.cause
    assert "step=9 loss=nan" in [line.text for line in found.evidence] and found.remedies


def test_values_that_were_finite_again_at_the_time_limit_are_no_cause(tmp_path: Path) -> None:
    lines = [f"step={step} loss={'nan' if 9 < step < 20 else 0.5}\n" for step in range(1, 40)]
    (tmp_path / "pane.log").write_text("".join(lines))
    found = diagnose(AttemptFiles(tmp_path), as_end({"reason": "deadline", "status": 143, "signal": 15}))
    assert (found.family, found.cause) == ("time_limit", "The time limit of the experiment was reached.")


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
    file = samples(tmp_path, (10, 90), (98, 2))
    with file.open("a") as torn:
        torn.write('{"rss_by')
    found = ends.out_of_memory(file)
    assert found is not None and (found.line, found.file) == (2, "resources.jsonl")


def test_memory_that_was_given_back_is_none_nor_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert ends.out_of_memory(samples(tmp_path, (98, 2), (50, 50))) is None
    assert ends.out_of_memory(tmp_path / "none") is None
