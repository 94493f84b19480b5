"""What a sweep takes for the value of a run."""

import json
from pathlib import Path

import pytest

from harness.sweep.measurement import Measurement
from harness.sweep.plan import SweepRun
from harness.sweep.state import SweepState
from tests.harness.results.comparing.result_folders import foreign


@pytest.mark.parametrize(("lost", "value"), [(0, 0.25), (9, None)])
def test_a_value_that_a_lost_log_may_have_hidden_is_none(
    tmp_path: Path, lost: int, value: float | None
) -> None:
    folder = foreign(tmp_path / "a", "python t.py", [(step, {"loss": 1 / step}) for step in range(1, 5)])
    ended = json.loads((folder / "attempts/01/exit.json").read_text())
    (folder / "attempts/01/exit.json").write_text(json.dumps(ended | {"log_lost_bytes": lost}))
    found = Measurement.of(folder, SweepRun("a", "p01", 0), SweepState(metric="loss"))
    assert (found.metric, found.value, found.lacks) == ("loss", value, "")


def test_why_a_metric_was_chosen_is_kept_for_the_report(tmp_path: Path) -> None:
    rows = [(1, {"loss": 0.5})]
    folder = foreign(tmp_path / "a", "python t.py", rows, purpose="What does it do?")
    found = Measurement.of(folder, SweepRun("a", "p01", 0), SweepState())
    assert (found.metric, found.why) == ("loss", "chosen by its name: the purpose names no metric")
